/* SPDX-License-Identifier: Apache-2.0
 *
 * kill -9 for real: a child works on a store of the real file system (ingest, flush, compaction, retention, deletions) and says through a
 * pipe what was acknowledged; the parent kills it at a random moment, again and again. Every life finds all that was acknowledged, what is
 * there is right and there once, a deletion that was acknowledged stays and one that was not is all or nothing. SONDE_CRASH_ROUNDS sets the number of lives, SONDE_CRASH_SEED the seed.
 */
#include "tests/unit/store_gen.h"
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum {
	TARGETS = 2,
	STEP_S = 15,
	BLOCK_STEPS = 8,  /* a block's length */
	KEEP_STEPS = 200, /* what retention keeps */
	MAX_LIFE_MS = 60,
	DELETE_STEPS = 6, /* what a deletion takes at most */
	CHECK_EVERY = 20, /* lives */
};
static const int64_t start_ns = 1700000000LL * NS_PER_S;

/* Scrapes [from, to) of a target. No two have one in common. */
struct deletion {
	uint32_t target;
	uint64_t from, to;
	bool acked;
};

struct kill_test {
	char dir[48];
	uint64_t seed;
	uint64_t acked[TARGETS], deleted_to[TARGETS];
	struct deletion *deletions;
	size_t n_deletions, cap_deletions;
	uint64_t n_compactions, n_deleted, n_flushes, n_in_doubt;
};

/* What a child tells its parent. */
struct message {
	enum { ACKED, DELETING, DELETED, DID, WRONG } kind;
	uint32_t target;
	uint64_t value, to, compactions, deleted, flushes;
};

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static struct gen_scrape *scrape_of(uint64_t seed, unsigned target, uint64_t step)
{
	struct gen g = {.state = hash_mix(seed * 1000003 + target * 7919 + step),
		.n_functions = 40,
		.max_depth = 8,
		.max_rows = 6,
		.n_streams = 2};

	return gen_scrape(&g, target, step, start_ns + (int64_t)step * STEP_S * NS_PER_S + target);
}

static uint64_t next_step(struct store *s, unsigned target)
{
	_cleanup_bytes_ struct bytes value = {.data = NULL};
	char key[32];

	snprintf(key, sizeof(key), "node/%u", target);
	if (store_cursor_get(s, (struct store_blob) {key, strlen(key)}, &value) < 0)
		return 0;
	bytes_put_u8(&value, 0);
	return strtoull((char *)value.data, NULL, 10);
}

static int open_store(const struct kill_test *t, struct clock_virtual *clock, struct store **ret)
{
	const struct store_options o = {
		.path = t->dir,
		.clock = &clock->clock,
		.segment_bytes = 64 << 10,
		.max_nodes = 1 << 12,
		.block_ns = (int64_t)BLOCK_STEPS * STEP_S * NS_PER_S,
		.retention_ns = (int64_t)KEEP_STEPS * STEP_S * NS_PER_S,
		.out_of_order_ns = 100LL * 86400 * NS_PER_S,
	};
	struct errbuf eb = {.text = ""};
	int r = store_open(&o, ret, &eb);

	if (r < 0)
		fprintf(stderr, "store_open: %s\n", eb.text);
	return r;
}

static void say(int fd, const struct message *m)
{
	if (write(fd, m, sizeof(*m)) != sizeof(*m))
		_exit(3);
}

/* Some of the last scrapes of a target, none twice. */
static void delete_some(const struct kill_test *t, struct store *s, uint64_t *from, int fd)
{
	uint64_t random = hash_mix(t->seed + *from * 31 + next_step(s, 0));
	uint32_t target = (uint32_t)(random % TARGETS);
	uint64_t end = next_step(s, target), first = from[target], n;
	struct errbuf eb = {.text = ""};
	char value[32];
	const struct store_matcher m = {.op = STORE_EQ, .name = "instance", .value = value};

	first = MAX(first, end > DELETE_STEPS ? end - DELETE_STEPS : 0);
	if (first >= end)
		return;
	end -= random >> 8 & 1 && end - first > 1; /* with what is newest, or not */
	snprintf(value, sizeof(value), "host-%u:7273", target);
	say(fd, &(struct message) {.kind = DELETING, .target = target, .value = first, .to = end});
	from[target] = end;
	if (store_delete(s, &m, 1, start_ns + (int64_t)first * STEP_S * NS_PER_S,
		    start_ns + (int64_t)end * STEP_S * NS_PER_S - 1, &n, &eb) < 0) {
		fprintf(stderr, "delete: %s\n", eb.text);
		say(fd, &(struct message) {.kind = WRONG, .value = 4});
	}
	say(fd, &(struct message) {.kind = DELETED, .target = target, .value = first, .to = end});
}

