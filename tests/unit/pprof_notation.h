/* SPDX-License-Identifier: Apache-2.0
 *
 * A notation for protobuf messages in test tables, so that a case is one line and can be wrong on purpose:
 *
 *	N:V        field N, varint V (decimal, may be negative)
 *	N[V V …]   field N, packed varints
 *	N'text'    field N, bytes; \xHH inside
 *	N{…}       field N, a nested message
 *	N=4 N=8    field N, fixed32 or fixed64 of zeros
 *	!HH        a raw byte
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include <stdlib.h>

static const char *notation_put(const char *s, struct bytes *out);

static void notation_tag(struct bytes *out, unsigned long number, unsigned wire)
{
	bytes_put_varint(out, (uint64_t)number << 3 | wire);
}

static void notation_nest(struct bytes *out, unsigned long number, const struct bytes *content)
{
	notation_tag(out, number, 2);
	bytes_put_varint(out, content->len);
	bytes_put(out, content->data, content->len);
}

static const char *notation_text(const char *s, struct bytes *out)
{
	for (; *s != '\''; s++) {
		if (s[0] == '\\' && s[1] == 'x') {
			char hex[3] = {s[2], s[3], 0};

			bytes_put_u8(out, (uint8_t)strtoul(hex, NULL, 16));
			s += 3;
		} else {
			bytes_put_u8(out, (uint8_t)*s);
		}
	}
	return s + 1;
}

static const char *notation_packed(const char *s, struct bytes *out)
{
	for (; *s != ']';) {
		char *end;

		if (*s == ' ') {
			s++;
			continue;
		}
		bytes_put_varint(
			out, *s == '-' ? (uint64_t)strtoll(s, &end, 10) : strtoull(s, &end, 10));
		ASSERT(end > s);
		s = end;
	}
	return s + 1;
}

static const char *notation_field(const char *s, struct bytes *out)
{
	_cleanup_bytes_ struct bytes content;
	char *end;
	unsigned long number = strtoul(s, &end, 10);
	char kind = *end;

	ASSERT(end > s);
	s = end + 1;
	bytes_init(&content, NULL, 0);
	if (kind == ':') {
		notation_tag(out, number, 0);
		bytes_put_varint(
			out, *s == '-' ? (uint64_t)strtoll(s, &end, 10) : strtoull(s, &end, 10));
		return end;
	}
	if (kind == '=') {
		static const uint8_t zeros[8];

		notation_tag(out, number, *s == '4' ? 5 : 1);
		bytes_put(out, zeros, *s == '4' ? 4 : 8);
		return s + 1;
	}
	ASSERT(kind == '\'' || kind == '[' || kind == '{');
	if (kind == '\'')
		s = notation_text(s, &content);
	else if (kind == '[')
		s = notation_packed(s, &content);
	else
		s = notation_put(s, &content);
	notation_nest(out, number, &content);
	return s;
}

/* Up to the closing brace or the end of the text. */
static const char *notation_put(const char *s, struct bytes *out)
{
	for (; *s && *s != '}';) {
		if (*s == ' ' || *s == '\n' || *s == '\t') {
			s++;
		} else if (*s == '!') {
			char hex[3] = {s[1], s[2], 0};

			bytes_put_u8(out, (uint8_t)strtoul(hex, NULL, 16));
			s += 3;
		} else {
			s = notation_field(s, out);
		}
	}
	return *s ? s + 1 : s;
}
