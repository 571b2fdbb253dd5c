/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of scripts.
 */
#include "exporter/interp/v8_script.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"

enum {
	SCRIPT_SOURCE = 8,
	SCRIPT_NAME = 16,
	SCRIPT_LINE = 24,
	SCRIPT_COLUMN = 32,
	SCRIPT_LINE_ENDS = 56,
	SCRIPT_ID = 64,
	N_SCRIPT_WORDS = 9,

	LINE_SEPARATOR = 0x2028,
	PARAGRAPH_SEPARATOR = 0x2029,
	ELEMENTS_AT_ONCE = 512,
};

#define NAMELESS "[eval]"

static void script_done(struct v8_script *s)
{
	free(s->name);
	free(s->ends);
	*s = (struct v8_script) {0};
}

void v8_scripts_done(struct v8_scripts *s)
{
	for (size_t i = 0; i < s->n; i++)
		script_done(&s->scripts[i]);
	*s = (struct v8_scripts) {0};
}

/* Where lines end, of a source that is read in order. */
struct lines {
	uint32_t *ends;
	size_t n, cap;
	uint32_t at;
	bool was_return; /* \r: the end of a line, unless \n follows */
	int error;
};

static int add_end(struct lines *l, uint32_t at)
{
	if (l->n == V8_MAX_LINES)
		return -EFBIG;
	if (alloc_grow(&l->ends, &l->cap, l->n + 1, sizeof(*l->ends)) < 0)
		return -ENOMEM;
	l->ends[l->n++] = at;
	return 0;
}

/* What ends lines in JavaScript. */
static int take_char(struct lines *l, uint32_t c)
{
	int error = 0;

	if (l->was_return && c != '\n')
		error = add_end(l, l->at - 1);
	l->was_return = c == '\r';
	if (error == 0 && (c == '\n' || c == LINE_SEPARATOR || c == PARAGRAPH_SEPARATOR))
		error = add_end(l, l->at);
	l->at++;
	return error;
}

static int take_chars(void *arg, const uint8_t *chars, size_t n, unsigned width)
{
	struct cursor c = cursor_of(chars, n * width);
	struct lines *l = arg;

	while (cursor_left(&c) && l->error == 0)
		l->error = take_char(l, (uint32_t)cursor_le(&c, width));
	return l->error;
}

static int count_lines(struct v8_heap *h, uint64_t source, struct lines *l)
{
	int64_t length = v8_string_length(h, source);
	int error;

	if (length < 0)
		return (int)length;
	if (length > V8_MAX_SOURCE_CHARS)
		return -EFBIG;
	error = v8_string_visit(h, source, take_chars, l);
	if (error == 0 && l->error == 0 && l->was_return)
		error = add_end(l, l->at - 1);
	return error < 0 ? error : l->error;
}

/* What V8 has counted already. */
static int copy_lines(struct v8_heap *h, uint64_t array, struct lines *l)
{
	int64_t n = v8_array_length(h, array);

	if (n < 0 || n > V8_MAX_LINES)
		return n < 0 ? (int)n : -EFBIG;
	for (int64_t done = 0; done < n;) {
		uint8_t words[ELEMENTS_AT_ONCE * V8_WORD];
		size_t some = (size_t)MIN(n - done, ELEMENTS_AT_ONCE);
		struct cursor c = cursor_of(words, some * V8_WORD);
		int error = v8_read(
			h, array, V8_ARRAY_DATA + (uint32_t)done * V8_WORD, words, some * V8_WORD);

		for (done += (int64_t)some; error == 0 && cursor_left(&c);) {
			uint64_t word = cursor_le(&c, V8_WORD);

			error = v8_is_smi(word) && v8_smi(word) >= 0
					? add_end(l, (uint32_t)v8_smi(word))
					: -EBADMSG;
		}
		if (error < 0)
			return error;
	}
	return 0;
}

/* 0 without lines where the source has none that can be known. */
static int read_lines(struct v8_heap *h, const uint64_t *words, struct v8_script *ret)
{
	uint64_t known = words[SCRIPT_LINE_ENDS / V8_WORD];
	struct lines l = {0};
	int error = -ENOENT;

	if (v8_is_object(known) && v8_array_length(h, known) > 0)
		error = copy_lines(h, known, &l);
	if (error < 0) {
		free(l.ends);
		l = (struct lines) {0};
		error = count_lines(h, words[SCRIPT_SOURCE / V8_WORD], &l);
	}
	for (size_t i = 1; error == 0 && i < l.n; i++)
		if (l.ends[i] <= l.ends[i - 1])
			error = -EBADMSG;
	if (error < 0) {
		free(l.ends);
		return error == -EFBIG || error == -EBADMSG || error == -ENOENT ? 0 : error;
	}
	/* One more, so that a script of one line has lines too. */
	if (add_end(&l, UINT32_MAX) == 0) {
		ret->ends = l.ends;
		ret->n_ends = l.n;
	} else {
		free(l.ends);
	}
	return 0;
}

