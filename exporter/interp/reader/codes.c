/* SPDX-License-Identifier: Apache-2.0
 *
 * A few hundred pieces of machine code of each process, looked through one by one.
 */
#include "exporter/interp/reader/codes.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"

struct interp_piece {
	struct interp_machine code;
	uint64_t check, used;
};

static void drop(struct interp_codes *c, size_t i)
{
	c->bytes -= c->pieces[i].code.used_bytes;
	c->reader->done(&c->pieces[i].code);
	c->pieces[i] = c->pieces[--c->n];
}

void interp_codes_drop(struct interp_codes *c)
{
	while (c->n)
		drop(c, c->n - 1);
	free(c->pieces);
	v8_scripts_done(&c->scripts);
	*c = (struct interp_codes) {0};
}

void interp_codes_trim(struct interp_codes_all *all, uint64_t since)
{
	for (;;) {
		struct interp_codes *oldest = NULL;
		size_t bytes = 0;

		for (size_t i = 0; i < INTERP_CODES_PROCESSES; i++) {
			struct interp_codes *c = &all->processes[i];

			bytes += c->bytes + c->scripts.bytes;
			if (c->used && c->used <= since && (!oldest || c->used < oldest->used))
				oldest = c;
		}
		if (!oldest || bytes <= INTERP_CODES_ALL_BYTES)
			return;
		interp_codes_drop(oldest);
	}
}

void interp_codes_done(struct interp_codes_all *all)
{
	for (size_t i = 0; i < INTERP_CODES_PROCESSES; i++)
		interp_codes_drop(&all->processes[i]);
}

struct interp_codes *interp_codes_begin(struct interp_codes_all *all, uint32_t pid,
	uint64_t start_ns, const struct interp_machine_reader *reader,
	const struct interp_memory *memory, const struct runtime_record *record)
{
	struct interp_codes *c = &all->processes[0];

	for (size_t i = 0; i < INTERP_CODES_PROCESSES; i++) {
		struct interp_codes *other = &all->processes[i];

		if (other->pid == pid && other->start_ns == start_ns && other->reader == reader) {
			c = other;
			break;
		}
		if (other->used < c->used)
			c = other;
	}
	if (c->pid != pid || c->start_ns != start_ns || c->reader != reader)
		interp_codes_drop(c);
	c->pid = pid;
	c->start_ns = start_ns;
	c->reader = reader;
	c->memory = memory;
	c->record = record;
	c->used = ++all->clock;
	c->round_at = c->clock;
	return c;
}

/* A return address may be the first byte behind the code. */
static bool holds(const struct interp_machine *code, uint64_t pc, bool is_return)
{
	return pc >= code->start && pc - code->start < code->bytes + is_return;
}

/* The number of that piece, which is there; c->n: none is. Negative: an error of the process. */
static int find(struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check)
{
	for (size_t i = 0; i < c->n; i++) {
		int r = 0;

		if (c->pieces[i].check != check || !holds(&c->pieces[i].code, pc, is_return))
			continue;
		if (c->pieces[i].used <= c->round_at)
			r = c->reader->is_still(c->memory, c->record, &c->pieces[i].code);
		if (r == 0)
			return (int)i;
		drop(c, i--);
		/* Its memory may have been given back, and hold anything. */
		if (r != -EAGAIN && r != -EFAULT && r != -EBADMSG)
			return r;
	}
	return (int)c->n;
}

static void keep(struct interp_codes *c, const struct interp_machine *code, uint64_t check)
{
	if (!c->pieces)
		c->pieces = xcalloc(INTERP_CODES, sizeof(*c->pieces));
	while (c->n &&
		(c->n == INTERP_CODES || c->bytes + code->used_bytes > INTERP_CODES_MAX_BYTES)) {
		size_t oldest = 0;

		for (size_t i = 1; i < c->n; i++)
			if (c->pieces[i].used < c->pieces[oldest].used)
				oldest = i;
		drop(c, oldest);
	}
	c->bytes += code->used_bytes;
	c->pieces[c->n++] = (struct interp_piece) {.code = *code, .check = check};
}

int interp_codes_frames(struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check,
	struct interp_frame ret[INTERP_MAX_MACHINE_FRAMES], size_t *ret_n)
{
	int i = find(c, pc, is_return, check);

	if (i == (int)c->n) {
		struct interp_machine fresh = {0};
		int error = c->reader->read(c->memory, c->record, pc, check, &fresh);

		if (error == 0 && fresh.used_bytes > INTERP_CODES_MAX_BYTES) {
			c->reader->done(&fresh);
			error = -EFBIG;
		}
		if (error < 0)
			return error;
		keep(c, &fresh, check);
		i = (int)c->n - 1;
	}
	if (i < 0)
		return i;
	c->pieces[i].used = ++c->clock;
	*ret_n = c->reader->frames(
		&c->pieces[i].code, pc, is_return, ret, INTERP_MAX_MACHINE_FRAMES);
	return *ret_n ? 0 : -ENOENT;
}
