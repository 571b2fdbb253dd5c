/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects in the memory of a process that writes into it while it is read: the input is the record's offsets, then memory, which
 * repeats without end. Names are UTF-8 within their bound, and every position can be asked for its line.
 */
#include "exporter/interp/interp.h"
#include "exporter/symfile/python.h"
#include "lib/base/cursor.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_OFFSET = 256, BASE = 0x10000, MAX_READS = 16 };

struct memory {
	const uint8_t *bytes;
	size_t n;
	uint8_t changes; /* of each read: this is added to one of its bytes; 0: nothing changes */
	unsigned n_reads;
};

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct memory *m = arg;
	uint8_t *out = to;

	if (++m->n_reads > MAX_READS)
		abort();
	if (addr < BASE)
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++)
		out[i] = m->bytes[(addr - BASE + i) % m->n];
	out[m->n_reads % bytes] += m->changes;
	return 0;
}

/* Length of the UTF-8 character at `s`; 0: it is none. */
static size_t utf8_length(const uint8_t *s)
{
	size_t n = s[0] < 0x80	     ? 1
		   : s[0] >> 5 == 6  ? 2
		   : s[0] >> 4 == 14 ? 3
		   : s[0] >> 3 == 30 ? 4
				     : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void check_text(const char *text)
{
	if (strlen(text) > INTERP_MAX_TEXT_BYTES)
		abort();
	for (const uint8_t *s = (const uint8_t *)text; *s;) {
		size_t n = utf8_length(s);

		if (!n)
			abort();
		s += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);
	struct runtime_record r = {.kind = RUNTIME_PYTHON};
	struct memory memory = {.changes = cursor_u8(&c)};
	const struct interp_memory m = {.read = read_memory, .arg = &memory};
	const struct interp_runtime *python = interp_runtime_of(RUNTIME_PYTHON);
	uint8_t flags = cursor_u8(&c);
	struct interp_code code;

	r.version = RUNTIME_VERSION(3, 6 + flags % 10, 0);
	for (size_t i = 0; i < N_PYTHON_OFFSETS; i++)
		r.offsets[i] = cursor_u8(&c) + (flags & 0x80 ? 2 * MAX_OFFSET * cursor_u8(&c) : 0U);
	if (flags & 0x40)
		r.offsets[PYTHON_CODE_QUALNAME] = RUNTIME_NO_FIELD;
	if (c.error || !cursor_left(&c))
		return 0;
	memory.bytes = c.pos;
	memory.n = cursor_left(&c);
	if (python->read_code(&m, &r, BASE, 0, &code) < 0)
		return 0;
	check_text(code.name);
	check_text(code.file);
	if (code.lines_bytes > INTERP_MAX_LINES_BYTES)
		abort();
	for (uint32_t i = 0; i < 64; i++)
		(void)python->line(&code, i);
	(void)python->line(&code, ABI_INTERP_AT_START - 1);
	if (python->line(&code, ABI_INTERP_AT_START) != code.first_line)
		abort();
	interp_code_done(&code);
	return 0;
}
