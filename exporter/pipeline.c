/* SPDX-License-Identifier: Apache-2.0
 *
 *	rings, side-band ─ drain ─┬─ process table ─ binaries ◄─ parser
 *	                          │        │ frames resolved
 *	                          └─ stacks, sample log ─ snapshot ─ names ─ profile ─ sink
 */
#include "exporter/pipeline.h"
#include "exporter/fetcher/fetcher.h"
#include "exporter/intake/intake.h"
#include "exporter/interp/reader/names.h"
#include "exporter/interp/reader/processes.h"
#include "exporter/jit/jit.h"
#include "exporter/proc/reader/pods.h"
#include "exporter/proc/pod_table.h"
#include "exporter/keeper/memory.h"
#include "exporter/proc/reader/reader.h"
#include "exporter/proc/runs.h"
#include "exporter/sample/capture.h"
#include "exporter/sample/replay.h"
#include "exporter/walk/unwind_loader.h"
#include "lib/base/alloc.h"
#include "lib/base/bell.h"
#include "lib/base/log.h"
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAX_HELD_BYTES = 16 << 20, CAPTURE_BYTES = 1 << 30 };
#define JIT_STEP_NS NS_PER_S
#define PODS_STEP_MS 200
/* These wake when there is work. */
#define SYMBOL_STEP_NS NS_PER_S		/* the unwind tables are looked after then */
#define OTHER_STEP_NS (500 * NS_PER_MS) /* bounds the wait at the end */
#define SPARE_STEP_NS (10 * NS_PER_S)
/* Longer than all that their steps wait for. */
#define DRAIN_PATIENCE_NS (15 * NS_PER_S)
#define READER_PATIENCE_NS (60 * NS_PER_S)
/* For threads to end. Together with what open connections have it is less than the keeper waits for main. */
#define END_NS (8 * NS_PER_S)

enum {
	BUDGET_PROCESS,
	BUDGET_LOG,
	BUDGET_STACKS,
	BUDGET_PROC,
	BUDGET_SYMBOLS,
	BUDGET_JIT,
	BUDGET_INTERP,
	BUDGET_PODS,
	BUDGET_HELD,
	BUDGET_WEB,
	N_BUDGETS
};

struct exporter_pipeline {
	const struct exporter_options *o;
	const struct keeper_setup *setup;
	struct clock *clock,
		*sample_clock; /* differ in a replay: the bundle's time is the samples' */
	struct budget budgets[N_BUDGETS], *budget_list[N_BUDGETS];
	struct labels labels;
	uint32_t types; /* EVENT_BITs of --profile.types */

	struct capture *capture;
	struct replay *replay; /* in place of the drain */
	struct clock_virtual replay_clock;
	struct keeper *keeper;
	struct binary_registry *binaries;
	struct symbolizer *symbolizer;
	struct jit *jit;
	struct interp_names *interp_names;
	struct pods *pods; /* NULL: without --kubernetes */
	char *pod_labels[POD_MAX_VALUES];
	uint32_t n_pod_labels;
	struct governor *governor;
	struct drain *drain;

	void *kernel_memory[KEEPER_N_MAPS];
	struct unwind_loader *unwind_loader;
	struct runs *runs;
	struct proc_table *procs;
	struct proc_reader *reader;
	struct stacks *stacks;
	struct sample_log *logs[ABI_N_EVENTS]; /* NULL: that type is off */
	struct intake intake;		       /* fills these three, has their lock */
	struct shadow *shadow;		       /* with --unwind.shadow */
	uint32_t interp; /* runtimes of --interp that are walked here: 1 << enum runtime_kind */
	struct interp_processes *interp_processes; /* NULL: none are */

	struct profile_source source;
	struct threads threads;
	struct bell drain_bell, jit_bell, names_bell, kernel_bell,
		runtimes_bell; /* what these threads sleep by */
	int64_t jit_due_ns;    /* the drain thread's: when the other may be woken again */
};

/* ---- threads ---- */

/* New functions of language runtimes: their processes may not live long. */
static void wake_names(struct exporter_pipeline *p)
{
	bool waiting;

	lock_take(&p->intake.lock);
	waiting = proc_code_is_waiting(p->procs, PROC_CODE_OBJECTS);
	lock_release(&p->intake.lock);
	if (waiting)
		bell_ring(&p->names_bell);
}

