/* SPDX-License-Identifier: Apache-2.0
 *
 * Error rates and power of `sonde diff`'s statistics: comparisons of simulated programs whose truth is known (tests/stats_simulation.h),
 * fixed seeds, beside pooling all runs (what merging profiles before a difference does), Welch's t and Mann-Whitney.
 * usage: bench_stats [COMPARISONS], default 1000 a row. Exit status 1 when a goal is missed.
 */
#include "lib/base/str.h"
#include "tests/stats_simulation.h"

static const struct sim_case cases[] = {
	{"no change, N = 2", 2, 5940, 1},
	{"no change, N = 3", 3, 5940, 1},
	{"no change, N = 5", 5, 5940, 1},
	{"no change, N = 3, 60 x samples", 3, 356400, 1},
	{"no change, N = 5, 60 x samples", 5, 356400, 1},
	{"+30 %, N = 3", 3, 5940, 1.3},
	{"+30 %, N = 5", 5, 5940, 1.3},
	{"+10 %, N = 10", 10, 5940, 1.1},
	{"+10 %, N = 10, 60 x samples", 10, 356400, 1.1},
};

/* Sums over the comparisons of a case. */
struct rates {
	double any, any_family, false_share, false_share_nodes, power;
};

static void add(struct rates *r, const struct sim *s, const struct stats_row *rows, size_t n)
{
	const size_t functions = 2 * SIM_FUNCTIONS;
	struct sim_calls self = sim_count(rows, s->differs, SIM_FUNCTIONS);
	struct sim_calls table = sim_count(rows, s->differs, functions);
	struct sim_calls nodes = sim_count(rows + functions, s->differs + functions, SIM_NODES);
	double part = 1 / (double)n;

	r->any += part * (table.right + table.wrong > 0);
	r->any_family += part * (table.right + table.wrong + nodes.right + nodes.wrong > 0);
	if (table.wrong)
		r->false_share += part * (double)table.wrong / (double)(table.right + table.wrong);
	if (nodes.wrong)
		r->false_share_nodes +=
			part * (double)nodes.wrong / (double)(nodes.right + nodes.wrong);
	if (self.changed)
		r->power += part * (double)self.right / (double)self.changed;
}

/* The peers, on selfs alone. */
static double pooled_p(const double *v, size_t n)
{
	double a = 0, b = 0;

	for (size_t i = 0; i < n; i++) {
		a += v[i];
		b += v[n + i];
	}
	return dist_normal_two_sided((b - a) / sqrt(a + b));
}

static void add_peer(struct rates *r, const struct sim *s, const struct sim_case *c,
	struct stats_row *rows, bool pooled, size_t n)
{
	struct stats_options opt = STATS_DEFAULTS;
	struct sim_calls k;
	double p;

	opt.min_effect = 0;
	for (size_t i = 0; i < SIM_FUNCTIONS; i++) {
		const double *v = s->values + i * 2 * c->runs;

		if (rows[i].verdict == STATS_FEW)
			continue;
		if (pooled)
			p = pooled_p(v, c->runs);
		else if (rank_mann_whitney(v, c->runs, v + c->runs, c->runs, &p) < 0)
			exit(2);
		rows[i].p = p;
	}
	if (stats_judge(rows, SIM_FUNCTIONS, &opt) < 0)
		exit(2);
	k = sim_count(rows, s->differs, SIM_FUNCTIONS);
	r->any += (k.right + k.wrong > 0) / (double)n;
	r->false_share += k.wrong ? (double)k.wrong / (double)(k.right + k.wrong) / (double)n : 0;
	r->power += k.changed ? (double)k.right / (double)k.changed / (double)n : 0;
}

static void print(const char *method, const struct rates *r)
{
	printf("  %-13s any call %5.3f, families %5.3f, FDR functions %5.3f, nodes %5.3f, power "
	       "%5.3f\n",
		method, r->any, r->any_family, r->false_share, r->false_share_nodes, r->power);
}

static void print_peer(const char *method, const struct rates *r)
{
	printf("  %-13s any call %5.3f, FDR selfs %5.3f, power %5.3f\n", method, r->any,
		r->false_share, r->power);
}

static bool meets_goals(const struct sim_case *c, const struct rates *r)
{
	if (c->factor == 1)
		return c->runs < 3 || (r->any <= 0.07 && r->any_family <= 0.12);
	if (r->false_share > 0.06 || r->false_share_nodes > 0.06)
		return false;
	return c->factor < 1.3 || r->power >= (c->runs == 3 ? 0.20 : 0.45);
}

static bool run_case(const struct sim_case *c, uint64_t seed, size_t n)
{
	static struct sim s;
	static struct stats_row rows[SIM_ROWS];
	struct rates ql = {}, welch = {}, pooled = {}, ranks = {};

	for (size_t i = 0; i < n; i++) {
		sim_make(&s, c, seed + i * 0x10001);
		if (sim_test(&s, c, STATS_WELCH, rows) < 0)
			exit(2);
		add(&welch, &s, rows, n);
		if (sim_test(&s, c, STATS_QL, rows) < 0)
			exit(2);
		add(&ql, &s, rows, n);
		add_peer(&pooled, &s, c, rows, true, n);
		add_peer(&ranks, &s, c, rows, false, n);
	}
	printf("%s, %.0f samples a run%s\n", c->name, c->samples,
		meets_goals(c, &ql) ? "" : ": GOAL MISSED");
	print("ql", &ql);
	print("welch", &welch);
	print_peer("pooled z", &pooled);
	print_peer("Mann-Whitney", &ranks);
	return meets_goals(c, &ql);
}

int main(int argc, char **argv)
{
	uint64_t n = 1000;
	bool good = true;

	if (argc > 1 && str_parse_u64(argv[1], &n, NULL) < 0) {
		fprintf(stderr, "usage: bench_stats [COMPARISONS]\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		good &= run_case(&cases[i], 1000003 * (i + 1), n);
	return good ? 0 : 1;
}
