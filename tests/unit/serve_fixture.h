/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of profiles on a port of its own, with stand-ins for the tables that profiles are made of, and requests to it.
 */
#pragma once
#include "exporter/walk/deferred.h"
#include "exporter/options.h"
#include "exporter/proc/interp.h"
#include "exporter/sample/outcomes.h"
#include "exporter/walk/unwind_loader.h"
#include "exporter/serve/serve.h"
#include "exporter/walk/shadow.h"
#include "tests/unit/reader_standins.h"
#include "lib/base/alloc.h"
#include "lib/gzip/gzip.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

/* ---- stand-ins ---- */

static const struct proc_task_info tasks[] = {
	{.pid = 10,
		.tid = 10,
		.ppid = 1,
		.comm = "app",
		.thread_name = "main",
		.executable = "/bin/app",
		.cmdline = "/bin/app -x \"q\"",
		.systemd_unit = "app.service",
		.start_ns = 5},
	{.pid = 10,
		.tid = 11,
		.ppid = 1,
		.comm = "app",
		.thread_name = "io",
		.executable = "/bin/app",
		.cmdline = "/bin/app -x \"q\"",
		.systemd_unit = "app.service",
		.start_ns = 5},
	{.pid = 20,
		.tid = 20,
		.ppid = 10,
		.comm = "web",
		.thread_name = "web",
		.executable = "/bin/web",
		.container_id = "c0ffee00c0ffee00",
		.container_name = "w",
		.start_ns = 6},
	{.pid = 2,
		.tid = 2,
		.comm = "kworker",
		.thread_name = "kworker/0:1",
		.kernel_thread = true},
	{.pid = 30,
		.tid = 30,
		.comm = "gone",
		.thread_name = "gone",
		.executable = "/bin/gone",
		.exited = true},
};

#include "exporter/proc/code_objects.h"
#include "tests/unit/task_standins.h"

bool proc_is_descendant(const struct proc_table *t, uint32_t task, uint32_t ancestor_pid)
{
	(void)t;
	return tasks[task].pid == ancestor_pid || tasks[task].ppid == ancestor_pid;
}

struct proc_object proc_object_of(const struct proc_table *t, uint64_t id)
{
	(void)t, (void)id;
	return (struct proc_object) {0};
}

struct proc_address proc_interned_address(const struct proc_table *t, uint64_t payload)
{
	(void)t;
	return (struct proc_address) {.addr = payload};
}

const char *proc_comm(const struct proc_table *t, const struct process *p)
{
	(void)t;
	(void)p;
	return "";
}

void proc_table_stats(const struct proc_table *t, struct proc_stats *ret)
{
	(void)t;
	*ret = (struct proc_stats) {.tracked = 4};
}

int symbolize(struct symbolizer *s, const struct symbol_frame *frames, uint32_t n,
	enum symbolize_mode mode, int64_t deadline_ns, struct arena *arena, struct symbol *ret,
	struct symbol_mapping **ret_mappings, uint32_t *ret_n_mappings)
{
	struct symbol_mapping *m = arena_zalloc(arena, sizeof(*m));

	(void)s;
	(void)mode;
	(void)deadline_ns;
	*m = (struct symbol_mapping) {.filename = "/bin/app", .build_id = "aa"};
	for (uint32_t i = 0; i < n; i++) {
		struct symbol_line *l = arena_zalloc(arena, sizeof(*l));

		l->function = l->system_name =
			arena_printf(arena, "f%" PRIu64, (uint64_t)ABI_NATIVE_OFF(frames[i].frame));
		l->file = "";
		ret[i] = (struct symbol) {.lines = l,
			.n_lines = 1,
			.address = ABI_NATIVE_OFF(frames[i].frame),
			.named = 1};
	}
	*ret_mappings = m;
	*ret_n_mappings = 1;
	return 0;
}

void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret)
{
	(void)s;
	*ret = (struct symbolizer_stats) {.kallsyms_available = 1};
}

void drain_stats(struct drain *d, struct drain_stats *ret)
{
	(void)d;
	*ret = (struct drain_stats) {.n_online = 2,
		.n_attached = 2,
		.samples = 1234,
		.events = {[ABI_EVENT_CPU] = {.samples = 1200},
			[ABI_EVENT_PAGE_FAULTS] = {.samples = 34}}};
}

