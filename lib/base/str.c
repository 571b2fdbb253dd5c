/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers, durations, sizes and UTF-8: from text and to text.
 */
#include "lib/base/str.h"
#include "lib/base/bytes.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t str_utf8_len(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t cp;
	size_t len;

	if (!n)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2, cp = p[0] & 0x1f;
	else if ((p[0] & 0xf0) == 0xe0)
		len = 3, cp = p[0] & 0x0f;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4, cp = p[0] & 0x07;
	else
		return 0;
	if (len > n)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if ((len == 3 && cp < 0x800) || (len == 4 && cp < 0x10000) || cp > 0x10ffff ||
		(cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	return len;
}

bool str_is_utf8(const char *s, size_t n)
{
	while (n) {
		uint64_t eight;
		size_t len;

		if (n >= sizeof(eight)) { /* most text is ASCII */
			memcpy(&eight, s, sizeof(eight));
			if (!(eight & 0x8080808080808080ULL)) {
				s += sizeof(eight);
				n -= sizeof(eight);
				continue;
			}
		}
		len = str_utf8_len(s, n);
		if (!len)
			return false;
		s += len;
		n -= len;
	}
	return true;
}

size_t str_put_utf8(const char *s, size_t n, struct bytes *out)
{
	size_t n_replaced = 0;

	for (size_t i = 0, len; i < n; i += len ? len : 1) {
		len = str_utf8_len(s + i, n - i);
		n_replaced += !len;
		bytes_put(out, len ? s + i : "\xef\xbf\xbd", len ? len : 3);
	}
	return n_replaced;
}

size_t str_utf8_fit(const char *s, size_t n, size_t max)
{
	if (n <= max)
		return n;
	while (max && ((unsigned char)s[max] & 0xc0) == 0x80)
		max--;
	return max;
}

bool str_starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && !memcmp(s + n - m, suffix, m);
}

/* Digits at *s; -ERANGE on overflow, -EINVAL when there are none. */
static int take_digits(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -ERANGE;
	*s = p;
	*ret = v;
	return 0;
}

int str_parse_u64(const char *s, uint64_t *ret, struct errbuf *eb)
{
	const char *p = s;
	uint64_t v;
	int r = take_digits(&p, &v);

	if (r < 0 || *p)
		return err_set(eb, -EINVAL, "\"%s\" is not a whole number%s", s,
			r == -ERANGE ? " below 2^64" : "");
	*ret = v;
	return 0;
}

int str_parse_i64(const char *s, int64_t *ret, struct errbuf *eb)
{
	bool negative = *s == '-';
	uint64_t v;

	if (str_parse_u64(s + negative, &v, NULL) < 0 || v > (uint64_t)INT64_MAX + negative)
		return err_set(eb, -EINVAL, "\"%s\" is not a whole number of 64 bits", s);
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

int str_parse_double(const char *s, double *ret, struct errbuf *eb)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end || isspace((unsigned char)*s))
		return err_set(eb, -EINVAL, "\"%s\" is not a number", s);
	*ret = v;
	return 0;
}

static const struct {
	const char *name;
	int64_t ms;
} duration_units[] = {
	{"y", 365LL * 86400000},
	{"w", 7LL * 86400000},
	{"d", 86400000},
	{"h", 3600000},
	{"m", 60000},
	{"s", 1000},
	{"ms", 1},
};

static int not_a_duration(const char *s, struct errbuf *eb)
{
	return err_set(eb, -EINVAL,
		"\"%s\" is not a duration: expected whole numbers with units y w d h m s ms, "
		"biggest first, like \"1h30m\"",
		s);
}

int str_parse_duration_ms(const char *s, int64_t *ret_ms, struct errbuf *eb)
{
	const char *p = s;
	int64_t total = 0;
	size_t next = 0;

	if (!strcmp(s, "0")) {
		*ret_ms = 0;
		return 0;
	}
	if (!*s)
		return err_set(
			eb, -EINVAL, "empty duration: expected one like \"15s\" or \"1h30m\"");
	while (*p) {
		const char *unit;
		size_t len, i;
		uint64_t v;
		int64_t add;

		if (take_digits(&p, &v) < 0)
			return not_a_duration(s, eb);
		unit = p;
		while (*p >= 'a' && *p <= 'z')
			p++;
		len = (size_t)(p - unit);
		for (i = next; i < ARRAY_SIZE(duration_units); i++)
			if (strlen(duration_units[i].name) == len &&
				!memcmp(duration_units[i].name, unit, len))
				break;
		if (i == ARRAY_SIZE(duration_units))
			return not_a_duration(s, eb);
		next = i + 1;
		if (v > INT64_MAX ||
			__builtin_mul_overflow((int64_t)v, duration_units[i].ms, &add) ||
			__builtin_add_overflow(total, add, &total) || total > INT64_MAX / 1000000)
			return err_set(eb, -EINVAL, "duration \"%s\" is out of range", s);
	}
	*ret_ms = total;
	return 0;
}

static const struct {
	const char *name;
	int64_t ns;
} go_units[] = {
	{"ns", 1},
	{"us", 1000},
	{"µs", 1000}, /* U+00B5 */
	{"μs", 1000}, /* U+03BC */
	{"ms", 1000000},
	{"s", 1000000000},
	{"m", 60000000000},
	{"h", 3600000000000},
};

/* The length of one of Go's units at s, the longest; 0: there is none. */
static size_t take_go_unit(const char *s, int64_t *ret_ns)
{
	size_t best = 0;

	for (size_t i = 0; i < ARRAY_SIZE(go_units); i++)
		if (str_starts_with(s, go_units[i].name) && strlen(go_units[i].name) > best) {
			best = strlen(go_units[i].name);
			*ret_ns = go_units[i].ns;
		}
	return best;
}

