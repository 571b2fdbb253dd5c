/* SPDX-License-Identifier: Apache-2.0
 *
 * Discovery: the life of a target's labels, providers that are shared and kept, files that come,
 * change, break and go, updates that wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "scraper/config/config.h"
#include "scraper/discover/discover.h"
#include <string.h>

static struct config *parse(const char *text)
{
	struct config *c = NULL;
	struct errbuf eb = {0};

	if (config_parse(NULL, "f.yml", text, strlen(text), NULL, &c, &eb) < 0)
		fail_msg("%s", eb.text);
	return c;
}

/* ── target_build ── */

struct built {
	struct config *config;
	struct target target;
	struct labels address, group_labels;
};

/* One target h:1 with label t=1 in a group with labels g=2, t=2; `job` is YAML in flow style. */
static struct built build(const char *job, const char *address, const char *name, const char *path)
{
	_cleanup_labels_builder_ struct labels_builder b;
	struct built x = {.config = NULL};
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	struct discover_group group = {.source = NULL};

	bytes_printf(&text, "scrape_configs: [{job_name: j, %s}]", job);
	bytes_put_u8(&text, 0);
	x.config = parse((char *)text.data);
	labels_builder_init(&b);
	labels_builder_set(&b, "__address__", address);
	labels_builder_set(&b, "t", "1");
	assert_int_equal(labels_builder_finish(&b, &x.address), 0);
	labels_builder_reset(&b, NULL);
	labels_builder_set(&b, "t", "2");
	labels_builder_set(&b, "g", "2");
	labels_builder_set(&b, "__meta_x", "m");
	assert_int_equal(labels_builder_finish(&b, &x.group_labels), 0);
	group.labels = x.group_labels;
	group.targets = &x.address;
	group.n_targets = 1;
	assert_int_equal(target_build(&x.config->jobs[0], &group, 0, name, path, &x.target), 0);
	return x;
}

static void built_done(struct built *x)
{
	target_done(&x->target);
	labels_done(&x->address);
	labels_done(&x->group_labels);
	config_put(x->config);
}

static void assert_labels(const struct labels *l, const char *expected)
{
	_cleanup_bytes_ struct bytes out = {.data = NULL};

	labels_print(l, &out);
	bytes_put_u8(&out, 0);
	assert_string_equal((char *)out.data, expected);
}

static void test_label_life(void **state)
{
	struct built x = build("params: {debug: [1, 2]}, relabel_configs: [{source_labels: "
			       "[__meta_x], target_label: m}, "
			       "{target_label: __tmp_x, replacement: y}]",
		"h:1", "process_cpu", "/debug/pprof/profile");

	(void)state;
	assert_int_equal(x.target.state, TARGET_ACTIVE);
	assert_labels(&x.target.discovered,
		"{__address__=\"h:1\",__meta_x=\"m\",__metrics_path__=\"/"
		"metrics\",__name__=\"process_cpu\",__param_debug=\"1\","
		"__profile_path__=\"/debug/pprof/"
		"profile\",__scheme__=\"http\",__scrape_interval__=\"15s\","
		"__scrape_timeout__=\"10s\",g=\"2\",job=\"j\",t=\"1\"}");
	assert_labels(&x.target.relabeled,
		"{__address__=\"h:1\",__metrics_path__=\"/"
		"metrics\",__name__=\"process_cpu\",__param_debug=\"1\","
		"__profile_path__=\"/debug/pprof/"
		"profile\",__scheme__=\"http\",__scrape_interval__=\"15s\","
		"__scrape_timeout__=\"10s\",__tmp_x=\"y\",g=\"2\",instance=\"h:1\",job=\"j\",m="
		"\"m\",t=\"1\"}");
	assert_labels(&x.target.labels,
		"{__name__=\"process_cpu\",g=\"2\",instance=\"h:1\",job=\"j\",m=\"m\",t=\"1\"}");
	assert_int_equal(x.target.interval_ms, 15000);
	assert_int_equal(x.target.timeout_ms, 10000);
	built_done(&x);
}