size_t proc_top_stacks(const struct proc_table *t, struct proc_stacks *ret, size_t max)
{
	(void)t;
	(void)max;
	*ret = (struct proc_stacks) {.pid = 77,
		.comm = "a<b",
		.executable = "/bin/a",
		.whole = 3,
		.cut = 1,
		.last_cut = ABI_CUT_READ_FAULT};
	return 1;
}

void unwind_loader_stats(struct unwind_loader *u, struct unwind_loader_stats *ret)
{
	(void)u;
	*ret = (struct unwind_loader_stats) {.tables = {.bytes = 1}};
}

void shadow_stats(struct shadow *s, struct shadow_stats *ret)
{
	(void)s;
	*ret = (struct shadow_stats) {
		.results = {[SHADOW_MATCH] = 999, [SHADOW_MISMATCH] = 1}, .skipped = 3};
}

size_t shadow_mismatches(struct shadow *s, struct shadow_mismatch ret[SHADOW_N_MISMATCHES])
{
	(void)s;
	ret[0] = (struct shadow_mismatch) {.pid = 88,
		.frame = 1,
		.addr = 0x12,
		.comm = "x<y",
		.module = "/bin/b",
		.ours = "0 b+0x12\n1 b+0x34",
		.theirs = "0 b+0x12\n1 b+0x56"};
	return 1;
}

void deferred_stats(const struct deferred *d, struct deferred_stats *ret)
{
	(void)d;
	*ret = (struct deferred_stats) {.whole = 1};
}

size_t proc_interp_binaries(
	_unused_ const struct proc_table *t, struct proc_interp_binary *ret, size_t max)
{
	assert_true(max >= 2);
	ret[0] = (struct proc_interp_binary) {.binary = 3,
		.kind = RUNTIME_PYTHON,
		.version = RUNTIME_VERSION(3, 11, 2),
		.n = {[PROC_INTERP_WALKED] = 7}};
	ret[1] = (struct proc_interp_binary) {.binary = 4,
		.kind = RUNTIME_PYTHON,
		.version = RUNTIME_VERSION(3, 99, 0),
		.refusal = RUNTIME_UNKNOWN_VERSION,
		.n = {[PROC_INTERP_REFUSED] = 1}};
	return 2;
}

void binary_info(struct binary_registry *r, uint32_t binary, struct binary_info *ret)
{
	(void)r;
	/* 4 and 5 are one file in two containers */
	*ret = (struct binary_info) {.build_id = ""};
	snprintf(ret->path, sizeof(ret->path), "/lib/%s", binary == 3 ? "three" : "four");
}

void binary_labels(
	struct binary_registry *r, uint32_t binary, bool with_build_id, struct binary_labels *ret)
{
	/* Nobody asks: the source has no registry. */
	assert_true(r && binary && with_build_id && ret);
}

void interp_names_await_round(_unused_ struct interp_names *n, _unused_ int64_t until_ns)
{
}

void interp_names_stats(_unused_ struct interp_names *n, struct interp_names_stats *ret)
{
	*ret = (struct interp_names_stats) {0};
}

const char *interp_name_result_text(_unused_ enum interp_name_result r)
{
	return "";
}

void jit_await_round(_unused_ struct jit *j, _unused_ int64_t until_ns)
{
}

void jit_stats(struct jit *j, struct jit_stats *ret)
{
	(void)j;
	*ret = (struct jit_stats) {0};
}

void binary_stats(struct binary_registry *r, struct binary_stats *ret)
{
	(void)r;
	*ret = (struct binary_stats) {.binaries = 1};
}

size_t binary_top_unnamed(struct binary_registry *r, struct binary_unnamed *ret, size_t max)
{
	(void)r;
	(void)max;
	/* One path twice, as in two containers: one series. */
	ret[0] = (struct binary_unnamed) {.path = "/lib/libc.so.6", .frames = 5};
	ret[1] = (struct binary_unnamed) {.path = "/lib/libm.so.6", .frames = 4};
	ret[2] = (struct binary_unnamed) {.path = "/lib/libc.so.6", .frames = 3};
	return 3;
}

