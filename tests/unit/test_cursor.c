/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise of the cursor under random histories: clients that ask at random moments with random
 * spans, across clock steps, suspends, stalls, late rows and tree rebuilds, each get every row
 * exactly once; with a small byte cap at most once, and what is missing is reported as lost time.
 */
#include "exporter/sample/log.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { N_CLIENTS = 4, N_STEPS = 2500, MAX_ROWS = 40000 };

struct client {
	char cursor[48];
	uint8_t *seen; /* per row */
	int64_t lost_ns, served_ns, last_wall_end_ns;
};

struct history {
	struct clock_virtual clock;
	struct stacks *stacks;
	struct sample_log *log;
	struct client clients[N_CLIENTS];
	uint32_t n_rows;
	uint64_t seed;
	bool stepped;
};

static uint32_t random_below(struct history *h, uint32_t n)
{
	h->seed = hash_mix(h->seed + 0x9e3779b97f4a7c15ULL);
	return (uint32_t)(h->seed >> 33) % n;
}

/* Rows carry their number as task. */
static void add_rows(struct history *h)
{
	uint32_t n = random_below(h, 30);

	for (uint32_t i = 0; i < n && h->n_rows < MAX_ROWS; i++) {
		int64_t age_ns = random_below(h, 20) ? random_below(h, 100) * NS_PER_MS
						     : random_below(h, 3000) * NS_PER_MS;
		struct sample_row row = {
			.time_ns = (uint64_t)MAX(h->clock.mono_ns - age_ns, 0),
			.task = h->n_rows,
			.weight = 1 + random_below(h, 3),
		};
		uint64_t frames[2] = {random_below(h, 4), random_below(h, 50)};

		assert_int_equal(stacks_add(h->stacks, frames, 2, &row.stack), 0);
		assert_int_equal(sample_log_append(h->log, &row), 0);
		h->n_rows++;
	}
}

static void rebuild_tree(struct history *h)
{
	_cleanup_free_ uint64_t *live = xcalloc(stacks_count(h->stacks) / 64 + 1, sizeof(*live));
	_cleanup_free_ uint64_t *tasks = xcalloc(MAX_ROWS / 64 + 1, sizeof(*tasks));
	_cleanup_free_ uint32_t *remap = xcalloc(stacks_count(h->stacks), sizeof(*remap));

	sample_log_mark(h->log, tasks, live);
	stacks_compact(h->stacks, live, remap);
	sample_log_remap_stacks(h->log, remap);
}

static void read_once(struct history *h, struct client *c, uint32_t span_s, bool exactly)
{
	struct sample_range range, again;
	struct sample_rows rows;
	size_t pos = 0;

	assert_int_equal(sample_log_since(h->log, c->cursor, span_s, &range, NULL), 0);
	assert_int_equal(sample_log_since(h->log, c->cursor, span_s, &again, NULL), 0);
	assert_memory_equal(&range, &again, sizeof(range)); /* asking twice gives the same */
	assert_false(range.restarted);
	assert_true(strlen(range.cursor) <= SAMPLE_CURSOR_MAX);
	while (sample_log_next(h->log, &range, &pos, &rows))
		for (uint32_t i = 0; i < rows.n; i++) {
			assert_true(rows.task[i] < h->n_rows);
			assert_int_equal(c->seen[rows.task[i]], 0);
			c->seen[rows.task[i]] = 1;
		}
	if (range.duration_ns && !h->stepped && c->last_wall_end_ns)
		assert_true(range.wall_ns >= c->last_wall_end_ns);
	if (range.duration_ns)
		c->last_wall_end_ns = range.wall_ns + range.duration_ns;
	c->lost_ns += range.lost_ns;
	c->served_ns += range.duration_ns;
	if (exactly)
		assert_true(range.duration_ns <= span_s * NS_PER_S);
	memcpy(c->cursor, range.cursor, sizeof(c->cursor));
}

