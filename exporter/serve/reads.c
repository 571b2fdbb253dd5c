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

static void write_keeper(struct metrics_writer *w, const struct keeper_stats *k)
{
	metrics_write_family(w, METRIC_COUNTER, "sonde_keeper_requests_total",
		"Files asked of openers, by how that ended.");
	metrics_write(w, (double)(k->requests - k->timeouts - k->busy), "result", "answered", NULL);
	metrics_write(w, (double)k->timeouts, "result", "timeout", NULL);
	metrics_write(w, (double)k->busy, "result", "busy", NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_keeper_openers",
		"Processes that open files, those that hang included.");
	metrics_write(w, k->openers, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_keeper_hanging",
		"Requests that wait for a file system that does not answer.");
	metrics_write(w, k->n_hanging, NULL);
}

void serve_collect_reads(struct metrics_writer *w, const struct serve *s)
{
	struct proc_reader_stats reads = {.reads = {{0}}};
	struct keeper_stats k;

	if (s->o.source->reader)
		proc_reader_stats(s->o.source->reader, &reads);
	keeper_stats(s->o.setup->keeper, &k);
	write_reads(w, &reads);
	write_keeper(w, &k);
}

void serve_put_hanging(const struct serve *s, struct bytes *out)
{
	int64_t now_ns = clock_monotonic_ns(s->o.clock);
	struct keeper_stats k;

	keeper_stats(s->o.setup->keeper, &k);
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
