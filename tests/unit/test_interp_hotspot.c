/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, lines and inlined methods of Java, in memory that is laid by hand as versions 8, 17, 21 and 25 lay it. Live VMs: test_unwind_hotspot.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "bpf/interp/rows.h"
#include "exporter/interp/hotspot_rows.h"
#include "tests/unit/hotspot_fake.h"

static const uint32_t majors[] = {8, 17, 21, 25};

static void for_each(void (*check)(struct fake *k))
{
	static struct fake k;

	for (size_t i = 0; i < ARRAY_SIZE(majors); i++) {
		fake_init(&k, majors[i]);
		check(&k);
	}
}

static void check_method(struct fake *k)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	_cleanup_interp_code_ struct interp_code hidden = {0};

	assert_int_equal(hotspot_read_code(&k->m, &k->r, fake_addr(FAKE_OUTER), 0, &c), 0);
	assert_string_equal(c.name, "pkg.Outer$Part.run");
	assert_string_equal(c.raw, "pkg/Outer$Part.run(I)V");
	assert_string_equal(c.file, "pkg/Outer.java");
	assert_int_equal(c.first_line, 10);
	assert_int_equal(hotspot_line(&c, 0), 10);
	assert_int_equal(hotspot_line(&c, ABI_INTERP_AT_START), 10);
	assert_int_equal(hotspot_line(&c, 4), 10);
	assert_int_equal(hotspot_line(&c, 5), 12);
	assert_int_equal(hotspot_line(&c, 19), 12);
	assert_int_equal(hotspot_line(&c, ABI_INTERP_BEYOND), 0);
	assert_int_equal(hotspot_read_code(&k->m, &k->r, fake_addr(FAKE_INNER), 0, &hidden), 0);
	assert_string_equal(hidden.name, "Inner$$Lambda.<init>");
	assert_string_equal(hidden.raw, "Inner$$Lambda/0x00007f0001.<init>(I)V");
}

static void names_and_lines(void **state)
{
	(void)state;
	for_each(check_method);
}

/* A method that the VM has made for method handles: its pool has no more than its name and signature. */
static void check_linker(struct fake *k)
{
	_cleanup_interp_code_ struct interp_code c = {0};

	fake_put(k, FAKE_OUTER + FAKE_CONST + k->vm.const_code_size, 0, 2);
	fake_put(k, FAKE_OUTER + FAKE_CONST + k->vm.const_flags, 0, k->vm.const_flags_bytes);
	fake_put(k, FAKE_OUTER + FAKE_POOL + k->vm.pool_bytes + 24, 0xfe00000000, 8);
	assert_int_equal(hotspot_read_code(&k->m, &k->r, fake_addr(FAKE_OUTER), 0, &c), 0);
	assert_string_equal(c.name, "pkg.Outer$Part.run");
	assert_string_equal(c.file, "");
	assert_int_equal(c.first_line, 0);
}

static void linkers_of_method_handles_have_no_file(void **state)
{
	(void)state;
	for_each(check_linker);
}

/* What the kernel half makes of the rows (bpf/interp/check.h). */
static void check_the_check(struct fake *k)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct interp_layout l;
	struct interp_hotspot h;
	uint64_t check = 0, word;

	assert_true(hotspot_rows_of(&k->vm, &l, &h));
	memcpy(&word, k->bytes + FAKE_OUTER + l.code_check, sizeof(word));
	check = interp_check_add(check, word);
	for (uint32_t i = 0; i < l.name_check_bytes; i += 8) {
		memcpy(&word, k->bytes + FAKE_OUTER + FAKE_CONST + l.name_check + i, sizeof(word));
		check = interp_check_add(check, word);
	}
	assert_int_equal(hotspot_read_code(&k->m, &k->r, fake_addr(FAKE_OUTER), 0, &c), 0);
	assert_int_equal(c.kernel_check, check);
	assert_int_equal(h.heaps[0].bytes, FAKE_HEAP_END - FAKE_HEAP);
}

