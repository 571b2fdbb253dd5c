/* SPDX-License-Identifier: Apache-2.0
 *
 * How targets and types go: at once, after their last request, or after a last record that says their series ended. Targets of a job that
 * changed wait until its new ones are known: series that go on under those do not end. Loop thread.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include <string.h>

static void type_free(struct scrape_type *type)
{
	free(type->spec.name);
	free(type->spec.path);
	target_done(&type->t);
	free(type->base_url);
	free(type->url);
	free(type->filter);
	free(type->cursor);
	free(type->last_error);
	scrape_delta_done(&type->delta);
	scrape_live_done(&type->live);
	free(type);
}

/* Its series are stored as ended first, unless the target may come back or all ends. */
void scrape_type_release(struct scrape *s, struct scrape_type *type)
{
	scrape_wait_free(s, type->wait);
	type->is_gone = true; /* found by nobody any more: what follows needs no lock */
	if (type->request || type->target->may_return)
		return;
	if (s->stopping || type->is_followed || scrape_live_is_empty(&type->live))
		type_free(type);
	else
		scrape_queue_add(&s->to_decode, scrape_request_last(type));
}

void scrape_target_free(struct scrape *s, struct scrape_target *t)
{
	struct scrape_target **at = &s->gone;

	ASSERT(t->is_gone && !t->n_in_flight);
	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	target_done(&t->t);
	free(t->url);
	free(t->address);
	free(t->types_header);
	free(t->labels_header);
	free(t->types);
	free(t->may_return);
	free(t);
}

static void release_types(struct scrape *s, struct scrape_target *t)
{
	for (size_t i = 0; i < t->n_types; i++)
		scrape_type_release(s, t->types[i]);
	if (t->may_return)
		return;
	t->n_types = 0;
	if (!t->n_in_flight)
		scrape_target_free(s, t);
}

void scrape_target_release(struct scrape *s, struct scrape_target *t, const char *may_return)
{
	ASSERT_HELD(&s->lock);
	scrape_heap_remove(s, t);
	t->is_gone = true;
	t->may_return = may_return ? xstrdup(may_return) : NULL;
	t->pool = NULL;
	t->next = s->gone;
	s->gone = t;
	release_types(s, t);
}

/* ---- targets of a job that changed ---- */

void scrape_live_hand_over(struct scrape_type *from, struct scrape_type *const *types, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct scrape_type *to = types[i];
		struct scrape_live live = to->live;

		if (strcmp(to->spec.name, from->spec.name) || from->request || to->request ||
			!scrape_live_is_empty(&to->live) ||
			!labels_equal(&to->t.labels, &from->t.labels))
			continue;
		to->live = from->live;
		from->live = live;
	}
}

/* Targets by their labels; several of one job may share them, one of those is enough. */
static void index_targets(struct table *by_labels, struct scrape_target *list)
{
	for (struct scrape_target *t = list; t; t = t->next) {
		uint64_t *slot = table_insert(by_labels, labels_hash(&t->t.labels), NULL);

		if (!slot)
			err_panic("out of memory for targets");
		*slot = (uint64_t)(uintptr_t)t;
	}
}

static void end_parting(struct scrape *s, struct scrape_target *t, const struct table *by_labels)
{
	const uint64_t *slot = table_find(by_labels, labels_hash(&t->t.labels));
	struct scrape_target *next = slot ? (struct scrape_target *)(uintptr_t)*slot : NULL;

	free(TAKE(t->may_return));
	for (size_t i = 0; next && i < t->n_types; i++) {
		scrape_live_hand_over(t->types[i], next->types, next->n_types);
		t->types[i]->is_followed = true;
	}
	release_types(s, t);
}

void scrape_parting_end(struct scrape *s, const char *job, struct scrape_target *now)
{
	struct scrape_target *next;
	struct table by_labels;
	bool is_indexed = false;

	ASSERT_HELD(&s->lock);
	table_init(&by_labels, NULL);
	for (struct scrape_target *t = s->gone; t; t = next) {
		next = t->next;
		if (!t->may_return || (job && strcmp(t->may_return, job)))
			continue;
		if (!is_indexed)
			index_targets(&by_labels, now);
		is_indexed = true;
		end_parting(s, t, &by_labels);
	}
	table_done(&by_labels);
}