/* "1.5s" at *s, in nanoseconds; what is below one is cut off. */
static int take_go_part(const char **s, int64_t *ret_ns)
{
	const char *p = *s;
	bool has_digits = *p >= '0' && *p <= '9';
	int64_t unit_ns = 0, ns;
	uint64_t whole = 0;
	double share = 0, digit = 1;
	size_t n;

	if (has_digits && take_digits(&p, &whole) < 0)
		return -ERANGE;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++) {
			has_digits = true;
			digit /= 10;
			share += (*p - '0') * digit;
		}
	n = take_go_unit(p, &unit_ns);
	if (!has_digits || !n)
		return -EINVAL;
	if (whole > INT64_MAX || __builtin_mul_overflow((int64_t)whole, unit_ns, &ns) ||
		__builtin_add_overflow(ns, (int64_t)(share * (double)unit_ns + 1e-6), &ns))
		return -ERANGE;
	*s = p + n;
	*ret_ns = ns;
	return 0;
}

int str_parse_go_duration_ns(const char *s, int64_t *ret_ns, struct errbuf *eb)
{
	const char *p = s;
	int64_t total = 0, part = 0;
	int r = *s ? 0 : -EINVAL;

	if (!strcmp(s, "0"))
		p++;
	while (r == 0 && *p) {
		r = take_go_part(&p, &part);
		if (r == 0 && __builtin_add_overflow(total, part, &total))
			r = -ERANGE;
	}
	if (r == -ERANGE)
		return err_set(eb, -EINVAL, "duration \"%s\" is out of range", s);
	if (r < 0)
		return err_set(eb, -EINVAL,
			"\"%s\" is not a duration: expected numbers with units h m s ms us ns, "
			"like "
			"\"1.5s\"",
			s);
	*ret_ns = total;
	return 0;
}

void str_format_duration_ms(int64_t ms, char ret[64])
{
	size_t n = 0;

	if (!ms) {
		snprintf(ret, 64, "0s");
		return;
	}
	ret[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(duration_units) && ms; i++) {
		int64_t unit = duration_units[i].ms;

		/* As Prometheus prints: years and weeks only when they say it all. */
		if (ms < unit || (i < 2 && ms % unit))
			continue;
		n += (size_t)snprintf(
			ret + n, 64 - n, "%" PRId64 "%s", ms / unit, duration_units[i].name);
		ms %= unit;
	}
}

/* What may follow a whole number: ".5"; below 1 - 2^-53 whatever its digits. */
static int take_fraction(const char **s, double *ret)
{
	double digit = 1;

	*ret = 0;
	if (**s != '.')
		return 0;
	if ((*s)[1] < '0' || (*s)[1] > '9')
		return -EINVAL;
	for (++*s; **s >= '0' && **s <= '9'; ++*s) {
		digit /= 10;
		*ret += digit * (**s - '0');
	}
	*ret = MIN(*ret, 1 - 0x1p-53);
	return 0;
}

static int not_a_size(const char *s, struct errbuf *eb)
{
	return err_set(eb, -EINVAL,
		"\"%s\" is not a size: expected a number with a unit B KB MB GB TB, like \"32MB\"",
		s);
}

int str_parse_bytes(const char *s, uint64_t *ret, struct errbuf *eb)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	const char *p = s;
	double fraction;
	uint64_t v;

	if (take_digits(&p, &v) < 0 || take_fraction(&p, &fraction) < 0)
		return not_a_size(s, eb);
	if (!strcmp(s, "0")) {
		*ret = 0;
		return 0;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(p, units[i]) != 0 && strcmp(p, binary[i]) != 0)
			continue;
		if (v > UINT64_MAX >> (10 * i))
			return err_set(eb, -EINVAL, "size \"%s\" is out of range", s);
		/* less than a unit is added: there is room for it */
		*ret = (v << (10 * i)) + (uint64_t)(fraction * (double)(1ULL << (10 * i)));
		return 0;
	}
	return not_a_size(s, eb);
}

static int base64_value(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

int str_decode_base64(const char *s, size_t n, struct bytes *out)
{
	unsigned bits = 0, n_bits = 0;
	size_t n_digits = 0, n_pad = 0;

	for (size_t i = 0; i < n; i++) {
		int v = base64_value(s[i]);

		if (s[i] && strchr(" \t\r\n", s[i]))
			continue;
		n_pad += s[i] == '=';
		if ((v < 0 && s[i] != '=') || (v >= 0 && n_pad))
			return -EINVAL;
		if (v < 0)
			continue;
		bits = bits << 6 | (unsigned)v;
		n_digits++;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			bytes_put_u8(out, (uint8_t)(bits >> n_bits));
		}
	}
	/* a byte takes two digits, and padding fills up to four */
	if (n_digits % 4 == 1 || n_pad > 2 || (n_pad && (n_digits + n_pad) % 4))
		return -EINVAL;
	return bytes_error(out);
}

unsigned str_edit_distance(const char *a, const char *b)
{
	enum { MAX_LEN = 64 };
	unsigned row[MAX_LEN + 1];
	size_t n = strlen(b);

	if (n > MAX_LEN)
		return MAX_LEN;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < n; j++) {
			unsigned best = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			best = MIN(best, diagonal + 1);
			row[j + 1] = MIN(best, row[j] + 1);
		}
	}
	return row[n];
}
