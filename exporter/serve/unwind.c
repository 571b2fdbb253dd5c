/* SPDX-License-Identifier: Apache-2.0
 *
 * /unwind: for each binary and process how many stacks were whole, and why the others were not; the same as metrics.
 */
#include "exporter/walk/deferred.h"
#include "exporter/profile/build.h"
#include "exporter/sample/outcomes.h"
#include "exporter/serve/internal.h"
#include "exporter/walk/shadow.h"
#include "exporter/walk/unwind_loader.h"
#include "lib/base/alloc.h"
#include "lib/render/render.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_ROWS = 200, TOP_BINARIES = 50 };

/* A row of the page: copied under the lock. */
struct place {
	struct outcome o;
	struct binary_info info; /* of binaries */
};

static uint64_t n_cut(const struct outcome *o)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < ABI_N_CUTS; i++)
		n += o->cut[i];
	return n;
}

static int most_cut_first(const void *a, const void *b)
{
	const struct outcome *x = &((const struct place *)a)->o, *y = &((const struct place *)b)->o;
	uint64_t p = n_cut(x), q = n_cut(y);

	if (p != q)
		return p > q ? -1 : 1;
	return (x->stacks < y->stacks) - (x->stacks > y->stacks);
}

typedef const struct outcome *row_fn(const struct outcomes *o, uint32_t i);

/* The rows, those with most stacks cut first. The lock is held. */
static struct place *copy_rows(const struct outcomes *o, row_fn *row, size_t *ret_n)
{
	struct place *rows;
	uint32_t n = 0;

	while (row(o, n))
		n++;
	rows = xcalloc(n + 1, sizeof(*rows));
	for (uint32_t i = 0; i < n; i++)
		rows[i].o = *row(o, i);
	qsort(rows, n, sizeof(*rows), most_cut_first);
	*ret_n = n;
	return rows;
}

static const char *reason_text(uint32_t cut)
{
	static const char *const texts[] = {
#define CUT(name, text) text,
#include "bpf/counters.def"
	};

	return texts[cut];
}

/* "fp_insane" of "truncated:fp_insane". */
static const char *reason_name(uint32_t cut, char buf[48])
{
	const char *colon;

	profile_stack_label(cut, buf);
	colon = strchr(buf, ':');
	return colon ? colon + 1 : buf;
}

static void get_total(const struct serve *s, enum abi_event event, uint64_t ret[ABI_N_CUTS])
{
	memset(ret, 0, ABI_N_CUTS * sizeof(*ret));
	if (s->o.source->tables.outcomes)
		outcomes_total(s->o.source->tables.outcomes, event, ret);
}

struct totals {
	uint64_t count[ABI_N_EVENTS][ABI_N_CUTS], all[ABI_N_EVENTS];
};

static void get_totals(const struct serve *s, struct totals *ret)
{
	*ret = (struct totals) {.all = {0}};
	lock_take(s->o.source->lock);
	for (unsigned event = 0; event < ABI_N_EVENTS; event++)
		get_total(s, event, ret->count[event]);
	lock_release(s->o.source->lock);
	for (unsigned event = 0; event < ABI_N_EVENTS; event++)
		for (size_t i = 0; i < ABI_N_CUTS; i++)
			ret->all[event] += ret->count[event][i];
}

/* A row of the table, with two columns for each event that is on; nothing when no stack ended so. */
static void put_ending(struct bytes *out, const struct serve *s, const struct totals *t, uint32_t i)
{
	uint64_t n = 0;
	char label[48];

	for (unsigned event = 0; event < ABI_N_EVENTS; event++)
		n += t->count[event][i];
	if (!n)
		return;
	profile_stack_label(i, label);
	bytes_printf(out, "<tr><td>%s</td>", label);
	for (unsigned event = 0; event < ABI_N_EVENTS; event++)
		if (profile_source_is_on(s->o.source, event))
			bytes_printf(out,
				"<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%.1f %%</td>",
				t->count[event][i],
				100 * (double)t->count[event][i] /
					(double)MAX(t->all[event], 1ULL));
	bytes_put_str(out, "<td>");
	render_escape_str(out, reason_text(i));
	bytes_put_str(out, "</td></tr>\n");
}

