/* SPDX-License-Identifier: Apache-2.0
 *
 * One writer; the kernel half reads at any time: an entry has its binary only while the rest of it is whole.
 */
#include "exporter/unwind/files.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include <stdatomic.h>

struct files {
	struct file_bucket *buckets;
	uint32_t mask;
	_Atomic uint64_t n_known, n_forgotten;
};

struct files *files_new(struct file_bucket *buckets, uint32_t n_buckets)
{
	struct files *f = xcalloc(1, sizeof(*f));

	ASSERT(n_buckets && !(n_buckets & (n_buckets - 1)));
	f->buckets = buckets;
	f->mask = n_buckets - 1;
	return f;
}

void files_freep(struct files **f)
{
	free(*f);
	*f = NULL;
}

static void clear(struct files *f, struct known_file *file)
{
	f->n_known -= file->binary != 0;
	__atomic_store_n(&file->binary, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The entry of that file; else a free one; else the one that has to go. */
static struct known_file *place_for(struct files *f, const struct file_key *key)
{
	struct known_file *files = f->buckets[file_bucket_of(key, f->mask)].files, *free_one = NULL;

	for (uint32_t i = 0; i < FILES_PER_BUCKET; i++) {
		if (files[i].binary && file_is(&files[i], key))
			return &files[i];
		if (!files[i].binary && !free_one)
			free_one = &files[i];
	}
	if (free_one)
		return free_one;
	return &files[f->n_forgotten++ % FILES_PER_BUCKET];
}

void files_set(struct files *f, const struct file_key *key, uint32_t binary)
{
	struct known_file *to = place_for(f, key);

	clear(f, to);
	to->ino = key->ino;
	to->bytes = key->bytes;
	to->mtime_ns = key->mtime_ns;
	to->dev = key->dev;
	__atomic_store_n(&to->binary, binary, __ATOMIC_RELEASE);
	f->n_known += binary != 0;
}

void files_drop(struct files *f, uint32_t binary)
{
	for (uint32_t i = 0; i <= f->mask; i++)
		for (uint32_t k = 0; k < FILES_PER_BUCKET; k++)
			if (binary && f->buckets[i].files[k].binary == binary)
				clear(f, &f->buckets[i].files[k]);
}

void files_stats(const struct files *f, struct files_stats *ret)
{
	*ret = (struct files_stats) {.known = f->n_known, .forgotten = f->n_forgotten};
}
