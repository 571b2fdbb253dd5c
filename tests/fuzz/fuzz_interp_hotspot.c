/* SPDX-License-Identifier: Apache-2.0
 *
 * A Java VM's memory in a process that writes into it while it is read. The input is a version, when what changes, then changes of memory that is
 * laid by hand, each {u16 place, u8 length, bytes}. Names are UTF-8 within their bound, frames within theirs, and reads have an end.
 */
#include "tests/unit/hotspot_fake.h"
#include "lib/base/cursor.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_READS = 1 << 20 };

static void check_text(const char *text)
{
	if (!text || strlen(text) > INTERP_MAX_TEXT_BYTES)
		abort();
	for (const uint8_t *s = (const uint8_t *)text; *s; s++)
		if (*s >= 0xf8) /* no byte of UTF-8 */
			abort();
}

static void read_method(struct fake *k)
{
	_cleanup_interp_code_ struct interp_code c = {0};

	if (hotspot_read_code(&k->m, &k->r, fake_addr(FAKE_OUTER), 0, &c) < 0)
		return;
	check_text(c.name);
	check_text(c.raw);
	check_text(c.file);
	if (c.lines_bytes > 2 * INTERP_MAX_LINES_BYTES)
		abort();
	for (uint32_t i = 0; i < 64; i++)
		(void)hotspot_line(&c, i);
}

static void read_code(struct fake *k)
{
	uint64_t check = hotspot_check(fake_addr(FAKE_OUTER), FAKE_COMPILE_ID);
	struct interp_frame f[INTERP_MAX_MACHINE_FRAMES];
	struct interp_machine m;

	if (hotspot_machine.read(&k->m, &k->r, fake_code_start(k) + FAKE_CALL, check, &m) < 0)
		return;
	for (uint32_t i = 0; i <= 256; i++) {
		size_t n =
			hotspot_machine.frames(&m, fake_code_start(k) + i, i & 1, f, ARRAY_SIZE(f));

		if (!n || n > HOTSPOT_MAX_DEPTH)
			abort();
		for (n = MIN(n, ARRAY_SIZE(f)); n--;)
			check_text(f[n].name);
	}
	(void)hotspot_machine.is_still(&k->m, &k->r, &m);
	hotspot_machine.done(&m);
}

/* The tables of a VM, which the memory is taken for. */
static void read_vm(struct fake *k)
{
	struct hotspot_vm vm;

	for (size_t i = 0; i < N_HOTSPOT_ROWS; i++)
		k->r.offsets[i] = (uint16_t)(k->bytes[i] & 31);
	for (size_t i = 0; i < N_HOTSPOT_TABLES; i++)
		k->r.addresses[i] = fake_addr(FAKE_OUTER + 0x400 * (uint32_t)i);
	if (hotspot_vm_read(&k->m, &k->r, &vm) == 0 && vm.n_heaps > HOTSPOT_HEAPS)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t majors[] = {8, 17, 21, 25};
	struct cursor c = cursor_of(data, size);
	static struct fake k;

	fake_init(&k, majors[cursor_u8(&c) % ARRAY_SIZE(majors)]);
	k.changes_at = cursor_u8(&c);
	k.changed = cursor_u16(&c);
	while (cursor_left(&c)) {
		uint32_t at = cursor_u16(&c), n = cursor_u8(&c);

		for (; n-- && cursor_left(&c); at++)
			k.bytes[at % FAKE_BYTES] = cursor_u8(&c);
	}
	read_method(&k);
	read_code(&k);
	read_vm(&k);
	if (k.n_reads > MAX_READS)
		abort();
	return 0;
}