void serve_put_stacks(const struct serve *s, struct bytes *out)
{
	struct totals t;

	get_totals(s, &t);
	bytes_put_str(out, "<h2>User stacks by how they end</h2>\n<table>\n<tr><th>stack</th>");
	for (unsigned event = 0; event < ABI_N_EVENTS; event++)
		if (profile_source_is_on(s->o.source, event))
			bytes_printf(out, "<th>%s</th><th></th>", event_source(event)->name);
	bytes_put_str(out, "<th></th></tr>\n");
	for (uint32_t i = 0; i < ABI_N_CUTS; i++)
		put_ending(out, s, &t, i);
	bytes_put_str(out, "</table>\n");
}

static void put_counts(struct bytes *out, uint64_t stacks, uint64_t whole)
{
	bytes_printf(out, "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%.1f %%</td><td>",
		stacks, 100 * (double)whole / (double)MAX(stacks, 1));
}

static void put_reasons(struct bytes *out, const struct outcome *o)
{
	const char *before = "";
	char buf[48];

	for (uint32_t i = 1; i < ABI_N_CUTS; i++) {
		if (!o->cut[i])
			continue;
		bytes_printf(out, "%s%s %" PRIu64, before, reason_name(i, buf), o->cut[i]);
		before = ", ";
	}
	bytes_put_str(out, "</td></tr>\n");
}

static void put_head(struct bytes *out, const char *title, const char *columns)
{
	bytes_printf(out, "<h2>%s</h2>\n<table>\n<tr>%s</tr>\n", title, columns);
}

/* Of the type that programs, binaries and processes are counted for. */
static const char *counted_type(const struct serve *s)
{
	const struct outcomes *o = s->o.source->tables.outcomes;

	return event_source(o ? outcomes_event(o) : ABI_EVENT_CPU)->name;
}

static void put_programs(struct bytes *out, const char *type, const struct place *rows, size_t n)
{
	char title[EVENT_NAME_MAX + 32];

	snprintf(title, sizeof(title), "By program, stacks of %s", type);
	put_head(out, title, "<th>name</th><th>stacks</th><th>whole</th><th>cut, by reason</th>");
	for (size_t i = 0; i < MIN(n, (size_t)MAX_ROWS); i++) {
		if (!rows[i].o.stacks)
			continue;
		bytes_put_str(out, "<tr><td>");
		render_escape_str(out, rows[i].o.comm);
		put_counts(out, rows[i].o.stacks, rows[i].o.stacks - n_cut(&rows[i].o));
		put_reasons(out, &rows[i].o);
	}
	bytes_put_str(out, "</table>\n");
}

static void put_binaries(struct bytes *out, const char *type, const struct place *rows, size_t n)
{
	char title[EVENT_NAME_MAX + 96];

	snprintf(title, sizeof(title),
		"By binary: stacks of %s with a frame in it, and those that were cut at one", type);
	put_head(out, title,
		"<th>file</th><th>stacks</th><th>whole</th><th>cut here, by reason</th>");
	for (size_t i = 0; i < MIN(n, (size_t)MAX_ROWS); i++) {
		bytes_put_str(out, "<tr><td>");
		render_escape_str(out, rows[i].info.path);
		put_counts(out, rows[i].o.stacks, rows[i].o.stacks - n_cut(&rows[i].o));
		put_reasons(out, &rows[i].o);
	}
	bytes_put_str(out, "</table>\n");
}

