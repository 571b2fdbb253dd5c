/* SPDX-License-Identifier: Apache-2.0
 *
 * The pprof codec beside protobuf-c (unpack and free, pack) and zlib -6, in one run, ABBA order, medians. Profiles have
 * real stacks (tests/bench/corpus.py: perf record of clang on the SQLite amalgamation): small is one core for 15 s at 19 Hz,
 * mid 7,777 samples, big mid's samples six times with a tid label each.
 *
 * One line a figure: name value unit peer value ratio.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/profile.h"
#include "proto/profile.pb-c.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <zlib.h>

enum { MAX_ROUNDS = 400, BIG_COPIES = 6 };

struct input {
	const char *name;
	struct bytes raw;
	struct profile p, reused;
	Pprof__Profile *tree;
};

static void make_corpus(void)
{
	static char script[] =
		"import sys, os; sys.path.insert(0, 'tests/bench'); import corpus\n"
		"os.makedirs('build/bench/pprof', exist_ok=True)\n"
		"for name, rows in (('small', 285), ('mid', 7777)):\n"
		"    open(f'build/bench/pprof/{name}.pb', 'wb').write(corpus.profile(rows, 7))\n";
	static char python[] = "python3", flag[] = "-c";
	char *argv[] = {python, flag, script, NULL};
	pid_t pid;
	int status;

	if (!access("build/bench/pprof/mid.pb", R_OK))
		return;
	if (posix_spawnp(&pid, "python3", NULL, NULL, argv, environ) != 0 ||
		waitpid(pid, &status, 0) < 0 || status != 0)
		err_panic(
			"bench_pprof: cannot make the corpus (perf, clang and python3 are needed)");
}

static void decode(const struct bytes *raw, struct profile *p)
{
	struct errbuf eb = {.text = ""};

	profile_init(p, NULL);
	if (prof_decode(raw->data, raw->len, p, &eb) < 0)
		err_panic("bench_pprof: %s", eb.text);
}

static void load(struct input *in, const char *name)
{
	_cleanup_free_ char *path = xasprintf("build/bench/pprof/%s.pb", name);
	struct errbuf eb = {.text = ""};

	*in = (struct input) {.name = name};
	bytes_init(&in->raw, NULL, 0);
	if (fs_read_file(&fs_system, path, 1 << 30, &in->raw, &eb) < 0)
		err_panic("bench_pprof: %s", eb.text);
	decode(&in->raw, &in->p);
	in->tree = pprof__profile__unpack(NULL, in->raw.len, in->raw.data);
	ASSERT(in->tree);
}

/* Every sample of `from` once per thread. */
static void multiply(const struct profile *from, struct bytes *out)
{
	_cleanup_profile_ struct profile p = *from;
	struct prof_label *labels;

	arena_init(&p.arena, NULL);
	p.n_samples = from->n_samples * BIG_COPIES;
	p.n_stack_words = from->n_stack_words * BIG_COPIES;
	p.stack_first = arena_alloc_array(&p.arena, p.n_samples + 1, sizeof(*p.stack_first));
	p.label_first = arena_alloc_array(&p.arena, p.n_samples + 1, sizeof(*p.label_first));
	p.stacks = arena_alloc_array(&p.arena, p.n_stack_words, sizeof(*p.stacks));
	p.values = arena_alloc_array(&p.arena, p.n_samples * p.n_types, sizeof(*p.values));
	p.labels = labels = arena_alloc_array(&p.arena, p.n_samples, sizeof(*p.labels));
	p.n_labels = p.n_samples;
	for (size_t i = 0; i <= p.n_samples; i++) {
		size_t copy = i / from->n_samples, row = i % from->n_samples;

		p.stack_first[i] = copy * from->n_stack_words + from->stack_first[row];
		p.label_first[i] = i;
		if (i < p.n_samples)
			labels[i] = (struct prof_label) {
				.key = from->types[0].type, .num = 4000 + (int64_t)copy};
	}
	for (size_t copy = 0; copy < BIG_COPIES; copy++) {
		memcpy(p.stacks + copy * from->n_stack_words, from->stacks,
			from->n_stack_words * sizeof(*p.stacks));
		memcpy(p.values + copy * from->n_samples * p.n_types, from->values,
			from->n_samples * p.n_types * sizeof(*p.values));
	}
	ASSERT(prof_encode(&p, out) == 0);
}

/* What is timed. */

/* Into one profile again and again, as a decode thread does. */
static size_t our_decode(struct input *in)
{
	struct errbuf eb = {.text = ""};

	profile_reset(&in->reused);
	if (prof_decode(in->raw.data, in->raw.len, &in->reused, &eb) < 0)
		err_panic("bench_pprof: %s", eb.text);
	return in->reused.n_samples;
}

static size_t their_decode(struct input *in)
{
	Pprof__Profile *t = pprof__profile__unpack(NULL, in->raw.len, in->raw.data);
	size_t n = t->n_sample;

	pprof__profile__free_unpacked(t, NULL);
	return n;
}

