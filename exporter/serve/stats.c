/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics of the stages: each asked once a scrape. docs/metrics-exporter.md lists every name; a test compares.
 */
#include "exporter/proc/reader/pods.h"
#include "exporter/profile/build.h"
#include "exporter/serve/internal.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include <inttypes.h>
#include <string.h>

enum { TOP_BINARIES = 50 };

/* One family with one sample. */
static void one(struct metrics_writer *w, enum metric_kind kind, const char *name, const char *help,
	double value)
{
	metrics_write_family(w, kind, name, help);
	metrics_write(w, value, NULL);
}

static void counter(struct metrics_writer *w, const char *name, const char *help, uint64_t value)
{
	one(w, METRIC_COUNTER, name, help, (double)value);
}

static void gauge(struct metrics_writer *w, const char *name, const char *help, double value)
{
	one(w, METRIC_GAUGE, name, help, value);
}

enum { OF_ALL = -1, OF_EACH = -2 }; /* in place of an event */

/* A row of counters.def. */
struct counter_row {
	int event;
	unsigned at; /* enum abi_counter, or enum abi_event_counter of OF_EACH */
	const char *name, *metric, *labels, *text;
};

static const struct counter_row counter_rows[] = {
#define COUNTER(name, metric, labels, text) {OF_ALL, ABI_COUNT_##name, #name, metric, labels, text},
#define COUNTER_OF(event, name, metric, labels, text) \
	{ABI_EVENT_##event, ABI_COUNT_##name, #name, metric, labels, text},
#define EVENT_COUNTER(name, metric, labels, text) \
	{OF_EACH, ABI_EVENT_COUNT_##name, #name, metric, labels, text},
#include "bpf/counters.def"
};

/* Nanoseconds are printed as seconds. */
static double counter_value(const struct counter_row *row, uint64_t value)
{
	return (double)value / (str_ends_with(row->name, "_NS") ? 1e9 : 1);
}

/* With the label of a row of counters.def, `reason="idle"` or "", and that of an event (NULL: none). */
static void write_counter(
	struct metrics_writer *w, const struct counter_row *row, const char *event, uint64_t value)
{
	char name[64], *quote;
	double v = counter_value(row, value);

	snprintf(name, sizeof(name), "%s", row->labels);
	quote = strchr(name, '"');
	if (!quote) {
		metrics_write(w, v, event ? "event" : NULL, event, NULL);
		return;
	}
	quote[-1] = 0; /* the '=' */
	quote[1 + strcspn(quote + 1, "\"")] = 0;
	if (event)
		metrics_write(w, v, "event", event, name, quote + 1, NULL);
	else
		metrics_write(w, v, name, quote + 1, NULL);
}

/* A row, of the events that are on. */
static void write_row(struct metrics_writer *w, const struct profile_source *source,
	const struct counter_row *row, const struct drain_stats *d)
{
	if (row->event == OF_ALL)
		write_counter(w, row, NULL, d->counters[row->at]);
	for (unsigned event = 0; event < ABI_N_EVENTS; event++) {
		const char *name = event_source(event)->name;

		if (!profile_source_is_on(source, event))
			continue;
		if (row->event == OF_EACH)
			write_counter(w, row, name, d->events[event].counters[row->at]);
		else if (row->event == (int)event)
			write_counter(w, row, name, d->counters[row->at]);
	}
}

static bool is_first_of_metric(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(counter_rows[k].metric, counter_rows[i].metric))
			return false;
	return true;
}

/* User space drops samples for reasons of its own. */
static void write_dropped_here(struct metrics_writer *w, const struct profile_source *source,
	const struct drain_stats *d, const struct sample_log_stats *logs)
{
	for (unsigned event = 0; event < ABI_N_EVENTS; event++) {
		const char *name = event_source(event)->name;

		if (!profile_source_is_on(source, event))
			continue;
		metrics_write(w, (double)d->events[event].dropped, "event", name, "reason",
			"held_full", NULL);
		metrics_write(
			w, (double)logs[event].refused, "event", name, "reason", "log_full", NULL);
	}
}

/* The kernel half's counters, by metric. */
static void collect_kernel(struct metrics_writer *w, const struct profile_source *source,
	const struct drain_stats *d, const struct sample_log_stats *logs)
{
	for (size_t i = 0; i < ARRAY_SIZE(counter_rows); i++) {
		const char *metric = counter_rows[i].metric;

		if (!is_first_of_metric(i))
			continue;
		metrics_write_family(w, METRIC_COUNTER, metric, counter_rows[i].text);
		for (size_t k = i; k < ARRAY_SIZE(counter_rows); k++)
			if (!strcmp(counter_rows[k].metric, metric))
				write_row(w, source, &counter_rows[k], d);
		if (!strcmp(metric, "sonde_samples_dropped_total"))
			write_dropped_here(w, source, d, logs);
	}
}

/* Who walks kernel stacks now, and why not the sampler. */
static void collect_kernel_walk(
	struct metrics_writer *w, const struct keeper_setup *setup, const struct drain_stats *d)
{
	static const char *const reasons[KERNEL_WALK_N] = {
		[KERNEL_WALK_ORC] = "",
		[KERNEL_WALK_FLAG] = "flag",
		[KERNEL_WALK_NO_TABLE] = "no_table",
		[KERNEL_WALK_HIDDEN] = "hidden",
		[KERNEL_WALK_LAYOUT] = "layout",
		[KERNEL_WALK_FAILED] = "failed",
	};
	bool differed = false, is_orc;

	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		differed |= d->events[i].counters[ABI_EVENT_COUNT_KERNEL_MISMATCH] > 0;
	is_orc = setup->kernel_walk == KERNEL_WALK_ORC && !differed;

	metrics_write_family(w, METRIC_GAUGE, "sonde_kernel_walk_info",
		"1: who walks kernel stacks, and why not the sampler by the kernel's table.");
	metrics_write(w, 1, "walk", is_orc ? "orc" : "kernel", "reason",
		differed ? "mismatch" : reasons[setup->kernel_walk], NULL);
}

static void collect_drain(struct metrics_writer *w, const struct drain_stats *d)
{
	counter(w, "sonde_drain_samples_total", "Samples handed on by the drain.", d->samples);
	counter(w, "sonde_drain_late_samples_total",
		"Samples older than what had been handed on before them.", d->late_samples);
	counter(w, "sonde_drain_bad_records_total", "Records that do not follow the ABI.",
		d->bad_records);
	counter(w, "sonde_drain_overflowed_total",
		"Records handed on before their hold was over, for want of room.", d->overflowed);
	counter(w, "sonde_drain_rounds_total", "Drains of the rings and side-band buffers.",
		(double)d->rounds);
	counter(w, "sonde_drain_woken_total",
		"Times that the kernel half asked for a drain before it was due.", (double)d->news);
	gauge(w, "sonde_drain_held_bytes", "Records held to be ordered.", (double)d->held_bytes);
	counter(w, "sonde_sideband_records_total",
		"Side-band records (mappings, forks, names, exits) handed on.", d->sideband);
	counter(w, "sonde_sideband_late_total",
		"Side-band records older than what had been handed on before them.",
		d->late_sideband);
	counter(w, "sonde_sideband_lost_total", "Side-band records that the kernel dropped.",
		d->sideband_lost);
	gauge(w, "sonde_cpus_online", "CPUs online.", d->n_online);
	gauge(w, "sonde_cpus_attached", "CPUs being sampled.", d->n_attached);
	counter(w, "sonde_cpu_attached_total", "CPUs attached since start.", d->cpus_attached);
	counter(w, "sonde_cpu_detached_total", "CPUs that went offline.", d->cpus_detached);
	counter(w, "sonde_cpu_attach_failures_total", "Attempts to attach a CPU that failed.",
		d->cpu_attach_failures);
	counter(w, "sonde_cpu_revived_total",
		"CPUs whose ticks had stopped and that were attached again.", d->cpus_revived);
	gauge(w, "sonde_ring_bytes", "Size of all rings.", (double)d->ring_bytes);
	gauge(w, "sonde_ring_used_peak_bytes", "Most that was found in a ring.",
		(double)d->ring_used_peak_bytes);
	counter(w, "sonde_ring_read_bytes_total", "Bytes that came through rings.",
		d->ring_read_bytes);
	gauge(w, "sonde_sampling_coverage_ratio",
		"Sampled CPU time over busy CPU time, last minute; 0 until known.",
		d->coverage_ratio);
	gauge(w, "sonde_sampling_coverage_worst_cpu_ratio", "The same of the worst busy CPU.",
		d->coverage_worst_ratio);
}

enum rate_metric {
	RATE_COST,
	RATE_LIMIT,
	RATE_CPU,
	RATE_HZ,
	RATE_REASON,
	RATE_WANTED,
	RATE_OPEN,
	RATE_STEPS
};

static void write_rate(struct metrics_writer *w, enum rate_metric which, const char *event,
	const struct governor_rate *r, uint64_t rate_ns)
{
	switch (which) {
	case RATE_COST: metrics_write(w, r->rate_ratio, "event", event, NULL); break;
	case RATE_LIMIT: metrics_write(w, r->limit_ratio, "event", event, NULL); break;
	case RATE_CPU: metrics_write(w, (double)rate_ns / 1e9, "event", event, NULL); break;
	case RATE_HZ: metrics_write(w, r->hz, "event", event, NULL); break;
	case RATE_REASON:
		metrics_write(
			w, 1, "event", event, "reason", governor_reason_name(r->reason), NULL);
		break;
	case RATE_WANTED: metrics_write(w, r->wanted_hz, "event", event, NULL); break;
	case RATE_OPEN: metrics_write(w, r->n_requests, "event", event, NULL); break;
	case RATE_STEPS:
		metrics_write(w, (double)r->lowered, "event", event, "direction", "down", NULL);
		metrics_write(w, (double)r->raised, "event", event, "direction", "up", NULL);
		break;
	}
}

/* Of each event that a rate governs. */
static void collect_rates(
	struct metrics_writer *w, const struct governor_stats *g, const struct drain_stats *d)
{
	static const struct {
		const char *name, *help;
		enum metric_kind kind;
		enum rate_metric which;
	} families[] = {
		{"sonde_rate_overhead_ratio",
			"The part of sonde_overhead_ratio that follows the sampling rate.",
			METRIC_GAUGE, RATE_COST},
		{"sonde_rate_overhead_limit_ratio",
			"The event's part of --profile.max-overhead; 0: no limit.", METRIC_GAUGE,
			RATE_LIMIT},
		{"sonde_rate_cpu_seconds_total",
			"CPU time that follows the sampling rate: BPF programs and taking samples "
			"over.",
			METRIC_COUNTER, RATE_CPU},
		{"sonde_profile_frequency_hz", "Sampling rate in force.", METRIC_GAUGE, RATE_HZ},
		{"sonde_profile_frequency_info", "1: why the rate in force is what it is.",
			METRIC_GAUGE, RATE_REASON},
		{"sonde_profile_frequency_wanted_hz",
			"The base rate, or the highest rate asked for by hz=.", METRIC_GAUGE,
			RATE_WANTED},
		{"sonde_profile_frequency_requests", "Open requests with hz=.", METRIC_GAUGE,
			RATE_OPEN},
		{"sonde_profile_frequency_changes_total",
			"Steps taken to keep to --profile.max-overhead.", METRIC_COUNTER,
			RATE_STEPS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		metrics_write_family(w, families[i].kind, families[i].name, families[i].help);
		for (unsigned event = 0; event < ABI_N_EVENTS; event++)
			if (g->events[event].is_governed)
				write_rate(w, families[i].which, event_source(event)->name,
					&g->events[event], d->events[event].rate_ns);
	}
}

static void collect_cost(
	struct metrics_writer *w, const struct serve *s, const struct drain_stats *d)
{
	struct governor_stats g;

	governor_stats(s->o.source->governor, &g);
	metrics_write_family(w, METRIC_COUNTER, "sonde_self_cpu_seconds_total",
		"CPU time of the exporter's processes.");
	metrics_write(w, (double)d->main_cpu_ns / 1e9, "role", "main", NULL);
	metrics_write(w, (double)d->keeper_cpu_ns / 1e9, "role", "keeper", NULL);
	metrics_write(w, (double)d->parser_cpu_ns / 1e9, "role", "parser", NULL);
	if (s->o.setup->fetcher_pid)
		metrics_write(w, (double)d->fetcher_cpu_ns / 1e9, "role", "fetcher", NULL);
	one(w, METRIC_COUNTER, "sonde_bpf_seconds_total",
		"Time in BPF programs, measured in one of 64 runs.", (double)d->bpf_ns / 1e9);
	gauge(w, "sonde_bpf_map_bytes", "Locked memory of all BPF maps.", (double)d->maps_bytes);
	gauge(w, "sonde_overhead_ratio",
		"Own CPU and BPF time over all online CPU time, last minute.", g.overhead_ratio);
	collect_rates(w, &g, d);
	metrics_write_family(w, METRIC_GAUGE, "sonde_capability_missing",
		"1 for what the exporter was not given, and what that costs.");
	for (uint32_t i = 0; i < s->o.setup->n_missing; i++)
		metrics_write(w, 1, "cap", s->o.setup->missing[i].cap, "effect",
			s->o.setup->missing[i].effect, NULL);
}

/* Of all logs together: what is lost in one is an event's own metric. */
static struct sample_log_stats sum_logs(const struct sample_log_stats *logs)
{
	struct sample_log_stats sum = {0};

	for (size_t i = 0; i < ABI_N_EVENTS; i++) {
		sum.appended += logs[i].appended;
		sum.late += logs[i].late;
		sum.refused += logs[i].refused;
		sum.merged_slots += logs[i].merged_slots;
		sum.dropped_slots += logs[i].dropped_slots;
		sum.lost_seconds = MAX(sum.lost_seconds, logs[i].lost_seconds);
		sum.suspended_ns = MAX(sum.suspended_ns, logs[i].suspended_ns);
		sum.rows += logs[i].rows;
		sum.bytes += logs[i].bytes;
		sum.slots += logs[i].slots;
	}
	return sum;
}

void serve_log_stats_locked(
	const struct profile_source *source, struct sample_log_stats ret[ABI_N_EVENTS])
{
	const struct profile_tables *t = &source->tables;

	ASSERT_HELD(source->lock);
	memset(ret, 0, ABI_N_EVENTS * sizeof(*ret));
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		if (t->logs[i])
			sample_log_stats(t->logs[i], &ret[i]);
}

static void collect_log(
	struct metrics_writer *w, const struct sample_log_stats *l, const struct profile_tables *t)
{
	counter(w, "sonde_sample_log_samples_total", "Samples appended to the log.", l->appended);
	counter(w, "sonde_sample_log_late_total",
		"Samples that came after their second had closed and went to the open one.",
		l->late);
	counter(w, "sonde_sample_log_merged_slots_total",
		"Seconds merged into windows for --profile.retention-bytes.", l->merged_slots);
	counter(w, "sonde_sample_log_dropped_slots_total", "Slots dropped by age or size.",
		l->dropped_slots);
	counter(w, "sonde_sample_log_lost_seconds_total",
		"Seconds dropped for --profile.retention-bytes before their time.",
		l->lost_seconds);
	one(w, METRIC_COUNTER, "sonde_suspended_seconds_total", "Time in suspend.",
		(double)l->suspended_ns / 1e9);
	gauge(w, "sonde_sample_log_rows", "Rows in the log.", (double)l->rows);
	gauge(w, "sonde_sample_log_bytes", "Bytes of the log's columns.", (double)l->bytes);
	gauge(w, "sonde_sample_log_slots", "Slots in the log.", (double)l->slots);
	counter(w, "sonde_stacks_refused_total",
		"Samples counted without their stack, for want of room in the tree.",
		stacks_refused(t->stacks));
	gauge(w, "sonde_stack_nodes", "Nodes of the prefix tree of stacks.",
		stacks_count(t->stacks));
	gauge(w, "sonde_stack_bytes", "Bytes of the prefix tree of stacks.",
		(double)stacks_bytes(t->stacks));
}

static void collect_proc(struct metrics_writer *w, const struct proc_stats *p)
{
	gauge(w, "sonde_process_tracked", "Processes known, exited ones with samples included.",
		(double)p->tracked);
	counter(w, "sonde_process_created_total", "Process images seen.", p->created);
	counter(w, "sonde_process_exited_total", "Processes that exited.", p->exited);
	counter(w, "sonde_process_recycled_total", "Pids that came back as another process.",
		p->recycled);
	gauge(w, "sonde_process_mappings", "Executable mappings known.", (double)p->mappings);
	gauge(w, "sonde_process_tasks", "Tasks (process, thread, name) that samples refer to.",
		(double)p->tasks);
	gauge(w, "sonde_process_addresses", "Interned addresses outside files.",
		(double)p->addresses);
	gauge(w, "sonde_jit_waiting_addresses", "Addresses outside files without a name.",
		(double)p->code_waiting);
	gauge(w, "sonde_interp_waiting", "Functions of language runtimes that wait for a name.",
		(double)p->objects_waiting);
	counter(w, "sonde_interp_unknown_frames_total",
		"Frames of language runtimes whose function the kernel half has not described.",
		p->objects_unknown);
	gauge(w, "sonde_interp_name_bytes", "Memory of names and lines of language runtimes.",
		(double)p->text_bytes);
	counter(w, "sonde_process_maps_reads_total", "Readings of /proc/PID/maps.", p->maps_reads);
	counter(w, "sonde_process_maps_read_failures_total",
		"Readings of /proc/PID/maps that failed.", p->maps_read_failed);
	counter(w, "sonde_process_labels_reads_total", "Processes whose labels were read.",
		p->labels_read);
	counter(w, "sonde_process_labels_read_failures_total",
		"Processes that were gone before their labels were read.", p->labels_unread);
	gauge(w, "sonde_process_asks_open", "Questions about processes without an answer yet.",
		(double)p->asks_open);
	counter(w, "sonde_process_unread_addresses_total",
		"Addresses of samples that went on before their process's mappings were read.",
		p->addresses_unread);
	counter(w, "sonde_process_addresses_read_late_total",
		"Those of them found in files when the mappings came.", p->addresses_read);
	metrics_write_family(w, METRIC_COUNTER, "sonde_container_lookups_total",
		"Looks into the files of container runtimes, by what they gave.");
	metrics_write(w, (double)p->containers_found, "result", "found", NULL);
	metrics_write(w, (double)p->containers_missed, "result", "missed", NULL);
	counter(w, "sonde_process_unmapped_returns_total",
		"Stacks cut at a return address that lies in no executable mapping.",
		p->unmapped_returns);
	metrics_write_family(w, METRIC_COUNTER, "sonde_process_table_full_total",
		"Times that a table was full and samples lost detail.");
	metrics_write(w, (double)p->table_full, "table", "processes", NULL);
	metrics_write(w, (double)p->tasks_full, "table", "tasks", NULL);
	metrics_write(w, (double)p->addresses_full, "table", "addresses", NULL);
	metrics_write(w, (double)p->unpublished_maps, "table", "kernel_mappings", NULL);
	metrics_write(w, (double)p->unpublished_heads, "table", "kernel_processes", NULL);
	gauge(w, "sonde_process_kernel_mappings_bytes", "Mappings in kernel memory.",
		(double)p->published_bytes);
	gauge(w, "sonde_process_kernel_mappings_capacity_bytes", "Room for them.",
		(double)p->published_capacity_bytes);
}

/* Files of one path (in containers, say) are one series. */
static void write_unnamed(struct metrics_writer *w, struct binary_registry *registry)
{
	struct binary_unnamed top[TOP_BINARIES];
	size_t n = binary_top_unnamed(registry, top, ARRAY_SIZE(top));

	metrics_write_family(w, METRIC_COUNTER, "sonde_unsymbolized_frames_total",
		"Frames without a name, the 50 binaries with most of them.");
	for (size_t i = 0; i < n; i++) {
		size_t first = 0;

		while (strcmp(top[first].path, top[i].path) != 0)
			first++;
		if (first < i)
			top[first].frames += top[i].frames;
	}
	for (size_t i = 0; i < n; i++) {
		size_t first = 0;

		while (strcmp(top[first].path, top[i].path) != 0)
			first++;
		if (first == i)
			metrics_write(w, (double)top[i].frames, "binary", top[i].path, NULL);
	}
}

static void write_fetches(struct metrics_writer *w, const struct binary_stats *b)
{
	static const char *const results[FETCHER_N_STATUS] = {
		[FETCHER_OK] = "found",
		[FETCHER_NOT_FOUND] = "not_found",
		[FETCHER_TOO_LARGE] = "too_large",
		[FETCHER_TIMEOUT] = "timeout",
		[FETCHER_ERROR] = "error",
		[FETCHER_FAILED] = "failed",
	};

	metrics_write_family(w, METRIC_COUNTER, "sonde_debuginfod_requests_total",
		"Debug files asked of the servers of --symbols.debuginfod.");
	for (size_t i = 0; i < FETCHER_N_STATUS; i++)
		metrics_write(w, (double)b->fetched[i], "result", results[i], NULL);
	metrics_write(w, (double)b->fetch_skipped, "result", "asked_lately", NULL);
	metrics_write(w, (double)b->fetch_queue_full, "result", "queue_full", NULL);
}

static void collect_binary(struct metrics_writer *w, struct binary_registry *registry)
{
	static const char *const results[BINARY_N_DEBUG] = {
		[BINARY_DEBUG_USED] = "used",
		[BINARY_DEBUG_MISMATCH] = "mismatch",
		[BINARY_DEBUG_LINKED] = "linked",
		[BINARY_DEBUG_LACKING] = "lacking",
	};
	struct binary_stats b;

	binary_stats(registry, &b);
	gauge(w, "sonde_binaries", "Binary ids in use.", (double)b.binaries);
	gauge(w, "sonde_binary_contents", "Different contents among them.", (double)b.contents);
	counter(w, "sonde_binary_table_full_total", "Binaries that got no id.", b.table_full);
	metrics_write_family(w, METRIC_COUNTER, "sonde_symbol_files_total",
		"Symbol files by where they came from.");
	metrics_write(w, (double)b.compiled, "source", "compiled", NULL);
	metrics_write(w, (double)b.shared, "source", "same_content", NULL);
	metrics_write(w, (double)b.cache_hits, "source", "cache", NULL);
	counter(w, "sonde_unwind_rows_first_total",
		"Binaries whose unwind rows were made before their names.", b.rows_first);
	metrics_write_family(w, METRIC_COUNTER, "sonde_symbol_file_failures_total",
		"Symbol files that could not be had.");
	for (int i = PARSER_OK + 1; i < PARSER_N_STATUS; i++)
		metrics_write(w, (double)b.parse_failed[i], "reason", parser_status_name(i), NULL);
	metrics_write(w, (double)b.open_failed, "reason", "open", NULL);
	metrics_write(w, (double)b.open_hung, "reason", "hangs", NULL);
	metrics_write(w, (double)b.invalid, "reason", "invalid", NULL);
	metrics_write(w, (double)b.skipped, "reason", "failed_lately", NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_debug_files_total",
		"Files with debug information of others, by what became of them.");
	for (size_t i = 0; i < BINARY_N_DEBUG; i++)
		metrics_write(w, (double)b.debug_files[i], "result", results[i], NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_debug_information_left_out_total",
		"Debug information that gives no lines: malformed parts, and files with more than "
		"the "
		"parser may use.");
	metrics_write(w, (double)b.debug_left_out, "reason", "malformed", NULL);
	metrics_write(w, (double)b.debug_failed, "reason", "too_large", NULL);
	write_fetches(w, &b);
	metrics_write_family(w, METRIC_COUNTER, "sonde_symbol_cache_events_total",
		"What happened in --symbols.cache-path.");
	metrics_write(w, (double)b.cache_corrupt, "event", "corrupt", NULL);
	metrics_write(w, (double)b.cache_evicted, "event", "evicted", NULL);
	metrics_write(w, (double)b.cache_write_failed, "event", "write_failed", NULL);
	metrics_write(w, (double)b.cache_no_room, "event", "no_room", NULL);
	gauge(w, "sonde_symbol_bytes", "Mapped symbol files.", (double)b.symbol_bytes);
	gauge(w, "sonde_symbol_cache_bytes", "Symbol files on disk.", (double)b.cache_bytes);
	gauge(w, "sonde_symbol_queue_length", "Binaries waiting for the parser.", (double)b.queued);
	one(w, METRIC_COUNTER, "sonde_symbols_cpu_seconds_total",
		"CPU time of the parser's children.", (double)b.cpu_ns / 1e9);
	write_unnamed(w, registry);
}

static const char *const attach_results[ATTACH_N_STATUS] = {
	[ATTACH_OK] = "ok",
	[ATTACH_GONE] = "gone",
	[ATTACH_NO_JVM] = "no_jvm",
	[ATTACH_DENIED] = "denied",
	[ATTACH_TIMEOUT] = "timeout",
	[ATTACH_REFUSED] = "refused",
};

static void collect_jit(struct metrics_writer *w, struct jit *jit)
{
	static const char *const reasons[JIT_N_REFUSED] = {
		[JIT_REFUSED_OWNER] = "owner",
		[JIT_REFUSED_MALFORMED] = "malformed",
		[JIT_REFUSED_SIZE] = "size",
		[JIT_REFUSED_MEMORY] = "memory",
		[JIT_REFUSED_READ] = "read",
	};
	struct jit_stats j;

	jit_stats(jit, &j);
	gauge(w, "sonde_jit_processes", "Processes whose JIT code was looked for.",
		(double)j.processes);
	gauge(w, "sonde_jit_codes", "Pieces of JIT code known.", (double)j.codes);
	counter(w, "sonde_jit_named_addresses_total", "Addresses in JIT code that got a name.",
		j.named);
	counter(w, "sonde_jit_retired_addresses_total",
		"Addresses at which other code has come to lie.", j.retired);
	metrics_write_family(w, METRIC_COUNTER, "sonde_jit_reads_total",
		"Readings of files with JIT code that had news.");
	metrics_write(w, (double)j.map_reads, "kind", "perf_map", NULL);
	metrics_write(w, (double)j.dump_reads, "kind", "jitdump", NULL);
	counter(w, "sonde_jit_bad_lines_total", "Lines and records of such files that say nothing.",
		j.bad_lines);
	counter(w, "sonde_jit_dropped_codes_total",
		"Pieces of JIT code dropped, the oldest first, above the cap of a process.",
		j.dropped);
	counter(w, "sonde_jit_evicted_processes_total",
		"Processes whose JIT code was forgotten for --jit.max-bytes.", j.evicted);
	metrics_write_family(w, METRIC_COUNTER, "sonde_jit_java_perfmaps_total",
		"JVMs asked for their perf maps, by how it ended.");
	for (size_t i = 0; i < ATTACH_N_STATUS; i++)
		metrics_write(w, (double)j.attached[i], "result", attach_results[i], NULL);
	metrics_write(w, (double)j.attach_busy, "result", "busy", NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_jit_files_refused_total",
		"Files with JIT code that were not read, or not to their end.");
	for (size_t i = 0; i < JIT_N_REFUSED; i++)
		metrics_write(w, (double)j.refused[i], "reason", reasons[i], NULL);
}

static void collect_interp_names(struct metrics_writer *w, struct interp_names *names)
{
	struct interp_names_stats n;

	interp_names_stats(names, &n);
	metrics_write_family(w, METRIC_COUNTER, "sonde_interp_names_total",
		"Functions of language runtimes whose names were read, by how that ended.");
	for (uint32_t kind = RUNTIME_NONE; kind < N_RUNTIMES; kind++)
		for (unsigned r = 0; r < INTERP_N_NAME_RESULTS; r++)
			if (kind != RUNTIME_NONE || n.results[kind][r])
				metrics_write(w, (double)n.results[kind][r], "runtime",
					kind ? runtime_name(kind) : "unknown", "result",
					interp_name_result_text(r), NULL);
	counter(w, "sonde_interp_copies_total", "Copies of memory asked of processes for names.",
		n.copies);
	counter(w, "sonde_interp_copied_bytes_total", "Bytes of these.", n.copied_bytes);
	counter(w, "sonde_interp_frames_elided_total",
		"Inlined frames left out of an address in machine code that has too many.",
		n.frames_elided);
}

static void collect_pods(struct metrics_writer *w, struct pods *pods)
{
	static const char *const reasons[FETCHER_N_PODS_STATUS] = {
		[FETCHER_PODS_DENIED] = "denied",
		[FETCHER_PODS_TOO_LARGE] = "too_large",
		[FETCHER_PODS_TIMEOUT] = "timeout",
		[FETCHER_PODS_MALFORMED] = "malformed",
		[FETCHER_PODS_ERROR] = "error",
	};
	struct pods_stats p;

	pods_stats(pods, &p);
	gauge(w, "sonde_kubernetes_pods", "Pods of this node that are known.", (double)p.pods);
	gauge(w, "sonde_kubernetes_containers", "Containers of them.", (double)p.containers);
	gauge(w, "sonde_kubernetes_up", "1 when the last that came from the server was no failure.",
		p.works);
	one(w, METRIC_GAUGE, "sonde_kubernetes_last_update_timestamp_seconds",
		"When pods changed last; 0: not yet.", (double)p.updated_ns / 1e9);
	counter(w, "sonde_kubernetes_updates_total", "Changes of pods taken over.", p.updates);
	counter(w, "sonde_kubernetes_left_out_values_total",
		"Names and values of labels and annotations that are too long.", p.left_out);
	metrics_write_family(w, METRIC_COUNTER, "sonde_kubernetes_failures_total",
		"Times that pods could not be had; those known before stay.");
	for (size_t i = 1; i < ARRAY_SIZE(reasons); i++)
		metrics_write(w, (double)p.failures[i], "reason", reasons[i], NULL);
}

static void collect_symbolizer(struct metrics_writer *w, struct symbolizer *symbolizer)
{
	struct symbolizer_stats y;

	symbolizer_stats(symbolizer, &y);
	metrics_write_family(w, METRIC_COUNTER, "sonde_symbolized_frames_total",
		"Frames that responses asked names for.");
	metrics_write(w, (double)y.frames_named, "result", "named", NULL);
	metrics_write(w, (double)y.frames_unnamed, "result", "unnamed", NULL);
	metrics_write_family(
		w, METRIC_COUNTER, "sonde_demangled_names_total", "Names passed to the demangler.");
	metrics_write(w, (double)y.demangled, "result", "ok", NULL);
	metrics_write(w, (double)y.demangle_failed, "result", "failed", NULL);
	gauge(w, "sonde_demangle_cache_bytes", "Cache of demangled names.",
		(double)y.demangle_cache_bytes);
	gauge(w, "sonde_kernel_symbols", "Kernel symbols known.", (double)y.kernel_symbols);
	gauge(w, "sonde_kernel_symbol_bytes", "Memory of kernel symbols.", (double)y.kernel_bytes);
	counter(w, "sonde_kallsyms_reads_total", "Readings of /proc/kallsyms.", y.kernel_reads);
	counter(w, "sonde_kernel_code_records_total",
		"Records of code that the kernel made or dropped, such as BPF programs.",
		y.kernel_code_records);
	gauge(w, "sonde_kallsyms_available", "0: kernel frames have addresses only.",
		y.kallsyms_available);
}

void serve_put_health(struct http_request *r, const struct serve *s, enum abi_event event)
{
	struct sample_log_stats l;
	struct governor_stats g;
	struct drain_stats d;
	const struct governor_rate *rate;
	char text[384], why[GOVERNOR_TEXT_BYTES];
	int n = 0;

	drain_stats(s->o.drain, &d);
	governor_stats(s->o.source->governor, &g);
	lock_take(s->o.source->lock);
	sample_log_stats(s->o.source->tables.logs[event], &l);
	lock_release(s->o.source->lock);
	rate = &g.events[event];
	n = snprintf(text, sizeof(text), "overhead=%.6f", g.overhead_ratio);
	if (rate->is_governed)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", hz=%u, wanted_hz=%u", rate->hz,
			rate->wanted_hz);
	n += snprintf(text + n, sizeof(text) - (size_t)n,
		", samples=%" PRIu64 ", ring_full=%" PRIu64 ", scratch_busy=%" PRIu64
		", held_full=%" PRIu64 ", log_full=%" PRIu64,
		d.events[event].samples, d.events[event].counters[ABI_EVENT_COUNT_RING_FULL],
		d.events[event].counters[ABI_EVENT_COUNT_SCRATCH_BUSY], d.events[event].dropped,
		l.refused);
	if (d.n_online) /* of both, 0: not known yet */
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", cpus=%u", d.n_online);
	if (event_source(event)->is_clock && d.coverage_ratio > 0)
		snprintf(text + n, sizeof(text) - (size_t)n, ", coverage=%.4f", d.coverage_ratio);
	http_reply_header(r, "Sonde-Health", text);
	if (!rate->is_governed)
		return;
	governor_describe(rate, why, sizeof(why));
	http_reply_header(r, "Sonde-Rate", why);
}

