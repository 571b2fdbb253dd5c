/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables in memory: what is laid out is what the symbol file says at every place, by page and by cache; sharing, eviction,
 * refusals; and walkers that look up while tables come and go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include "exporter/parser/parser.h"
#include "tests/unit/unwind_host.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define S 1000000000LL

/* Nothing is walked here. */
static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w, (void)to, (void)bytes, (void)from;
	return -1;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	(void)w, (void)addr;
	return UNWIND_IN_DATA;
}

struct subject {
	struct symbol_file file;
	struct symbol_unwind unwind;
	uint64_t begin, end;	      /* offsets that pages cover */
	struct unwind_rule *expected; /* by offset less begin; sampled */
};

static const char *const paths[] = {"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"};
enum { LIBC, LOADER, LIBCRYPTO, N_SUBJECTS };
static struct subject subjects[N_SUBJECTS];

static int open_subjects(void **state)
{
	(void)state;
	for (int i = 0; i < N_SUBJECTS; i++) {
		int in = open(paths[i], O_RDONLY | O_CLOEXEC), out = memfd_create("out", 0);
		struct subject *s = &subjects[i];

		if (in < 0 ||
			parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out,
				NULL) < 0 ||
			symbol_file_map(out, &s->file, NULL) < 0 ||
			!symbol_unwind_of(&s->file, &s->unwind))
			return -1;
		s->begin = (uint64_t)s->unwind.info[SYMBOL_UNWIND_FIRST_PAGE] << UNWIND_PAGE_SHIFT;
		s->end = s->begin +
			 ((uint64_t)s->unwind.info[SYMBOL_UNWIND_N_PAGES] << UNWIND_PAGE_SHIFT);
		close(in);
		close(out);
	}
	return 0;
}

static int close_subjects(void **state)
{
	(void)state;
	for (int i = 0; i < N_SUBJECTS; i++)
		symbol_file_unmap(&subjects[i].file);
	return 0;
}

static int load(struct unwind_tables *t, uint32_t binary, const struct subject *s, int64_t now_ns)
{
	return unwind_tables_load(t, binary, s->file.identity.content_id, &s->unwind, now_ns);
}

static uint32_t word_at(const struct subject *s, uint32_t i)
{
	uint32_t v;

	memcpy(&v, s->unwind.words.data + (size_t)i * 4, 4);
	return v;
}

/* By going through the page from its begin. */
static bool rule_by_hand(const struct subject *s, uint64_t off, struct unwind_rule *ret)
{
	uint32_t page = (uint32_t)((off - s->begin) >> UNWIND_PAGE_SHIFT), entry = word_at(s, page);
	uint32_t first = UNWIND_PAGE_WORD(entry), n = UNWIND_PAGE_N(entry), rule;

	if (!entry)
		return false;
	rule = UNWIND_ROW_RULE(word_at(s, first));
	if (n == UNWIND_PAGE_MANY)
		n = word_at(s, ++first);
	for (uint32_t i = 1; i <= n && UNWIND_ROW_OFF(word_at(s, first + i)) <= (off & 0xffff); i++)
		rule = UNWIND_ROW_RULE(word_at(s, first + i));
	symbol_unwind_rule(&s->unwind, rule, ret);
	return rule != UNWIND_RULE_NONE;
}