/* What the drain has for other threads. JIT code is named when its second is over. */
static void after_drain(struct exporter_pipeline *p, int64_t now_ns)
{
	bool waiting, asking, asking_runtimes;

	lock_take(&p->intake.lock);
	waiting = proc_code_is_waiting(p->procs, PROC_CODE_JIT);
	asking = proc_table_is_asking(p->procs);
	asking_runtimes = proc_interp_is_asking(p->procs, now_ns);
	lock_release(&p->intake.lock);
	if (asking)
		proc_reader_wake(p->reader);
	wake_names(p);
	if (asking_runtimes)
		bell_ring(&p->runtimes_bell);
	if (waiting && now_ns >= p->jit_due_ns) {
		p->jit_due_ns = now_ns + JIT_STEP_NS;
		bell_ring(&p->jit_bell);
	}
}

/* What is new lets the drain begin sooner. */
static void await_drain(struct exporter_pipeline *p, int64_t began_ns, int64_t next_ns)
{
	int64_t earliest_ns = began_ns + SAMPLE_DRAIN_SPACING_NS;

	if (bell_wait(&p->drain_bell, drain_news_fd(p->drain), earliest_ns, next_ns) !=
		BELL_FD_READY)
		return;
	next_ns = MIN(next_ns, drain_take_news(p->drain));
	wake_names(p);
	bell_wait(&p->drain_bell, -1, earliest_ns, next_ns);
}

static void drain_turn(void *ctx)
{
	struct exporter_pipeline *p = ctx;
	int64_t began_ns = clock_monotonic_ns(p->clock), next_ns = drain_step(p->drain);

	after_drain(p, began_ns);
	await_drain(p, began_ns, next_ns);
}

static void symbol_turn_within(struct exporter_pipeline *p, int64_t step_ns)
{
	binary_work(p->binaries, step_ns);
	unwind_loader_round(p->unwind_loader, p->binaries, clock_monotonic_ns(p->clock));
}

static void symbol_turn(void *ctx)
{
	symbol_turn_within(ctx, SYMBOL_STEP_NS);
}

/* Takes over when the others are at work for long. */
static void symbol_spare_turn(void *ctx)
{
	symbol_turn_within(ctx, SPARE_STEP_NS);
}

static void reader_turn(void *ctx)
{
	proc_reader_work(((struct exporter_pipeline *)ctx)->reader, OTHER_STEP_NS);
}

static void fetch_turn(void *ctx)
{
	binary_fetch_work(((struct exporter_pipeline *)ctx)->binaries, OTHER_STEP_NS);
}

static void pods_turn(void *ctx)
{
	pods_round(((struct exporter_pipeline *)ctx)->pods, PODS_STEP_MS);
}

static void shadow_turn(void *ctx)
{
	shadow_work(((struct exporter_pipeline *)ctx)->shadow, OTHER_STEP_NS);
}

/* Names JIT code, once a second while there is some without a name, as long as its process is there. */
static void jit_turn(void *ctx)
{
	struct exporter_pipeline *p = ctx;
	/* The attacher answers when it likes; in a replay no drain rings. */
	bool by_time = p->setup->attacher_fd > 0 || p->replay;

	bell_wait(&p->jit_bell, -1, 0,
		by_time ? clock_monotonic_ns(p->clock) + JIT_STEP_NS : BELL_NEVER);
	if (!p->threads.is_stopping)
		jit_round(p->jit);
}

/* Names code objects of language runtimes, after each drain that left some without. */
static void names_turn(void *ctx)
{
	struct exporter_pipeline *p = ctx;

	bell_wait(&p->names_bell, -1, 0,
		p->replay ? clock_monotonic_ns(p->clock) + JIT_STEP_NS : BELL_NEVER);
	if (!p->threads.is_stopping)
		interp_names_round(p->interp_names);
}

/* The drain rings when processes with a runtime were sampled, a symbol thread when a file with one is known. */
static void runtimes_turn(void *ctx)
{
	struct exporter_pipeline *p = ctx;

	bell_wait(&p->runtimes_bell, -1, 0, interp_processes_round(p->interp_processes));
}

/* A profile with kernel frames rings, and waits for it. */
static void kernel_turn(void *ctx)
{
	struct exporter_pipeline *p = ctx;

	bell_wait(&p->kernel_bell, -1, 0, BELL_NEVER);
	if (!p->threads.is_stopping)
		symbolizer_refresh(p->symbolizer);
}