static void test_target_states(void **state)
{
	static const struct {
		const char *job, *address;
		enum target_state state;
		const char *error;
	} cases[] = {
		{"relabel_configs: [{source_labels: [t], regex: '1', action: drop}]", "h:1",
			TARGET_DROPPED, ""},
		{"relabel_configs: [{source_labels: [__name__], regex: memory, action: drop}]",
			"h:1", TARGET_ACTIVE, ""},
		{"relabel_configs: [{regex: t, action: labelkeep}]", "h:1", TARGET_INVALID,
			"no address: relabeling left no __address__"},
		{"relabel_configs: []", "h/x", TARGET_INVALID,
			"\"h/x\" is not a valid address: it contains a slash"},
		{"relabel_configs: []", "h x", TARGET_INVALID,
			"\"h x\" is not a valid address, expected host:port"},
		{"relabel_configs: [{target_label: __scheme__, replacement: ftp}]", "h:1",
			TARGET_INVALID, "\"ftp\" is not a valid scheme, expected http or https"},
		{"relabel_configs: [{target_label: __scrape_interval__, replacement: 0s}]", "h:1",
			TARGET_INVALID, "label __scrape_interval__: \"0s\" cannot be zero"},
		{"relabel_configs: [{target_label: __scrape_timeout__, replacement: 1m}]", "h:1",
			TARGET_ACTIVE, ""},
		{"relabel_configs: [{target_label: __param_seconds, replacement: '86400'}]", "h:1",
			TARGET_ACTIVE, ""},
		{"relabel_configs: [{target_label: __param_seconds, replacement: 6s}]", "h:1",
			TARGET_INVALID,
			"label __param_seconds: \"6s\" is no whole number from 1 to 86400"},
		{"relabel_configs: [{target_label: __param_seconds, replacement: '0'}]", "h:1",
			TARGET_INVALID,
			"label __param_seconds: \"0\" is no whole number from 1 to 86400"},
		{"relabel_configs: [{target_label: __unix_socket__, replacement: run/s}]", "h:1",
			TARGET_INVALID,
			"label __unix_socket__: \"run/s\" is no absolute path of at most 107 "
			"bytes"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct built x = build(cases[i].job, cases[i].address, NULL, NULL);

		assert_int_equal(x.target.state, cases[i].state);
		assert_string_equal(x.target.error, cases[i].error);
		assert_int_equal(x.target.labels.n == 0, cases[i].state != TARGET_ACTIVE);
		built_done(&x);
	}
}

/* Behind a socket no address is needed; without one the socket tells targets apart. */
static void test_unix_socket(void **state)
{
	struct built with =
		build("relabel_configs: [{target_label: __unix_socket__, replacement: /run/s}]",
			"h:1", NULL, NULL);
	struct built without =
		build("relabel_configs: [{target_label: __unix_socket__, replacement: /run/s}, "
		      "{target_label: __address__, replacement: ''}]",
			"h:1", NULL, NULL);

	(void)state;
	assert_int_equal(with.target.state, TARGET_ACTIVE);
	assert_string_equal(labels_get(&with.target.labels, "instance"), "h:1");
	assert_string_equal(labels_get(&with.target.labels, TARGET_UNIX_SOCKET), "");
	assert_int_equal(without.target.state, TARGET_ACTIVE);
	assert_string_equal(labels_get(&without.target.labels, "instance"), "/run/s");
	assert_string_equal(labels_get(&without.target.relabeled, "__address__"), "localhost");
	built_done(&with);
	built_done(&without);
}

static void test_urls(void **state)
{
	static const struct {
		const char *job, *url;
		bool has_query;
	} cases[] = {
		{"scheme: https", "https://h:1/debug/pprof/heap", false},
		{"params: {a: [x, 'y z'], b: []}", "http://h:1/debug/pprof/heap?a=x&a=y%20z", true},
		{"params: {a: [x, y]}, relabel_configs: [{target_label: __param_a, replacement: "
		 "new}]",
			"http://h:1/debug/pprof/heap?a=new&a=y", true},
		{"relabel_configs: [{target_label: __param_q, replacement: '1&2'}]",
			"http://h:1/debug/pprof/heap?q=1%262", true},
		{"profiling_config: {path_prefix: app/}", "http://h:1/app/debug/pprof/heap", false},
		{"profiling_config: {path_prefix: app}, relabel_configs: [{target_label: "
		 "__profile_path_prefix__, replacement: /p/}]",
			"http://h:1/p/debug/pprof/heap", false},
		{"relabel_configs: [{target_label: __profile_path__, replacement: 'o p'}]",
			"http://h:1/o%20p", false},
		{"relabel_configs: [{target_label: __profile_path__, replacement: '/x?y=1'}], "
		 "params: {a: [b]}",
			"http://h:1/x?y=1&a=b", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct built x = build(cases[i].job, "h:1", NULL, NULL);
		_cleanup_bytes_ struct bytes url = {.data = NULL};
		bool has_query;

		target_url(&x.config->jobs[0], &x.target, "/debug/pprof/heap", &url, &has_query);
		bytes_put_u8(&url, 0);
		assert_string_equal((char *)url.data, cases[i].url);
		assert_int_equal(has_query, cases[i].has_query);
		built_done(&x);
	}
}

static void test_hash(void **state)
{
	struct built a = build("params: {}", "h:1", NULL, NULL),
		     same = build("scheme: http", "h:1", NULL, NULL);
	struct built params = build("params: {a: [x, y]}", "h:1", NULL, NULL),
		     more = build("params: {a: [x, z]}", "h:1", NULL, NULL);

	(void)state;
	assert_true(target_hash(&a.config->jobs[0], &a.target) ==
		    target_hash(&same.config->jobs[0], &same.target));
	/* Labels are equal, the URL is not. */
	assert_true(target_hash(&params.config->jobs[0], &params.target) !=
		    target_hash(&more.config->jobs[0], &more.target));
	built_done(&a);
	built_done(&same);
	built_done(&params);
	built_done(&more);
}

/* ── the manager ── */

struct recorder {
	struct bytes log; /* "job:address,address;" per update */
	unsigned n_updates;
};

static void on_update(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups)
{
	struct recorder *r = ctx;
	bool first = true;

	(void)cfg;
	r->n_updates++;
	bytes_printf(&r->log, "%s:", job->name);
	for (size_t g = 0; g < n_groups; g++) {
		for (size_t i = 0; i < groups[g]->n_targets; i++) {
			bytes_printf(&r->log, "%s%s", first ? "" : ",",
				labels_get(&groups[g]->targets[i], "__address__"));
			first = false;
		}
	}
	bytes_put_str(&r->log, ";");
}

struct fixture {
	struct recorder recorder;
	struct clock_virtual clock;
	struct discover *d;
	char dir[64];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	snprintf(f->dir, sizeof(f->dir), "/tmp/sonde-discover-XXXXXX");
	if (!mkdtemp(f->dir) || discover_new(&(struct discover_options) {.fs = &fs_system,
						     .clock = &f->clock.clock,
						     .update = on_update,
						     .ctx = &f->recorder,
						     .user_agent = "test"},
					&f->d, NULL) < 0)
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int r = fs_remove_all(&fs_system, f->dir);

	discover_free(f->d);
	bytes_done(&f->recorder.log);
	free(f);
	return r;
}

static void apply(struct fixture *f, const char *text)
{
	struct config *c = parse(text);

	discover_apply(f->d, c);
	config_put(c);
}

static void write_file(struct fixture *f, const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(fs_write_file(&fs_system, path, text, strlen(text), 0644, NULL), 0);
}

/* Runs once and compares what was handed out since the last call. */
static void assert_run(struct fixture *f, const char *expected)
{
	discover_run(f->d);
	bytes_put_u8(&f->recorder.log, 0);
	assert_string_equal((char *)f->recorder.log.data, expected);
	bytes_reset(&f->recorder.log);
}

static struct discover_stats stats_of(struct fixture *f, const char *kind)
{
	struct discover_stats all[4];
	size_t n = discover_stats(f->d, all, ARRAY_SIZE(all));

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(all[i].kind, kind))
			return all[i];
	}
	fail_msg("no kind %s", kind);
	return all[0];
}

