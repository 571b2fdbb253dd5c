/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of V8. One that programs put together is a tree of the parts (cons), another part of a string (sliced), another name of one
 * (thin), or its characters lie outside the heap (external).
 */
#include "exporter/interp/text.h"
#include "exporter/interp/v8_heap.h"
#include "lib/base/cursor.h"

enum {
	STRING_LENGTH = 12,
	STRING_CHARS = 16,
	CONS_FIRST = 16,
	CONS_SECOND = 24,
	SLICED_PARENT = 16,
	SLICED_FROM = 24,
	THIN_ACTUAL = 16,
	EXTERNAL_CHARS = 24,

	TYPE_SHAPE = 7, /* bits of the instance type */
	TYPE_IS_ONE_BYTE = 8,
	TYPE_IS_UNCACHED = 16, /* external, without the address of its characters */
	SHAPE_SEQUENTIAL = 0,
	SHAPE_CONS = 1,
	SHAPE_EXTERNAL = 2,
	SHAPE_SLICED = 3,
	SHAPE_THIN = 5,

	MAX_PARTS = 32,	  /* to be visited */
	MAX_STEPS = 1024, /* strings looked at */
	CHUNK_BYTES = 8192,
};

/* Characters [from, from + n) of a string; n may be ALL of them. */
#define ALL UINT32_MAX
struct part {
	uint64_t string;
	uint32_t from, n;
};

struct visit {
	struct v8_heap *h;
	v8_visit visit;
	void *arg;
	struct part parts[MAX_PARTS]; /* the last is the next */
	unsigned n_parts;
};

/* Its type, and its length in characters; or an error. */
static int read_head(struct v8_heap *h, uint64_t string, uint32_t *ret_length)
{
	uint8_t bytes[STRING_CHARS];
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	int type = v8_read(h, string, 0, bytes, sizeof(bytes));

	if (type == 0)
		type = v8_type_of_map(h, cursor_u64(&c));
	if (type < 0 || type >= h->r->offsets[V8_TYPE_NOT_STRING])
		return type < 0 ? type : -ENOENT;
	cursor_skip(&c, STRING_LENGTH - V8_WORD);
	*ret_length = cursor_u32(&c);
	return *ret_length <= INT32_MAX ? type : -EBADMSG;
}

int64_t v8_string_length(struct v8_heap *h, uint64_t string)
{
	uint32_t n;
	int type = read_head(h, string, &n);

	return type < 0 ? type : (int64_t)n;
}

/* Characters from an address on. 1: the visitor has enough. */
static int visit_chars(struct visit *v, uint64_t at, const struct part *p, unsigned width)
{
	uint8_t chunk[CHUNK_BYTES];

	for (uint32_t done = 0; done < p->n;) {
		uint32_t n = MIN(p->n - done, CHUNK_BYTES / width);
		uint64_t off = ((uint64_t)p->from + done) * width;
		int error = v8_read_at(v->h, at + off, chunk, n * width);

		if (error < 0)
			return error;
		if (v->visit(v->arg, chunk, n, width))
			return 1;
		done += n;
	}
	return 0;
}

static int push(struct visit *v, uint64_t string, uint32_t from, uint32_t n)
{
	if (!n)
		return 0;
	if (v->n_parts == MAX_PARTS)
		return -EBADMSG;
	v->parts[v->n_parts++] = (struct part) {string, from, n};
	return 0;
}

static int visit_cons(struct visit *v, const struct part *p)
{
	uint64_t first = 0, second = 0;
	int error = v8_word(v->h, p->string, CONS_FIRST, &first);
	int64_t n_first;
	uint32_t n;

	if (error == 0)
		error = v8_word(v->h, p->string, CONS_SECOND, &second);
	if (error < 0)
		return error;
	n_first = v8_string_length(v->h, first);
	if (n_first < 0)
		return (int)n_first;
	n = p->from < n_first ? MIN(p->n, (uint32_t)n_first - p->from) : 0;
	error = push(v, second, p->from + n - (uint32_t)n_first, p->n - n);
	return error < 0 ? error : push(v, first, p->from, n);
}

static int visit_part(struct visit *v, struct part *p)
{
	uint32_t length;
	int type = read_head(v->h, p->string, &length), error;
	unsigned width = type & TYPE_IS_ONE_BYTE ? 1 : 2;
	uint64_t word = 0;

	if (type < 0)
		return type;
	if (p->n == ALL)
		p->n = length;
	if (p->from > length || p->n > length - p->from)
		return -EBADMSG;
	switch (type & TYPE_SHAPE) {
	case SHAPE_SEQUENTIAL: return visit_chars(v, p->string - 1 + STRING_CHARS, p, width);
	case SHAPE_CONS: return visit_cons(v, p);
	case SHAPE_EXTERNAL:
		error = type & TYPE_IS_UNCACHED ? -EBADMSG
						: v8_word(v->h, p->string, EXTERNAL_CHARS, &word);
		return error < 0 ? error : visit_chars(v, word, p, width);
	case SHAPE_SLICED:
		error = v8_word(v->h, p->string, SLICED_FROM, &word);
		if (error < 0 || !v8_is_smi(word) || v8_smi(word) < 0)
			return error < 0 ? error : -EBADMSG;
		length = p->from + (uint32_t)v8_smi(word);
		error = v8_word(v->h, p->string, SLICED_PARENT, &word);
		return error < 0 ? error : push(v, word, length, p->n);
	case SHAPE_THIN:
		error = v8_word(v->h, p->string, THIN_ACTUAL, &word);
		return error < 0 ? error : push(v, word, p->from, p->n);
	default: return -EBADMSG;
	}
}

int v8_string_visit(struct v8_heap *h, uint64_t string, v8_visit visit, void *arg)
{
	struct visit v = {.h = h, .visit = visit, .arg = arg};
	int r = push(&v, string, 0, ALL);

	for (unsigned i = 0; r == 0 && v.n_parts; i++) {
		struct part p = v.parts[--v.n_parts];

		r = i < MAX_STEPS ? visit_part(&v, &p) : -EBADMSG;
	}
	return MIN(r, 0);
}

/* UTF-16 → UTF-8. */
struct utf16 {
	struct interp_text text;
	uint32_t high; /* the first half of a pair, which waits for its second; 0: none */
};

static bool put_unit(struct utf16 *u, uint32_t c)
{
	uint32_t high = u->high;

	u->high = 0;
	if (high && c >= 0xdc00 && c < 0xe000)
		return interp_text_put(&u->text, 0x10000 + ((high & 0x3ff) << 10) + (c & 0x3ff));
	if (high && !interp_text_put(&u->text, high))
		return false;
	if (c >= 0xd800 && c < 0xdc00) {
		u->high = c;
		return true;
	}
	return interp_text_put(&u->text, c);
}

static int put_chars(void *arg, const uint8_t *chars, size_t n, unsigned width)
{
	struct cursor c = cursor_of(chars, n * width);
	struct utf16 *u = arg;

	while (cursor_left(&c))
		if (!put_unit(u, (uint32_t)cursor_le(&c, width)))
			return 1;
	return 0;
}

int v8_string(struct v8_heap *h, uint64_t string, char **ret)
{
	struct utf16 u = {.high = 0};
	int error = v8_string_visit(h, string, put_chars, &u);

	if (error < 0)
		return error;
	if (u.high)
		interp_text_put(&u.text, u.high);
	*ret = interp_text_take(&u.text);
	return 0;
}