/* ---- building and taking down ---- */

static void init_budgets(struct exporter_pipeline *p)
{
	static const struct {
		const char *name, *flag;
	} rows[N_BUDGETS] = {
		[BUDGET_PROCESS] = {"process", NULL},
		[BUDGET_LOG] = {"log", "--profile.retention-bytes"},
		[BUDGET_STACKS] = {"stacks", "--profile.retention-bytes"},
		[BUDGET_PROC] = {"processes", "--profile.max-processes"},
		[BUDGET_SYMBOLS] = {"symbols", NULL},
		[BUDGET_JIT] = {"jit", "--jit.max-bytes"},
		[BUDGET_INTERP] = {"interp", "--interp.max-bytes"},
		[BUDGET_PODS] = {"pods", "--kubernetes.max-bytes"},
		[BUDGET_HELD] = {"held", NULL},
		[BUDGET_WEB] = {"web", "--web.max-bytes"},
	};
	/* The log's own cap is retention-bytes; its budget leaves room for the open seconds. Stacks of a log are of its size. */
	const uint64_t n_types = (uint64_t)__builtin_popcount(p->types);
	const uint64_t limits[N_BUDGETS] = {
		[BUDGET_LOG] = 2 * n_types * p->o->retention_bytes,
		[BUDGET_STACKS] = 2 * n_types * p->o->retention_bytes,
		[BUDGET_JIT] = p->o->jit_bytes,
		[BUDGET_INTERP] = p->o->interp_bytes,
		/* Records, and two tables of them while one takes the other's place. */
		[BUDGET_PODS] = 8 * p->o->kubernetes_bytes,
		[BUDGET_HELD] = 2 * MAX_HELD_BYTES,
		[BUDGET_WEB] = p->o->web_bytes,
	};

	for (size_t i = 0; i < N_BUDGETS; i++) {
		budget_init(&p->budgets[i],
			i == BUDGET_PROCESS ? NULL : &p->budgets[BUDGET_PROCESS], rows[i].name,
			rows[i].flag, limits[i]);
		p->budget_list[i] = &p->budgets[i];
	}
}

static int build_logs(struct exporter_pipeline *p, struct errbuf *eb)
{
	struct sample_log_options o = {
		.clock = p->sample_clock,
		.retention_s = (uint32_t)(p->o->retention_ms / 1000),
		.window_s = (uint32_t)(p->o->window_ms / 1000),
		.retention_bytes = p->o->retention_bytes,
		.budget = &p->budgets[BUDGET_LOG],
		.with_cpu = p->o->cpu_label,
	};

	if (getrandom(&o.start_id, sizeof(o.start_id), 0) != sizeof(o.start_id))
		return err_set(eb, -EIO, "no random numbers from the kernel: %s", strerror(errno));
	p->stacks = stacks_new(&p->budgets[BUDGET_STACKS]);
	o.stacks = p->stacks;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		if (!(p->types & EVENT_BIT(i)))
			continue;
		sample_log_options_by_event(&o, event_source(i));
		p->logs[i] = sample_log_new(&o);
	}
	return 0;
}

/* What the kernel half reads while it walks. A replay has no kernel half. */
static int build_kernel_memory(struct exporter_pipeline *p, struct errbuf *eb)
{
	const struct keeper_setup *s = p->setup;

	if (p->replay) {
		p->unwind_loader = unwind_loader_new(s, p->kernel_memory, p->o->table_bytes);
		return 0;
	}
	for (int i = 0; i < KEEPER_N_MAPS; i++) {
		p->kernel_memory[i] = keeper_memory_map(s, i, eb);
		if (!p->kernel_memory[i])
			return -EIO;
	}
	if (exporter_options_interp(p->o, &p->interp, eb) < 0)
		return -EINVAL;
	p->runs = runs_new(&(struct runs_memory) {
		.rows = p->interp ? p->kernel_memory[KEEPER_INTERP_PROCESSES] : NULL,
		.buckets = p->kernel_memory[KEEPER_HEADS],
		.n_buckets = s->maps[KEEPER_HEADS].n,
		.words = p->kernel_memory[KEEPER_WORDS],
		.n_words = s->maps[KEEPER_WORDS].n,
	});
	p->unwind_loader = unwind_loader_new(s, p->kernel_memory, p->o->table_bytes);
	return 0;
}