/* What the cache of answers has after a look-up; want NULL: there is no row. */
static void check_answer(uint32_t binary, uint64_t off, const struct unwind_rule *want)
{
	struct unwind_rule got;
	struct unwind_answer *answer;
	__u32 seq, scratch = 0;
	__u64 key = unwind_key_of(NULL, binary, off, &seq, &scratch), plain;

	assert_true(key);
	assert_int_equal(
		unwind_recall(NULL, binary, key, seq, &got, &plain, &scratch), want != NULL);
	if (!want)
		return;
	assert_true(plain == unwind_plain(want));
	if (!plain)
		assert_memory_equal(want, &got, sizeof(got));

	/* The words of two writers: the rule itself is read. */
	answer = &host_memory.cache[UNWIND_CACHE_INDEX(UNWIND_CACHE_HASH(key))];
	answer->plain ^= 1ULL << UNWIND_PLAIN_BITS;
	assert_true(unwind_recall(NULL, binary, key, seq, &got, &plain, &scratch));
	assert_false(plain);
	assert_memory_equal(want, &got, sizeof(got));
	answer->plain ^= 1ULL << UNWIND_PLAIN_BITS;
	/* And those of another key. */
	answer->word ^= 1ULL << UNWIND_CACHE_SHIFT;
	assert_false(unwind_recall(NULL, binary, key, seq, &got, &plain, &scratch));
	answer->word ^= 1ULL << UNWIND_CACHE_SHIFT;
}

static void check_place(uint32_t binary, const struct subject *s, uint64_t off)
{
	struct unwind_rule want, got;
	__u32 scratch = 0;
	bool has = rule_by_hand(s, off, &want);

	assert_int_equal(unwind_lookup(NULL, binary, off, &got, &scratch),
		has ? UNWIND_FOUND : UNWIND_NO_ROW);
	if (has)
		assert_memory_equal(&want, &got, sizeof(want));
	check_answer(binary, off, has ? &want : NULL);
}

static void check_subject(uint32_t binary, const struct subject *s)
{
	struct unwind_rule rule;
	__u32 scratch = 0;

	for (uint64_t off = s->begin; off < s->end; off += 7)
		check_place(binary, s, off);
	assert_int_equal(unwind_lookup(NULL, binary, s->end, &rule, &scratch), UNWIND_NO_ROW);
	assert_int_equal(unwind_lookup(NULL, binary, ~0ULL, &rule, &scratch), UNWIND_NO_ROW);
	if (s->begin)
		assert_int_equal(
			unwind_lookup(NULL, binary, s->begin - 1, &rule, &scratch), UNWIND_NO_ROW);
}

static enum unwind_found found(uint32_t binary, uint64_t off)
{
	struct unwind_rule rule;
	__u32 scratch = 0;

	return unwind_lookup(NULL, binary, off, &rule, &scratch);
}

static void what_is_looked_up(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct unwind_tables_stats stats;

	(void)state;
	host_memory_init(1024, 4096, 64);
	t = unwind_tables_new(&host_memory);
	assert_int_equal(found(LIBC + 1, 0x30000), UNWIND_NO_TABLE);
	for (uint32_t i = 0; i < N_SUBJECTS; i++)
		assert_int_equal(load(t, i + 1, &subjects[i], S), 0);
	for (uint32_t i = 0; i < N_SUBJECTS; i++)
		check_subject(i + 1, &subjects[i]);
	unwind_tables_stats(t, &stats);
	assert_int_equal(stats.tables, 3);
	assert_int_equal(stats.binaries, 3);
	/* Rules are shared: the three have more between them. */
	assert_true(stats.rules < subjects[0].unwind.n_rules + subjects[1].unwind.n_rules +
					  subjects[2].unwind.n_rules - 100);
	assert_int_equal(stats.rules_refused, 0);
	/* Slabs are full but for the last one of each. */
	assert_true(stats.bytes < 4ULL * (subjects[0].unwind.n_words + subjects[1].unwind.n_words +
						 subjects[2].unwind.n_words) +
					  6 * 4096);
	unwind_tables_freep(&t);
	host_memory_done();
}

