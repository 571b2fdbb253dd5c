/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of a process's memory, small ones out of blocks that are kept while an object is read.
 */
#include "exporter/interp/reader/memory.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include <string.h>

/* The number of bytes that came, or negative. */
static int copy(struct interp_window *w, uint64_t addr, void *to, uint32_t bytes)
{
	struct keeper_range range = {.addr = addr, .bytes = bytes, .to = to};
	int r;

	w->is_over |= w->deadline_ns && clock_monotonic_ns(w->clock) >= w->deadline_ns;
	if (w->is_over)
		return -ETIMEDOUT;
	r = keeper_copy(w->keeper, w->pid, w->start_ns, &range, 1);
	w->requests++;
	w->asked_bytes += bytes;
	if (r < 0)
		return r;
	w->bytes += range.copied;
	return (int)range.copied;
}

/* What lies in several blocks is read from the process each time. */
static int read_pieces(struct interp_window *w, uint64_t addr, uint8_t *to, size_t bytes)
{
	w->newest = ++w->n_readings;
	for (size_t at = 0; at < bytes;) {
		uint32_t n = (uint32_t)MIN(bytes - at, (size_t)KEEPER_COPY_BYTES);
		int r = copy(w, addr + at, to + at, n);

		if (r < (int)n)
			return r < 0 ? r : -EFAULT;
		at += n;
	}
	return 0;
}

static struct interp_block *find(const struct interp_window *w, uint64_t addr)
{
	struct interp_block *oldest = w->blocks;

	for (size_t i = 0; i < INTERP_BLOCKS; i++) {
		struct interp_block *p = &w->blocks[i];

		if (p->filled && p->addr == addr)
			return p;
		if (p->used < oldest->used)
			oldest = p;
	}
	oldest->filled = 0;
	return oldest;
}

static bool has_any(const uint64_t *bits, uint32_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++)
		if (bits[i / 64] >> i % 64 & 1)
			return true;
	return false;
}

static void set_all(uint64_t *bits, uint32_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++)
		bits[i / 64] |= 1ULL << i % 64;
}

static int fill(struct interp_window *w, struct interp_block *p)
{
	int r = copy(w, p->addr, p->bytes, sizeof(p->bytes));

	p->filled = r < 0 ? 0 : w->n_readings;
	p->filled_ns = w->keep_ns ? clock_monotonic_ns(w->clock) : 0;
	p->n = r < 0 ? 0 : (uint32_t)r;
	memset(p->again, 0, sizeof(p->again));
	return MIN(r, 0);
}

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct interp_window *w = arg;
	uint32_t at = (uint32_t)(addr % INTERP_BLOCK_BYTES);
	struct interp_block *p;
	bool is_second;
	int r = 0;

	if (bytes > INTERP_BLOCK_BYTES - at)
		return read_pieces(w, addr, to, bytes);
	if (!w->blocks)
		w->blocks = xcalloc(INTERP_BLOCKS, sizeof(*w->blocks));
	w->n_readings++;
	p = find(w, addr - at);
	if (w->keep_ns && p->filled && clock_monotonic_ns(w->clock) - p->filled_ns > w->keep_ns)
		p->filled = 0;
	if (!p->filled) {
		p->addr = addr - at;
		memset(p->read, 0, sizeof(p->read));
	}
	is_second = p->filled && has_any(p->read, at, bytes);
	if (!p->filled || (is_second && !w->keep_ns &&
				  (p->filled <= w->newest || has_any(p->again, at, bytes))))
		r = fill(w, p);
	if (r < 0)
		return r;
	p->used = w->n_readings;
	if (is_second)
		set_all(p->again, at, bytes);
	else
		w->newest = w->n_readings;
	set_all(p->read, at, bytes);
	if (at + bytes > p->n)
		return -EFAULT;
	memcpy(to, p->bytes + at, bytes);
	return 0;
}

void interp_window_init(struct interp_window *w, struct keeper *keeper, uint32_t pid,
	uint64_t start_ns, uint64_t bias)
{
	*w = (struct interp_window) {.memory = {.read = read_memory, .arg = w, .bias = bias},
		.keeper = keeper,
		.pid = pid,
		.start_ns = start_ns};
}

void interp_window_done(struct interp_window *w)
{
	free(w->blocks);
	w->blocks = NULL;
}

void interp_window_limit(struct interp_window *w, struct clock *clock, int64_t deadline_ns)
{
	w->clock = clock;
	w->deadline_ns = deadline_ns;
}

void interp_window_keep(struct interp_window *w, int64_t keep_ns)
{
	ASSERT(w->clock);
	w->keep_ns = keep_ns;
}

void interp_window_forget(struct interp_window *w)
{
	for (size_t i = 0; w->blocks && i < INTERP_BLOCKS; i++)
		w->blocks[i].filled = 0;
}