/* One life: works until it is killed. */
static void live(const struct kill_test *t, int fd)
{
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_stats st;
	uint64_t from[TARGETS];

	memcpy(from, t->deleted_to, sizeof(from));
	clock_virtual_init(&clock, start_ns);
	if (open_store(t, &clock, &s) < 0) {
		say(fd, &(struct message) {.kind = WRONG, .value = 1});
		_exit(1);
	}
	for (unsigned i = 0; i < TARGETS; i++)
		if (next_step(s, i) < t->acked[i])
			say(fd, &(struct message) {
					.kind = WRONG, .target = i, .value = next_step(s, i)});
	for (;;) {
		for (unsigned i = 0; i < TARGETS; i++) {
			uint64_t step = next_step(s, i);
			struct gen_scrape *x;
			struct store_result res;
			int r;

			/* A life that ended in between leaves one target behind. */
			if (step > next_step(s, (i + 1) % TARGETS))
				continue;
			x = scrape_of(t->seed, i, step);
			clock.real_ns = MAX(clock.real_ns, x->s.time_ns);
			r = store_append(s, &x->s, &res, &eb);
			gen_scrape_free(x);
			if (r < 0) {
				fprintf(stderr, "append: %s\n", err_text(&eb, r));
				say(fd, &(struct message) {.kind = WRONG, .value = 2});
			}
			say(fd, &(struct message) {.kind = ACKED, .target = i, .value = step + 1});
		}
		clock_virtual_advance(&clock, STEP_S * NS_PER_S);
		if (store_maintain(s, &eb) < 0) {
			fprintf(stderr, "maintain: %s\n", eb.text);
			say(fd, &(struct message) {.kind = WRONG, .value = 3});
		}
		if (hash_mix(t->seed + next_step(s, 0)) % 8 == 0)
			delete_some(t, s, from, fd);
		store_stats(s, &st);
		say(fd, &(struct message) {.kind = DID,
				.compactions = st.compactions,
				.deleted = st.blocks_deleted,
				.flushes = st.flushes});
	}
}

static void note_deletion(struct kill_test *t, const struct message *m)
{
	if (m->kind == DELETED) {
		t->deletions[t->n_deletions - 1].acked = true;
		return;
	}
	assert_int_equal(alloc_grow(&t->deletions, &t->cap_deletions, t->n_deletions + 1,
				 sizeof(*t->deletions)),
		0);
	t->deletions[t->n_deletions++] =
		(struct deletion) {.target = m->target, .from = m->value, .to = m->to};
	t->deleted_to[m->target] = m->to;
}

/* Takes what the child said before it died. */
static void listen_to(struct kill_test *t, int fd, uint64_t round)
{
	struct message m, did = {.value = 0};
	bool begun = false;

	while (read(fd, &m, sizeof(m)) == sizeof(m)) {
		begun = m.kind == DELETING || (begun && m.kind != DELETED);
		if (m.kind == WRONG)
			fail_msg("seed %" PRIu64 ", life %" PRIu64 ": target %u has %" PRIu64
				 ", %" PRIu64 " were acknowledged",
				t->seed, round, m.target, m.value, t->acked[m.target]);
		if (m.kind == ACKED)
			t->acked[m.target] = m.value;
		else if (m.kind == DID)
			did = m;
		else
			note_deletion(t, &m);
	}
	t->n_in_doubt += begun;
	t->n_compactions += did.compactions;
	t->n_deleted += did.deleted;
	t->n_flushes += did.flushes;
}

static void one_life(struct kill_test *t, uint64_t round, uint64_t us)
{
	const struct timespec wait = {
		.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fds[0]);
		live(t, fds[1]);
	}
	close(fds[1]);
	nanosleep(&wait, NULL); /* then it ends, whatever it is at */
	kill(pid, SIGKILL);
	listen_to(t, fds[0], round);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* It did not end by itself. */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The lines of a dump with a time at or after `from`. */
static char *lines_since(const char *text, int64_t from)
{
	struct bytes out = {.data = NULL};
	char *ret;

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n") + 1;
		_cleanup_free_ char *line = xstrndup(p, n);
		const char *time = strstr(line, "time=");

		if (time && strtoll(time + 5, NULL, 10) >= from)
			bytes_put(&out, p, n);
		p += n;
	}
	bytes_put_u8(&out, 0);
	ret = xstrdup((char *)out.data);
	bytes_done(&out);
	return ret;
}

/* In the line that begins here; not strstr, for which a sanitizer measures all lines that follow. */
static const char *in_line(const char *line, const char *what)
{
	return memmem(line, strcspn(line, "\n"), what, strlen(what));
}

static bool is_of(const struct deletion *d, const char *line)
{
	const char *host = in_line(line, "host-"), *time = in_line(line, "time=");
	uint64_t step = (uint64_t)(strtoll(time + 5, NULL, 10) - start_ns) / (STEP_S * NS_PER_S);

	return strtoul(host + 5, NULL, 10) == d->target && step >= d->from && step < d->to;
}