static void one_content_is_one_table(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct unwind_tables_stats stats;
	const struct subject *s = &subjects[LIBC];

	(void)state;
	host_memory_init(256, 4096, 64);
	t = unwind_tables_new(&host_memory);
	assert_false(unwind_tables_share(t, 5, s->file.identity.content_id));
	assert_int_equal(load(t, 5, s, S), 0);
	assert_int_equal(load(t, 6, s, S), 0);
	assert_true(unwind_tables_share(t, 7, s->file.identity.content_id));
	unwind_tables_stats(t, &stats);
	assert_int_equal(stats.tables, 1);
	assert_int_equal(stats.binaries, 3);
	assert_int_equal(stats.loaded, 1);
	assert_int_equal(stats.shared, 2);
	check_subject(5, s);
	check_subject(7, s);
	/* An id that is given to other content leads there; the others stay. */
	assert_int_equal(load(t, 6, &subjects[LOADER], S), 0);
	check_subject(6, &subjects[LOADER]);
	unwind_tables_drop(t, 5);
	assert_int_equal(found(5, 0x30000), UNWIND_NO_TABLE);
	check_subject(7, s);
	/* Nothing is bound to it any more, but it is still there. */
	unwind_tables_drop(t, 7);
	assert_true(unwind_tables_share(t, 8, s->file.identity.content_id));
	check_subject(8, s);
	unwind_tables_set_rowless(t, 9);
	assert_int_equal(found(9, 0x30000), UNWIND_NO_ROW);
	assert_int_equal(load(t, 9, s, S), 0);
	check_subject(9, s);
	unwind_tables_set_rowless(t, 9);
	check_subject(9, s);
	unwind_tables_freep(&t);
	host_memory_done();
}

static uint32_t slabs_of(const struct subject *s)
{
	return (s->unwind.n_words + UNWIND_SLAB_WORDS - 1) / UNWIND_SLAB_WORDS +
	       (s->unwind.info[SYMBOL_UNWIND_N_PAGES] > UNWIND_SLAB_WORDS);
}

static void the_longest_unused_goes(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct unwind_tables_stats stats;
	uint32_t wanted[8], ids[] = {3, 11, 12};

	(void)state;
	/* libcrypto does not fit beside the other two. */
	host_memory_init(
		slabs_of(&subjects[LIBCRYPTO]) + slabs_of(&subjects[LOADER]) + 1, 4096, 64);
	t = unwind_tables_new(&host_memory);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			load(t, ids[i], &subjects[i > 0], S), 0); /* libc, and twice the loader */
	assert_int_equal(load(t, 20, &subjects[LIBCRYPTO], 2 * S), -ENOSPC); /* both are in use */
	check_subject(11, &subjects[LOADER]);
	assert_int_equal(
		unwind_tables_scan(t, UINT32_MAX, 8 * S, wanted, 8), 0); /* the loader was used */
	assert_int_equal(found(20, 0x100000), UNWIND_NO_TABLE);
	assert_int_equal(unwind_tables_scan(t, UINT32_MAX, 9 * S, wanted, 8), 1);
	assert_int_equal(wanted[0], 20);
	assert_int_equal(load(t, 20, &subjects[LIBCRYPTO], 9 * S), 0);
	unwind_tables_stats(t, &stats);
	assert_int_equal(stats.evicted, 1);
	assert_int_equal(stats.refused_in_use, 1);
	assert_int_equal(found(3, 0x30000), UNWIND_NO_TABLE); /* nor from the cache */
	check_subject(12, &subjects[LOADER]);
	check_subject(20, &subjects[LIBCRYPTO]);
	assert_int_equal(unwind_tables_scan(t, UINT32_MAX, 10 * S, wanted, 8), 1);
	assert_int_equal(wanted[0], 3);
	assert_int_equal(unwind_tables_scan(t, UINT32_MAX, 11 * S, wanted, 8), 0);
	/* Back again, at the cost of both. */
	assert_int_equal(load(t, 3, &subjects[LIBC], 20 * S), 0);
	check_subject(3, &subjects[LIBC]);
	unwind_tables_stats(t, &stats);
	assert_true(stats.evicted >= 2);
	unwind_tables_freep(&t);
	host_memory_done();
}

