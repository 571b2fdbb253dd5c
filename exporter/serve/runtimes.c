/* SPDX-License-Identifier: Apache-2.0
 *
 * Language runtimes: which files hold one, whose frames are walked, and why others are not; as a table for people and as metrics.
 */
#include "exporter/proc/interp.h"
#include "exporter/serve/internal.h"
#include "lib/base/alloc.h"
#include "lib/render/render.h"
#include <inttypes.h>

enum { MAX_ROWS = 200 };

static const char *const states[PROC_N_INTERP_STATES] = {
	[PROC_INTERP_WAITING] = "waiting",
	[PROC_INTERP_WALKED] = "walked",
	[PROC_INTERP_REFUSED] = "refused",
};

void serve_runtime_version(uint32_t version, char ret[SERVE_VERSION_BYTES])
{
	if (!version)
		ret[0] = '\0';
	else if (!RUNTIME_PATCH(version)) /* the file does not say it */
		snprintf(ret, SERVE_VERSION_BYTES, "%u.%u", RUNTIME_MAJOR(version),
			RUNTIME_MINOR(version));
	else
		snprintf(ret, SERVE_VERSION_BYTES, "%u.%u.%u", RUNTIME_MAJOR(version),
			RUNTIME_MINOR(version), RUNTIME_PATCH(version));
}

static void put_row(const struct serve *s, struct bytes *out, const struct proc_interp_binary *b)
{
	char version[SERVE_VERSION_BYTES];
	struct binary_info info;

	binary_info(s->o.binaries, b->binary, &info);
	serve_runtime_version(b->version, version);
	bytes_put_str(out, "<tr><td>");
	render_escape_str(out, info.path);
	bytes_printf(
		out, "</td><td>%s%s%s</td>", runtime_name(b->kind), *version ? " " : "", version);
	for (size_t i = 1; i < PROC_N_INTERP_STATES; i++)
		bytes_printf(out, "<td class=\"n\">%" PRIu32 "</td>", b->n[i]);
	bytes_printf(out, "<td>%s</td></tr>\n", interp_refusal_text(b->refusal));
}

void serve_put_runtimes(const struct serve *s, struct bytes *out)
{
	_cleanup_free_ struct proc_interp_binary *rows = xcalloc(MAX_ROWS, sizeof(*rows));
	size_t n;

	lock_take(s->o.source->lock);
	n = proc_interp_binaries(s->o.source->tables.procs, rows, MAX_ROWS);
	lock_release(s->o.source->lock);
	if (!n)
		return;
	bytes_put_str(out,
		"<h2>Language runtimes, by the file that holds one: processes, and whether frames "
		"of the language stand in their stacks</h2>\n<table>\n<tr><th>file</th><th>runtime"
		"</th>");
	for (size_t i = 1; i < PROC_N_INTERP_STATES; i++)
		bytes_printf(out, "<th>%s</th>", states[i]);
	bytes_put_str(out, "<th>refused, since</th></tr>\n");
	for (size_t i = 0; i < n; i++)
		put_row(s, out, &rows[i]);
	bytes_put_str(out, "</table>\n");
}

void serve_collect_runtimes(struct metrics_writer *w, const struct proc_stats *p)
{
	metrics_write_family(w, METRIC_GAUGE, "sonde_interp_processes",
		"Processes with a language runtime, by whether its frames are walked.");
	for (uint32_t kind = 1; kind < N_RUNTIMES; kind++)
		for (size_t i = 1; i < PROC_N_INTERP_STATES; i++)
			metrics_write(w, (double)p->interp[kind][i], "runtime", runtime_name(kind),
				"state", states[i], NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_interp_refused_total",
		"Process images whose frames of a runtime are not walked, by reason.");
	for (uint32_t kind = 1; kind < N_RUNTIMES; kind++)
		for (uint32_t i = 1; i < N_INTERP_REFUSALS; i++)
			metrics_write(w, (double)p->interp_refused[kind][i], "runtime",
				runtime_name(kind), "reason", interp_refusal_name(i), NULL);
}