static void test_static(void **state)
{
	struct fixture *f = *state;

	apply(f, "scrape_configs: [{job_name: a, static_configs: [{targets: ['h:1', 'h:2']}, "
		 "{targets: ['h:3']}]}, {job_name: b}]");
	assert_run(f, "a:h:1,h:2,h:3;b:;");
	assert_run(f, "");
	assert_int_equal(stats_of(f, "static").targets, 3);
	/* A reload tells every job again; the receiver sees what changed. */
	apply(f, "scrape_configs: [{job_name: a, static_configs: [{targets: ['h:4']}]}]");
	assert_run(f, "a:h:4;");
	assert_int_equal(stats_of(f, "static").targets, 1);
}

static void apply_files(struct fixture *f, const char *pattern, const char *more)
{
	char text[700];

	snprintf(text, sizeof(text),
		"scrape_configs: [{job_name: a, file_sd_configs: [{files: ['%s/%s'], "
		"refresh_interval: 1m}]}%s]",
		f->dir, pattern, more);
	apply(f, text);
}

static void test_files(void **state)
{
	struct fixture *f = *state;
	struct pollfd p = {.fd = discover_fd(f->d), .events = POLLIN};
	char path[160];

	write_file(f, "one.yml", "- targets: ['h:1']\n- targets: ['h:2']\n  labels: {x: y}\n");
	write_file(f, ".hidden.yml", "- targets: ['h:9']\n");
	apply_files(f, "*.yml", "");
	assert_run(f, "a:h:1,h:2;");
	assert_int_equal(poll(&p, 1, 0), 0);

	/* A file that comes wakes the manager. */
	write_file(f, "two.yml", "[{\"targets\": [\"h:3\"]}]");
	assert_int_equal(poll(&p, 1, 0), 1);
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "a:h:1,h:2,h:3;");

	/* A file that breaks keeps its last good groups, and is counted. */
	write_file(f, "one.yml", "- target: ['h:1']\n");
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "");
	assert_int_equal(stats_of(f, "file").refresh_failures_total, 1);
	assert_int_equal(stats_of(f, "file").targets, 3);

	/* Rewriting the same changes nothing. */
	write_file(f, "one.yml", "- targets: ['h:1']\n- targets: ['h:2']\n  labels: {x: y}\n");
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "");

	/* A file that goes takes its targets along. */
	snprintf(path, sizeof(path), "%s/one.yml", f->dir);
	assert_int_equal(fs_system.unlink(&fs_system, path), 0);
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "a:h:3;");
	assert_int_equal(stats_of(f, "file").refresh_failures_total, 1);
}

