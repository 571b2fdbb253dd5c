/* SPDX-License-Identifier: Apache-2.0
 *
 * The pprof encoder: byte for byte what protobuf-c writes for the same content, read back equal by protobuf-c and by our
 * decoder, a golden message, and the errors of its output.
 */
#include "lib/prof/profile.h"
#include "lib/base/fs.h"
#include "tests/prof_oracle.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_random_profiles(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		_cleanup_profile_ struct profile p, back;
		_cleanup_arena_ struct arena a;
		_cleanup_bytes_ struct bytes ours, theirs;
		const char *difference;
		Pprof__Profile *t;

		profile_init(&p, NULL);
		profile_init(&back, NULL);
		arena_init(&a, NULL);
		bytes_init(&ours, NULL, 0);
		bytes_init(&theirs, NULL, 0);
		oracle_random_profile(&p, seed, seed < 250 ? 30 : 2000);
		assert_int_equal(prof_encode(&p, &ours), 0);
		oracle_pack(oracle_tree(&p, &a, 0), &theirs);
		assert_int_equal(ours.len, theirs.len);
		assert_memory_equal(ours.data, theirs.data, ours.len);
		t = pprof__profile__unpack(NULL, ours.len, ours.data);
		assert_non_null(t);
		assert_int_equal(t->n_sample, p.n_samples);
		pprof__profile__free_unpacked(t, NULL);
		assert_int_equal(prof_decode(ours.data, ours.len, &back, NULL), 0);
		difference = oracle_difference(&p, &back);
		if (difference)
			fail_msg("seed %llu: %s differs", (unsigned long long)seed, difference);
	}
}

/* What an exporter would build: two CPU samples with labels, an inlined frame, an unnamed one. */
static void build_cpu_profile(struct profile *p)
{
	_cleanup_prof_builder_ struct prof_builder *b = prof_builder_new(p);
	struct prof_mapping m = {.start = 0x400000,
		.limit = 0x52c000,
		.file_off = 0x1000,
		.has_functions = 1,
		.has_filenames = 1,
		.has_line_numbers = 1,
		.has_inline_frames = 1};
	struct prof_function f = {.start_line = 40};
	struct prof_line lines[2] = {{.line = 42}, {.line = 107, .column = 9}};
	struct prof_label labels[2] = {{.num = 0}};
	int64_t values[2] = {3, 30303030};
	uint32_t stack[2];

	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	m.filename = prof_builder_string(b, "/usr/bin/redis-server", 21);
	m.build_id = prof_builder_string(b, "8f2a", 4);
	f.name = prof_builder_string(b, "sdslen", 6);
	f.filename = prof_builder_string(b, "sds.h", 5);
	lines[0].function = prof_builder_function(b, &f);
	f = (struct prof_function) {.name = prof_builder_string(b, "ns::run(int)", 12)};
	f.system_name = prof_builder_string(b, "_ZN2ns3runEi", 12);
	lines[1].function = prof_builder_function(b, &f);
	stack[0] = prof_builder_location(b, 0x4010f0, prof_builder_mapping(b, &m), lines, 2);
	stack[1] = prof_builder_location(b, 0xffffffff81000000, PROF_NONE, NULL, 0);
	labels[0].key = prof_builder_string(b, "comm", 4);
	labels[0].str = prof_builder_string(b, "redis", 5);
	labels[1].key = prof_builder_string(b, "pid", 3);
	labels[1].num = 4711;
	labels[1].num_unit = labels[1].key;
	prof_builder_sample(b, stack, 2, values, labels, 2, 1);
	values[0] = 1;
	values[1] = -1;
	prof_builder_sample(b, stack + 1, 1, values, NULL, 0, 1);
	prof_builder_comment(b, "node=a", 6);
	p->period_type.type = prof_builder_string(b, "cpu", 3);
	p->period_type.unit = prof_builder_string(b, "nanoseconds", 11);
	p->default_sample_type = p->period_type.type;
	p->period = 10101010;
	p->time_ns = 1700000000000000000;
	p->duration_ns = 15000000000;
	p->drop_frames = prof_builder_string(b, "idle.*", 6);
	p->doc_url = prof_builder_string(b, "https://example.org/cpu", 23);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
}

/* tests/golden/pprof_encode.hex: one top-level field a line, "# …" comments. */
static void read_golden(struct bytes *ret)
{
	_cleanup_bytes_ struct bytes text;
	int digits = 0;
	uint8_t byte = 0;

	bytes_init(&text, NULL, 0);
	assert_int_equal(
		fs_read_file(&fs_system, "tests/golden/pprof_encode.hex", 1 << 20, &text, NULL), 0);
	for (size_t i = 0; i < text.len; i++) {
		const char *hex = "0123456789abcdef", *at;

		if (text.data[i] == '#')
			while (i < text.len && text.data[i] != '\n')
				i++;
		at = i < text.len && text.data[i] ? strchr(hex, text.data[i]) : NULL;
		if (!at)
			continue;
		byte = (uint8_t)(byte << 4 | (at - hex));
		if (++digits % 2 == 0)
			bytes_put_u8(ret, byte);
	}
}

static void test_golden(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes out, want;

	(void)state;
	profile_init(&p, NULL);
	bytes_init(&out, NULL, 0);
	bytes_init(&want, NULL, 0);
	build_cpu_profile(&p);
	assert_int_equal(prof_encode(&p, &out), 0);
	read_golden(&want);
	if (out.len != want.len || memcmp(out.data, want.data, out.len) != 0)
		for (size_t i = 0; i < out.len; i++)
			print_error("%02x%s", out.data[i],
				(i + 1) % 32 && i + 1 < out.len ? " " : "\n");
	assert_int_equal(out.len, want.len);
	assert_memory_equal(out.data, want.data, want.len);
}

static void test_empty(void **state)
{
	static const uint8_t want[] = {0x32, 0};
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes out;

	(void)state;
	profile_init(&p, NULL);
	bytes_init(&out, NULL, 0);
	assert_int_equal(prof_encode(&p, &out), 0);
	assert_int_equal(out.len, sizeof(want));
	assert_memory_equal(out.data, want, sizeof(want));
}

static void test_cap(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes out;

	(void)state;
	profile_init(&p, NULL);
	oracle_random_profile(&p, 3, 100);
	bytes_init(&out, NULL, 1000);
	assert_int_equal(prof_encode(&p, &out), -EFBIG);
	assert_true(out.len <= 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_profiles),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
