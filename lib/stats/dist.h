/* SPDX-License-Identifier: Apache-2.0
 *
 * The distributions that significance tests need, to about 1e-10. Pure functions of numbers; arguments are in range.
 */
#pragma once

double dist_digamma(double x); /* x > 0 */
double dist_trigamma(double x);
double dist_trigamma_inverse(double y); /* y > 0 */

/* P(|T| ≥ |t|) of Student's t; df may be INFINITY. */
double dist_t_two_sided(double t, double df);
/* The t with P(T ≤ t) = p, 0.5 ≤ p < 1. */
double dist_t_quantile(double p, double df);
/* P(|Z| ≥ |z|) of the normal distribution. */
double dist_normal_two_sided(double z);
/* The median of a χ² with df degrees of freedom. */
double dist_chi2_median(double df);
