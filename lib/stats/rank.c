/* SPDX-License-Identifier: Apache-2.0
 *
 * Order statistics and ranks.
 */
#include "lib/stats/rank.h"
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include <errno.h>
#include <math.h>
#include <string.h>

enum { MAX_EXACT = 50 };

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double *sorted_copy(const double *a, size_t n, const double *b, size_t m)
{
	double *v = try_realloc(NULL, n + m + 1, sizeof(*v));

	if (!v)
		return NULL;
	memcpy(v, a, n * sizeof(*v));
	if (m)
		memcpy(v + n, b, m * sizeof(*v));
	qsort(v, n + m, sizeof(*v), compare_doubles);
	return v;
}

/*
 * The interval [v[k], v[n-1-k]] holds the median unless at most k of n values lie on one side of it, a matter of tossing coins. The largest
 * k that keeps the confidence.
 */
static void find_interval(const double *v, size_t n, double confidence, struct rank_median *ret)
{
	double below = 0, term = exp2(-(double)n); /* P(exactly k heads) */

	ret->low = -INFINITY;
	ret->high = INFINITY;
	ret->confidence = 1;
	for (size_t k = 0; 2 * k < n; k++) {
		below += term;
		if (1 - 2 * below < confidence)
			return;
		ret->low = v[k];
		ret->high = v[n - 1 - k];
		ret->confidence = 1 - 2 * below;
		term *= (double)(n - k) / (double)(k + 1);
	}
}

int rank_median(const double *v, size_t n, double confidence, struct rank_median *ret)
{
	_cleanup_free_ double *sorted = sorted_copy(v, n, NULL, 0);

	if (!sorted)
		return -ENOMEM;
	ret->median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	find_interval(sorted, n, confidence, ret);
	return 0;
}

/* Twice the rank of each of the sorted values, whole numbers even where ties share a rank. Returns the sum of t³ − t over ties. */
static double double_ranks(const double *sorted, size_t n, size_t *rank)
{
	double ties = 0;

	for (size_t i = 0, end; i < n; i = end) {
		double t;

		for (end = i + 1; end < n && sorted[end] == sorted[i]; end++)
			;
		for (size_t k = i; k < end; k++)
			rank[k] = i + 1 + end;
		t = (double)(end - i);
		ties += t * t * t - t;
	}
	return ties;
}

static size_t rank_sum(
	const double *v, size_t n, const double *sorted, size_t n_sorted, const size_t *rank)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		size_t low = 0, high = n_sorted;

		while (low < high) {
			size_t mid = (low + high) / 2;

			if (sorted[mid] < v[i])
				low = mid + 1;
			else
				high = mid;
		}
		sum += rank[low];
	}
	return sum;
}

/*
 * Of all ways to choose n of the ranks, the share whose sum is at least as far from its mean as `sum`: ways[k][s] counts the choices of k
 * with sum s, one rank after the other.
 */
static int exact(const size_t *rank, size_t n_ranks, size_t n, size_t sum, double *ret_p)
{
	size_t width = n_ranks * (n_ranks + 1) + 1, mean = n * (n_ranks + 1), distance;
	_cleanup_free_ double *ways = try_realloc(NULL, (n + 1) * width, sizeof(*ways));
	double all = 0, far = 0;

	if (!ways)
		return -ENOMEM;
	memset(ways, 0, (n + 1) * width * sizeof(*ways));
	ways[0] = 1;
	for (size_t i = 0; i < n_ranks; i++)
		for (size_t k = MIN(i + 1, n); k; k--)
			for (size_t s = width; s-- > rank[i];)
				ways[k * width + s] += ways[(k - 1) * width + s - rank[i]];
	distance = sum > mean ? sum - mean : mean - sum;
	for (size_t s = 0; s < width; s++) {
		all += ways[n * width + s];
		if ((s > mean ? s - mean : mean - s) >= distance)
			far += ways[n * width + s];
	}
	*ret_p = far / all;
	return 0;
}

static double normal_limit(size_t n, size_t m, size_t sum, double ties)
{
	double all = (double)(n + m), mean = (double)n * (all + 1) / 2;
	double variance = (double)n * (double)m / 12 * (all + 1 - ties / (all * (all - 1)));
	double distance = fmax(fabs((double)sum / 2 - mean) - 0.5, 0);

	return variance > 0 ? dist_normal_two_sided(distance / sqrt(variance)) : 1;
}

int rank_mann_whitney(const double *a, size_t n, const double *b, size_t m, double *ret_p)
{
	_cleanup_free_ double *sorted = sorted_copy(a, n, b, m);
	_cleanup_free_ size_t *rank = try_realloc(NULL, n + m + 1, sizeof(*rank));
	double ties;
	size_t sum;

	if (!sorted || !rank)
		return -ENOMEM;
	ties = double_ranks(sorted, n + m, rank);
	sum = rank_sum(a, n, sorted, n + m, rank);
	if (n <= MAX_EXACT && m <= MAX_EXACT)
		return exact(rank, n + m, n, sum, ret_p);
	*ret_p = normal_limit(n, m, sum, ties);
	return 0;
}
