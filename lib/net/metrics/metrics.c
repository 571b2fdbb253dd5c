/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry: families hold cells in a list under the registry's lock; a cell is a few atomics
 * and needs none.
 */
#include "lib/net/metrics/impl.h"
#include "lib/base/alloc.h"
#include <string.h>

struct metrics *metrics_new(void)
{
	struct metrics *m = xcalloc(1, sizeof(*m));

	lock_init(&m->lock);
	m->last_family = &m->families;
	m->last_collector = &m->collectors;
	return m;
}

static void cell_free(struct metric_cell *c, unsigned n_labels)
{
	for (unsigned i = 0; i < n_labels; i++)
		free(c->values[i]);
	free(c->values);
	free(c->buckets);
	free(c);
}

static void family_free(struct metric *f)
{
	while (f->cells) {
		struct metric_cell *c = f->cells;

		f->cells = c->next;
		cell_free(c, f->n_labels);
	}
	free(f->label_names);
	free(f->label_text);
	free(f);
}

void metrics_freep(struct metrics **mp)
{
	struct metrics *m = *mp;

	if (!m)
		return;
	while (m->families) {
		struct metric *f = m->families;

		m->families = f->next;
		family_free(f);
	}
	while (m->collectors) {
		struct metrics_collector *c = m->collectors;

		m->collectors = c->next;
		if (c->free_arg)
			free(c->arg);
		free(c);
	}
	lock_done(&m->lock);
	free(m);
	*mp = NULL;
}

static void split_label_names(struct metric *f, const char *names)
{
	char *save = NULL;

	if (!names || !*names)
		return;
	f->label_text = xstrdup(names);
	for (char *name = strtok_r(f->label_text, ",", &save); name;
		name = strtok_r(NULL, ",", &save)) {
		f->label_names =
			xrealloc(f->label_names, (f->n_labels + 1) * sizeof(*f->label_names));
		f->label_names[f->n_labels++] = name;
	}
}

static struct metric_cell *cell_new(struct metric *f, const char *const *values)
{
	struct metric_cell *c = xcalloc(1, sizeof(*c));

	c->family = f;
	if (f->n_labels)
		c->values = xcalloc(f->n_labels, sizeof(*c->values));
	for (unsigned i = 0; i < f->n_labels; i++)
		c->values[i] = xstrdup(values[i]);
	if (f->kind == METRIC_HISTOGRAM)
		c->buckets = xcalloc(f->n_bounds + 1, sizeof(*c->buckets));
	return c;
}

static struct metric *family_add(struct metrics *m, enum metric_kind kind, const char *name,
	const char *help, const char *label_names, const double *bounds, size_t n_bounds)
{
	struct metric *f = xcalloc(1, sizeof(*f));

	f->owner = m;
	f->kind = kind;
	f->name = name;
	f->help = help;
	f->bounds = bounds;
	f->n_bounds = n_bounds;
	split_label_names(f, label_names);
	f->last_cell = &f->cells;
	if (!f->n_labels) {
		f->cells = cell_new(f, NULL);
		f->last_cell = &f->cells->next;
	}
	lock_take(&m->lock);
	for (const struct metric *other = m->families; other; other = other->next)
		ASSERT(strcmp(other->name, name) != 0);
	*m->last_family = f;
	m->last_family = &f->next;
	lock_release(&m->lock);
	return f;
}

struct metric *metrics_counter(
	struct metrics *m, const char *name, const char *help, const char *label_names)
{
	return family_add(m, METRIC_COUNTER, name, help, label_names, NULL, 0);
}

struct metric *metrics_gauge(
	struct metrics *m, const char *name, const char *help, const char *label_names)
{
	return family_add(m, METRIC_GAUGE, name, help, label_names, NULL, 0);
}

struct metric *metrics_histogram(struct metrics *m, const char *name, const char *help,
	const char *label_names, const double *bounds, size_t n)
{
	return family_add(m, METRIC_HISTOGRAM, name, help, label_names, bounds, n);
}

static struct metric_cell **find_cell_locked(struct metric *f, const char *const *values)
{
	struct metric_cell **at;

	ASSERT_HELD(&f->owner->lock);
	for (at = &f->cells; *at; at = &(*at)->next) {
		unsigned i = 0;

		while (i < f->n_labels && !strcmp((*at)->values[i], values[i]))
			i++;
		if (i == f->n_labels)
			break;
	}
	return at;
}

struct metric_cell *metric_cell_of(struct metric *f, const char *const *values, size_t n)
{
	struct metric_cell *c;

	ASSERT(n == f->n_labels);
	lock_take(&f->owner->lock);
	c = *find_cell_locked(f, values);
	if (!c) {
		c = cell_new(f, values);
		*f->last_cell = c;
		f->last_cell = &c->next;
	}
	lock_release(&f->owner->lock);
	return c;
}

struct metric_cell *metric_only(struct metric *f)
{
	ASSERT(f->n_labels == 0);
	return f->cells;
}

void metric_remove_of(struct metric *f, const char *const *values, size_t n)
{
	struct metric_cell **at, *gone;

	ASSERT(n == f->n_labels && n > 0);
	lock_take(&f->owner->lock);
	at = find_cell_locked(f, values);
	gone = *at;
	if (gone) {
		*at = gone->next;
		if (f->last_cell == &gone->next)
			f->last_cell = at;
	}
	lock_release(&f->owner->lock);
	if (gone)
		cell_free(gone, f->n_labels);
}

static double as_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static uint64_t as_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

void metric_add(struct metric_cell *c, double v)
{
	uint64_t old = atomic_load_explicit(&c->bits, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&c->bits, &old, as_bits(as_double(old) + v),
		memory_order_relaxed, memory_order_relaxed))
		;
}

void metric_set(struct metric_cell *c, double v)
{
	atomic_store_explicit(&c->bits, as_bits(v), memory_order_relaxed);
}

void metric_observe(struct metric_cell *c, double v)
{
	const struct metric *f = c->family;
	size_t i = 0;

	while (i < f->n_bounds && v > f->bounds[i])
		i++;
	atomic_fetch_add_explicit(&c->buckets[i], 1, memory_order_relaxed);
	metric_add(c, v);
}

void metrics_add_collector_owned(
	struct metrics *m, metrics_collect_fn *fn, void *arg, bool free_arg)
{
	struct metrics_collector *c = xcalloc(1, sizeof(*c));

	c->fn = fn;
	c->arg = arg;
	c->free_arg = free_arg;
	lock_take(&m->lock);
	*m->last_collector = c;
	m->last_collector = &c->next;
	lock_release(&m->lock);
}

void metrics_add_collector(struct metrics *m, metrics_collect_fn *fn, void *arg)
{
	metrics_add_collector_owned(m, fn, arg, false);
}