/* A deletion that was not acknowledged: as soon as one of its scrapes is there, all are. What is so is settled from now on. */
static void settle(struct kill_test *t, const char *want, const char *have)
{
	const size_t n_have = strlen(have);

	for (size_t i = 0; i < t->n_deletions; i++) {
		struct deletion *d = &t->deletions[i];
		uint64_t n = 0, found = 0;

		for (const char *p = want; !d->acked && *p; p += strcspn(p, "\n") + 1) {
			if (!is_of(d, p))
				continue;
			n++;
			found += memmem(have, n_have, p, strcspn(p, "\n") + 1) != NULL;
		}
		if (found && found < n)
			fail_msg("seed %" PRIu64 ": a part of a deletion", t->seed);
		if (!d->acked && found)
			d->to = d->from; /* it was not done, and will not be */
		else if (n)
			d->acked = true;
	}
}

/* Without what was deleted. */
static char *not_deleted(const struct kill_test *t, const char *text)
{
	struct bytes out = {.data = NULL};

	for (const char *p = text, *next; *p; p = next) {
		bool gone = false;

		next = p + strcspn(p, "\n") + 1;
		for (size_t i = 0; i < t->n_deletions; i++)
			gone |= t->deletions[i].acked && is_of(&t->deletions[i], p);
		if (!gone)
			bytes_put(&out, p, (size_t)(next - p));
	}
	bytes_put_u8(&out, 0);
	return (char *)out.data;
}

/* What a store that was never disturbed says of the last steps. */
static char *reference(const struct kill_test *t, const uint64_t *steps, uint64_t first)
{
	struct kill_test other = {.seed = t->seed};
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_result res;
	char *text;

	snprintf(other.dir, sizeof(other.dir), "%.40s.ref", t->dir);
	clock_virtual_init(&clock, start_ns);
	assert_int_equal(open_store(&other, &clock, &s), 0);
	for (unsigned i = 0; i < TARGETS; i++)
		for (uint64_t step = first; step < steps[i]; step++) {
			struct gen_scrape *x = scrape_of(t->seed, i, step);

			x->s.cursor_key.len = 0;
			clock.real_ns = MAX(clock.real_ns, x->s.time_ns);
			assert_int_equal(store_append(s, &x->s, &res, &eb), 0);
			gen_scrape_free(x);
		}
	text = gen_dump_store(s, false);
	store_close(s);
	assert_int_equal(fs_remove_all(&fs_system, other.dir), 0);
	return text;
}

static void check_all(struct kill_test *t)
{
	uint64_t steps[TARGETS], first = 0;
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct store *s = NULL;
	char *all, *have, *want, *whole, *left;
	int64_t from;

	clock_virtual_init(&clock, start_ns);
	assert_int_equal(open_store(t, &clock, &s), 0);
	assert_int_equal(store_maintain(s, &eb), 0);
	for (unsigned i = 0; i < TARGETS; i++) {
		steps[i] = next_step(s, i);
		assert_true(steps[i] >= t->acked[i]);
		first = MAX(first, steps[i]);
	}
	first = first > KEEP_STEPS ? first - KEEP_STEPS : 0;
	from = start_ns + (int64_t)(first + 1) * STEP_S * NS_PER_S;
	store_stats(s, &st);
	assert_int_equal(st.blocks_quarantined, 0);
	all = gen_dump_store(s, true);
	have = lines_since(all, from);
	whole = reference(t, steps, first);
	want = lines_since(whole, from);
	settle(t, want, have);
	left = not_deleted(t, want);
	if (strcmp(have, left))
		fail_msg("seed %" PRIu64 ": the store answers otherwise than one that was never "
			 "killed",
			t->seed);
	free(all);
	free(have);
	free(want);
	free(whole);
	free(left);
	store_close(s);
}

static void test_kill(void **state)
{
	uint64_t rounds = from_env("SONDE_CRASH_ROUNDS", 60);
	struct kill_test t = {.seed = from_env("SONDE_CRASH_SEED", 1)};

	(void)state;
	/* What a killed process wrote is in the page cache: a disk would only slow the lives down. */
	snprintf(t.dir, sizeof(t.dir), "%s/sonde-kill-XXXXXX",
		access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(t.dir));
	for (uint64_t i = 0; i < rounds; i++) {
		one_life(&t, i, hash_mix(t.seed * 31 + i) % (MAX_LIFE_MS * 1000) + 500);
		if (i % CHECK_EVERY == CHECK_EVERY - 1 || i == rounds - 1)
			check_all(&t);
	}
	print_message("seed %" PRIu64 ": %" PRIu64 " lives, %" PRIu64 " scrapes, %" PRIu64
		      " flushes, %" PRIu64 " compactions, %" PRIu64
		      " blocks deleted, %zu deletions, %" PRIu64 " of them interrupted\n",
		t.seed, rounds, t.acked[0] + t.acked[1], t.n_flushes, t.n_compactions, t.n_deleted,
		t.n_deletions, t.n_in_doubt);
	assert_true(t.acked[0] > 0);
	free(t.deletions);
	assert_int_equal(fs_remove_all(&fs_system, t.dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
