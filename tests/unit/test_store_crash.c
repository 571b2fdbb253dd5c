/* SPDX-License-Identifier: Apache-2.0
 *
 * Crashes: at a chosen operation the process dies, with or without the power, in ingest, sync, flush, retention or start-up itself. After
 * any number of lives every acknowledged scrape is there exactly once, and at the end the store answers as if nothing had happened.
 * SONDE_CRASH_ROUNDS sets the number of rounds, SONDE_CRASH_SEED repeats one.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { TARGETS = 3, STEPS = 24, MAX_LIVES = 40 };

/* Over all rounds: that the lives did what they are there for. */
static uint64_t n_compactions, n_deaths, n_cuts;

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* What was promised: per target the number of scrapes that cannot be lost any more. */
struct promise {
	uint64_t written[TARGETS];  /* survives the process */
	uint64_t sequence[TARGETS]; /* of the last one */
	uint64_t synced[TARGETS];   /* survives the power */
};

static void note_synced(struct run *r, struct promise *p)
{
	struct store_stats st;

	store_stats(r->s, &st);
	for (unsigned t = 0; t < TARGETS; t++)
		if (p->sequence[t] <= st.synced_sequence)
			p->synced[t] = p->written[t];
}

/* Works until all is scraped or the process died. Returns true when all is there. */
static bool live(struct run *r, struct gen *g, struct promise *p, uint64_t *seen)
{
	struct errbuf eb = {.text = ""};
	unsigned done = 0;

	while (done < TARGETS) {
		struct store_stats now;

		done = 0;
		for (unsigned t = 0; t < TARGETS; t++) {
			struct store_stats st;
			int e = run_one(r, t, &eb);

			done += e == 1;
			if (e < 0)
				return false;
			p->written[t] = run_next(r, t);
			store_stats(r->s, &st);
			p->sequence[t] = st.written_sequence;
		}
		/* A failure shows in the next append, or is tried again. */
		if (gen_below(g, 3) == 0 && store_sync(r->s) == 0)
			note_synced(r, p);
		if (gen_below(g, 4) == 0 && store_maintain(r->s, &eb) < 0)
			return false;
		if (gen_below(g, 5) == 0 && store_flush(r->s, &eb) < 0)
			return false;
		note_synced(r, p);
		clock_virtual_advance(&r->clock, NS_PER_S);
		store_stats(r->s, &now);
		n_compactions += now.compactions > *seen;
		*seen = now.compactions;
	}
	return true;
}

/* Checks, then starts from what is there: start-up made it durable. */
static void check_promise(
	struct run *r, struct promise *p, bool power, uint64_t seed, unsigned lives)
{
	for (unsigned t = 0; t < TARGETS; t++) {
		uint64_t have = run_next(r, t), want = power ? p->synced[t] : p->written[t];

		if (have < want)
			fail_msg("seed %" PRIu64 ", life %u: target %u has %" PRIu64
				 " scrapes, %" PRIu64 " were promised",
				seed, lives, t, have, want);
		p->written[t] = p->synced[t] = have;
		p->sequence[t] = 0;
	}
}

static void one_round(uint64_t seed)
{
	struct gen g = {.state = seed};
	struct promise p = {.written = {0}};
	struct errbuf eb = {.text = ""};
	char *reference = run_reference(seed, TARGETS, STEPS), *text;
	bool power = false, all = false;
	struct run r;

	run_init(&r, seed, TARGETS, STEPS);
	for (unsigned life = 0; !all; life++) {
		uint64_t seen = 0;
		int e;

		/* The last lives are not disturbed, so that the work gets done. */
		r.fs.die_at = life < MAX_LIVES ? 1 + gen_below(&g, life % 3 ? 150 : 40) : 0;
		e = run_open(&r, &eb);
		if (e == 0) {
			check_promise(&r, &p, power, seed, life);
			power = false;
			all = live(&r, &g, &p, &seen);
			store_close(TAKE(r.s));
		} else if (e != -EIO) {
			fail_msg("seed %" PRIu64 ", life %u: store_open: %s", seed, life, eb.text);
		}
		n_deaths += !all;
		if (gen_below(&g, 2)) {
			power = true;
			n_cuts++;
			simfs_power_cut(&r.fs);
		} else {
			simfs_restart(&r.fs);
		}
	}
	if (run_open(&r, &eb) < 0)
		fail_msg("seed %" PRIu64 ": store_open at the end: %s", seed, eb.text);
	for (unsigned t = 0; t < TARGETS; t++)
		while (run_one(&r, t, &eb) == 0)
			;
	text = gen_dump_store(r.s, true);
	if (strcmp(text, reference))
		fail_msg("seed %" PRIu64
			 ": the store answers otherwise than one that never crashed",
			seed);
	free(text);
	free(reference);
	run_done(&r);
}

static void test_crashes(void **state)
{
	uint64_t rounds = from_env("SONDE_CRASH_ROUNDS", 40),
		 seed = from_env("SONDE_CRASH_SEED", 0);

	(void)state;
	if (seed) {
		one_round(seed);
		return;
	}
	for (uint64_t i = 1; i <= rounds; i++)
		one_round(i);
	print_message("%" PRIu64 " rounds: %" PRIu64 " deaths, %" PRIu64 " power cuts, %" PRIu64
		      " compactions\n",
		rounds, n_deaths, n_cuts, n_compactions);
	/* Few rounds may have none. */
	assert_true(rounds < 40 || (n_compactions > rounds / 3 && n_cuts > rounds));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