static void step(struct history *h, bool exactly)
{
	add_rows(h);
	clock_virtual_advance(&h->clock, random_below(h, 200) * NS_PER_MS);
	switch (random_below(h, 100)) {
	case 0: { /* suspend */
		int64_t ns = (int64_t)random_below(h, 5000) * 4 * NS_PER_MS;

		h->clock.boot_ns += ns;
		h->clock.real_ns += ns;
		break;
	}
	case 1:
		clock_virtual_step(&h->clock, ((int64_t)random_below(h, 2000) - 1000) * NS_PER_S),
			h->stepped = true;
		break;
	case 2:
		clock_virtual_advance(&h->clock, random_below(h, 8000) * NS_PER_MS);
		break; /* the drain stalls */
	case 3: rebuild_tree(h); break;
	default: break;
	}
	if (random_below(h, 3))
		sample_log_drained(h->log, h->clock.mono_ns - 50 * NS_PER_MS,
			h->clock.boot_ns - h->clock.mono_ns);
	for (int i = 0; i < N_CLIENTS; i++)
		if (!random_below(h, 20))
			read_once(h, &h->clients[i], 1 + random_below(h, 15), exactly);
}

static void begin(struct history *h, uint64_t seed, uint64_t retention_bytes)
{
	struct sample_log_options o = {.retention_s = 3600,
		.window_s = 10,
		.retention_bytes = retention_bytes,
		.start_id = seed};

	memset(h, 0, sizeof(*h));
	h->seed = seed;
	clock_virtual_init(&h->clock, 1700000000 * NS_PER_S);
	h->clock.boot_ns = 77777 * NS_PER_MS;
	h->stacks = stacks_new(NULL);
	o.stacks = h->stacks;
	o.clock = &h->clock.clock;
	h->log = sample_log_new(&o);
	for (int i = 0; i < N_CLIENTS; i++) {
		struct sample_range range;

		h->clients[i].seen = xcalloc(MAX_ROWS, 1);
		assert_int_equal(sample_log_since(h->log, "", 10, &range, NULL), 0);
		memcpy(h->clients[i].cursor, range.cursor, sizeof(range.cursor));
	}
}

static void finish(struct history *h)
{
	for (int k = 0; k < 40; k++) {
		clock_virtual_advance(&h->clock, NS_PER_S);
		sample_log_drained(h->log, h->clock.mono_ns, h->clock.boot_ns - h->clock.mono_ns);
	}
	for (int i = 0; i < N_CLIENTS; i++) {
		struct sample_range range;

		do {
			read_once(h, &h->clients[i], 100, false);
			assert_int_equal(
				sample_log_since(h->log, h->clients[i].cursor, 100, &range, NULL),
				0);
		} while (range.whole_slots);
		assert_int_equal(range.behind_s, 0);
	}
}

static void end(struct history *h)
{
	for (int i = 0; i < N_CLIENTS; i++)
		free(h->clients[i].seen);
	sample_log_freep(&h->log);
	stacks_freep(&h->stacks);
}

static void test_every_row_exactly_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct history h;
		struct sample_log_stats stats;

		begin(&h, seed, UINT64_MAX);
		for (int i = 0; i < N_STEPS; i++)
			step(&h, true);
		finish(&h);
		sample_log_stats(h.log, &stats);
		assert_int_equal(stats.appended, h.n_rows);
		assert_true(stats.late > 0 && stats.suspended_ns > 0);
		for (int i = 0; i < N_CLIENTS; i++) {
			for (uint32_t row = 0; row < h.n_rows; row++)
				if (!h.clients[i].seen[row])
					fail_msg("seed %u, client %d: row %u was never served",
						(unsigned)seed, i, row);
			/* Nothing but suspends was lost, and all time is accounted for. */
			assert_int_equal(h.clients[i].lost_ns, stats.suspended_ns);
			assert_int_equal(h.clients[i].lost_ns + h.clients[i].served_ns,
				h.clock.boot_ns / NS_PER_S * NS_PER_S - 77777 * NS_PER_MS);
		}
		end(&h);
	}
}

static void test_with_a_small_cap_at_most_once(void **state)
{
	(void)state;
	for (uint64_t seed = 100; seed < 110; seed++) {
		struct history h;
		uint64_t missed = 0;

		begin(&h, seed, 20000);
		for (int i = 0; i < N_STEPS; i++)
			step(&h, false);
		finish(&h);
		for (int i = 0; i < N_CLIENTS; i++) {
			uint64_t mine = 0;

			for (uint32_t row = 0; row < h.n_rows; row++)
				mine += !h.clients[i].seen[row];
			missed += mine;
			if (mine)
				assert_true(h.clients[i].lost_ns > 0);
		}
		(void)missed;
		end(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_exactly_once),
		cmocka_unit_test(test_with_a_small_cap_at_most_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