/* ---- fixture ---- */

struct fixture {
	struct lock lock;
	struct profile_source source;
	struct threads threads; /* none */
	struct labels labels;
	struct budget budget, *budgets;
	struct keeper_setup setup;
	struct exporter_options options;
	struct serve *serve;
	uint16_t port;
};

static int64_t boot_offset_ns(void)
{
	return clock_boot_offset_ns(&clock_system);
}

static void drained(struct fixture *f, int64_t monotonic_ns)
{
	lock_take(&f->lock);
	sample_log_drained(f->source.tables.logs[ABI_EVENT_CPU], monotonic_ns, boot_offset_ns());
	lock_release(&f->lock);
}

static void put(struct fixture *f, int64_t monotonic_ns, uint32_t task, uint64_t weight)
{
	const uint64_t frames[] = {ABI_NATIVE(1, 7), ABI_NATIVE(1, 8 + task)};
	struct sample_row row = {.time_ns = (uint64_t)monotonic_ns, .task = task, .weight = weight};

	lock_take(&f->lock);
	assert_int_equal(stacks_add(f->source.tables.stacks, frames, 2, &row.stack), 0);
	assert_int_equal(sample_log_append(f->source.tables.logs[ABI_EVENT_CPU], &row), 0);
	lock_release(&f->lock);
}

/* Three whole stacks, one that was cut in binary 4, one in 5. */
static struct outcomes *some_outcomes(void)
{
	static const uint64_t cut = ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_READ_FAULT);
	const uint64_t whole[] = {ABI_NATIVE(3, 1), ABI_NATIVE(4, 1)};
	struct outcomes *o = outcomes_new(ABI_EVENT_CPU);

	for (int i = 0; i < 3; i++)
		outcomes_add(o, ABI_EVENT_CPU, "app", whole, 2);
	outcomes_add(o, ABI_EVENT_CPU, "app", (uint64_t[]) {cut, ABI_NATIVE(4, 1)}, 2);
	outcomes_add(o, ABI_EVENT_CPU, "web", (uint64_t[]) {cut, ABI_NATIVE(5, 1)}, 2);
	return o;
}

static int set_up(void **state)
{
	static const char *const listen[] = {"127.0.0.1:0"};
	static char *const argv[] = {
		(char *)(uintptr_t) "sonde-exporter", (char *)(uintptr_t) "--x", NULL};
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct sample_log_options lo = {.clock = &clock_system,
		.retention_s = 300,
		.window_s = 10,
		.retention_bytes = 1 << 20,
		.start_id = 0xabc};
	_cleanup_labels_builder_ struct labels_builder b;
	struct errbuf eb = {.text = ""};
	char *args[] = {argv[0]};

	lock_init(&f->lock);
	budget_init(&f->budget, NULL, "web", "--web.max-bytes", 16 << 20);
	f->budgets = &f->budget;
	labels_builder_init(&b);
	labels_builder_set(&b, "node", "n1");
	labels_builder_set(&b, "rack", "r7");
	assert_int_equal(labels_builder_finish(&b, &f->labels), 0);
	assert_int_equal(
		options_parse(&exporter_program, 1, args, &f->options, NULL, &eb), OPTIONS_RUN);
	lo.stacks = stacks_new(NULL);
	f->source = (struct profile_source) {
		.lock = &f->lock,
		.tables = {.stacks = lo.stacks,
			.logs = {[ABI_EVENT_CPU] = sample_log_new(&lo)},
			/* never looked into: its functions are stand-ins */
			.shadow = (struct shadow *)(void *)f,
			.outcomes = some_outcomes()},
		.governor = governor_new(&(struct governor_options) {
			.base_hz = 19, .max_hz = 999, .shares = {[ABI_EVENT_CPU] = 1}}),
		.clock = &clock_system,
		.constants = &f->labels,
		.hz = 19,
		.retention_s = 300,
		.window_s = 10,
	};
	f->setup.missing[f->setup.n_missing++] = (struct keeper_missing) {"CAP_<X>", "no \"y\""};
	if (serve_open(
		    &(struct serve_options) {
			    .source = &f->source,
			    .threads = &f->threads,
			    .setup = &f->setup,
			    .clock = &clock_system,
			    .budget = &f->budget,
			    .budgets = &f->budgets,
			    .n_budgets = 1,
			    .listen = listen,
			    .n_listen = 1,
			    .max_frequency_hz = 999,
			    .program = &exporter_program,
			    .option_values = &f->options,
			    .argv = argv,
		    },
		    &f->serve, &eb) < 0 ||
		serve_start(f->serve, &eb) < 0)
		fail_msg("%s", eb.text);
	f->port = (uint16_t)strtoul(strchr(serve_address(f->serve, 0), ':') + 1, NULL, 10);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	serve_freep(&f->serve);
	governor_freep(&f->source.governor);
	sample_log_freep(&f->source.tables.logs[ABI_EVENT_CPU]);
	outcomes_freep((struct outcomes **)(uintptr_t)&f->source.tables.outcomes);
	stacks_freep(&f->source.tables.stacks);
	labels_done(&f->labels);
	options_done(&exporter_program, &f->options);
	lock_done(&f->lock);
	assert_int_equal(f->budget.used_bytes, 0);
	free(f);
	return 0;
}

