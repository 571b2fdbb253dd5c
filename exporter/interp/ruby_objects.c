/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings, arrays, symbols (Ruby's include/ruby/internal/core/{rstring,rarray}.h, symbol.c).
 */
#include "exporter/interp/ruby_objects.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"

#define ADDRESS_MAX (1ULL << 52) /* of user space */

enum { TYPE_MASK = 0x1f, IMEMO_SHIFT = 12, IMEMO_MASK = 15 };

/* A String's text is in the object, or elsewhere; an Array's elements likewise, by the same flag's opposite. */
enum {
	STR_IS_ELSEWHERE = 1 << 13,
	STR_LENGTH_SHIFT = 14, /* up to 3.1, of a text in the object */
	STR_LENGTH_MASK = 0x1f,
	ARRAY_IS_EMBEDDED = 1 << 13,
	ARRAY_LENGTH_SHIFT = 15, /* of elements in the object */
	ARRAY_LENGTH_MASK = 0x7f,
	LENGTH_AT = 16,
	MAX_LENGTH = 1 << 30,
};

/* IDs up to the last operator are serial numbers; others have flags in their low bits. The first of those is greater than 2,000. */
enum { MAX_OPERATOR = 255, ID_SHIFT = 4 };
enum { SYMBOLS_IDS = 16, SYMBOLS_PER_LIST = 512, SYMBOL_WORDS = 2 };

static const char ELLIPSIS[] = "\xe2\x80\xa6", REPLACEMENT[] = "\xef\xbf\xbd";
enum { MAX_UTF8_BYTES = 4 };

uint64_t ruby_field(const struct ruby_head *h, uint32_t off, unsigned bytes)
{
	struct cursor c = cursor_of(h->bytes, h->n);

	cursor_skip(&c, off);
	return cursor_le(&c, bytes);
}

enum ruby_type ruby_type_of(const struct ruby_head *h)
{
	uint32_t flags = (uint32_t)ruby_field(h, 0, 4), type = flags & TYPE_MASK;

	return (enum ruby_type)(
		type == RUBY_T_IMEMO ? type | (flags & IMEMO_MASK << IMEMO_SHIFT) : type);
}

int ruby_read_head(const struct interp_memory *m, uint64_t addr, size_t n, struct ruby_head *ret)
{
	int error;

	ret->n = 0;
	if (!addr || addr % RUBY_POINTER_BYTES || addr >= ADDRESS_MAX)
		return -ENOENT;
	if (n > sizeof(ret->bytes))
		return -EBADMSG;
	error = m->read(m->arg, addr, ret->bytes, n);
	if (error == 0)
		ret->n = n;
	return error;
}

int ruby_read_object(const struct interp_memory *m, enum ruby_type type, uint64_t addr, size_t n,
	struct ruby_head *ret)
{
	int error = ruby_read_head(m, addr, n, ret);

	return error < 0 ? error : ruby_type_of(ret) == type ? 0 : -ENOENT;
}

/* is_clipped: there are more bytes behind them. */
static char *to_utf8(const char *from, size_t n, bool is_clipped)
{
	char text[INTERP_MAX_TEXT_BYTES];
	size_t at = 0, i = 0;

	while (i < n && at + MAX_UTF8_BYTES + strlen(ELLIPSIS) <= sizeof(text)) {
		size_t length = from[i] ? str_utf8_len(from + i, n - i) : 0;

		if (length)
			memcpy(text + at, from + i, length);
		else
			memcpy(text + at, REPLACEMENT, strlen(REPLACEMENT));
		at += length ? length : strlen(REPLACEMENT);
		i += length ? length : 1;
	}
	if (i < n || is_clipped) {
		memcpy(text + at, ELLIPSIS, strlen(ELLIPSIS));
		at += strlen(ELLIPSIS);
	}
	return xstrndup(text, at);
}

int ruby_read_text(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t addr, char **ret)
{
	uint16_t embedded = r->offsets[RUBY_STR_EMBEDDED], pointer = r->offsets[RUBY_STR_POINTER];
	char data[INTERP_MAX_TEXT_BYTES];
	uint64_t flags, length, at;
	struct ruby_head h;
	size_t n;
	int error =
		ruby_read_object(m, RUBY_T_STRING, addr, (size_t)pointer + RUBY_POINTER_BYTES, &h);

	if (error < 0)
		return error;
	flags = ruby_pointer(&h, 0);
	length = ruby_pointer(&h, LENGTH_AT);
	at = addr + embedded;
	if (flags & STR_IS_ELSEWHERE)
		at = ruby_pointer(&h, pointer);
	else if (embedded == LENGTH_AT) /* no place for a length */
		length = flags >> STR_LENGTH_SHIFT & STR_LENGTH_MASK;
	if (length > MAX_LENGTH)
		return -EBADMSG;
	n = MIN(length, sizeof(data));
	error = n ? m->read(m->arg, at, data, n) : 0;
	if (error < 0)
		return error;
	*ret = to_utf8(data, n, n < length);
	return 0;
}

int ruby_read_element(const struct interp_memory *m, const struct runtime_record *r, uint64_t addr,
	uint64_t idx, uint64_t *ret)
{
	uint16_t pointer = r->offsets[RUBY_ARRAY_POINTER];
	uint64_t flags, length, at;
	struct ruby_head h;
	int error =
		ruby_read_object(m, RUBY_T_ARRAY, addr, (size_t)pointer + RUBY_POINTER_BYTES, &h);

	if (error < 0)
		return error;
	flags = ruby_pointer(&h, 0);
	length = ruby_pointer(&h, LENGTH_AT);
	at = ruby_pointer(&h, pointer);
	if (flags & ARRAY_IS_EMBEDDED) {
		length = flags >> ARRAY_LENGTH_SHIFT & ARRAY_LENGTH_MASK;
		at = addr + r->offsets[RUBY_ARRAY_EMBEDDED];
	}
	if (idx >= length || length > MAX_LENGTH)
		return -EBADMSG;
	error = ruby_read_head(m, at + idx * RUBY_POINTER_BYTES, RUBY_POINTER_BYTES, &h);
	*ret = error < 0 ? 0 : ruby_pointer(&h, 0);
	return error;
}

int ruby_read_id(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t id, char **ret)
{
	uint64_t serial = id <= MAX_OPERATOR ? id : (uint32_t)(id >> ID_SHIFT), list, text;
	struct ruby_head h;
	int error;

	if (!r->addresses[RUBY_SYMBOLS])
		return -ENOENT;
	error = ruby_read_head(
		m, r->addresses[RUBY_SYMBOLS] + m->bias + SYMBOLS_IDS, RUBY_POINTER_BYTES, &h);
	if (error == 0)
		error = ruby_read_element(
			m, r, ruby_pointer(&h, 0), serial / SYMBOLS_PER_LIST, &list);
	if (error == 0)
		error = ruby_read_element(
			m, r, list, serial % SYMBOLS_PER_LIST * SYMBOL_WORDS, &text);
	return error < 0 ? error : ruby_read_text(m, r, text, ret);
}
