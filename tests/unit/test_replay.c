/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured bundle through the whole exporter without root: drain, processes, symbol files, log, names, pprof, byte for byte.
 * And bundles as such: what capture writes, replay gives back.
 *
 * The bundle is made by tests/data/bundles/make.py; then run this with GOLDEN_WRITE=1 and look at the difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/pipeline.h"
#include "exporter/sample/capture.h"
#include "exporter/sample/replay.h"
#include "lib/base/log.h"
#include "lib/prof/profile.h"
#include "lib/render/render.h"
#include "tests/unit/names_fixture.h"

#define BUNDLE "tests/data/bundles/stacks.bundle"

/* --- capture and replay of small things --- */

struct seen {
	char text[1024];
};

static void see_sideband(void *ctx, const struct sideband *e)
{
	struct seen *s = ctx;

	snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "sideband %u; ",
		e->pid);
}

static void see_sample(void *ctx, const struct abi_record *r, bool late)
{
	struct seen *s = ctx;

	snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "sample %u %d; ",
		r->pid, late);
}

static bool see_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	struct seen *s = ctx;

	snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text),
		"drained %llu %lld; ", (unsigned long long)up_to_ns, (long long)boot_offset_ns);
	return false;
}

static struct sample_sink seeing(struct seen *s)
{
	return (struct sample_sink) {
		.ctx = s, .sideband = see_sideband, .sample = see_sample, .drained = see_drained};
}

static void read_text(int fd, char ret[64])
{
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, ret, 63);
	assert_true(n >= 0);
	ret[n] = 0;
	close(fd);
}

static void write_small_bundle(const char *path)
{
	struct fake_keeper fake;
	struct abi_record r = {.type = ABI_RECORD_SAMPLE, .time_ns = 150000000, .pid = 7};
	struct errbuf eb = {.text = ""};
	struct capture *c = capture_open(&fs_system, path, 0, &eb);
	struct keeper *k;
	int fd;

	assert_non_null(c);
	fake_keeper_init(&fake);
	fake.maps_text = "first maps";
	k = capture_keeper(c, &fake.keeper);
	capture_record(c, CAPTURE_SAMPLE, &r, sizeof(r));
	capture_drain(c, 100000000, 5, 1700000000000000000);
	fd = k->open(k, 7, 99, KEEPER_MAPS, 0, 0);
	assert_true(fd >= 0);
	close(fd);
	fake.maps_text = "second maps";
	fd = k->open(k, 7, 99, KEEPER_MAPS, 0, 0);
	assert_true(fd >= 0);
	close(fd);
	fake.refuse = true;
	assert_int_equal(k->open(k, 8, 0, KEEPER_MNT_NS, 0, 0), -ESRCH);
	capture_drain(c, 200000000, 6, 1700000000100000000);
	capture_freep(&c);
}

