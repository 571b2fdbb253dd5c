/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry of the registry: which it stands for, its place in the queue, what the hook knows of its file. The other files of this
 * folder stand on it.
 */
#include "exporter/binary/registry.h"

uint32_t binary_canonical_locked(struct binary_registry *r, uint32_t id)
{
	struct entry *e = id && id < r->n_ids ? r->entries[id] : NULL;

	ASSERT_HELD(&r->lock);
	if (!e || !e->used)
		return 0;
	return e->alias ? e->alias : id;
}

void binary_enqueue_locked(struct binary_registry *r, struct binary_queue *q, uint32_t id)
{
	struct entry *e = r->entries[id];

	ASSERT_HELD(&r->lock);
	e->state = BINARY_QUEUED;
	e->next = 0;
	if (q->tail)
		r->entries[q->tail]->next = id;
	else
		q->head = id;
	q->tail = id;
	r->stats.queued++;
	pthread_cond_signal(&r->queued);
}

void binary_renew_locked(struct binary_registry *r, uint32_t id)
{
	struct entry *e = id ? r->entries[id] : NULL;

	ASSERT_HELD(&r->lock);
	if (!e || !e->again || e->state != BINARY_READY || e->content->symbols.n_refs)
		return;
	e->again = false;
	if (!e->has_source)
		return;
	binary_content_unmap_locked(r, e->content);
	e->not_before_ns = 0;
	binary_enqueue_locked(r, &r->fresh, id);
}

void binary_report_file_locked(struct binary_registry *r, uint32_t id, bool known)
{
	struct entry *e = r->entries[id];

	ASSERT_HELD(&r->lock);
	if (!r->o.found || !e->has_file || (!known && !e->file_reported))
		return;
	e->file_reported = known;
	e->withdrawn_ns = clock_monotonic_ns(r->o.clock);
	r->o.found(r->o.hook_ctx, id, known ? &e->file : NULL);
}
