/* SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot that pages and the API show, copied under the lock.
 */
#include "scraper/scrape/scrape_impl.h"
#include <stdio.h>
#include <string.h>

enum { COLLAPSED_TEXT_MAX = 512 };

static bool copy_labels(struct arena *a, const struct labels *from, struct labels *ret)
{
	struct label *items = arena_alloc_array(a, from->n + 1, sizeof(*items));

	for (size_t i = 0; items && i < from->n; i++) {
		items[i].name = arena_strdup(a, from->items[i].name);
		items[i].value = arena_strdup(a, from->items[i].value);
	}
	*ret = (struct labels) {.items = items, .n = items ? from->n : 0};
	return items != NULL;
}

static void copy_type(
	struct arena *a, const struct scrape_type *type, struct scrape_status_type *ret)
{
	*ret = (struct scrape_status_type) {
		.name = arena_strdup(a, type->spec.name),
		.url = arena_strdup(a, type->url),
		.last_error = arena_strdup(a, type->last_error),
		.health = type->health,
		.last_scrape_ns = type->last_scrape_ns,
		.last_duration_ns = type->last_duration_ns,
		.samples = type->last_samples,
		.series = type->last_series,
		.behind_s = type->behind_s,
	};
}

/* The main type's error is the target's; an error of another type shows too, with its name. */
static const char *target_error(struct arena *a, const struct scrape_target *t)
{
	for (size_t i = 0; i < t->n_types; i++)
		if (t->types[i]->last_error[0])
			return i ? arena_printf(a, "%s: %s", t->types[i]->spec.name,
					   t->types[i]->last_error)
				 : arena_strdup(a, t->types[i]->last_error);
	return arena_strdup(a, "");
}

static const char *collapsed_labels(struct arena *a, const struct scrape_pool *p)
{
	char text[COLLAPSED_TEXT_MAX];

	scrape_limit_describe(p->limit, text, sizeof(text));
	return arena_strdup(a, text);
}

static void copy_target(struct arena *a, const struct scrape_pool *p, const struct scrape_target *t,
	const char *collapsed, struct scrape_status_target *ret)
{
	const struct scrape_type *main = t->n_types ? t->types[0] : NULL;

	*ret = (struct scrape_status_target) {
		.pool = arena_strdup(a, p->job->name),
		.url = arena_strdup(a, t->url),
		.last_error = target_error(a, t),
		.preset = scrape_preset_name(t->preset),
		.collapsed = collapsed,
		.health = main ? main->health : SCRAPE_UNKNOWN,
		.last_scrape_ns = main ? main->last_scrape_ns : 0,
		.last_duration_ns = main ? main->last_duration_ns : 0,
		.interval_ms = t->t.interval_ms,
		.timeout_ms = t->t.timeout_ms,
		.types = arena_alloc_array(a, t->n_types + 1, sizeof(*ret->types)),
	};
	(void)!copy_labels(a, &t->t.discovered, &ret->discovered);
	(void)!copy_labels(a, &t->t.labels, &ret->labels);
	for (size_t i = 0; ret->types && i < t->n_types; i++)
		copy_type(a, t->types[i], &ret->types[ret->n_types++]);
}

static void copy_dropped(struct arena *a, const struct scrape_pool *p,
	const struct labels *discovered, struct scrape_status_target *ret)
{
	*ret = (struct scrape_status_target) {.pool = arena_strdup(a, p->job->name),
		.dropped = true,
		.last_error = "",
		.url = ""};
	(void)!copy_labels(a, discovered, &ret->discovered);
}

static void copy_all(struct scrape *s, struct arena *a, struct scrape_status *ret)
{
	size_t n = 0, n_pools = 0;
	const char *collapsed;

	for (const struct scrape_pool *p = s->pools; p; p = p->next) {
		n += p->n_targets + p->n_dropped;
		n_pools++;
	}
	ret->targets = arena_alloc_array(a, n + 1, sizeof(*ret->targets));
	ret->pools = arena_alloc_array(a, n_pools + 1, sizeof(*ret->pools));
	if (!ret->targets || !ret->pools)
		return;
	for (const struct scrape_pool *p = s->pools; p; p = p->next) {
		ret->pools[ret->n_pools++] = arena_strdup(a, p->job->name);
		collapsed = collapsed_labels(a, p);
		for (const struct scrape_target *t = p->targets; t; t = t->next)
			copy_target(a, p, t, collapsed, &ret->targets[ret->n_targets++]);
	}
	ret->n_active = ret->n_targets;
	for (const struct scrape_pool *p = s->pools; p; p = p->next)
		for (size_t i = 0; i < p->n_dropped; i++)
			copy_dropped(a, p, &p->dropped[i], &ret->targets[ret->n_targets++]);
}

uint64_t scrape_status_dropped(struct scrape *s, const char *job)
{
	uint64_t n = 0;

	lock_take(&s->lock);
	for (const struct scrape_pool *p = s->pools; p; p = p->next)
		if (!strcmp(p->job->name, job))
			n = p->n_dropped_total;
	lock_release(&s->lock);
	return n;
}

int scrape_status_get(struct scrape *s, struct arena *a, struct scrape_status *ret)
{
	*ret = (struct scrape_status) {0};
	lock_take(&s->lock);
	copy_all(s, a, ret);
	lock_release(&s->lock);
	return arena_error(a, NULL);
}
