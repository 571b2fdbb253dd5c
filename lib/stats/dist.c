/* SPDX-License-Identifier: Apache-2.0
 *
 * Incomplete beta by Lentz's continued fraction and incomplete gamma by its series (Abramowitz and Stegun 26.5.8 and 6.5.29), digamma and
 * trigamma by recurrence and asymptotic series (6.3.18, 6.4.12). Quantiles by bisection: they are not on a hot path.
 */
#include "lib/stats/dist.h"
#include <float.h>
#include <math.h>

enum { MAX_TERMS = 500, BISECTIONS = 200, ASYMPTOTIC_FROM = 10 };

/* Beyond this many degrees of freedom t is the normal distribution to 1e-10. */
#define DF_NORMAL 1e10

double dist_digamma(double x)
{
	double shift = 0, f;

	for (; x < ASYMPTOTIC_FROM; x++)
		shift -= 1 / x;
	f = 1 / (x * x);
	return shift + log(x) - 0.5 / x -
	       f * (1.0 / 12 - f * (1.0 / 120 - f * (1.0 / 252 - f * (1.0 / 240 - f / 132))));
}

double dist_trigamma(double x)
{
	double shift = 0, f;

	for (; x < ASYMPTOTIC_FROM; x++)
		shift += 1 / (x * x);
	f = 1 / (x * x);
	return shift + 1 / x + f / 2 +
	       f / x * (1.0 / 6 - f * (1.0 / 30 - f * (1.0 / 42 - f * (1.0 / 30 - f * 5 / 66))));
}

/* Trigamma falls from infinity to 0. */
double dist_trigamma_inverse(double y)
{
	double low = log(DBL_MIN) / 2, high = -low;

	for (int i = 0; i < BISECTIONS; i++) {
		double mid = (low + high) / 2;

		if (dist_trigamma(exp(mid)) > y)
			low = mid;
		else
			high = mid;
	}
	return exp((low + high) / 2);
}

static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

/* One step of Lentz's method: the fraction's next term is `term`. */
static double lentz(double term, double *c, double *d)
{
	*d = 1 + term * *d;
	*d = 1 / (fabs(*d) < DBL_MIN ? DBL_MIN : *d);
	*c = 1 + term / *c;
	*c = fabs(*c) < DBL_MIN ? DBL_MIN : *c;
	return *c * *d;
}

/* The continued fraction of the incomplete beta function, for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;

	for (int m = 1; m < MAX_TERMS; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

		h *= lentz(even, &c, &d);
		step = lentz(odd, &c, &d);
		h *= step;
		if (fabs(step - 1) < 1e-15)
			break;
	}
	return h;
}

/* Regularised incomplete beta; `y` is 1 − x, given apart because it may be tiny. */
static double beta_regularised(double a, double b, double x, double y)
{
	double front;

	if (x <= 0 || y <= 0)
		return x <= 0 ? 0 : 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(y));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, y) / b;
}

double dist_normal_two_sided(double z)
{
	return erfc(fabs(z) / sqrt(2));
}

double dist_t_two_sided(double t, double df)
{
	double square = t * t;

	if (df > DF_NORMAL)
		return dist_normal_two_sided(t);
	if (isinf(square))
		return 0;
	return beta_regularised(df / 2, 0.5, df / (df + square), square / (df + square));
}

static double t_density(double t, double df)
{
	if (df > DF_NORMAL)
		return exp(-t * t / 2) / sqrt(2 * M_PI);
	return exp(log_gamma((df + 1) / 2) - log_gamma(df / 2) - (df + 1) / 2 * log1p(t * t / df)) /
	       sqrt(df * M_PI);
}

/* Newton's method from 0: the tail is convex to the right of it, so that each step falls short of the root. */
double dist_t_quantile(double p, double df)
{
	double t = 0;

	for (int i = 0; i < MAX_TERMS; i++) {
		double step = (dist_t_two_sided(t, df) / 2 - (1 - p)) / t_density(t, df);

		t += step;
		if (fabs(step) <= 1e-12 * (1 + t))
			break;
	}
	return t;
}

/* P(χ² ≤ x) by the series, which converges quickly near the median. */
static double chi2_below(double x, double df)
{
	double a = df / 2, z = x / 2, term = 1 / a, sum = term;

	for (int n = 1; n < MAX_TERMS * 100 && term > sum * 1e-16; n++) {
		term *= z / (a + n);
		sum += term;
	}
	return sum * exp(-z + a * log(z) - log_gamma(a));
}

double dist_chi2_median(double df)
{
	double low = 0, high = df + 1;

	for (int i = 0; i < BISECTIONS; i++) {
		double mid = (low + high) / 2;

		if (chi2_below(mid, df) < 0.5)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}
