/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph of a million nodes as an answer: cut to 8,192 nodes as JSON, and whole as packed protobuf. The tree is synthetic: 61
 * levels, 20,000 names, where each node begins at a random depth of the stack before it.
 *
 * CPU time of one thread, medians of nine. One line a figure: name value unit.
 */
#include "lib/base/hash.h"
#include "lib/json/write.h"
#include "lib/render/render.h"
#include "lib/tree/tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { NODES = 1 << 20, LEVELS = 61, NAMES = 20000, ROUNDS = 9, LIMIT = 8192 };

static void check(int r, const struct errbuf *eb, const char *what)
{
	if (r < 0)
		err_panic("bench_render: %s: %s", what, err_text(eb, r));
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare_double);
	return v[ROUNDS / 2];
}

static void make_symbols(struct tree_symbols *s)
{
	char name[80], file[64];

	for (unsigned i = 0; i < NAMES; i++) {
		struct tree_frame f = {.mapping = TREE_NONE, .kind = TREE_NATIVE};
		int n = snprintf(name, sizeof(name), "namespace_%u::a_function_with_a_name_%u(int)",
			i % 97, i);

		f.name = tree_symbols_string(s, name, (size_t)n);
		n = snprintf(file, sizeof(file), "/src/module_%u/file_%u.cc", i % 97, i % 2000);
		f.file = tree_symbols_string(s, file, (size_t)n);
		tree_symbols_frame(s, &f);
	}
}

/* Nodes in preorder; depth is drawn around the one before, as stacks of a sorted profile are. */
static void make_tree(struct tree *ret)
{
	uint32_t *parent = malloc(NODES * sizeof(*parent)), *frame = malloc(NODES * sizeof(*frame));
	int64_t *self = malloc(NODES * sizeof(*self));
	uint32_t path[LEVELS + 1] = {0};
	unsigned depth = 0;
	uint64_t random = 1;
	struct errbuf eb = {.text = ""};

	if (!parent || !frame || !self)
		err_panic("bench_render: out of memory");
	parent[0] = frame[0] = 0;
	self[0] = 0;
	for (uint32_t i = 1; i < NODES; i++) {
		unsigned down;

		random = hash_mix(random + i);
		down = (unsigned)(random % 4 ? 0 : random >> 8 & 15);
		depth = depth > down ? depth - down : 0;
		depth = depth < LEVELS - 1 ? depth : LEVELS - 2;
		parent[i] = path[depth];
		frame[i] = 1 + (uint32_t)(random >> 20) % (NAMES - 1);
		self[i] = 1 + (int64_t)(random >> 40 & 63) * (random >> 50 & 3);
		path[++depth] = i;
	}
	check(tree_from_nodes(parent, frame, self, NODES, ret, &eb), &eb, "tree");
	free(parent);
	free(frame);
	free(self);
}

static double pruned_once(const struct tree *t, const struct tree_symbols *s, size_t *ret_bytes)
{
	_cleanup_tree_ struct tree limited;
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct json j = json_to(&out);
	struct errbuf eb = {.text = ""};
	double begin = cpu_ms();

	tree_init(&limited, NULL);
	check(tree_limit(t, LIMIT, &limited, &eb), &eb, "limit");
	json_object_begin(&j);
	check(render_json_members(
		      &(struct render_input) {
			      .tree = &limited, .symbols = s, .unit = "nanoseconds"},
		      &j),
		&eb, "JSON");
	json_object_end(&j);
	*ret_bytes = out.len;
	return cpu_ms() - begin;
}

static double whole_once(const struct tree *t, const struct tree_symbols *s, size_t *ret_bytes)
{
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct errbuf eb = {.text = ""};
	double begin = cpu_ms();

	check(render_protobuf(
		      &(struct render_input) {.tree = t, .symbols = s, .unit = "nanoseconds"},
		      &out),
		&eb, "protobuf");
	*ret_bytes = out.len;
	return cpu_ms() - begin;
}

int main(void)
{
	_cleanup_tree_symbols_ struct tree_symbols symbols;
	_cleanup_tree_ struct tree t;
	double pruned[ROUNDS], whole[ROUNDS];
	size_t json_bytes = 0, packed_bytes = 0;
	struct rusage u;

	tree_symbols_init(&symbols, NULL);
	tree_init(&t, NULL);
	make_symbols(&symbols);
	make_tree(&t);
	for (int i = 0; i < ROUNDS; i++) {
		pruned[i] = pruned_once(&t, &symbols, &json_bytes);
		whole[i] = whole_once(&t, &symbols, &packed_bytes);
	}
	getrusage(RUSAGE_SELF, &u);
	printf("render_pruned_json %.1f ms nodes %zu bytes %zu\n", median(pruned), t.n, json_bytes);
	printf("render_whole_protobuf %.1f ms nodes %zu bytes %zu\n", median(whole), t.n,
		packed_bytes);
	printf("render_peak_rss %ld MB -\n", u.ru_maxrss / 1024);
	return 0;
}