/* Processes that map the file are asked about now: they have waited for it. */
static void note_runtime(struct exporter_pipeline *p, uint32_t binary)
{
	struct runtime_record record;

	if (!p->interp || !binary_runtime(p->binaries, binary, &record))
		return;
	lock_take(&p->intake.lock);
	proc_interp_settled(p->procs, binary);
	lock_release(&p->intake.lock);
	bell_ring(&p->runtimes_bell);
}

static void on_settled(void *ctx, uint32_t binary, bool unreadable)
{
	struct exporter_pipeline *p = ctx;

	unwind_loader_settled(
		p->unwind_loader, p->binaries, binary, unreadable, clock_monotonic_ns(p->clock));
	note_runtime(p, binary);
}

static bool has_rows(void *ctx, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	return unwind_loader_has_rows(
		((struct exporter_pipeline *)ctx)->unwind_loader, binary, content_id);
}

static void on_rows(void *ctx, uint32_t binary, const struct symbol_file *rows)
{
	struct exporter_pipeline *p = ctx;

	unwind_loader_rows(p->unwind_loader, binary, rows, clock_monotonic_ns(p->clock));
	note_runtime(p, binary);
}

static void on_released(void *ctx, uint32_t binary)
{
	unwind_loader_release(((struct exporter_pipeline *)ctx)->unwind_loader, binary);
}

static void on_found(void *ctx, uint32_t binary, const struct binary_file *file)
{
	unwind_loader_found(((struct exporter_pipeline *)ctx)->unwind_loader, binary, file);
}

static void build_interp(struct exporter_pipeline *p)
{
	p->interp_names = interp_names_new(&(struct interp_names_options) {
		.procs = p->procs,
		.procs_lock = &p->intake.lock,
		.binaries = p->binaries,
		.keeper = p->keeper,
		.clock = p->clock,
		.bell = &p->names_bell,
	});
	if (p->interp)
		p->interp_processes = interp_processes_new(&(struct interp_processes_options) {
			.table = p->procs,
			.lock = &p->intake.lock,
			.binaries = p->binaries,
			.keeper = p->keeper,
			.clock = p->clock,
			.layouts = p->kernel_memory[KEEPER_INTERP_LAYOUTS],
			.hotspots = p->interp & 1U << RUNTIME_HOTSPOT
					    ? p->kernel_memory[KEEPER_INTERP_HOTSPOTS]
					    : NULL,
		});
}