static void the_check_is_the_kernels(void **state)
{
	(void)state;
	for_each(check_the_check);
}

static void check_frames(struct fake *k)
{
	uint64_t check = hotspot_check(fake_addr(FAKE_OUTER), FAKE_COMPILE_ID);
	struct interp_frame f[4];
	struct interp_machine m;
	uint64_t start = fake_code_start(k);

	assert_int_equal(
		hotspot_machine.read(&k->m, &k->r, start + FAKE_CALL, check + 1, &m), -EAGAIN);
	assert_int_equal(hotspot_machine.read(&k->m, &k->r, start + FAKE_CALL, check, &m), 0);
	assert_int_equal(hotspot_machine.frames(&m, start + FAKE_CALL, true, f, 4), 2);
	assert_string_equal(f[0].name, "Inner$$Lambda.<init>");
	assert_int_equal(f[0].line, 10);
	assert_string_equal(f[1].name, "pkg.Outer$Part.run");
	assert_int_equal(f[1].line, 12);
	/* With room for one, that is the outermost. */
	assert_int_equal(hotspot_machine.frames(&m, start + FAKE_CALL, true, f, 1), 2);
	assert_string_equal(f[0].name, "pkg.Outer$Part.run");
	/* A leaf belongs to the next place, and behind the last one to that. */
	assert_int_equal(hotspot_machine.frames(&m, start, false, f, 4), 2);
	assert_int_equal(hotspot_machine.frames(&m, start + FAKE_OWN_CALL + 1, false, f, 4), 1);
	assert_int_equal(hotspot_machine.is_still(&k->m, &k->r, &m), 0);
	fake_put(k, FAKE_BLOCK + k->vm.block_bytes + k->vm.nm_compile_id, 78, 4);
	assert_int_equal(hotspot_machine.is_still(&k->m, &k->r, &m), -EAGAIN);
	hotspot_machine.done(&m);
}

static void frames_of_compiled_code(void **state)
{
	(void)state;
	for_each(check_frames);
}

static void check_stub(struct fake *k)
{
	struct interp_frame f[4];
	struct interp_machine m;

	memcpy(k->bytes + FAKE_NAME, "vtable chunks", 14);
	if (k->vm.blob_kind != HOTSPOT_NONE)
		k->bytes[FAKE_BLOCK + k->vm.block_bytes + k->vm.blob_kind] = 4;
	assert_int_equal(hotspot_machine.read(&k->m, &k->r, fake_code_start(k), 0, &m), 0);
	assert_int_equal(hotspot_machine.frames(&m, fake_code_start(k), false, f, 4), 1);
	assert_string_equal(f[0].name, "[vtable stub]");
	hotspot_machine.done(&m);
	/* A segment that is free holds nothing. */
	assert_int_equal(
		hotspot_machine.read(&k->m, &k->r, fake_addr(FAKE_HEAP_END - 1), 0, &m), -ENOENT);
}

static void stubs_have_the_name_of_their_blob(void **state)
{
	(void)state;
	for_each(check_stub);
}

/* A byte that changes gives another name, or none; nothing is read out of bounds (sanitizers). */
static void any_byte_may_change(void **state)
{
	static struct fake k;
	struct interp_code c;

	(void)state;
	for (uint32_t at = FAKE_OUTER; at < FAKE_OUTER + FAKE_SYMBOLS; at++) {
		fake_init(&k, 17);
		k.bytes[at] ^= 0xff;
		if (hotspot_read_code(&k.m, &k.r, fake_addr(FAKE_OUTER), 0, &c) == 0)
			interp_code_done(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_lines),
		cmocka_unit_test(linkers_of_method_handles_have_no_file),
		cmocka_unit_test(the_check_is_the_kernels),
		cmocka_unit_test(frames_of_compiled_code),
		cmocka_unit_test(stubs_have_the_name_of_their_blob),
		cmocka_unit_test(any_byte_may_change),
	};

	return cmocka_run_group_tests_name("interp_hotspot", tests, NULL, NULL);
}