static int send_request(struct fixture *f, const char *method, const char *path)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(f->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_free_ char *text =
		xasprintf("%s %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n\r\n",
			method, path, f->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

/* Everything until the server closes, NUL-terminated. */
static void read_answer(int fd, struct bytes *out)
{
	ssize_t n;

	bytes_init(out, NULL, 0);
	do {
		uint8_t *to = bytes_reserve(out, 65536);

		n = read(fd, to, 65536);
		out->len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	bytes_put_u8(out, 0);
	close(fd);
}

static void get(struct fixture *f, const char *path, struct bytes *out)
{
	read_answer(send_request(f, "GET", path), out);
}

static int code_of(const struct bytes *answer)
{
	return answer->len > 12 ? (int)strtol((const char *)answer->data + 9, NULL, 10) : 0;
}

static const char *body_of(const struct bytes *answer)
{
	const char *at = strstr((const char *)answer->data, "\r\n\r\n");

	assert_non_null(at);
	return at + 4;
}

static bool has(const struct bytes *answer, const char *text)
{
	return strstr((const char *)answer->data, text) != NULL;
}

/* Value of a header into `ret`; "" when absent. */
static void header_of(const struct bytes *answer, const char *name, char ret[64])
{
	_cleanup_free_ char *key = xasprintf("\r\n%s: ", name);
	const char *at = strstr((const char *)answer->data, key);

	ret[0] = 0;
	if (at && at < body_of(answer))
		snprintf(ret, 64, "%.*s", (int)strcspn(at + strlen(key), "\r"), at + strlen(key));
}

static void decode(const struct bytes *answer, struct bytes *raw, struct profile *ret)
{
	const char *body = body_of(answer);
	struct errbuf eb = {.text = ""};

	assert_int_equal(code_of(answer), 200);
	bytes_init(raw, NULL, 0);
	profile_init(ret, NULL);
	if (gzip_inflate(body, answer->len - 1 - (size_t)(body - (const char *)answer->data),
		    1 << 20, raw, &eb) < 0 ||
		prof_decode(raw->data, raw->len, ret, &eb) < 0)
		fail_msg("%s", eb.text);
}

static int64_t total_of(const struct bytes *answer)
{
	_cleanup_bytes_ struct bytes raw = {.len = 0};
	_cleanup_profile_ struct profile p = {.n_samples = 0};
	int64_t sum = 0;

	decode(answer, &raw, &p);
	for (size_t i = 0; i < p.n_samples; i++)
		sum += p.values[i * p.n_types + p.n_types - 1];
	return sum;
}

/* Three seconds of history: the log began 3 s ago as far as it knows, task k has weight 10^k in each of them. */
static void fill(struct fixture *f)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system), weight = 1;

	for (uint32_t task = 0; task < ARRAY_SIZE(tasks); task++, weight *= 10)
		for (int s = 0; s < 3; s++)
			put(f, now_ns + s * NS_PER_S, task, (uint64_t)weight);
	drained(f, now_ns + 5 * NS_PER_S);
}