static void what_was_captured_comes_back(void **state)
{
	char path[] = "/tmp/test_replay.XXXXXX", text[64];
	int fd = mkstemp(path);
	struct seen seen = {""};
	const struct sample_sink sink = seeing(&seen);
	_cleanup_(replay_freep)
	struct replay *r = NULL;
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct keeper *k;

	(void)state;
	close(fd);
	write_small_bundle(path);
	clock_virtual_init(&clock, 0);
	assert_int_equal(replay_open(&fs_system, path, &sink, &clock, &r, &eb), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(replay_step(r), 1);
	assert_string_equal(seen.text, "drained 50000000 5; ");
	assert_int_equal(clock_realtime_ns(&clock.clock), 1700000000000000000);
	assert_int_equal(replay_step(r), 1);
	assert_string_equal(seen.text, "drained 50000000 5; sample 7 0; drained 150000000 6; ");
	assert_int_equal(clock_monotonic_ns(&clock.clock), 200000000);
	assert_int_equal(clock_boottime_ns(&clock.clock), 200000006);
	assert_int_equal(replay_step(r), 0);

	k = replay_keeper(r);
	read_text(k->open(k, 7, 99, KEEPER_MAPS, 0, 0), text);
	assert_string_equal(text, "first maps");
	read_text(k->open(k, 7, 99, KEEPER_MAPS, 0, 0), text);
	assert_string_equal(text, "second maps");
	read_text(k->open(k, 7, 99, KEEPER_MAPS, 0, 0), text);
	assert_string_equal(text, "second maps");
	assert_int_equal(k->open(k, 8, 0, KEEPER_MNT_NS, 0, 0), -ESRCH);
	assert_int_equal(k->open(k, 9, 0, KEEPER_MNT_NS, 0, 0), -ESRCH);
	assert_int_equal(k->open_at(k, 0, "/x", 0), -EBADF);
}

static void damaged_bundles_are_refused(void **state)
{
	char path[] = "/tmp/test_replay.XXXXXX";
	int fd = mkstemp(path);
	struct seen seen = {""};
	const struct sample_sink sink = seeing(&seen);
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct replay *r = NULL;

	(void)state;
	close(fd);
	write_small_bundle(path);
	clock_virtual_init(&clock, 0);
	assert_int_equal(fs_read_file(&fs_system, path, 1 << 20, &b, NULL), 0);
	unlink(path);
	for (size_t n = 0; n < b.len; n++) { /* cut anywhere: refused, or whole entries are left */
		_cleanup_free_ uint8_t *cut = malloc(n ? n : 1);

		memcpy(cut, b.data, n);
		if (replay_open_bytes(cut, n, &sink, &clock, &r, &eb) == 0)
			while (replay_step(r))
				;
		replay_freep(&r);
	}
	assert_int_equal(replay_open_bytes(b.data, 15, &sink, &clock, &r, &eb), -EBADMSG);
	assert_int_equal(replay_open_bytes(b.data, 20, &sink, &clock, &r, &eb), -EBADMSG);
	b.data[8] = CAPTURE_VERSION + 1;
	assert_int_equal(replay_open_bytes(b.data, b.len, &sink, &clock, &r, &eb), -ENOTSUP);
	assert_non_null(strstr(eb.text, "bundle version 3"));
}

/* --- the whole exporter --- */

static struct fake_parser parser;

struct result {
	const struct exporter_stages *stages;
	struct bytes folded, pprof;
};

static int result_open(void *ctx, const struct exporter_stages *s, struct errbuf *eb)
{
	(void)eb;
	((struct result *)ctx)->stages = s;
	return 0;
}

static int result_run(void *ctx)
{
	struct result *res = ctx;
	const struct profile_source *source = res->stages->source;
	_cleanup_arena_ struct arena arena = {.budget = NULL};
	struct profile_query q = {
		.mode = SYMBOLIZE_FUNCTIONS, .to_ns = profile_source_covered_ns(source)};
	struct sample_range range;
	struct errbuf eb = {.text = ""};
	struct profile p;
	int r;

	arena_init(&arena, NULL);
	profile_init(&p, NULL);
	r = profile_source_take(source, &q, &arena, &p, &range, &eb);
	if (r == 0)
		r = render_profile_folded(&p, p.n_types - 1, &res->folded, &eb);
	if (r == 0)
		r = prof_encode(&p, &res->pprof);
	profile_done(&p);
	if (r < 0)
		fail_msg("%s", err_text(&eb, r));
	return 0;
}

static void result_close(void *ctx)
{
	(void)ctx;
}

static void compare_golden(const char *path, const struct bytes *got)
{
	_cleanup_bytes_ struct bytes want = {.data = NULL};

	if (getenv("GOLDEN_WRITE"))
		assert_int_equal(
			fs_write_file(&fs_system, path, got->data, got->len, 0644, NULL), 0);
	assert_int_equal(fs_read_file(&fs_system, path, 16 << 20, &want, NULL), 0);
	if (want.len != got->len || memcmp(want.data, got->data, got->len) != 0)
		fail_msg("%s: %zu bytes, got %zu that differ", path, want.len, got->len);
}

static void bundle_to_pprof(void **state)
{
	struct exporter_options o = {.frequency_hz = 49,
		.max_frequency_hz = 999,
		.window_ms = 10000,
		.retention_ms = 300000,
		.retention_bytes = 16 << 20,
		.max_processes = 1000,
		.max_tasks = 1000,
		.node_name = "replay",
		.symbols_cache_path = "",
		.symbols_max_cpu = 1,
		.procfs = "/nowhere/proc",
		.sysfs = "/nowhere/sys"};
	(void)state;
	struct result first = {.stages = NULL};
	struct exporter_sink sink = {.open = result_open, .run = result_run, .close = result_close};
	struct errbuf eb = {.text = ""};

	for (int round = 0; round < 2;
		round++) { /* the second one must be the same: nothing may hang on time or order */
		struct result again = {.stages = NULL};

		sink.ctx = round ? &again : &first;
		if (exporter_pipeline_replay(&o, BUNDLE, parser.fd, &sink, &eb) != 0)
			fail_msg("%s", eb.text);
		if (!round)
			continue;
		assert_int_equal(first.pprof.len, again.pprof.len);
		assert_memory_equal(first.pprof.data, again.pprof.data, first.pprof.len);
		bytes_done(&again.folded);
		bytes_done(&again.pprof);
	}
	compare_golden("tests/golden/replay_stacks.folded", &first.folded);
	compare_golden("tests/golden/replay_stacks.pb", &first.pprof);
	bytes_done(&first.folded);
	bytes_done(&first.pprof);
}

static int stop_parser(void **state)
{
	(void)state;
	return fake_parser_stop(&parser);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_captured_comes_back),
		cmocka_unit_test(damaged_bundles_are_refused),
		cmocka_unit_test(bundle_to_pprof),
	};

	parser = fake_parser_start();
	return cmocka_run_group_tests(tests, NULL, stop_parser);
}
