/* SPDX-License-Identifier: Apache-2.0
 *
 * Crashes: at a chosen operation the process dies, with or without the power, in ingest, sync, flush, compaction, deletion, retention or
 * start-up itself. After any number of lives every acknowledged scrape is there exactly once, unless a deletion covered it; a deletion
 * that was acknowledged stays, one that was not is all or nothing. At the end the store answers as if nothing had happened.
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
static uint64_t n_compactions, n_deaths, n_cuts, n_deletions, n_finished, n_forgotten;

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
	struct {
		bool step[TARGETS][STEPS];
	} deleted, in_doubt; /* acknowledged; and by a deletion that was not, if has_doubt */
	bool has_doubt;
};

/* Of a dump, the lines that are stored: scrapes before next[target] that were not deleted. */
static char *expected(const struct run *r, const char *reference, const struct promise *p,
	bool with_doubt, const uint64_t *next)
{
	struct bytes out = {.data = NULL};

	for (const char *line = reference; *line; line = strchr(line, '\n') + 1) {
		const char *host = strstr(line, "host-"), *time = strstr(line, "  time=");
		unsigned t = (unsigned)strtoul(host + 5, NULL, 10);
		uint64_t step =
			(uint64_t)(strtoll(time + 7, NULL, 10) - run_start_ns) / (15 * NS_PER_S);

		assert_true(t < r->n_targets && step < r->n_steps);
		if (step < next[t] && !p->deleted.step[t][step] &&
			!(with_doubt && p->in_doubt.step[t][step]))
			bytes_put(&out, line, (size_t)(strchr(line, '\n') + 1 - line));
	}
	bytes_put_u8(&out, 0);
	return (char *)out.data;
}

/* Deletes some scrapes of one target, or of all. */
static int delete_some(struct run *r, struct gen *g, struct promise *p)
{
	unsigned target = (unsigned)gen_below(g, TARGETS + 1);
	uint64_t from = gen_below(g, STEPS), to = from + gen_below(g, STEPS - from), n;
	const int64_t step_ns = 15 * NS_PER_S;
	char value[32] = "host-.*";
	const struct store_matcher m = {
		.op = target < TARGETS ? STORE_EQ : STORE_RE, .name = "instance", .value = value};
	struct errbuf eb = {.text = ""};
	int e;

	if (target < TARGETS)
		snprintf(value, sizeof(value), "host-%u:7273", target);
	memset(&p->in_doubt, 0, sizeof(p->in_doubt));
	for (unsigned t = 0; t < TARGETS; t++)
		for (uint64_t i = from; i <= to && i < run_next(r, t); i++)
			p->in_doubt.step[t][i] = target == t || target == TARGETS;
	e = store_delete(r->s, &m, 1, run_start_ns + (int64_t)from * step_ns,
		run_start_ns + (int64_t)to * step_ns + TARGETS, &n, &eb);
	p->has_doubt = e < 0;
	for (unsigned i = 0; !e && i < TARGETS * STEPS; i++)
		p->deleted.step[i / STEPS][i % STEPS] |= p->in_doubt.step[i / STEPS][i % STEPS];
	n_deletions += !e;
	return e;
}

/* A deletion that was not acknowledged: all of it was done, or nothing. */
static void settle_doubt(struct run *r, struct promise *p, const char *reference, uint64_t seed)
{
	_cleanup_free_ char *have = NULL, *without = NULL, *with = NULL;
	uint64_t next[TARGETS];

	if (!p->has_doubt)
		return;
	for (unsigned t = 0; t < TARGETS; t++)
		next[t] = run_next(r, t);
	have = gen_dump_store(r->s, true);
	without = expected(r, reference, p, false, next);
	with = expected(r, reference, p, true, next);
	if (strcmp(have, without) && strcmp(have, with))
		fail_msg("seed %" PRIu64 ": a part of a deletion", seed);
	if (strcmp(have, without)) {
		for (unsigned i = 0; i < TARGETS * STEPS; i++)
			p->deleted.step[i / STEPS][i % STEPS] |=
				p->in_doubt.step[i / STEPS][i % STEPS];
		n_finished++;
	} else {
		n_forgotten++;
	}
	p->has_doubt = false;
}

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
		if (gen_below(g, 10) == 0 && delete_some(r, g, p) < 0)
			return false;
		if (gen_below(g, 20) == 0 && store_clean_tombstones(r->s, &eb) < 0)
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
	const uint64_t whole[TARGETS] = {STEPS, STEPS, STEPS};
	char *reference = run_reference(seed, TARGETS, STEPS), *text, *want;
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
			settle_doubt(&r, &p, reference, seed);
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
	settle_doubt(&r, &p, reference, seed);
	text = gen_dump_store(r.s, true);
	want = expected(&r, reference, &p, false, whole);
	if (strcmp(text, want))
		fail_msg("seed %" PRIu64
			 ": the store answers otherwise than one that never crashed",
			seed);
	free(text);
	free(want);
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
		      " compactions, %" PRIu64 " deletions, %" PRIu64
		      " interrupted and done, %" PRIu64 " interrupted and not\n",
		rounds, n_deaths, n_cuts, n_compactions, n_deletions, n_finished, n_forgotten);
	/* Few rounds may have none. */
	assert_true(rounds < 400 || n_finished);
	assert_true(rounds < 40 || (n_compactions > rounds / 3 && n_cuts > rounds &&
					   n_deletions > rounds && n_forgotten));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
