/* SPDX-License-Identifier: Apache-2.0
 *
 * Moderated variances: limma's fitFDist and squeezeVar (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3), with a
 * prior that is narrower for a row the less of its variance comes from run to run. With e = log φ − E[log χ²_d/d], a row of weight w has
 * E[e] = w λ and Var(e) = ψ'(d/2) + w² τ², so λ and τ² are found by regression, and its prior has ψ'(d0/2) = w² τ².
 */
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <errno.h>
#include <math.h>

/* Rows without any residual variance are taken to have this much of the median. */
#define LEAST_OF_MEDIAN 1e-5
/* A prior is never worth more than this many degrees of freedom: the model is not the truth. */
#define MAX_PRIOR_DF 100.0

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double least_phi(const struct stats_variance *v, size_t n, double *scratch)
{
	for (size_t i = 0; i < n; i++)
		scratch[i] = v[i].phi;
	qsort(scratch, n, sizeof(*scratch), compare_doubles);
	return fmax((scratch[(n - 1) / 2] + scratch[n / 2]) / 2, 1e-12) * LEAST_OF_MEDIAN;
}

/* digamma(x) − log(x): the mean of log χ²_{2x}/2x. */
static double log_bias(double x)
{
	return dist_digamma(x) - log(x);
}

int stats_fit_prior(const struct stats_variance *v, size_t n, struct stats_model *ret)
{
	_cleanup_free_ double *e = try_realloc(NULL, n + 1, sizeof(*e));
	double least, w2 = 0, w4 = 0, we = 0, spread = 0, effective;

	if (!e)
		return -ENOMEM;
	ret->log_phi = ret->spread = 0;
	least = n ? least_phi(v, n, e) : 0;
	for (size_t i = 0; i < n; i++) {
		double w = v[i].weight;

		e[i] = log(fmax(v[i].phi, least)) - log_bias(v[i].df / 2);
		w2 += w * w;
		w4 += w * w * w * w;
		we += w * e[i];
	}
	if (w4 <= 0)
		return 0;
	ret->log_phi = we / w2;
	effective = w2 * w2 / w4;
	for (size_t i = 0; i < n; i++) {
		double w = v[i].weight, r = e[i] - w * ret->log_phi;

		spread += w * w *
			  (r * r * effective / fmax(effective - 1, 1) - dist_trigamma(v[i].df / 2));
	}
	ret->spread = fmax(spread / w4, 0);
	return 0;
}

struct stats_shrunk stats_shrink(const struct stats_variance *v, const struct stats_model *m)
{
	double variance = v->weight * v->weight * m->spread, df = MAX_PRIOR_DF, prior;

	if (variance > dist_trigamma(MAX_PRIOR_DF / 2))
		df = 2 * dist_trigamma_inverse(variance);
	prior = exp(v->weight * m->log_phi + log_bias(df / 2));
	return (struct stats_shrunk) {(df * prior + v->df * v->phi) / (df + v->df), df + v->df};
}
