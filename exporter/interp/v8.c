/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions by their SharedFunctionInfo, with the lines of their bytecode.
 */
#include "exporter/interp/v8.h"
#include "exporter/interp/v8_function.h"

static int read_lines(struct v8_heap *h, const struct v8_function *f, struct interp_code *code)
{
	_cleanup_free_ uint8_t *table = NULL;
	_cleanup_bytes_ struct bytes lines = {.max_bytes = INTERP_MAX_LINES_BYTES};
	struct v8_place last = {0, 0};
	struct v8_positions p;
	struct v8_position at;
	uint64_t bytecode, baseline;
	uint32_t offset = 0;
	size_t n = 0;
	int error = v8_function_bytecode(h, f->data, &bytecode, &baseline);

	if (error == 0)
		error = v8_positions_read(
			h, bytecode, h->r->offsets[V8_BYTECODE_LINES], &table, &n);
	if (error < 0)
		return error == -ENOENT ? 0
					: error; /* a builtin, or its bytecode was thrown away */
	p = v8_positions_of(h->r, table, n);
	while (v8_positions_next(&p, &at))
		if (at.source != UINT32_MAX)
			v8_lines_put(&lines, &offset, &last, at.code,
				v8_script_place(f->lines, at.source));
	if (bytes_error(&lines) < 0)
		return bytes_error(&lines) == -EFBIG ? 0 : bytes_error(&lines);
	code->lines = TAKE(lines.data);
	code->lines_bytes = lines.len;
	lines = (struct bytes) {0};
	return 0;
}

int v8_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	uint64_t context, struct interp_code *ret)
{
	_cleanup_v8_scripts_ struct v8_scripts own = {.n = 0};
	_cleanup_v8_function_ struct v8_function f = {0};
	struct v8_heap h = {.m = m, .r = r};
	int error = v8_function_read(&h, m->scripts ? m->scripts : &own, object + 1, &f);

	(void)context;
	if (error == 0 && f.lines)
		error = read_lines(&h, &f, &f.code);
	if (error == 0)
		error = v8_function_check(&h, object + 1, &f);
	if (error < 0)
		return error;
	*ret = f.code;
	f.code = (struct interp_code) {0};
	return 0;
}

struct v8_place v8_place(const struct interp_code *c, uint32_t position)
{
	if (position == ABI_INTERP_AT_START)
		return (struct v8_place) {c->first_line, 0};
	if (position == ABI_INTERP_BEYOND || !c->lines_bytes)
		return (struct v8_place) {0, 0};
	return v8_lines_find(c->lines, c->lines_bytes, position);
}

uint32_t v8_line(const struct interp_code *c, uint32_t position)
{
	return v8_place(c, position).line;
}