/* Without an event, a change is found by the timer. */
static void test_file_timer(void **state)
{
	struct fixture *f = *state;
	char dir[100], path[128];
	int64_t next_ns;

	snprintf(dir, sizeof(dir), "%s/later", f->dir);
	apply_files(f, "later/t.json", "");
	assert_run(f, "a:;");
	next_ns = discover_run(f->d);
	assert_int_equal(next_ns - f->clock.mono_ns, 60 * NS_PER_S);
	assert_int_equal(fs_system.mkdir(&fs_system, dir, 0755), 0);
	snprintf(path, sizeof(path), "%s/t.json", dir);
	assert_int_equal(
		fs_write_file(&fs_system, path, "[{\"targets\":[\"h:1\"]}]", 21, 0644, NULL), 0);
	clock_virtual_advance(&f->clock, 59 * NS_PER_S);
	assert_run(f, "");
	clock_virtual_advance(&f->clock, NS_PER_S);
	assert_run(f, "a:h:1;");
}

/* Kubernetes swaps a symbolic link in the directory. */
static void test_symlink_swap(void **state)
{
	struct fixture *f = *state;
	char link[100], next[100];

	write_file(f, "v1.yml.data", "- targets: ['h:1']\n");
	write_file(f, "v2.yml.data", "- targets: ['h:2']\n");
	snprintf(link, sizeof(link), "%s/t.yml", f->dir);
	snprintf(next, sizeof(next), "%s/next", f->dir);
	assert_int_equal(symlink("v1.yml.data", link), 0);
	apply_files(f, "t.yml", "");
	assert_run(f, "a:h:1;");
	assert_int_equal(symlink("v2.yml.data", next), 0);
	assert_int_equal(fs_system.rename(&fs_system, next, link), 0);
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "a:h:2;");

	/* One that leads nowhere for a moment keeps its targets, and is counted. */
	snprintf(next, sizeof(next), "%s/v2.yml.data", f->dir);
	assert_int_equal(fs_system.unlink(&fs_system, next), 0);
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "");
	assert_int_equal(stats_of(f, "file").targets, 1);
	assert_int_equal(stats_of(f, "file").refresh_failures_total, 1);
	write_file(f, "v2.yml.data", "- targets: ['h:3']\n");
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "a:h:3;");
	assert_int_equal(fs_system.unlink(&fs_system, link), 0);
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	assert_run(f, "a:;");
	assert_int_equal(stats_of(f, "file").refresh_failures_total, 1);
}

static void note_labels(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups)
{
	struct bytes *out = ctx;

	(void)cfg, (void)job;
	for (size_t g = 0; g < n_groups; g++)
		for (size_t i = 0; i < groups[g]->labels.n; i++)
			bytes_printf(out, "%s %s=%s\n", groups[g]->source,
				groups[g]->labels.items[i].name, groups[g]->labels.items[i].value);
}

