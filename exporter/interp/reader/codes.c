/* SPDX-License-Identifier: Apache-2.0
 *
 * A few pieces of machine code, looked through one by one.
 */
#include "exporter/interp/reader/codes.h"
#include "lib/base/err.h"

void interp_codes_done(struct interp_codes *c)
{
	for (size_t i = 0; i < c->n; i++)
		c->reader->done(&c->codes[i].code);
	c->n = c->bytes = 0;
}

/* A return address may be the first byte behind the code. */
static bool holds(const struct interp_machine *code, uint64_t pc, bool is_return)
{
	return pc >= code->start && pc - code->start < code->bytes + is_return;
}

static struct interp_machine *find(
	struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->codes[i].check != check || !holds(&c->codes[i].code, pc, is_return))
			continue;
		c->codes[i].used = ++c->clock;
		return &c->codes[i].code;
	}
	return NULL;
}

static void drop_oldest(struct interp_codes *c)
{
	size_t oldest = 0;

	for (size_t i = 1; i < c->n; i++)
		if (c->codes[i].used < c->codes[oldest].used)
			oldest = i;
	c->bytes -= c->codes[oldest].code.used_bytes;
	c->reader->done(&c->codes[oldest].code);
	c->codes[oldest] = c->codes[--c->n];
}

static struct interp_machine *keep(
	struct interp_codes *c, const struct interp_machine *code, uint64_t check)
{
	while (c->n &&
		(c->n == INTERP_CODES || c->bytes + code->used_bytes > INTERP_CODES_MAX_BYTES))
		drop_oldest(c);
	c->bytes += code->used_bytes;
	c->codes[c->n].code = *code;
	c->codes[c->n].check = check;
	c->codes[c->n].used = ++c->clock;
	return &c->codes[c->n++].code;
}

int interp_codes_frames(struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check,
	struct interp_frame ret[INTERP_MAX_MACHINE_FRAMES], size_t *ret_n)
{
	const struct interp_machine *code = find(c, pc, is_return, check);
	struct interp_machine fresh = {0};
	int error;

	if (!code) {
		error = c->reader->read(c->memory, c->record, pc, check, &fresh);
		if (error < 0)
			return error;
		code = keep(c, &fresh, check);
	}
	*ret_n = c->reader->frames(code, pc, is_return, ret, INTERP_MAX_MACHINE_FRAMES);
	return *ret_n ? 0 : -ENOENT;
}