/* The lock is held. */
static void put_processes(struct bytes *out, const char *type, const struct proc_table *procs)
{
	char title[EVENT_NAME_MAX + 32];
	_cleanup_free_ struct proc_stacks *rows = xcalloc(MAX_ROWS, sizeof(*rows));
	size_t n = proc_top_stacks(procs, rows, MAX_ROWS);

	snprintf(title, sizeof(title), "By process, stacks of %s", type);
	put_head(out, title,
		"<th>pid</th><th>name</th><th>executable</th><th>stacks</th><th>whole</th><th>last "
		"cut</th>");
	for (size_t i = 0; i < n; i++) {
		char buf[48];

		bytes_printf(out, "<tr><td class=\"n\">%" PRIu32 "</td><td>", rows[i].pid);
		render_escape_str(out, rows[i].comm);
		bytes_put_str(out, "</td><td>");
		render_escape_str(out, rows[i].executable);
		put_counts(out, rows[i].whole + rows[i].cut, rows[i].whole);
		bytes_printf(out, "%s%s</td></tr>\n",
			rows[i].last_cut ? reason_name(rows[i].last_cut, buf) : "",
			rows[i].exited ? " (ended)" : "");
	}
	bytes_put_str(out, "</table>\n");
}

static void put_chain(struct bytes *out, const char *text)
{
	bytes_put_str(out, "</td><td><pre>");
	render_escape_str(out, text);
	bytes_put_str(out, "</pre>");
}

static void put_mismatches(struct bytes *out, struct shadow *shadow)
{
	_cleanup_free_ struct shadow_mismatch *rows = xcalloc(SHADOW_N_MISMATCHES, sizeof(*rows));
	size_t n = shadow_mismatches(shadow, rows);

	if (!n)
		return;
	put_head(out, "The last that came out different",
		"<th>pid</th><th>name</th><th>below</th><th>here</th><th>elfutils</th>");
	for (size_t i = 0; i < n; i++) {
		bytes_printf(out, "<tr><td class=\"n\">%" PRIu32 "</td><td>", rows[i].pid);
		render_escape_str(out, rows[i].comm);
		bytes_printf(out, "</td><td>frame %" PRIu32 ", ", rows[i].frame);
		render_escape_str(out, rows[i].module);
		bytes_printf(out, "%s0x%" PRIx64, *rows[i].module ? "+" : "", rows[i].addr);
		put_chain(out, rows[i].ours);
		put_chain(out, rows[i].theirs);
		bytes_put_str(out, "</td></tr>\n");
	}
	bytes_put_str(out, "</table>\n");
}

static const char *const shadow_results[SHADOW_N_RESULTS] = {
	[SHADOW_MATCH] = "match",
	[SHADOW_MISMATCH] = "mismatch",
	[SHADOW_UNKNOWN] = "unknown",
	[SHADOW_CUT] = "cut",
};

static const char *const shadow_unknowns[SHADOW_N_UNKNOWNS] = {
	[SHADOW_NO_ANSWER] = "no_answer",
	[SHADOW_UNMAPPED] = "unmapped",
	[SHADOW_JIT] = "jit",
	[SHADOW_NO_FILE] = "no_file",
	[SHADOW_NO_ROWS] = "no_rows",
	[SHADOW_COPY] = "copy",
	[SHADOW_OTHER_STACK] = "other_stack",
	[SHADOW_ASTRAY] = "astray",
	[SHADOW_FAILED] = "failed",
};

static void put_shadow(struct bytes *out, struct shadow *shadow)
{
	struct shadow_stats st;

	if (!shadow)
		return;
	shadow_stats(shadow, &st);
	put_head(out, "Stacks walked a second time, by elfutils", "<th>result</th><th>stacks</th>");
	for (size_t i = 0; i < SHADOW_N_RESULTS; i++)
		bytes_printf(out, "<tr><td>%s</td><td class=\"n\">%" PRIu64 "</td></tr>\n",
			shadow_results[i], st.results[i]);
	for (size_t i = 0; i < SHADOW_N_UNKNOWNS; i++)
		if (st.unknown[i])
			bytes_printf(out,
				"<tr><td>unknown: %s</td><td class=\"n\">%" PRIu64 "</td></tr>\n",
				shadow_unknowns[i], st.unknown[i]);
	bytes_put_str(out, "</table>\n");
	put_mismatches(out, shadow);
}

