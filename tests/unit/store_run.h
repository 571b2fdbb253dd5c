/* SPDX-License-Identifier: Apache-2.0
 *
 * A scraper's life in a virtual clock over the simulated file system: targets whose scrape number i is always the same, asked from the
 * store's cursor, with syncs and upkeep in between. Whatever goes wrong, the end must look like a run where nothing did.
 */
#pragma once
#include "tests/crash/simfs.h"
#include "tests/unit/store_gen.h"
#include <inttypes.h>

static const int64_t run_start_ns = 1700000000LL * NS_PER_S;

struct run {
	struct simfs fs;
	struct clock_virtual clock;
	struct store_options o;
	struct store *s;
	uint64_t seed;
	unsigned n_targets;
	uint64_t n_steps;
	struct gen shape;
	struct gen_scrape *ready[16]; /* of target 0, made beforehand (run_make_ready) */
};

static inline void run_init(struct run *r, uint64_t seed, unsigned n_targets, uint64_t n_steps)
{
	*r = (struct run) {.seed = seed, .n_targets = n_targets, .n_steps = n_steps};
	simfs_init(&r->fs, seed);
	clock_virtual_init(&r->clock, run_start_ns);
	r->o = (struct store_options) {
		.path = "/data",
		.fs = &r->fs.fs,
		.clock = &r->clock.clock,
		.segment_bytes = 16 << 10,
		.max_nodes = 1 << 12,
		.cache_bytes = 1 << 20,
		.block_ns = 150 * NS_PER_S,
		.seed = seed | 1,
	};
	r->shape = (struct gen) {.n_functions = 40, .max_depth = 8, .max_rows = 6, .n_streams = 2};
}

static inline void run_done(struct run *r)
{
	store_close(r->s);
	simfs_done(&r->fs);
	for (size_t i = 0; i < ARRAY_SIZE(r->ready); i++)
		if (r->ready[i])
			gen_scrape_free(r->ready[i]);
}

/* A run that goes on from where a closed one stands; the scrapes made ready stay with the first. */
static inline void run_copy(struct run *to, const struct run *from)
{
	ASSERT(!from->s);
	*to = *from;
	memset(to->ready, 0, sizeof(to->ready));
	simfs_copy(&to->fs, &from->fs);
	to->o.fs = &to->fs.fs;
	to->o.clock = &to->clock.clock;
}

static inline int run_open(struct run *r, struct errbuf *eb)
{
	/* Every life draws its own ULIDs, as the kernel's randomness would. */
	r->o.seed = hash_mix(r->o.seed);
	return store_open(&r->o, &r->s, eb);
}

static inline struct gen_scrape *run_scrape(const struct run *r, unsigned target, uint64_t step)
{
	struct gen g = r->shape;

	g.state = hash_mix(r->seed * 1000003 + target * 7919 + step);
	return gen_scrape(&g, target, step, run_start_ns + (int64_t)step * 15 * NS_PER_S + target);
}

/* Makes the scrapes of target 0 now: where allocations are made to fail, only the store's count. */
static inline void run_make_ready(struct run *r)
{
	for (uint64_t step = 0; step < r->n_steps; step++)
		r->ready[step] = run_scrape(r, 0, step);
}

/* The number of the next scrape: what the durable cursor says. */
static inline uint64_t run_next(struct run *r, unsigned target)
{
	_cleanup_bytes_ struct bytes value = {.data = NULL};
	char key[32];

	snprintf(key, sizeof(key), "node/%u", target);
	if (store_cursor_get(r->s, (struct store_blob) {key, strlen(key)}, &value) < 0)
		return 0;
	bytes_put_u8(&value, 0);
	return strtoull((char *)value.data, NULL, 10);
}

/* One scrape of a target, when it is not behind its last one. 1: done with all; else store_append's answer. */
static inline int run_one(struct run *r, unsigned target, struct errbuf *eb)
{
	struct store_result res;
	uint64_t step = run_next(r, target);
	struct gen_scrape *x;
	int e;

	if (step >= r->n_steps)
		return 1;
	if (!target && step < ARRAY_SIZE(r->ready) && r->ready[step])
		return store_append(r->s, &r->ready[step]->s, &res, eb);
	x = run_scrape(r, target, step);
	e = store_append(r->s, &x->s, &res, eb);
	gen_scrape_free(x);
	return e;
}

/* What a store without any fault answers at the end. */
static inline char *run_reference(uint64_t seed, unsigned n_targets, uint64_t n_steps)
{
	struct errbuf eb = {.text = ""};
	struct run r;
	char *text;
	int e;

	run_init(&r, seed, n_targets, n_steps);
	r.o.block_ns = 1000000 * NS_PER_S;
	e = run_open(&r, &eb);
	ASSERT(!e);
	for (uint64_t step = 0; step < n_steps; step++) {
		for (unsigned t = 0; t < n_targets; t++) {
			e = run_one(&r, t, &eb);
			if (e)
				err_panic("scrape %" PRIu64 " of target %u: %s", step, t,
					err_text(&eb, e));
		}
		clock_virtual_advance(&r.clock, 15 * NS_PER_S);
	}
	text = gen_dump_store(r.s, false);
	run_done(&r);
	return text;
}