static size_t our_encode(struct input *in)
{
	_cleanup_bytes_ struct bytes out;

	bytes_init(&out, NULL, 0);
	ASSERT(prof_encode(&in->p, &out) == 0);
	return out.len;
}

static size_t their_encode(struct input *in)
{
	size_t n = pprof__profile__get_packed_size(in->tree);
	_cleanup_free_ uint8_t *out = xmalloc(n);

	return pprof__profile__pack(in->tree, out);
}

static size_t our_response(struct input *in)
{
	_cleanup_bytes_ struct bytes raw, gz;

	bytes_init(&raw, NULL, 0);
	bytes_init(&gz, NULL, 0);
	ASSERT(prof_encode(&in->p, &raw) == 0);
	ASSERT(gzip_deflate(raw.data, raw.len, GZIP_LEVEL_FAST, &gz, NULL) == 0);
	return gz.len;
}

static size_t their_response(struct input *in)
{
	size_t n = pprof__profile__get_packed_size(in->tree);
	_cleanup_free_ uint8_t *raw = xmalloc(n);
	z_stream z = {.next_in = raw};
	_cleanup_free_ uint8_t *gz = NULL;
	size_t cap;

	z.avail_in = (uInt)pprof__profile__pack(in->tree, raw);
	ASSERT(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	cap = deflateBound(&z, z.avail_in);
	z.next_out = gz = xmalloc(cap);
	z.avail_out = (uInt)cap;
	ASSERT(deflate(&z, Z_FINISH) == Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static int compare_i64(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int64_t timed(size_t (*f)(struct input *), struct input *in, size_t *ret_result)
{
	int64_t t = clock_monotonic_ns(&clock_system);

	*ret_result = f(in);
	return clock_monotonic_ns(&clock_system) - t;
}

struct timing {
	double ours_s, theirs_s; /* medians */
	size_t ours, theirs;	 /* results */
};

/* ABBA for about two seconds. */
static struct timing race(
	size_t (*ours)(struct input *), size_t (*theirs)(struct input *), struct input *in)
{
	int64_t a[MAX_ROUNDS], b[MAX_ROUNDS],
		end = clock_monotonic_ns(&clock_system) + 2 * NS_PER_S;
	struct timing t;
	size_t n = 0;

	while (n + 2 <= MAX_ROUNDS && (n < 6 || clock_monotonic_ns(&clock_system) < end)) {
		a[n] = timed(ours, in, &t.ours);
		b[n] = timed(theirs, in, &t.theirs);
		b[n + 1] = timed(theirs, in, &t.theirs);
		a[n + 1] = timed(ours, in, &t.ours);
		n += 2;
	}
	qsort(a, n, sizeof(*a), compare_i64);
	qsort(b, n, sizeof(*b), compare_i64);
	t.ours_s = (double)a[n / 2] / NS_PER_S;
	t.theirs_s = (double)b[n / 2] / NS_PER_S;
	return t;
}

static void run(struct input *in)
{
	double mb = (double)in->raw.len / 1e6;
	struct timing t;

	t = race(our_decode, their_decode, in);
	ASSERT(t.ours == t.theirs);
	printf("pprof_decode_%s %.0f MB/s protobuf-c %.0f %.1fx\n", in->name, mb / t.ours_s,
		mb / t.theirs_s, t.theirs_s / t.ours_s);
	t = race(our_encode, their_encode, in);
	ASSERT(t.ours == t.theirs);
	printf("pprof_encode_%s %.0f MB/s protobuf-c %.0f %.1fx\n", in->name, mb / t.ours_s,
		mb / t.theirs_s, t.theirs_s / t.ours_s);
	t = race(our_response, their_response, in);
	printf("pprof_encode_gzip_%s %.3f ms protobuf-c+zlib-6 %.3f %.3fx\n", in->name,
		t.ours_s * 1e3, t.theirs_s * 1e3, t.ours_s / t.theirs_s);
	printf("pprof_gzip_bytes_%s %zu bytes zlib-6 %zu %.3fx\n", in->name, t.ours, t.theirs,
		(double)t.ours / (double)t.theirs);
}

int main(void)
{
	struct input in[3];

	make_corpus();
	load(&in[0], "small");
	load(&in[1], "mid");
	in[2] = (struct input) {.name = "big"};
	bytes_init(&in[2].raw, NULL, 0);
	multiply(&in[1].p, &in[2].raw);
	decode(&in[2].raw, &in[2].p);
	in[2].tree = pprof__profile__unpack(NULL, in[2].raw.len, in[2].raw.data);
	for (size_t i = 0; i < ARRAY_SIZE(in); i++) {
		run(&in[i]);
		pprof__profile__free_unpacked(in[i].tree, NULL);
		profile_done(&in[i].p);
		profile_done(&in[i].reused);
		bytes_done(&in[i].raw);
	}
	return 0;
}