static void refusals_are_counted(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct unwind_tables_stats stats;
	struct unwind_rule rule;
	uint32_t n_unknown = 0;
	__u32 scratch = 0;

	(void)state;
	host_memory_init(32, 40, 64);
	t = unwind_tables_new(&host_memory);
	assert_int_equal(load(t, 1, &subjects[LIBCRYPTO], S), -ENOSPC);
	assert_int_equal(load(t, 64, &subjects[LOADER], S), -ERANGE);
	assert_int_equal(load(t, 0, &subjects[LOADER], S), -ERANGE);
	/* 113 rules into room for 39: rows of the others say that nothing is known. */
	assert_int_equal(load(t, 2, &subjects[LOADER], S), 0);
	for (uint64_t off = subjects[LOADER].begin; off < subjects[LOADER].end; off += 16)
		if (unwind_lookup(NULL, 2, off, &rule, &scratch) == UNWIND_FOUND &&
			rule.cfa == UNWIND_CFA_UNKNOWN)
			n_unknown++;
	assert_true(n_unknown > 0);
	unwind_tables_stats(t, &stats);
	assert_int_equal(stats.refused_too_large, 1);
	assert_int_equal(stats.refused_id, 2);
	assert_true(stats.rules_refused > 50);
	assert_int_equal(stats.rules, 39);
	unwind_tables_freep(&t);
	host_memory_done();
}

/* After 4,096 changes of one id its generations come again: the cache must not remember the first ones. */
static void generations_wrap(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct unwind_tables_stats stats;
	const struct subject *s = &subjects[LOADER];

	(void)state;
	host_memory_init(64, 4096, 8);
	t = unwind_tables_new(&host_memory);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(load(t, 1, s, S), 0);
		for (uint64_t off = s->begin; off < s->end; off += 1000)
			(void)found(1, off);
		unwind_tables_drop(t, 1);
		assert_int_equal(found(1, s->begin + 0x1000), UNWIND_NO_TABLE);
	}
	unwind_tables_stats(t, &stats);
	assert_true(stats.cache_wipes >= 2);
	unwind_tables_freep(&t);
	host_memory_done();
}

static bool stop;
static uint64_t n_found, n_gone;

/* What a walker finds is right or nothing, whatever happens to the table meanwhile. */
static void *look_up(void *arg)
{
	uint64_t x = 88172645463325252ULL;

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (uint32_t i = 0; i < N_SUBJECTS; i++) {
			const struct subject *s = &subjects[i];
			struct unwind_rule want, got;
			__u32 scratch = 0;
			uint64_t off;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			off = s->begin + x % (s->end - s->begin);
			switch (unwind_lookup(NULL, i + 1, off, &got, &scratch)) {
			case UNWIND_FOUND:
				if (!rule_by_hand(s, off, &want) ||
					memcmp(&want, &got, sizeof(got)) != 0)
					abort();
				__atomic_fetch_add(&n_found, 1, __ATOMIC_RELAXED);
				break;
			case UNWIND_NO_ROW:
				break; /* also what a half-changed table may say, and harmless */
			case UNWIND_NO_TABLE:
				__atomic_fetch_add(&n_gone, 1, __ATOMIC_RELAXED);
				break;
			}
		}
	}
	return NULL;
}

static void walkers_beside_changes(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	pthread_t threads[3];
	int64_t now = S;

	(void)state;
	/* Room for one large or some small: each load throws others out. */
	host_memory_init(slabs_of(&subjects[LIBCRYPTO]) + 1, 4096, 8);
	t = unwind_tables_new(&host_memory);
	stop = false;
	n_found = n_gone = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, look_up, NULL);
	for (int i = 0; i < 3000 || n_found < 10000 || n_gone < 10000; i++) {
		now += 10 * S;
		assert_int_equal(
			load(t, (uint32_t)i % N_SUBJECTS + 1, &subjects[i % N_SUBJECTS], now), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	unwind_tables_freep(&t);
	host_memory_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_looked_up),
		cmocka_unit_test(one_content_is_one_table),
		cmocka_unit_test(the_longest_unused_goes),
		cmocka_unit_test(refusals_are_counted),
		cmocka_unit_test(generations_wrap),
		cmocka_unit_test(walkers_beside_changes),
	};

	return cmocka_run_group_tests(tests, open_subjects, close_subjects);
}
