/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read of processes and files, and what hangs: metrics, and a table for people.
 */
#include "exporter/proc/reader/reader.h"
#include "exporter/serve/internal.h"
#include "lib/render/render.h"
#include <inttypes.h>

static void write_reads(struct metrics_writer *w, const struct proc_reader_stats *st)
{
	metrics_write_family(w, METRIC_COUNTER, "sonde_process_reads_total",
		"Readings of what the process table asked for, by how they ended.");
	for (enum proc_ask ask = 0; ask < PROC_N_ASKS; ask++)
		for (enum proc_read_result r = 0; r < PROC_N_READ_RESULTS; r++)
			metrics_write(w, (double)st->reads[ask][r], "what", proc_ask_name(ask),
				"result", proc_read_result_name(r), NULL);
}

static void write_keeper(struct metrics_writer *w, const struct keeper_stats *k, int64_t now_ns)
{
	metrics_write_family(w, METRIC_COUNTER, "sonde_keeper_requests_total",
		"Files and copies of memory asked of openers, by how that ended.");
	metrics_write(w, (double)(k->requests - k->timeouts - k->busy - k->silent - k->limited),
		"result", "answered", NULL);
	metrics_write(w, (double)k->timeouts, "result", "timeout", NULL);
	metrics_write(w, (double)k->busy, "result", "busy", NULL);
	metrics_write(w, (double)k->silent, "result", "silent", NULL);
	metrics_write(w, (double)k->limited, "result", "limited", NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_keeper_openers",
		"Processes that open files, those that hang included.");
	metrics_write(w, k->openers, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_keeper_hanging",
		"Requests that wait for a file system that does not answer.");
	metrics_write(w, k->n_hanging, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_keeper_silent_seconds",
		"For how long the keeper itself has not answered; 0: it answers.");
	metrics_write(
		w, k->silent_since_ns ? (double)(now_ns - k->silent_since_ns) / 1e9 : 0, NULL);
}

void serve_collect_reads(struct metrics_writer *w, const struct serve *s)
{
	struct proc_reader_stats reads = {.reads = {{0}}};
	struct keeper_stats k;

	if (s->o.source->reader)
		proc_reader_stats(s->o.source->reader, &reads);
	keeper_stats(s->o.setup->keeper, &k);
	write_reads(w, &reads);
	write_keeper(w, &k, clock_monotonic_ns(s->o.clock));
}

static int64_t silent_s(int64_t since_ns, int64_t now_ns)
{
	return (now_ns - since_ns) / NS_PER_S;
}

unsigned serve_state(const struct serve *s, char ret[SERVE_STATE_BYTES])
{
	const struct threads_stuck stuck = threads_stuck(s->o.threads);
	int64_t since_ns = keeper_silent_since_ns(s->o.setup->keeper);
	bool is_vital = stuck.n && stuck.first->is_vital;

	if (since_ns && !is_vital)
		snprintf(ret, SERVE_STATE_BYTES,
			"Sonde exporter goes on without its keeper, which has not answered for "
			"%" PRId64 " s: names of new programs are missing.",
			silent_s(since_ns, clock_monotonic_ns(s->o.clock)));
	else if (stuck.n)
		snprintf(ret, SERVE_STATE_BYTES,
			"Sonde exporter %s: the thread \"%s\" has been in one step for %" PRId64
			" s.",
			is_vital ? "is stuck" : "goes on without all its threads",
			stuck.first->name, (int64_t)(stuck.for_ns / NS_PER_S));
	else
		snprintf(ret, SERVE_STATE_BYTES, "Sonde exporter is Healthy.");
	return is_vital ? 503 : 200;
}

void serve_put_hanging(const struct serve *s, struct bytes *out)
{
	int64_t now_ns = clock_monotonic_ns(s->o.clock);
	struct keeper_stats k;

	keeper_stats(s->o.setup->keeper, &k);
	if (k.silent_since_ns)
		bytes_printf(out,
			"<p class=\"warn\">The keeper has not answered for %" PRId64
			" s: names of new programs are missing.</p>\n",
			silent_s(k.silent_since_ns, now_ns));
	if (!k.n_hanging)
		return;
	bytes_put_str(out,
		"<h2 class=\"warn\">Waiting for file systems that do not answer</h2>\n"
		"<table>\n<tr><th>what</th><th>process</th><th>path</th><th>seconds</th></tr>\n");
	for (uint32_t i = 0; i < k.n_hanging; i++) {
		const struct keeper_hanging *h = &k.hanging[i];

		bytes_printf(out, "<tr><td>%s</td><td class=\"n\">", keeper_what_name(h->what));
		if (h->pid)
			bytes_printf(out, "%" PRIu32, h->pid);
		bytes_put_str(out, "</td><td>");
		render_escape_str(out, h->path);
		bytes_printf(out, "</td><td class=\"n\">%" PRId64 "</td></tr>\n",
			(int64_t)((now_ns - h->since_ns) / NS_PER_S));
	}
	bytes_put_str(out, "</table>\n");
}