static int build_names(struct exporter_pipeline *p, struct errbuf *eb)
{
	struct deferred_tables tables;
	struct errbuf no_cache = {.text = ""};

	p->binaries = binary_registry_new(
		&(struct binary_options) {
			.keeper = p->keeper,
			.fs = &fs_system,
			.clock = p->clock,
			.parser_fd = p->setup->parser_fd,
			.fetcher_fd = p->o->debuginfod.n ? p->setup->fetcher_fd : -1,
			.cache_path = p->o->symbols_cache_path,
			.cache_bytes = p->o->symbols_cache_bytes,
			.max_cpu = p->o->symbols_max_cpu,
			.budget = &p->budgets[BUDGET_SYMBOLS],
			.hook_ctx = p,
			.settled = on_settled,
			.has_rows = has_rows,
			.rows = on_rows,
			/* Frames of a bundle are addresses, not ids of this run. */
			.found = p->capture ? NULL : on_found,
			.released = on_released,
		},
		&no_cache);
	if (no_cache.text[0])
		log_write(LOG_WARN, "no symbol cache", "error", no_cache.text, NULL);
	p->symbolizer = symbolizer_new(
		&(struct symbolizer_options) {
			.binaries = p->binaries,
			.keeper = p->keeper,
			.clock = p->clock,
			.budget = &p->budgets[BUDGET_SYMBOLS],
			.parser_fd = p->setup->parser_fd,
			.sysfs = p->o->sysfs,
			.bell = &p->kernel_bell,
		},
		eb);
	if (!p->symbolizer)
		return -EIO;
	p->procs = proc_table_new(&(struct proc_options) {
		.max_processes = (uint32_t)p->o->max_processes,
		.max_tasks = (uint32_t)p->o->max_tasks,
		.build_ids = p->o->build_id_label,
		.n_pod_labels = p->n_pod_labels,
		.binaries = p->binaries,
		.budget = &p->budgets[BUDGET_PROC],
		.text_budget = &p->budgets[BUDGET_INTERP],
		.lock = &p->intake.lock,
		.interp = p->interp,
		.runs = p->capture ? NULL : p->runs,
	});
	intake_init(&p->intake, p->procs, p->stacks, p->logs, p->binaries);
	p->intake.kernel_code = symbolizer_kernel_code(p->symbolizer);
	p->reader = proc_reader_new(&(struct proc_reader_options) {
		.procfs = p->o->procfs,
		.keeper = p->keeper,
		.binaries = p->binaries,
		.clock = p->sample_clock,
		.table = p->procs,
		.lock = &p->intake.lock,
	});
	p->jit = jit_new(&(struct jit_options) {
		.procs = p->procs,
		.procs_lock = &p->intake.lock,
		.binaries = p->binaries,
		.clock = p->clock,
		.budget = &p->budgets[BUDGET_JIT],
		.attacher_fd = p->setup->attacher_fd,
		.bell = &p->jit_bell,
	});
	build_interp(p);
	if (p->o->kubernetes && p->setup->fetcher_fd > 0)
		p->pods = pods_new(&(struct pods_options) {
			.fetcher_fd = p->setup->fetcher_fd,
			.procs = p->procs,
			.procs_lock = &p->intake.lock,
			.clock = p->clock,
			.budget = &p->budgets[BUDGET_PODS],
			.max_bytes = p->o->kubernetes_bytes,
			.n_values = p->n_pod_labels,
		});
	if (p->o->shadow)
		p->shadow = p->intake.shadow = shadow_new(&(struct shadow_options) {
			.parser_fd = p->setup->parser_fd,
			.binaries = p->binaries,
			.procs = p->procs,
			.clock = p->clock,
			.budget = &p->budgets[BUDGET_HELD],
			.max_cpu = p->o->symbols_max_cpu,
		});
	tables = unwind_loader_tables(p->unwind_loader);
	intake_defer(&p->intake, &tables, &p->budgets[BUDGET_HELD]);
	return 0;
}

static int build_drain(struct exporter_pipeline *p, struct errbuf *eb)
{
	struct governor_options rates = {
		.base_hz = (uint32_t)p->o->frequency_hz,
		.max_hz = (uint32_t)p->o->max_frequency_hz,
		.max_overhead = p->o->max_overhead,
	};

	governor_shares(p->types, rates.shares);
	p->governor = governor_new(&rates);
	if (p->replay)
		return 0;
	p->drain = drain_new(
		&(struct drain_options) {
			.setup = p->setup,
			.clock = p->clock,
			.fs = &fs_system,
			.budget = &p->budgets[BUDGET_HELD],
			.sink = intake_sink(&p->intake),
			.governor = p->governor,
			.procfs = p->o->procfs,
			.sysfs = p->o->sysfs,
			.max_held_bytes = MAX_HELD_BYTES,
			.capture = p->capture,
		},
		eb);
	return p->drain ? 0 : -EIO;
}

static void build_source(struct exporter_pipeline *p)
{
	p->source = (struct profile_source) {
		.lock = &p->intake.lock,
		.tables = {.stacks = p->stacks,
			.procs = p->procs,
			.pod_labels = (const char *const *)p->pod_labels,
			.n_pod_labels = p->n_pod_labels,
			.outcomes = p->intake.outcomes,
			.unwind_loader = p->unwind_loader,
			.deferred = p->intake.deferred,
			.shadow = p->shadow},
		.symbolizer = p->symbolizer,
		.binaries = p->binaries,
		.jit = p->jit,
		.interp_names = p->interp_names,
		.pods = p->pods,
		.reader = p->reader,
		.governor = p->governor,
		.drain_bell = p->drain ? &p->drain_bell : NULL,
		.clock = p->clock,
		.constants = &p->labels,
		.hz = (uint32_t)p->o->frequency_hz,
		.retention_s = (uint32_t)(p->o->retention_ms / 1000),
		.window_s = (uint32_t)(p->o->window_ms / 1000),
		.with_cpu = p->o->cpu_label,
		.fold = fold_of_name(p->o->interp_frames),
	};
	memcpy(p->source.tables.logs, p->logs, sizeof(p->logs));
}

