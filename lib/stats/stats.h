/* SPDX-License-Identifier: Apache-2.0
 *
 * What two sets of runs say about each row (a function, a node of a call tree): slower, faster, or no difference that can be shown. The
 * unit of replication is the run: samples of one run are not independent of each other's run, and counting them as if they were finds
 * differences where there are none. Pure: arrays in, arrays out, one thread.
 *
 * Model. The value of row j in run i is measured in units of u_i, what one sample amounts to: Var = φ_j (u_i μ + δ μ²), the first part
 * from sampling, the second from one run to the next. δ is one number for all rows; φ_j is the row's own residual variance, shrunk towards
 * what the other rows have by an inverse-χ² prior of d0 degrees of freedom (Smyth 2004, limma; Lund et al. 2012, quasi-likelihood in
 * edgeR). The prior of a row is as wide as the share of its variance that comes from run to run, since the sampling part varies little
 * between rows. The difference of the means over its standard error is then t with d0 + d degrees of freedom.
 */
#pragma once
#include "lib/base/cleanup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stats_method {
	STATS_QL,	 /* the model above */
	STATS_WELCH,	 /* Welch's t on logarithms: no other row is looked at */
	STATS_BOOTSTRAP, /* runs drawn again: a studentised test, percentile intervals */
	STATS_NONE, /* no test, as with one run a side: the sampling error alone gives the scale */
	STATS_N_METHODS,
};
const char *stats_method_name(enum stats_method m);

enum stats_verdict {
	STATS_UNTESTED, /* no replicates */
	STATS_FEW,	/* too few samples on both sides */
	STATS_SAME,	/* not significant */
	STATS_MORE,
	STATS_LESS,
	STATS_NEW, /* nothing in A, significantly so */
	STATS_GONE,
	STATS_MOVED, /* significant, but cost only moved between siblings (stats_find_moved) */
	STATS_N_VERDICTS,
};
const char *stats_verdict_name(enum stats_verdict v);
static inline bool stats_is_significant(enum stats_verdict v)
{
	return v > STATS_SAME;
}

struct stats_options {
	enum stats_method method;
	double alpha;	    /* false discovery rate of a family */
	double min_effect;  /* smaller changes are no findings: 0.02 */
	double min_samples; /* mean samples a run, on one side at least, for a test */
	unsigned n_resamples;
	uint64_t seed;
};
#define STATS_DEFAULTS                          \
	((struct stats_options) {.alpha = 0.05, \
		.min_effect = 0.02,             \
		.min_samples = 10,              \
		.n_resamples = 2000,            \
		.seed = 1})

/* Runs of A, then those of B. */
struct stats_runs {
	size_t n_a, n_b;
	const double *unit; /* per run: what one sample amounts to, > 0 */
};

/* Fewer runs than this on a side are no replicates: everything is STATS_NONE. */
enum { STATS_MIN_RUNS = 2 };

struct stats_row {
	double mean_a, mean_b;
	double se_a, se_b; /* of the means */
	double ratio;	   /* mean_b / mean_a; INFINITY when new, NAN when both are 0 */
	double low, high;  /* interval of the ratio, 95 %; NAN when there is none */
	double p, q;	   /* NAN when not tested */
	double min_effect; /* that would be seen in 4 of 5 comparisons: 0.1 is 10 %; NAN */
	enum stats_verdict verdict;
};

/* How rows vary, beyond sampling. Zero: not at all. */
struct stats_model {
	double delta; /* δ: the square of a row's typical coefficient of variation from run to run */
	double log_phi; /* mean and variance of log φ where all variance is from run to run */
	double spread;
};
/*
 * Fits the model to rows that share no samples (the selfs of functions): sums of them, such as totals, vary by less, and by how much
 * depends on what they are sums of, so that they are judged by the same model. -ENOMEM.
 */
int stats_fit(const struct stats_runs *runs, const double *values, size_t n_rows,
	const struct stats_options *opt, struct stats_model *ret) _must_check_;

/*
 * Tests the rows, each against its own two means; values[row × (n_a + n_b) + run] ≥ 0. Fills all but q and verdict. Only STATS_QL needs
 * the model. -ENOMEM.
 */
int stats_test(const struct stats_runs *runs, const double *values, size_t n_rows,
	const struct stats_model *model, const struct stats_options *opt,
	struct stats_row *ret_rows) _must_check_;

/*
 * q and verdict of a family of rows, by Benjamini and Hochberg; what was not tested is not in the family. -ENOMEM.
 */
int stats_judge(
	struct stats_row *rows, size_t n_rows, const struct stats_options *opt) _must_check_;

/*
 * Marks cost that only moved: where a node as a whole did not change and children of it did in both directions, and nearly cancel, these
 * are STATS_MOVED. Nodes have their parents before them; parent[0] is 0. -ENOMEM.
 */
int stats_find_moved(struct stats_row *rows, const uint32_t *parent, size_t n) _must_check_;

/*
 * Per run the factor by which it is larger than the others on the whole, as the median over rows of its ratio to the row's geometric mean
 * (Anders and Huber 2010): one large change does not move it. Rows with a zero are left out; all 1 when nothing is left. -ENOMEM.
 */
int stats_size_factors(
	const double *values, size_t n_rows, size_t n_runs, double *ret) _must_check_;

/*
 * p of no drift: whether value over its side's mean goes along with the time at which it was taken. order[i] is the place of run i in
 * time. 1 where it is unknown (fewer than 4 runs, no spread).
 */
double stats_drift(const struct stats_runs *runs, const double *value, const size_t *order);