void serve_unwind(struct http_request *r, void *arg)
{
	const struct serve *s = arg;
	const struct profile_tables *t = &s->o.source->tables;
	_cleanup_free_ struct place *programs = NULL, *binaries = NULL;
	size_t n_programs = 0, n_binaries = 0;
	struct bytes out;

	bytes_init(&out, s->o.budget, 0);
	serve_page_begin(&out, "How stacks end");
	serve_put_stacks(s, &out);
	put_shadow(&out, t->shadow);
	lock_take(s->o.source->lock);
	if (t->outcomes) {
		programs = copy_rows(t->outcomes, outcomes_program, &n_programs);
		binaries = copy_rows(t->outcomes, outcomes_binary, &n_binaries);
		put_processes(&out, counted_type(s), t->procs);
	}
	lock_release(s->o.source->lock);
	for (size_t i = 0; i < MIN(n_binaries, (size_t)MAX_ROWS); i++)
		binary_info(s->o.binaries, binaries[i].o.binary, &binaries[i].info);
	serve_put_runtimes(s, &out);
	put_programs(&out, counted_type(s), programs, n_programs);
	put_binaries(&out, counted_type(s), binaries, n_binaries);
	serve_put_hanging(s, &out);
	serve_page_end(&out);
	http_reply_bytes(r, 200, SERVE_PAGE_TYPE, &out);
}

/* Files of one path are one series. */
static void write_cut_binaries(struct metrics_writer *w, const struct serve *s)
{
	_cleanup_free_ struct place *rows = NULL;
	size_t n = 0;

	if (s->o.source->tables.outcomes)
		rows = copy_rows(s->o.source->tables.outcomes, outcomes_binary, &n);
	n = MIN(n, (size_t)TOP_BINARIES);
	metrics_write_family(w, METRIC_COUNTER, "sonde_truncated_by_binary_total",
		"Stacks cut at a frame in a binary, the 50 binaries with most of them.");
	for (size_t i = 0; i < n; i++) {
		size_t first = 0;

		binary_info(s->o.binaries, rows[i].o.binary, &rows[i].info);
		while (strcmp(rows[first].info.path, rows[i].info.path) != 0)
			first++;
		for (uint32_t k = 0; first < i && k < ABI_N_CUTS; k++) {
			rows[first].o.cut[k] += rows[i].o.cut[k];
			rows[i].o.cut[k] = 0;
		}
	}
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 1; k < ABI_N_CUTS; k++) {
			char buf[48];

			if (rows[i].o.cut[k])
				metrics_write(w, (double)rows[i].o.cut[k], "event", counted_type(s),
					"binary", rows[i].info.path, "reason", reason_name(k, buf),
					NULL);
		}
}