static int32_t small(uint64_t word)
{
	return v8_is_smi(word) && v8_smi(word) > -V8_MAX_LINES && v8_smi(word) < INT32_MAX / 2
		       ? v8_smi(word)
		       : 0;
}

static size_t bytes_of(const struct v8_script *s)
{
	return s->n_ends * sizeof(*s->ends);
}

static struct v8_script *place_for(struct v8_scripts *s, size_t bytes)
{
	while (s->n && (s->n == V8_SCRIPTS || s->bytes + bytes > V8_SCRIPTS_MAX_BYTES)) {
		struct v8_script *oldest = s->scripts;

		for (size_t i = 1; i < s->n; i++)
			if (s->scripts[i].used < oldest->used)
				oldest = &s->scripts[i];
		s->bytes -= bytes_of(oldest);
		script_done(oldest);
		*oldest = s->scripts[--s->n];
		s->scripts[s->n] = (struct v8_script) {0};
	}
	return &s->scripts[s->n];
}

static int read_name(struct v8_heap *h, uint64_t word, char **ret)
{
	int error = v8_string(h, word, ret);

	if (error != -ENOENT)
		return error;
	*ret = xstrdup(NAMELESS); /* it has a number, or no name */
	return 0;
}

int v8_script_read(
	struct v8_heap *h, struct v8_scripts *s, uint64_t script, const struct v8_script **ret)
{
	uint64_t words[N_SCRIPT_WORDS], length = 0, seen;
	uint8_t bytes[sizeof(words)];
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	struct v8_script found = {0};
	int64_t n;
	int error = v8_read(h, script, 0, bytes, sizeof(bytes)), type;

	if (error < 0)
		return error;
	for (size_t i = 0; i < N_SCRIPT_WORDS; i++)
		words[i] = cursor_le(&c, V8_WORD);
	type = v8_type_of_map(h, words[0]);
	if (type < 0 || type != h->r->offsets[V8_TYPE_SCRIPT])
		return type < 0 ? type : -ENOENT;
	/* The same fields there mean the same name and source: what they lead to needs no other look. */
	seen = hash_xxh3_seed(bytes, sizeof(bytes), script);
	for (size_t i = 0; i < s->n; i++)
		if (s->scripts[i].seen == seen) {
			s->scripts[i].used = ++s->clock;
			*ret = &s->scripts[i];
			return 0;
		}
	n = v8_string_length(h, words[SCRIPT_SOURCE / V8_WORD]);
	length = n < 0 ? UINT64_MAX : (uint64_t)n; /* a module of wasm has no source */
	error = read_name(h, words[SCRIPT_NAME / V8_WORD], &found.name);
	if (error < 0)
		return error;
	/* Workers number their scripts each from 1 on. */
	if (strcmp(found.name, NAMELESS) == 0)
		length ^= words[SCRIPT_SOURCE / V8_WORD] << 32;
	found.key =
		hash_xxh3_seed(found.name, strlen(found.name), words[SCRIPT_ID / V8_WORD] ^ length);
	for (size_t i = 0; i < s->n; i++)
		if (s->scripts[i].key == found.key) {
			script_done(&found);
			s->scripts[i].seen = seen;
			s->scripts[i].used = ++s->clock;
			*ret = &s->scripts[i];
			return 0;
		}
	found.first_line = small(words[SCRIPT_LINE / V8_WORD]);
	found.first_column = small(words[SCRIPT_COLUMN / V8_WORD]);
	error = read_lines(h, words, &found);
	if (error < 0) {
		script_done(&found);
		return error;
	}
	found.seen = seen;
	found.used = ++s->clock;
	*place_for(s, bytes_of(&found)) = found;
	s->bytes += bytes_of(&found);
	*ret = &s->scripts[s->n++];
	return 0;
}

struct v8_place v8_script_place(const struct v8_script *s, uint32_t position)
{
	size_t low = 0, high = s->n_ends;
	uint32_t start;
	int64_t line, column;

	if (!s->ends || position == UINT32_MAX)
		return (struct v8_place) {0, 0};
	while (low < high) { /* the first end at or behind it */
		size_t middle = low + (high - low) / 2;

		if (s->ends[middle] < position)
			low = middle + 1;
		else
			high = middle;
	}
	start = low ? s->ends[low - 1] + 1 : 0;
	line = s->first_line + (int64_t)low + 1;
	column = position - (int64_t)start + 1 + (low ? 0 : s->first_column);
	return (struct v8_place) {
		.line = line > 0 ? (uint32_t)line : 0,
		.column = column > 0 ? (uint32_t)column : 0,
	};
}
