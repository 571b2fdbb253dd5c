/* SPDX-License-Identifier: Apache-2.0
 *
 * Text → numbers, Prometheus durations and sizes, and back; UTF-8.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* Length of the valid UTF-8 sequence at s (1 to 4), or 0: overlong forms, surrogates and values
 * above U+10FFFF are refused. */
size_t str_utf8_len(const char *s, size_t n);
bool str_is_utf8(const char *s, size_t n);
/* How many of the n bytes of valid UTF-8 fit into max without cutting a character. */
size_t str_utf8_fit(const char *s, size_t n, size_t max);
/* Appends the text with U+FFFD for each byte that is no UTF-8; how many those were. Errors stick to `out`. */
struct bytes;
size_t str_put_utf8(const char *s, size_t n, struct bytes *out);
/* Appends the bytes of base64 (RFC 4648 §4), in which blanks and line ends may stand; padding may be left out. -EINVAL: it is none, and
 * `out` may have got a part; -ENOMEM, -EFBIG of `out`. */
int str_decode_base64(const char *s, size_t n, struct bytes *out) _must_check_;
bool str_starts_with(const char *s, const char *prefix);
bool str_ends_with(const char *s, const char *suffix);

/* Whole-string decimal numbers, without blanks; -EINVAL with a text on anything else and out of range. A double is what strtod(3) takes,
 * also "nan", "inf" and hexadecimal: callers check the range. */
int str_parse_u64(const char *s, uint64_t *ret, struct errbuf *eb) _must_check_;
int str_parse_i64(const char *s, int64_t *ret, struct errbuf *eb) _must_check_;
int str_parse_double(const char *s, double *ret, struct errbuf *eb) _must_check_;

/* Prometheus durations: "0" or y w d h m s ms, biggest first, integers only ("1h30m"). -EINVAL with a
 * text, also above 2^63 ns. Source: prometheus/common model/time.go. */
int str_parse_duration_ms(const char *s, int64_t *ret_ms, struct errbuf *eb) _must_check_;
/* Go's durations, as its time.ParseDuration takes them but for a sign: numbers, also with a fraction, and units h m
 * s ms us ns in any order ("1.5s", "1m0s"), or "0". -EINVAL with a text, also
 * above 2^63 ns. */
int str_parse_go_duration_ns(const char *s, int64_t *ret_ns, struct errbuf *eb) _must_check_;
/* The spelling of str_parse_duration_ms back, e.g. 5400000 → "1h30m". `ret` has room for 64 bytes. */
void str_format_duration_ms(int64_t ms, char ret[64]);
/* Prometheus sizes with a unit, base 2: "32MB" = "32MiB" = 33554432, "1.5KB" = 1536; "0" alone needs none. */
int str_parse_bytes(const char *s, uint64_t *ret, struct errbuf *eb) _must_check_;

/* Insertions, deletions and replacements of bytes that make b of a: how near a mistyped word is. 64 when b is longer than that. */
unsigned str_edit_distance(const char *a, const char *b);
