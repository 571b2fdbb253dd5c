/* SPDX-License-Identifier: Apache-2.0
 *
 * V8's heap in a process that writes into it while it is read. The input is a version (its highest bit: baseline code),
 * when what changes, then changes of a heap that is laid by hand, each {u16 place, u8 length, bytes}. Names are UTF-8 within their bound, frames within theirs, and reads have an end.
 */
#include "tests/unit/v8_fake.h"
#include "lib/base/cursor.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t versions[] = {RUNTIME_VERSION(7, 8, 0), RUNTIME_VERSION(8, 4, 0),
	RUNTIME_VERSION(9, 4, 0), RUNTIME_VERSION(10, 2, 0), RUNTIME_VERSION(11, 3, 0),
	RUNTIME_VERSION(12, 4, 0), RUNTIME_VERSION(13, 6, 0), RUNTIME_VERSION(14, 6, 0)};

static void check_text(const char *text)
{
	if (!text || strlen(text) > INTERP_MAX_TEXT_BYTES)
		abort();
	for (const uint8_t *s = (const uint8_t *)text; *s; s++)
		if (*s >= 0xf8) /* no byte of UTF-8 */
			abort();
}

static void read_function(struct fake *k, uint64_t word)
{
	_cleanup_interp_code_ struct interp_code c = {0};

	if (interp_runtime_of(RUNTIME_V8)->read_code(&k->m, &k->r, word - 1, 0, &c) < 0)
		return;
	check_text(c.name);
	check_text(c.file);
	if (c.lines_bytes > INTERP_MAX_LINES_BYTES ||
		v8_line(&c, ABI_INTERP_AT_START) != c.first_line)
		abort();
	for (uint32_t i = 0; i < 64; i++)
		(void)v8_place(&c, i);
}

static void read_machine_code(struct fake *k, uint64_t shared)
{
	_cleanup_v8_code_ struct v8_code c = {0};
	struct v8_frame f[V8_MAX_DEPTH];

	if (v8_read_machine_code(&k->m, &k->r, k->pc + 64, shared, &c) < 0)
		return;
	for (uint32_t i = 0; i <= 256; i++) {
		size_t n = v8_code_frames(&c, c.start + i, i & 1, f, V8_MAX_DEPTH);

		if (n > V8_MAX_INLINED + 1)
			abort();
		for (n = MIN(n, (size_t)V8_MAX_DEPTH); n--;)
			check_text(f[n].function->name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);
	uint8_t version = cursor_u8(&c);
	static struct fake k;

	fake_init(&k, versions[version % ARRAY_SIZE(versions)]);
	if (version & 0x80)
		fake_make_baseline(&k);
	k.changes_at = cursor_u8(&c);
	k.changed = cursor_u16(&c) % (FAKE_BYTES - 8);
	while (cursor_left(&c)) {
		uint32_t at = cursor_u16(&c), n = cursor_u8(&c);

		while (n-- && cursor_left(&c))
			fake_put(&k, at++, cursor_u8(&c), 1);
	}
	read_function(&k, k.outer);
	if (k.n_reads > V8_MAX_READS)
		abort();
	read_machine_code(&k, 0);
	read_machine_code(&k, k.outer - 1);
	return 0;
}
