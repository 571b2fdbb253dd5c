/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code of V8 as readers of names know that of any runtime.
 */
#include "exporter/interp/v8.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <string.h>

static size_t used_bytes(const struct v8_code *c)
{
	size_t n = sizeof(*c) + c->cap_functions * sizeof(*c->functions) +
		   c->n_inlined * sizeof(*c->inlined) + c->cap_positions * sizeof(*c->positions) +
		   c->cap_points * sizeof(*c->points) + c->cap_frames * sizeof(*c->frames);

	for (size_t i = 0; i < c->n_functions; i++) {
		const struct interp_code *f = &c->functions[i];

		n += strlen(f->name) + strlen(f->file) + (f->raw ? strlen(f->raw) : 0);
	}
	return n;
}

static void done(struct interp_machine *m)
{
	struct v8_code *c = m->code;

	if (c)
		v8_code_done(c);
	free(c);
	*m = (struct interp_machine) {0};
}

static int read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t pc,
	uint64_t check, struct interp_machine *ret)
{
	struct v8_code *c = try_calloc(1, sizeof(*c));
	int error = c ? v8_read_machine_code(m, r, pc, check, c) : -ENOMEM;

	if (error < 0) {
		free(c);
		return error;
	}
	*ret = (struct interp_machine) {
		.code = c, .start = c->start, .bytes = c->bytes, .used_bytes = used_bytes(c)};
	return 0;
}

static int is_still(const struct interp_memory *m, const struct runtime_record *r,
	const struct interp_machine *c)
{
	return v8_machine_code_is_still(m, r, c->code);
}

static size_t frames_of(const struct interp_machine *m, uint64_t pc, bool is_return,
	struct interp_frame *ret, size_t max)
{
	struct v8_frame frames[INTERP_MAX_MACHINE_FRAMES];
	size_t n;

	max = MIN(max, ARRAY_SIZE(frames));
	n = v8_code_frames(m->code, pc, is_return, frames, max);
	for (size_t i = 0; i < MIN(n, max); i++) {
		const struct interp_code *f = frames[i].function;

		ret[i] = (struct interp_frame) {.name = f->name,
			.raw = f->raw ? f->raw : f->name,
			.file = f->file,
			.line = frames[i].place.line,
			.first_line = f->first_line};
	}
	return n;
}

static uint64_t function_of(uint64_t check)
{
	return check;
}

const struct interp_machine_reader v8_machine = {.read = read_code,
	.is_still = is_still,
	.frames = frames_of,
	.done = done,
	.function = function_of};
