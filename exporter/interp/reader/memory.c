/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of a process's memory, small ones out of a window that begins with the one that made it.
 */
#include "exporter/interp/reader/memory.h"
#include <string.h>

/* 0 when at least `min` bytes came. */
static int copy(struct interp_window *w, uint64_t addr, void *to, uint32_t bytes, uint32_t min)
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
	w->n = range.copied;
	return range.copied < min ? -EFAULT : 0;
}

/* A large piece fills no window. */
static int read_pieces(struct interp_window *w, uint64_t addr, uint8_t *to, size_t bytes)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < bytes;) {
		uint32_t n = (uint32_t)MIN(bytes - at, (size_t)KEEPER_COPY_BYTES);

		r = copy(w, addr + at, to + at, n, n);
		at += n;
	}
	w->n = 0;
	return r;
}

static bool is_in_window(const struct interp_window *w, uint64_t addr, size_t bytes)
{
	uint64_t off = addr - w->addr;

	return off < w->n && bytes <= w->n - off;
}

static bool was_read(const struct interp_window *w, uint64_t addr, size_t bytes)
{
	for (uint32_t i = 0; i < MIN(w->n_readings, ARRAY_SIZE(w->readings)); i++)
		if (addr - w->readings[i].addr < w->readings[i].bytes ||
			w->readings[i].addr - addr < bytes)
			return true;
	return false;
}

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct interp_window *w = arg;
	int r = 0;

	if (bytes > sizeof(w->window))
		return read_pieces(w, addr, to, bytes);
	if (was_read(w, addr, bytes) || !is_in_window(w, addr, bytes)) {
		w->addr = addr;
		r = copy(w, addr, w->window, sizeof(w->window), (uint32_t)bytes);
	}
	if (r < 0) {
		w->n = 0;
		return r;
	}
	memcpy(to, w->window + (addr - w->addr), bytes);
	w->readings[w->n_readings % ARRAY_SIZE(w->readings)].addr = addr;
	w->readings[w->n_readings++ % ARRAY_SIZE(w->readings)].bytes = bytes;
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

void interp_window_limit(struct interp_window *w, struct clock *clock, int64_t deadline_ns)
{
	w->clock = clock;
	w->deadline_ns = deadline_ns;
}
