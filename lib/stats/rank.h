/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be said about a few numbers without a model of them: medians with intervals and the Mann-Whitney test, as benchstat uses them
 * for the one figure of a benchmark. Pure.
 */
#pragma once
#include "lib/base/cleanup.h"
#include <stddef.h>

/* Runs a side from which a test at 0.05, and an interval of 95 %, are possible at all. */
enum { RANK_MIN_TEST = 4, RANK_MIN_INTERVAL = 6 };

struct rank_median {
	double median;
	double low, high; /* order statistics; −∞ and ∞ where n is too small for the confidence */
	double confidence; /* of the interval: at least what was asked for, 1 when it is infinite */
};

/* n ≥ 1. -ENOMEM. */
int rank_median(const double *v, size_t n, double confidence, struct rank_median *ret) _must_check_;

/*
 * Two-sided p of the Mann-Whitney U test (n, m ≥ 1): from all arrangements of the pooled values, ties as they are, up to 2 × 50 values;
 * beyond that from the normal limit with corrections for ties and continuity. -ENOMEM.
 */
int rank_mann_whitney(
	const double *a, size_t n, const double *b, size_t m, double *ret_p) _must_check_;
