/* SPDX-License-Identifier: Apache-2.0
 *
 * Instants as people and programs write them.
 */
#include "lib/base/instant.h"
#include "lib/base/str.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

int64_t instant_clamp(int64_t ns)
{
	return MAX(MIN(ns, INSTANT_MAX_NS), -INSTANT_MAX_NS);
}

int64_t instant_of_seconds(int64_t seconds)
{
	int64_t most = INSTANT_MAX_NS / NS_PER_S;

	return MAX(MIN(seconds, most), -most) * NS_PER_S;
}

static bool digits(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	return true;
}

static int number(const char *s, size_t n)
{
	int v = 0;

	for (size_t i = 0; i < n; i++)
		v = v * 10 + (s[i] - '0');
	return v;
}

/* The fraction and zone after "YYYY-MM-DDTHH:MM:SS". */
static int parse_rest(const char *s, int64_t *ret_fraction_ns, int64_t *ret_offset_s)
{
	int64_t unit = NS_PER_S;

	*ret_fraction_ns = *ret_offset_s = 0;
	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++) {
			unit /= 10;
			*ret_fraction_ns += (*s - '0') * unit;
		}
		if (unit == NS_PER_S)
			return -EINVAL;
	}
	if ((*s == 'Z' || *s == 'z') && !s[1])
		return 0;
	if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':' || !digits(s + 1, 2) ||
		!digits(s + 4, 2) || number(s + 1, 2) > 23 || number(s + 4, 2) > 59)
		return -EINVAL;
	*ret_offset_s = (number(s + 1, 2) * 3600 + number(s + 4, 2) * 60) * (*s == '-' ? -1 : 1);
	return 0;
}

/* The year before "-MM": of four digits, or of up to nine with or without a sign, as Go prints its first and last times. */
static size_t parse_year(const char *s, int *ret)
{
	size_t sign = *s == '-' || *s == '+', n = sign;

	while (s[n] >= '0' && s[n] <= '9')
		n++;
	if (n - sign < 4 || n - sign > 9 || s[n] != '-')
		return 0;
	*ret = number(s + sign, n - sign) * (*s == '-' ? -1 : 1);
	return n;
}

static int parse_rfc3339(const char *s, int64_t *ret_ns)
{
	static const char shape[] = "-dd-ddTdd:dd:dd";
	int64_t fraction, offset, seconds;
	struct tm tm = {}, back;
	int year = 0;

	s += parse_year(s, &year);
	for (size_t i = 0; shape[i]; i++)
		if (shape[i] == 'd' ? !digits(s + i, 1)
				    : s[i] != shape[i] &&
					      !(shape[i] == 'T' && s[i] && strchr("t ", s[i])))
			return -EINVAL;
	tm.tm_year = year - 1900;
	tm.tm_mon = number(s + 1, 2) - 1;
	tm.tm_mday = number(s + 4, 2);
	tm.tm_hour = number(s + 7, 2);
	tm.tm_min = number(s + 10, 2);
	tm.tm_sec = number(s + 13, 2);
	if (parse_rest(s + sizeof(shape) - 1, &fraction, &offset) < 0)
		return -EINVAL;
	back = tm;
	seconds = timegm(&back) - offset;
	if (back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon || back.tm_hour != tm.tm_hour ||
		back.tm_min != tm.tm_min || back.tm_sec != tm.tm_sec)
		return -EINVAL;
	*ret_ns = instant_of_seconds(seconds) + fraction; /* the caller clamps the sum */
	return 0;
}

/* A number of seconds; 13, 16 and 19 digits are milli-, micro- and nanoseconds. */
static int parse_epoch(const char *text, int64_t *ret_ns)
{
	double v, whole_s;
	int64_t whole;

	if (str_parse_i64(text, &whole, NULL) == 0) {
		uint64_t size = whole < 0 ? -(uint64_t)whole : (uint64_t)whole;
		int64_t scale = size < 100000000000ULL	       ? NS_PER_S
				: size < 100000000000000ULL    ? 1000000
				: size < 100000000000000000ULL ? 1000
							       : 1;

		if (__builtin_mul_overflow(whole, scale, ret_ns))
			*ret_ns = whole < 0 ? INT64_MIN : INT64_MAX;
		return 0;
	}
	if (str_parse_double(text, &v, NULL) < 0 || !isfinite(v))
		return -EINVAL;
	v = fmax(fmin(v, INSTANT_MAX_NS / 1e9), -INSTANT_MAX_NS / 1e9);
	whole_s = floor(v);
	*ret_ns = (int64_t)whole_s * NS_PER_S + llround((v - whole_s) * 1e9);
	return 0;
}

int instant_parse(const char *text, int64_t now_ns, int64_t *ret_ns, struct errbuf *eb)
{
	int64_t ms;

	if (!strcmp(text, "now")) {
		*ret_ns = now_ns;
		return 0;
	}
	if (str_starts_with(text, "now-") && text[4] &&
		str_parse_duration_ms(text + 4, &ms, NULL) == 0 && ms <= now_ns / NS_PER_MS) {
		*ret_ns = now_ns - ms * NS_PER_MS;
		return 0;
	}
	if (parse_epoch(text, ret_ns) == 0 || parse_rfc3339(text, ret_ns) == 0) {
		*ret_ns = instant_clamp(*ret_ns);
		return 0;
	}
	return err_set(eb, -EINVAL,
		"cannot parse \"%.40s\" as a time: unix seconds, RFC 3339 or now-1h", text);
}
