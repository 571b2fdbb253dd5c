/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's code objects in the memory of a process that writes into it while it is read: the input is a version, then memory, which repeats
 * without end. Names are UTF-8 within their bound, and every position can be asked for its line.
 */
#include "exporter/interp/ruby.h"
#include "exporter/parser/runtime/ruby_layouts.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000, MAX_READS = 200, SYMBOLS_AT = 0x60 };

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

static void check_text(const char *text)
{
	size_t n = strlen(text);

	if (n > INTERP_MAX_TEXT_BYTES || !str_is_utf8(text, n))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t versions[][2] = {
		{2, 5}, {2, 6}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}, {4, 0}};
	struct cursor c = cursor_of(data, size);
	struct memory memory = {.changes = cursor_u8(&c)};
	const struct interp_memory m = {.read = read_memory, .arg = &memory};
	const uint8_t *v = versions[cursor_u8(&c) % ARRAY_SIZE(versions)];
	struct runtime_record r = {.kind = RUNTIME_RUBY,
		.version = RUNTIME_VERSION(v[0], v[1], 0),
		.addresses = {[RUBY_SYMBOLS] = BASE + SYMBOLS_AT}};
	uint16_t method = cursor_u16(&c), other = cursor_u16(&c);
	struct interp_code code;

	memcpy(r.offsets, ruby_layout_of(v[0], v[1])->offsets,
		sizeof(r.offsets[0]) * N_RUBY_OFFSETS);
	/* A symbol file from disk may say anything. */
	if (other)
		r.offsets[other % N_RUBY_OFFSETS] = other / N_RUBY_OFFSETS;
	if (c.error || !cursor_left(&c))
		return 0;
	memory.bytes = c.pos;
	memory.n = cursor_left(&c);
	if (ruby_read_code(&m, &r, BASE, method ? BASE + method : 0U, &code) < 0)
		return 0;
	check_text(code.name);
	check_text(code.file);
	if (code.lines_bytes > INTERP_MAX_LINES_BYTES)
		abort();
	for (uint32_t i = 0; i < 64; i++)
		(void)ruby_line(&code, i * 999);
	if (ruby_line(&code, ABI_INTERP_BEYOND) || ruby_line(&code, ABI_INTERP_AT_START))
		abort();
	interp_code_done(&code);
	return 0;
}