static void write_deferred(struct metrics_writer *w, const struct deferred *d)
{
	struct deferred_stats st = {.waiting = 0};

	if (d)
		deferred_stats(d, &st);
	metrics_write_family(w, METRIC_COUNTER, "sonde_deferred_stacks_total",
		"Stacks walked in user space, by what became of them.");
	metrics_write(w, (double)st.whole, "result", "whole", NULL);
	metrics_write(w, (double)st.cut, "result", "cut", NULL);
	metrics_write(w, (double)st.given_up, "result", "given_up", NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_deferred_unread_samples_total",
		"Samples that went on before their process was read: that took too long.");
	metrics_write(w, (double)st.unread, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_deferred_no_room_total",
		"Samples that could not wait, for want of memory.");
	metrics_write(w, (double)st.no_room, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_deferred_waiting",
		"Samples that wait for their process to be read, or for unwind tables.");
	metrics_write(w, (double)st.waiting, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_deferred_waiting_bytes", "Their memory.");
	metrics_write(w, (double)st.waiting_bytes, NULL);
}

static void write_one(struct metrics_writer *w, enum metric_kind kind, const char *name,
	const char *help, uint64_t value)
{
	metrics_write_family(w, kind, name, help);
	metrics_write(w, (double)value, NULL);
}

static void write_tables(struct metrics_writer *w, struct unwind_loader *u)
{
	struct unwind_loader_stats st = {.files = {0}};
	const struct unwind_tables_stats *t = &st.tables;

	if (u)
		unwind_loader_stats(u, &st);
	write_one(w, METRIC_GAUGE, "sonde_unwind_table_bytes", "Unwind tables in kernel memory.",
		t->bytes);
	write_one(w, METRIC_GAUGE, "sonde_unwind_table_capacity_bytes", "Room for them.",
		t->capacity_bytes);
	write_one(w, METRIC_GAUGE, "sonde_unwind_table_binaries", "Binaries that have one.",
		t->binaries);
	write_one(w, METRIC_GAUGE, "sonde_unwind_table_rows", "Their rows.", t->rows);
	write_one(w, METRIC_GAUGE, "sonde_unwind_table_rules", "Different rules of all rows.",
		t->rules);
	write_one(w, METRIC_COUNTER, "sonde_unwind_table_evictions_total",
		"Tables that made room for others.", t->evicted);
	metrics_write_family(w, METRIC_COUNTER, "sonde_unwind_table_loads_total",
		"Tables by what became of them.");
	metrics_write(w, (double)t->loaded, "result", "loaded", NULL);
	metrics_write(w, (double)t->shared, "result", "same_content", NULL);
	metrics_write(w, (double)t->refused_in_use, "result", "no_room", NULL);
	metrics_write(w, (double)t->refused_too_large, "result", "too_large", NULL);
	metrics_write(w, (double)t->refused_id, "result", "too_many_binaries", NULL);
	write_one(w, METRIC_COUNTER, "sonde_unwind_rules_refused_total",
		"Rules for which there was no room.", t->rules_refused);
	write_one(w, METRIC_COUNTER, "sonde_unwind_cache_wipes_total",
		"Times that the walk's cache was cleared, since the generations of a table began "
		"again.",
		t->cache_wipes);
	write_one(w, METRIC_GAUGE, "sonde_unwind_known_files",
		"Files that the kernel half knows by their inode.", st.files.known);
	write_one(w, METRIC_COUNTER, "sonde_unwind_known_files_forgotten_total",
		"Known files that made room for others.", st.files.forgotten);
}

static void write_shadow(struct metrics_writer *w, struct shadow *shadow)
{
	struct shadow_stats st = {.waiting = 0};

	if (!shadow)
		return;
	shadow_stats(shadow, &st);
	metrics_write_family(w, METRIC_COUNTER, "sonde_shadow_total",
		"Stacks walked a second time by elfutils, by how they compare.");
	for (size_t i = 0; i < SHADOW_N_RESULTS; i++)
		metrics_write(w, (double)st.results[i], "result", shadow_results[i], NULL);
	metrics_write(w, (double)st.skipped, "result", "skipped", NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_shadow_unknown_total",
		"Those that are unknown, by why elfutils found no caller.");
	for (size_t i = 0; i < SHADOW_N_UNKNOWNS; i++)
		metrics_write(w, (double)st.unknown[i], "reason", shadow_unknowns[i], NULL);
	write_one(w, METRIC_COUNTER, "sonde_shadow_frames_total",
		"Return addresses that were the same.", st.frames);
	write_one(w, METRIC_GAUGE, "sonde_shadow_waiting", "Stacks that wait for it.", st.waiting);
}

void serve_collect_stacks_locked(struct metrics_writer *w, const struct serve *s)
{
	uint64_t count[ABI_N_CUTS];

	ASSERT_HELD(s->o.source->lock);
	metrics_write_family(
		w, METRIC_COUNTER, "sonde_stacks_total", "User stacks by how they end.");
	for (unsigned event = 0; event < ABI_N_EVENTS; event++) {
		if (!profile_source_is_on(s->o.source, event))
			continue;
		get_total(s, event, count);
		for (uint32_t i = 0; i < ABI_N_CUTS; i++) {
			char buf[48];

			metrics_write(w, (double)count[i], "event", event_source(event)->name,
				"result", reason_name(i, buf), NULL);
		}
	}
	write_cut_binaries(w, s);
	write_deferred(w, s->o.source->tables.deferred);
	write_shadow(w, s->o.source->tables.shadow);
	write_tables(w, s->o.source->tables.unwind_loader);
}
