/* SPDX-License-Identifier: Apache-2.0
 *
 * Matchers of tombstones against the labels of streams.
 */
#include "scraper/store/block/deletions.h"
#include "lib/base/alloc.h"
#include "scraper/store/part/part_impl.h"
#include <string.h>

struct labels_of {
	struct part_reader *r;
	const struct part_label_sets *sets;
	uint32_t set;
	int error;
};

static struct prof_str label_value(void *arg, const char *name)
{
	struct labels_of *l = arg;
	struct prof_str pair[2] = {{.len = 0}};

	for (uint32_t i = l->sets->first[l->set]; i < l->sets->first[l->set + 1]; i++) {
		const uint32_t ids[2] = {l->sets->pairs[i].name, l->sets->pairs[i].value};
		int r = part_strings(l->r, ids, 2, pair);

		if (r < 0)
			l->error = r;
		else if (pair[0].len == strlen(name) && !memcmp(pair[0].p, name, pair[0].len))
			return pair[1];
	}
	return (struct prof_str) {.p = "", .len = 0};
}

int deletions_make(struct part_reader *r, const struct part_stream *streams,
	const struct tombstones *t, struct deletions *ret, struct errbuf *eb)
{
	const struct part_info *info = part_reader_info(r);
	struct part_label_sets sets;
	int e = 0;

	*ret = (struct deletions) {.tombstones = t};
	if (!t->n)
		return 0;
	e = part_label_sets(r, &sets);
	if (e < 0)
		return err_set(eb, e, "%s", part_reader_error(r));
	ret->streams = xcalloc(t->n, sizeof(*ret->streams));
	for (size_t i = 0; e >= 0 && i < t->n; i++) {
		e = bitmap_init(&ret->streams[i], info->n_streams, r->arena.budget, eb);
		for (uint32_t s = 0; e >= 0 && s < info->n_streams; s++) {
			struct labels_of l = {.r = r, .sets = &sets, .set = streams[s].label_set};
			const struct tombstone_labels labels = {.value = label_value, .arg = &l};

			e = tombstone_matches(&t->items[i], &labels, eb);
			if (l.error)
				return err_set(eb, l.error, "%s", part_reader_error(r));
			if (e > 0)
				bitmap_set(&ret->streams[i], s);
		}
	}
	return e < 0 ? e : 0;
}

void deletions_done(struct deletions *d)
{
	for (size_t i = 0; d->streams && i < d->tombstones->n; i++)
		bitmap_done(&d->streams[i]);
	free(d->streams);
	*d = (struct deletions) {.streams = NULL};
}
