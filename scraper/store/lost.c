/* SPDX-License-Identifier: Apache-2.0
 *
 * What damage takes from answers: the times of blocks that are damaged or stand in quarantine.
 */
#include "lib/base/alloc.h"
#include "scraper/store/store_impl.h"
#include <stdio.h>
#include <string.h>

enum { MAX_LOST = 1000 }; /* beyond it a block is missing without a word but in the log */

static void note_locked(struct store *s, const char *name, const struct meta *m)
{
	struct lost_block *l;

	ASSERT_HELD(&s->state_lock);
	for (size_t i = 0; i < s->n_lost; i++)
		if (!strcmp(s->lost[i].name, name))
			return;
	if (s->n_lost == MAX_LOST ||
		alloc_grow(&s->lost, &s->cap_lost, s->n_lost + 1, sizeof(*s->lost)) < 0)
		return;
	l = &s->lost[s->n_lost++];
	*l = (struct lost_block) {.min_time_ns = m->min_time_ns, .max_time_ns = m->max_time_ns};
	snprintf(l->name, sizeof(l->name), "%s", name);
}

void store_note_lost_locked(struct store *s, const struct meta *m)
{
	char name[ULID_TEXT];

	ASSERT_HELD(&s->state_lock);
	ulid_format(m->ulid, name);
	note_locked(s, name, m);
}

void store_load_lost(struct store *s)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};

	if (s->fs->list(s->fs, s->quarantine_dir, &names) < 0)
		return;
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *path = xasprintf("%s/%s/meta.json", s->quarantine_dir, name);
		_cleanup_bytes_ struct bytes text = {.data = NULL};
		struct meta m;

		if (strlen(name) < sizeof(s->lost->name) &&
			!fs_read_file(s->fs, path, META_MAX_BYTES, &text, NULL) &&
			!meta_read(text.data, text.len, &m, NULL)) {
			lock_take(&s->state_lock);
			note_locked(s, name, &m);
			lock_release(&s->state_lock);
			meta_done(&m);
		}
	}
}

void store_forget_lost(struct store *s)
{
	for (size_t i = 0;; i++) {
		char name[sizeof(s->lost->name)] = "";
		_cleanup_free_ char *path = NULL;
		struct fs_stat st;

		lock_take(&s->state_lock);
		if (i < s->n_lost)
			memcpy(name, s->lost[i].name, sizeof(name));
		lock_release(&s->state_lock);
		if (!*name)
			return;
		path = xasprintf("%s/%s", s->quarantine_dir, name);
		if (s->fs->stat(s->fs, path, &st) != -ENOENT)
			continue;
		lock_take(&s->state_lock); /* only this thread takes any out */
		s->lost[i--] = s->lost[--s->n_lost];
		lock_release(&s->state_lock);
	}
}

void store_each_lost(struct store *s, int64_t from_ns, int64_t to_ns,
	void (*fn)(void *arg, const char *name, int64_t min_ns, int64_t max_ns), void *arg)
{
	char name[ULID_TEXT];

	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct meta *m = &s->blocks[i]->meta;

		if (!s->blocks[i]->damaged || m->min_time_ns > to_ns || m->max_time_ns < from_ns)
			continue;
		ulid_format(m->ulid, name);
		fn(arg, name, m->min_time_ns, m->max_time_ns);
	}
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost_block *l = &s->lost[i];

		if (l->min_time_ns <= to_ns && l->max_time_ns >= from_ns)
			fn(arg, l->name, l->min_time_ns, l->max_time_ns);
	}
	lock_release(&s->state_lock);
}