/* What targets of files have: their own labels and where they came from. */
static void test_file_labels(void **state)
{
	struct fixture *f = *state;
	_cleanup_bytes_ struct bytes seen = {0};
	struct discover_options o = {.fs = &fs_system,
		.clock = &f->clock.clock,
		.update = note_labels,
		.ctx = &seen,
		.user_agent = "test"};
	char want[400];

	discover_free(f->d);
	assert_int_equal(discover_new(&o, &f->d, NULL), 0);
	write_file(f, "t.yml", "- targets: ['h:1']\n  labels: {team: x}\n- targets: ['h:2']\n");
	apply_files(f, "*.yml", "");
	discover_run(f->d);
	bytes_put_u8(&seen, 0);
	snprintf(want, sizeof(want),
		"%s/t.yml:0 __meta_filepath=%s/t.yml\n%s/t.yml:0 team=x\n"
		"%s/t.yml:1 __meta_filepath=%s/t.yml\n",
		f->dir, f->dir, f->dir, f->dir, f->dir);
	assert_string_equal((char *)seen.data, want);
}

static void test_sharing(void **state)
{
	struct fixture *f = *state;
	char more[300];

	write_file(f, "t.yml", "- targets: ['h:1']\n");
	snprintf(more, sizeof(more),
		", {job_name: b, file_sd_configs: [{files: ['%s/t.yml'], refresh_interval: 1m}]}",
		f->dir);
	apply_files(f, "t.yml", more);
	assert_run(f, "a:h:1;b:h:1;");
	assert_int_equal(stats_of(f, "file").refreshes_total, 1);
	assert_int_equal(stats_of(f, "file").targets, 1);
	/* A reload keeps the provider: it does not read the file again. */
	apply_files(f, "t.yml", more);
	assert_run(f, "a:h:1;b:h:1;");
	assert_int_equal(stats_of(f, "file").refreshes_total, 1);
	/* Counters survive the provider. */
	apply(f, "");
	assert_int_equal(stats_of(f, "file").refreshes_total, 1);
	assert_int_equal(stats_of(f, "file").targets, 0);
}

/* Changes that keep coming are handed out after 100 ms, 200 ms … at most every 5 s; after quiet at
 * once. */
static void test_throttle(void **state)
{
	struct fixture *f = *state;
	unsigned n_updates = 0;
	char text[64];

	write_file(f, "t.yml", "- targets: ['h:0']\n");
	apply_files(f, "t.yml", "");
	for (int i = 1; i <= 200; i++) { /* 20 s of a change every 100 ms */
		discover_run(f->d);
		snprintf(text, sizeof(text), "- targets: ['h:%d']\n", i);
		write_file(f, "t.yml", text);
		clock_virtual_advance(&f->clock, 100 * NS_PER_MS);
	}
	n_updates = f->recorder.n_updates;
	assert_in_range(n_updates, 7, 11);
	assert_true(stats_of(f, "file").updates_delayed_total > 100);
	bytes_reset(&f->recorder.log);
	clock_virtual_advance(&f->clock, 5 * NS_PER_S);
	assert_run(f, "a:h:200;"); /* the last state arrives */
	clock_virtual_advance(&f->clock, 6 * NS_PER_S);
	write_file(f, "t.yml", "- targets: ['h:x']\n");
	assert_run(f, "a:h:x;");
}

static void test_errors(void **state)
{
	struct fixture *f = *state;
	struct config *c;
	char text[300];

	write_file(f, "t.yml", "- targets: ['h:1']\n  x: y\n");
	snprintf(text, sizeof(text),
		"scrape_configs: [{job_name: a, file_sd_configs: [{files: ['%s/t.yml']}]}]",
		f->dir);
	c = parse(text);
	discover_apply(f->d, c);
	discover_run(f->d);
	assert_non_null(
		strstr(discover_job_error(f->d, &c->jobs[0]), "t.yml:2:3: [0].x: unknown key"));
	write_file(f, "t.yml", "- targets: ['h:1']\n");
	discover_run(f->d);
	assert_null(discover_job_error(f->d, &c->jobs[0]));
	config_put(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_label_life),
		cmocka_unit_test(test_target_states),
		cmocka_unit_test(test_unix_socket),
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_hash),
		cmocka_unit_test_setup_teardown(test_static, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_timer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_symlink_swap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sharing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_throttle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
