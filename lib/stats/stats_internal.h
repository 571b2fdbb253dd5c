/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of lib/stats/stats.c, one file each.
 */
#pragma once
#include "lib/stats/stats.h"

/* Rows that are tested: indices into values and rows. */
struct stats_tested {
	const struct stats_runs *runs;
	const double *values;
	struct stats_row *rows;
	const uint32_t *index;
	size_t n;
	const struct stats_model *model;
	const struct stats_options *opt;
};

/* Each fills se_a, se_b, p, low, high and min_effect of its rows; means are there. */
void stats_ql(const struct stats_tested *t);
int stats_fit_rows(const struct stats_tested *t, struct stats_model *ret) _must_check_;
void stats_welch(const struct stats_tested *t);
int stats_bootstrap(const struct stats_tested *t) _must_check_;

static inline const double *stats_values_of(const struct stats_tested *t, size_t i)
{
	return t->values + (size_t)t->index[i] * (t->runs->n_a + t->runs->n_b);
}
/* Means and sums of squared residuals of the n values. */
double stats_mean(const double *v, size_t n);
double stats_squares(const double *v, size_t n, double mean);
/* From a standard error of the difference with df degrees of freedom: the smallest relative effect that is seen in 4 of 5 comparisons. */
double stats_detectable(double se, double df, double mean_a);

/* One residual variance: of a row against the model of all. */
struct stats_variance {
	double phi; /* against the model, expected to be about 1 */
	double df;
	double weight; /* 0 … 1: the share of its variance that comes from run to run */
};
/* log_phi and spread of the model. With all weights 1 and all df equal this is limma's fitFDist. -ENOMEM. */
int stats_fit_prior(const struct stats_variance *v, size_t n, struct stats_model *ret) _must_check_;

/* φ shrunk towards the prior of a row of this weight, and the degrees of freedom of both: limma's squeezeVar. */
struct stats_shrunk {
	double phi, df;
};
struct stats_shrunk stats_shrink(const struct stats_variance *v, const struct stats_model *m);
