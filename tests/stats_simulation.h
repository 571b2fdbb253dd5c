/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a program that does not exist, with a known truth: 400 functions with log-normal shares in a call tree, 20 of the hottest 40 truly
 * slower in B, run-to-run variation of each function (a CV of about 5 %, itself log-normal) and of the whole run (2 %), Poisson sampling.
 * tests/bench/bench_stats.c makes the full table of error rates from it, tests/unit/test_stats_rates.c a short form.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/rank.h"
#include "lib/stats/stats.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	SIM_FUNCTIONS = 400,
	SIM_NODES = 600,
	SIM_HOT = 40,
	SIM_CHANGED = 20,
	SIM_MAX_RUNS = 20,
	SIM_ROWS = 2 * SIM_FUNCTIONS + SIM_NODES
};

struct sim_case {
	const char *name;
	size_t runs;	/* a side */
	double samples; /* a run */
	double factor;	/* of the changed functions in B; 1: none are */
};

struct sim {
	uint64_t state;
	double share[SIM_FUNCTIONS], cv[SIM_FUNCTIONS], factor[SIM_FUNCTIONS];
	uint32_t parent[SIM_NODES], function[SIM_NODES];
	double part[SIM_NODES]; /* of its function's self */
	bool differs[SIM_ROWS]; /* in truth: selfs, totals of functions, totals of nodes */
	double values[SIM_ROWS * SIM_MAX_RUNS];
};

static inline double sim_uniform(struct sim *s)
{
	uint64_t z = s->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double sim_normal(struct sim *s)
{
	double r = sqrt(-2 * log(sim_uniform(s)));

	return r * cos(2 * M_PI * sim_uniform(s));
}

/* Knuth's product up to 500, the normal limit beyond. */
static inline double sim_poisson(struct sim *s, double mean)
{
	double product = sim_uniform(s), least = exp(-mean), n = 0;

	if (mean > 500)
		return fmax(0, round(mean + sqrt(mean) * sim_normal(s)));
	for (; product > least; n++)
		product *= sim_uniform(s);
	return n;
}

static inline int sim_compare_shares(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Functions by share, descending; the tree mixes them. */
static inline void sim_program(struct sim *s, const struct sim_case *c)
{
	double sum = 0, of_function[SIM_FUNCTIONS] = {};

	for (int f = 0; f < SIM_FUNCTIONS; f++) {
		s->share[f] = exp(1.95 * sim_normal(s));
		s->cv[f] = 0.05 * exp(0.3 * sim_normal(s));
		s->factor[f] = 1;
		sum += s->share[f];
	}
	for (int f = 0; f < SIM_FUNCTIONS; f++)
		s->share[f] /= sum;
	qsort(s->share, SIM_FUNCTIONS, sizeof(double), sim_compare_shares);
	for (int n = 0; n < SIM_CHANGED;) {
		int f = (int)(SIM_HOT * sim_uniform(s));

		n += s->factor[f] == 1 && c->factor != 1;
		n += c->factor == 1;
		s->factor[f] = c->factor;
	}
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		double far = sim_uniform(s);

		s->parent[i] = i ? (uint32_t)((double)i * (1 - far * far)) : 0;
		s->parent[i] = s->parent[i] < i ? s->parent[i] : i ? i - 1 : 0;
		s->function[i] = i < SIM_FUNCTIONS ? (i * 211) % SIM_FUNCTIONS
						   : (uint32_t)(SIM_FUNCTIONS * sim_uniform(s));
		s->part[i] = sim_uniform(s);
		of_function[s->function[i]] += s->part[i];
	}
	for (uint32_t i = 0; i < SIM_NODES; i++)
		s->part[i] /= of_function[s->function[i]];
}

/* Adds the node's value to its function's total unless the function is above it already. */
static inline bool sim_is_outermost(const struct sim *s, uint32_t node)
{
	for (uint32_t up = node; up;) {
		up = s->parent[up];
		if (s->function[up] == s->function[node])
			return false;
	}
	return true;
}

static inline void sim_truth(struct sim *s)
{
	bool *self = s->differs, *total = self + SIM_FUNCTIONS, *node = total + SIM_FUNCTIONS;

	memset(s->differs, 0, sizeof(s->differs));
	for (uint32_t i = SIM_NODES; i-- > 0;) {
		self[s->function[i]] = s->factor[s->function[i]] != 1;
		node[i] |= self[s->function[i]];
		node[s->parent[i]] |= node[i];
		total[s->function[i]] |= node[i];
	}
}

static inline void sim_one_run(struct sim *s, const struct sim_case *c, size_t run)
{
	double rate[SIM_FUNCTIONS], tree[SIM_NODES], whole = exp(0.02 * sim_normal(s));
	size_t n = 2 * c->runs;

	for (int f = 0; f < SIM_FUNCTIONS; f++)
		rate[f] = s->share[f] * c->samples * whole * exp(s->cv[f] * sim_normal(s)) *
			  (run >= c->runs ? s->factor[f] : 1);
	for (uint32_t r = 0; r < SIM_ROWS; r++)
		s->values[r * n + run] = 0;
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		tree[i] = sim_poisson(s, rate[s->function[i]] * s->part[i]);
		s->values[s->function[i] * n + run] += tree[i];
	}
	for (uint32_t i = SIM_NODES; i-- > 1;)
		tree[s->parent[i]] += tree[i];
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		if (sim_is_outermost(s, i))
			s->values[(SIM_FUNCTIONS + s->function[i]) * n + run] += tree[i];
		s->values[(2 * SIM_FUNCTIONS + i) * n + run] = tree[i];
	}
}

/* One comparison's program and runs, from its own seed. */
static inline void sim_make(struct sim *s, const struct sim_case *c, uint64_t seed)
{
	s->state = seed;
	sim_program(s, c);
	sim_truth(s);
	for (size_t run = 0; run < 2 * c->runs; run++)
		sim_one_run(s, c, run);
}

/* What was called of some rows. */
struct sim_calls {
	size_t right, wrong, changed;
};

static inline struct sim_calls sim_count(
	const struct stats_row *rows, const bool *differs, size_t n)
{
	struct sim_calls k = {};

	for (size_t i = 0; i < n; i++) {
		bool called = stats_is_significant(rows[i].verdict);

		k.right += called && differs[i];
		k.wrong += called && !differs[i];
		k.changed += differs[i];
	}
	return k;
}

/* Both families as `sonde diff` makes them: functions (selfs and totals), and nodes. */
static inline int sim_test(
	const struct sim *s, const struct sim_case *c, enum stats_method m, struct stats_row *rows)
{
	struct stats_options opt = STATS_DEFAULTS;
	double unit[SIM_MAX_RUNS];
	struct stats_runs runs = {c->runs, c->runs, unit};
	struct stats_model model;
	const size_t first[] = {0, SIM_FUNCTIONS, 2 * SIM_FUNCTIONS, SIM_ROWS};
	int r;

	opt.method = m;
	for (size_t i = 0; i < 2 * c->runs; i++)
		unit[i] = 1;
	r = stats_fit(&runs, s->values, SIM_FUNCTIONS, &opt, &model);
	for (int i = 0; !r && i < 3; i++)
		r = stats_test(&runs, s->values + first[i] * 2 * c->runs, first[i + 1] - first[i],
			&model, &opt, rows + first[i]);
	if (!r)
		r = stats_judge(rows, first[2], &opt);
	return r ? r : stats_judge(rows + first[2], SIM_NODES, &opt);
}