static int build(struct exporter_pipeline *p, struct errbuf *eb)
{
	int r = exporter_options_types(p->o, &p->types, eb);

	if (r < 0)
		return r;
	init_budgets(p);
	r = bell_init(&p->drain_bell, eb);
	if (r == 0)
		r = bell_init(&p->jit_bell, eb);
	if (r == 0)
		r = bell_init(&p->names_bell, eb);
	if (r == 0)
		r = bell_init(&p->kernel_bell, eb);
	if (r == 0)
		r = bell_init(&p->runtimes_bell, eb);
	if (r == 0)
		r = exporter_options_labels(p->o, &p->labels, eb);
	if (r == 0)
		r = exporter_options_pod_labels(p->o, p->pod_labels, eb);
	if (r < 0)
		return r;
	p->n_pod_labels = (uint32_t)(p->o->pod_labels.n + p->o->pod_annotations.n);
	if (p->o->capture && !p->replay) {
		p->capture = capture_open(&fs_system, p->o->capture, CAPTURE_BYTES, eb);
		if (!p->capture)
			return -EIO;
	}
	p->keeper = p->capture ? capture_keeper(p->capture, p->setup->keeper) : p->setup->keeper;
	r = build_logs(p, eb);
	if (r >= 0)
		r = build_kernel_memory(p, eb);
	if (r >= 0)
		r = build_names(p, eb);
	if (r >= 0)
		r = build_drain(p, eb);
	if (r >= 0)
		build_source(p);
	return r;
}

static void pipeline_free(struct exporter_pipeline **pp)
{
	struct exporter_pipeline *p = *pp;

	drain_freep(&p->drain);
	pods_freep(&p->pods);
	jit_freep(&p->jit);
	interp_names_freep(&p->interp_names);
	if (p->procs)
		intake_done(&p->intake);
	shadow_freep(&p->shadow);
	interp_processes_freep(&p->interp_processes);
	governor_freep(&p->governor);
	proc_reader_freep(&p->reader);
	proc_table_freep(&p->procs);
	runs_freep(&p->runs);
	for (int i = 0; i < KEEPER_N_MAPS; i++)
		keeper_memory_unmap(p->setup, i, p->kernel_memory[i]);
	symbolizer_freep(&p->symbolizer);
	binary_registry_freep(&p->binaries);
	unwind_loader_freep(&p->unwind_loader);
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		sample_log_freep(&p->logs[i]);
	stacks_freep(&p->stacks);
	capture_freep(&p->capture);
	replay_freep(&p->replay);
	labels_done(&p->labels);
	for (size_t i = 0; i < ARRAY_SIZE(p->pod_labels); i++)
		free(p->pod_labels[i]);
	bell_done(&p->drain_bell);
	bell_done(&p->jit_bell);
	bell_done(&p->names_bell);
	bell_done(&p->kernel_bell);
	bell_done(&p->runtimes_bell);
	free(p);
	*pp = NULL;
}

static int start_threads(struct exporter_pipeline *p, struct errbuf *eb)
{
	const struct {
		bool is_on;
		struct thread_row row;
	} threads[] = {
		{!p->replay, {"drain", drain_turn, DRAIN_PATIENCE_NS, true}},
		{true, {"symbols", symbol_turn, 0, false}},
		{true, {"symbols", symbol_spare_turn, 0, false}},
		{true, {"symbols", symbol_spare_turn, 0, false}},
		{true, {"symbols", symbol_spare_turn, 0, false}},
		{true, {"reader", reader_turn, READER_PATIENCE_NS, false}},
		{true, {"reader", reader_turn, READER_PATIENCE_NS, false}},
		{true, {"reader", reader_turn, READER_PATIENCE_NS, false}},
		{true, {"reader", reader_turn, READER_PATIENCE_NS, false}},
		{true, {"jit", jit_turn, 0, false}},
		{true, {"names", names_turn, 0, false}},
		{true, {"kernel", kernel_turn, 0, false}},
		{p->pods, {"pods", pods_turn, 0, false}},
		{p->setup->fetcher_fd > 0 && p->o->debuginfod.n, {"fetch", fetch_turn, 0, false}},
		{p->interp_processes, {"runtimes", runtimes_turn, 0, false}},
		{p->shadow, {"shadow", shadow_turn, 0, false}},
	};
	int r = 0;

	p->threads.ctx = p;
	for (size_t i = 0; i < ARRAY_SIZE(threads) && r == 0; i++)
		if (threads[i].is_on)
			r = threads_start(&p->threads, &threads[i].row, eb);
	return r;
}

