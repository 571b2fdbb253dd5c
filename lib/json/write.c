/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON writer.
 */
#include "lib/json/write.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 63 };

static void before_value(struct json *j)
{
	if (j->after_key)
		j->after_key = false;
	else if (j->has_item & (1ULL << j->depth))
		bytes_put_u8(j->out, ',');
	j->has_item |= 1ULL << j->depth;
}

static void begin(struct json *j, char c)
{
	before_value(j);
	ASSERT(j->depth < MAX_DEPTH);
	j->depth++;
	j->has_item &= ~(1ULL << j->depth);
	bytes_put_u8(j->out, (uint8_t)c);
}

static void end(struct json *j, char c)
{
	ASSERT(j->depth > 0 && !j->after_key);
	j->depth--;
	bytes_put_u8(j->out, (uint8_t)c);
}

void json_object_begin(struct json *j)
{
	begin(j, '{');
}

void json_object_end(struct json *j)
{
	end(j, '}');
}

void json_array_begin(struct json *j)
{
	begin(j, '[');
}

void json_array_end(struct json *j)
{
	end(j, ']');
}

/* What stands for itself in a string: printable ASCII but for quote and backslash. */
static bool is_plain(unsigned char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* How many bytes from s on stand for themselves. */
static size_t plain_run(const char *s, size_t n)
{
	const uint64_t ones = 0x0101010101010101ULL, highs = ones << 7;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) { /* eight at once: a high bit for each that is not plain */
		uint64_t v, quote, backslash;

		memcpy(&v, s + i, 8);
		quote = v ^ ones * '"';
		backslash = v ^ ones * '\\';
		if ((v | (v + ones) | (v - ones * ' ') | (quote - ones) | (backslash - ones)) &
			highs)
			break;
	}
	while (i < n && is_plain((unsigned char)s[i]))
		i++;
	return i;
}

/* Puts what cannot stand for itself at s; how long that is. */
static size_t put_escaped(struct bytes *out, const char *s, size_t n)
{
	unsigned char c = (unsigned char)*s;
	size_t len;

	if (c == '"' || c == '\\') {
		bytes_put_u8(out, '\\');
		bytes_put_u8(out, c);
		return 1;
	}
	if (c == '\n') {
		bytes_put(out, "\\n", 2);
		return 1;
	}
	if (c < ' ' || c == 0x7f) {
		bytes_printf(out, "\\u%04x", c);
		return 1;
	}
	len = str_utf8_len(s, n);
	if (len)
		bytes_put(out, s, len);
	else
		bytes_put(out, "\xef\xbf\xbd", 3);
	return len ? len : 1;
}

static void put_string(struct json *j, const char *s, size_t n)
{
	struct bytes *out = j->out;

	bytes_put_u8(out, '"');
	for (size_t i = 0, run; i < n; i = run) {
		run = i + plain_run(s + i, n - i);
		bytes_put(out, s + i, run - i);
		if (run < n)
			run += put_escaped(out, s + run, n - run);
	}
	bytes_put_u8(out, '"');
}

void json_key(struct json *j, const char *key)
{
	before_value(j);
	put_string(j, key, strlen(key));
	bytes_put_u8(j->out, ':');
	j->after_key = true;
}

void json_string_n(struct json *j, const char *s, size_t n)
{
	before_value(j);
	put_string(j, s, n);
}

void json_string(struct json *j, const char *s)
{
	json_string_n(j, s, strlen(s));
}

void json_int(struct json *j, int64_t v)
{
	before_value(j);
	bytes_print_int(j->out, v);
}

void json_uint(struct json *j, uint64_t v)
{
	before_value(j);
	bytes_print_uint(j->out, v);
}

void json_int_string(struct json *j, int64_t v)
{
	before_value(j);
	bytes_put_u8(j->out, '"');
	bytes_print_int(j->out, v);
	bytes_put_u8(j->out, '"');
}

void json_uint_string(struct json *j, uint64_t v)
{
	before_value(j);
	bytes_put_u8(j->out, '"');
	bytes_print_uint(j->out, v);
	bytes_put_u8(j->out, '"');
}

void json_double(struct json *j, double v)
{
	char text[40];

	if (!isfinite(v)) {
		json_null(j);
		return;
	}
	before_value(j);
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	bytes_put_str(j->out, text);
}

void json_bool(struct json *j, bool v)
{
	before_value(j);
	bytes_put_str(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	before_value(j);
	bytes_put_str(j->out, "null");
}

void json_raw(struct json *j, const char *text, size_t n)
{
	before_value(j);
	bytes_put(j->out, text, n);
}

void json_kv_string(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_string(j, s);
}

void json_kv_int(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void json_kv_uint(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_uint(j, v);
}

void json_kv_double(struct json *j, const char *key, double v)
{
	json_key(j, key);
	json_double(j, v);
}

void json_kv_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}
