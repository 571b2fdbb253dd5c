/* SPDX-License-Identifier: Apache-2.0
 *
 * The text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): HELP and TYPE, then
 * one line per series.
 */
#include "lib/net/metrics/impl.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

static void put_escaped(struct bytes *out, const char *s, bool quotes)
{
	for (; *s; s++) {
		if (*s == '\\')
			bytes_put_str(out, "\\\\");
		else if (*s == '\n')
			bytes_put_str(out, "\\n");
		else if (*s == '"' && quotes)
			bytes_put_str(out, "\\\"");
		else
			bytes_put_u8(out, (uint8_t)*s);
	}
}

/* The shortest digits that read back equal. */
static void put_value(struct bytes *out, double v)
{
	char text[32];

	if (isnan(v) || isinf(v)) {
		bytes_put_str(out, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (v == floor(v) && fabs(v) < 1e15) {
		bytes_printf(out, "%.0f", v);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	bytes_put_str(out, text);
}

/* Shortest text of a bound: 0.005, not 0.0050000000000000001. */
static void put_bound(struct bytes *out, double v)
{
	bytes_printf(out, "%g", v);
}

static void put_pair(struct bytes *out, char lead, const char *name, const char *value)
{
	bytes_put_u8(out, (uint8_t)lead);
	bytes_put_str(out, name);
	bytes_put_str(out, "=\"");
	put_escaped(out, value, true);
	bytes_put_u8(out, '"');
}

void metrics_write_family(
	struct metrics_writer *w, enum metric_kind kind, const char *name, const char *help)
{
	static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram"};

	w->name = name;
	bytes_printf(w->out, "# HELP %s ", name);
	put_escaped(w->out, help, false);
	bytes_printf(w->out, "\n# TYPE %s %s\n", name, kinds[kind]);
}

void metrics_write(struct metrics_writer *w, double value, ...)
{
	const char *name;
	char lead = '{';
	va_list ap;

	bytes_put_str(w->out, w->name);
	va_start(ap, value);
	while ((name = va_arg(ap, const char *))) {
		put_pair(w->out, lead, name, va_arg(ap, const char *));
		lead = ',';
	}
	va_end(ap);
	bytes_put_str(w->out, lead == ',' ? "} " : " ");
	put_value(w->out, value);
	bytes_put_u8(w->out, '\n');
}

/* name, suffix, the cell's labels and, for buckets, le. */
static void put_series(
	struct bytes *out, const struct metric_cell *c, const char *suffix, const double *le)
{
	const struct metric *f = c->family;
	char lead = '{';

	bytes_put_str(out, f->name);
	bytes_put_str(out, suffix);
	for (unsigned i = 0; i < f->n_labels; i++, lead = ',')
		put_pair(out, lead, f->label_names[i], c->values[i]);
	if (le) {
		bytes_printf(out, "%cle=\"", lead);
		if (isinf(*le))
			bytes_put_str(out, "+Inf");
		else
			put_bound(out, *le);
		bytes_put_u8(out, '"');
		lead = ',';
	}
	bytes_put_str(out, lead == ',' ? "} " : " ");
}

static double cell_double(const struct metric_cell *c)
{
	uint64_t bits = atomic_load_explicit(&c->bits, memory_order_relaxed);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void put_histogram(struct bytes *out, const struct metric_cell *c)
{
	const struct metric *f = c->family;
	uint64_t n = 0;

	for (size_t i = 0; i <= f->n_bounds; i++) {
		double le = i < f->n_bounds ? f->bounds[i] : INFINITY;

		n += atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
		put_series(out, c, "_bucket", &le);
		bytes_printf(out, "%llu\n", (unsigned long long)n);
	}
	put_series(out, c, "_sum", NULL);
	put_value(out, cell_double(c));
	bytes_put_u8(out, '\n');
	put_series(out, c, "_count", NULL);
	bytes_printf(out, "%llu\n", (unsigned long long)n);
}

static void put_family_locked(struct metrics_writer *w, const struct metric *f)
{
	ASSERT_HELD(&f->owner->lock);
	metrics_write_family(w, f->kind, f->name, f->help);
	for (const struct metric_cell *c = f->cells; c; c = c->next) {
		if (f->kind == METRIC_HISTOGRAM) {
			put_histogram(w->out, c);
			continue;
		}
		put_series(w->out, c, "", NULL);
		put_value(w->out, cell_double(c));
		bytes_put_u8(w->out, '\n');
	}
}

void metrics_print(struct metrics *m, struct bytes *out)
{
	struct metrics_writer w = {.out = out};
	const struct metrics_collector *collectors;

	lock_take(&m->lock);
	for (const struct metric *f = m->families; f; f = f->next)
		put_family_locked(&w, f);
	collectors = m->collectors;
	lock_release(&m->lock);
	/* The list only grows at start; collectors may take locks of their own. */
	for (const struct metrics_collector *c = collectors; c; c = c->next)
		c->fn(&w, c->arg);
}
