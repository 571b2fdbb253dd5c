/* SPDX-License-Identifier: Apache-2.0
 *
 * A sorted array of ranges: programs come and go seldom, compared with look-ups.
 */
#include "exporter/symbolize/kernel_code.h"
#include "lib/base/alloc.h"
#include <string.h>

void kernel_code_init(struct kernel_code *k)
{
	*k = (struct kernel_code) {.n = 0};
	pthread_mutex_init(&k->mutex, NULL);
}

void kernel_code_done(struct kernel_code *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i].name);
	free(k->items);
	pthread_mutex_destroy(&k->mutex);
}

/* The first range that ends above `addr`, or n. */
static size_t first_above_locked(const struct kernel_code *k, uint64_t addr)
{
	size_t low = 0, high = k->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (k->items[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void erase_locked(struct kernel_code *k, size_t at, size_t n)
{
	if (!n)
		return;
	for (size_t i = at; i < at + n; i++)
		free(k->items[i].name);
	memmove(&k->items[at], &k->items[at + n], (k->n - at - n) * sizeof(*k->items));
	k->n -= n;
}

static void forget_gone_locked(struct kernel_code *k)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++)
		if (k->items[i].is_gone)
			free(k->items[i].name);
		else
			k->items[kept++] = k->items[i];
	k->n = kept;
}

static void add_locked(
	struct kernel_code *k, const struct kernel_code_range *range, const char *name)
{
	size_t at = first_above_locked(k, range->start), last = at;

	while (last < k->n && k->items[last].start < range->end)
		last++;
	erase_locked(k, at, last - at);
	if (k->n == KERNEL_CODE_MAX) {
		forget_gone_locked(k);
		at = first_above_locked(k, range->start);
	}
	if (k->n == KERNEL_CODE_MAX ||
		alloc_grow(&k->items, &k->cap, k->n + 1, sizeof(*k->items)) < 0) {
		k->is_incomplete = true;
		return;
	}
	memmove(&k->items[at + 1], &k->items[at], (k->n - at) * sizeof(*k->items));
	k->items[at] = *range;
	k->items[at].name = xstrndup(name, KERNEL_CODE_NAME_MAX - 1);
	k->n++;
}

void kernel_code_add(
	struct kernel_code *k, uint64_t start, uint64_t len, const char *name, bool is_bpf)
{
	struct kernel_code_range range = {.start = start, .is_bpf = is_bpf};

	if (!len || __builtin_add_overflow(start, len, &range.end) || !*name)
		return;
	pthread_mutex_lock(&k->mutex);
	k->n_records++;
	add_locked(k, &range, name);
	pthread_mutex_unlock(&k->mutex);
}

void kernel_code_remove(struct kernel_code *k, uint64_t start)
{
	size_t at;

	pthread_mutex_lock(&k->mutex);
	k->n_records++;
	at = first_above_locked(k, start);
	if (at < k->n && k->items[at].start == start)
		k->items[at].is_gone = true;
	pthread_mutex_unlock(&k->mutex);
}

void kernel_code_lost(struct kernel_code *k)
{
	pthread_mutex_lock(&k->mutex);
	k->is_incomplete = true;
	pthread_mutex_unlock(&k->mutex);
}

bool kernel_code_take_incomplete(struct kernel_code *k)
{
	bool was;

	pthread_mutex_lock(&k->mutex);
	was = k->is_incomplete;
	k->is_incomplete = false;
	pthread_mutex_unlock(&k->mutex);
	return was;
}

bool kernel_code_find(
	struct kernel_code *k, uint64_t addr, char ret_name[KERNEL_CODE_NAME_MAX], bool *ret_is_bpf)
{
	bool found;
	size_t at;

	pthread_mutex_lock(&k->mutex);
	at = first_above_locked(k, addr);
	found = at < k->n && k->items[at].start <= addr;
	if (found) {
		memcpy(ret_name, k->items[at].name, strlen(k->items[at].name) + 1);
		*ret_is_bpf = k->items[at].is_bpf;
	}
	pthread_mutex_unlock(&k->mutex);
	return found;
}

uint64_t kernel_code_records(struct kernel_code *k)
{
	uint64_t n;

	pthread_mutex_lock(&k->mutex);
	n = k->n_records;
	pthread_mutex_unlock(&k->mutex);
	return n;
}