/* Their number that do not end: what they use must stay. */
static size_t stop_threads(struct exporter_pipeline *p)
{
	threads_stop(&p->threads);
	bell_close(&p->drain_bell);
	bell_close(&p->jit_bell);
	bell_close(&p->names_bell);
	bell_close(&p->kernel_bell);
	bell_close(&p->runtimes_bell);
	proc_reader_stop(p->reader);
	binary_stop(p->binaries);
	if (!p->replay) /* else the caller has more to ask of it */
		parser_stop(p->setup->parser_fd);
	if (p->setup->fetcher_fd > 0)
		fetcher_stop(p->setup->fetcher_fd);
	return threads_join(&p->threads, p->replay ? -1 : END_NS);
}

/* The sink's run with the threads beside it, and its close; a replay has been played by now and needs no drain. */
static int run_threads(
	struct exporter_pipeline *p, const struct exporter_sink *sink, struct errbuf *eb)
{
	int r = start_threads(p, eb);
	size_t n_stuck;

	if (r == 0)
		r = sink->run(sink->ctx);
	n_stuck = stop_threads(p);
	sink->close(sink->ctx);
	if (!n_stuck)
		return r;
	if (r < 0)
		log_write(LOG_ERROR, "ending", "reason", err_text(eb, r), NULL);
	fflush(NULL);
	_exit(r < 0 ? 1 : r);
}

static struct exporter_stages stages_of(struct exporter_pipeline *p)
{
	return (struct exporter_stages) {
		.source = &p->source,
		.drain = p->drain,
		.binaries = p->binaries,
		.setup = p->setup,
		.clock = p->clock,
		.threads = &p->threads,
		.web_budget = &p->budgets[BUDGET_WEB],
		.budgets = p->budget_list,
		.n_budgets = N_BUDGETS,
	};
}

static int run_sink(struct exporter_pipeline *p, const struct exporter_sink *sink,
	const struct exporter_stages *stages, struct errbuf *eb)
{
	int r = sink->open(sink->ctx, stages, eb);

	if (r >= 0)
		return run_threads(p, sink, eb);
	sink->close(sink->ctx);
	return r;
}

static struct exporter_pipeline *pipeline_new(
	const struct exporter_options *o, const struct keeper_setup *setup, bool replay)
{
	struct exporter_pipeline *p = xcalloc(1, sizeof(*p));

	p->o = o;
	p->setup = setup;
	p->clock = &clock_system;
	p->sample_clock = replay ? &p->replay_clock.clock : p->clock;
	p->drain_bell.fd = p->jit_bell.fd = p->names_bell.fd = p->kernel_bell.fd =
		p->runtimes_bell.fd = -1;
	return p;
}

int exporter_pipeline_run(const struct exporter_options *o, const struct keeper_setup *setup,
	const struct exporter_sink *sink, struct errbuf *eb)
{
	_cleanup_(pipeline_free)
	struct exporter_pipeline *p = pipeline_new(o, setup, false);
	struct exporter_stages stages;
	int r = build(p, eb);

	if (r < 0)
		return r;
	stages = stages_of(p);
	return run_sink(p, sink, &stages, eb);
}

int exporter_pipeline_replay(const struct exporter_options *o, const char *bundle, int parser_fd,
	const struct exporter_sink *sink, struct errbuf *eb)
{
	struct keeper_setup setup = {.parser_fd = parser_fd, .fetcher_fd = -1, .attacher_fd = -1};
	_cleanup_(pipeline_free)
	struct exporter_pipeline *p = pipeline_new(o, &setup, true);
	const struct sample_sink samples = intake_sink(&p->intake);
	struct exporter_stages stages;
	int r;

	clock_virtual_init(&p->replay_clock, 0);
	r = replay_open(&fs_system, bundle, &samples, &p->replay_clock, &p->replay, eb);
	if (r < 0)
		return r;
	setup.keeper = replay_keeper(p->replay);
	r = build(p, eb);
	if (r < 0)
		return r;
	while (replay_step(p->replay))
		(void)proc_reader_settle(p->reader);
	intake_flush(&p->intake);
	stages = stages_of(p);
	return run_sink(p, sink, &stages, eb);
}