static void collect(struct metrics_writer *w, void *arg)
{
	const struct serve *s = arg;
	const struct profile_tables *t = &s->o.source->tables;
	struct sample_log_stats logs[ABI_N_EVENTS], l;
	struct proc_stats p;
	struct drain_stats d;

	drain_stats(s->o.drain, &d);
	lock_take(s->o.source->lock);
	serve_log_stats_locked(s->o.source, logs);
	l = sum_logs(logs);
	proc_table_stats(t->procs, &p);
	collect_log(w, &l, t);
	serve_collect_stacks_locked(w, s);
	lock_release(s->o.source->lock);
	collect_kernel(w, s->o.source, &d, logs);
	collect_kernel_walk(w, s->o.setup, &d);
	collect_drain(w, &d);
	collect_cost(w, s, &d);
	collect_proc(w, &p);
	serve_collect_runtimes(w, &p);
	serve_collect_reads(w, s);
	collect_binary(w, s->o.binaries);
	collect_symbolizer(w, s->o.source->symbolizer);
	if (s->o.source->jit)
		collect_jit(w, s->o.source->jit);
	if (s->o.source->interp_names)
		collect_interp_names(w, s->o.source->interp_names);
	if (s->o.source->pods)
		collect_pods(w, s->o.source->pods);
}

void serve_add_metrics(struct serve *s)
{
	metrics_add_process(s->metrics, "sonde_exporter_build_info", version_number(), s->o.clock);
	metrics_add_budgets(s->metrics, s->o.budgets, s->o.n_budgets);
	s->profiles = metrics_counter(s->metrics, "sonde_profiles_served_total",
		"Profiles answered, by format.", "format");
	s->shortened = metrics_counter(s->metrics, "sonde_profiles_shortened_total",
		"Answers to since= with fewer seconds than asked for, as --web.max-bytes left no "
		"room for more.",
		NULL);
	metrics_add_collector(s->metrics, collect, s);
}
