/* SPDX-License-Identifier: Apache-2.0
 *
 * Position → line. A table that is read here becomes {u32 start, u32 words, then for each entry u32 first word, u32 line}, by first word;
 * start is the position of the first word of all.
 */
#include "exporter/interp/ruby_lines.h"
#include "exporter/interp/ruby.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"

enum { HEAD_BYTES = 8, ENTRY_BYTES = 8, MAX_ENTRIES = INTERP_MAX_LINES_BYTES / ENTRY_BYTES - 1 };

/*
 * The index: for each of the first 54 words the number of entries up to it, in 7 bits, 9 a u64; then blocks of 512 words, in which a bit
 * says that an entry begins: u32 number before the block, u64 numbers of 8 parts, which repeat what the bits say, 8 u64 of bits.
 */
enum {
	COUNTED_WORDS = 54,
	COUNTS_PER_U64 = 9,
	COUNT_BITS = 7,
	COUNTS_BYTES = COUNTED_WORDS / COUNTS_PER_U64 * 8,
	BLOCK_WORDS = 512,
	BLOCK_BITS_AT = 16,
	BLOCK_BYTES = 80,
};

struct source {
	uint32_t n_words, n_entries;
	uint16_t entry_bytes, line_at, position_at;
	uint8_t *entries, *index; /* owned; index: NULL up to 2.5 */
	size_t index_bytes;
};
static void source_done(struct source *s)
{
	free(s->entries);
	free(s->index);
}
#define _cleanup_source_ _cleanup_(source_done)

static uint64_t number_at(const uint8_t *data, size_t bytes, size_t at, unsigned n)
{
	struct cursor c = cursor_of(data, bytes);

	cursor_skip(&c, at);
	return cursor_le(&c, n);
}

/* Entries that begin at or before a word. */
static uint32_t count_upto(const struct source *s, uint32_t word, uint32_t before)
{
	uint64_t v;

	if (word < COUNTED_WORDS) {
		v = number_at(s->index, s->index_bytes, word / COUNTS_PER_U64 * 8, 8);
		return (uint32_t)(v >> word % COUNTS_PER_U64 * COUNT_BITS) &
		       ((1U << COUNT_BITS) - 1);
	}
	word -= COUNTED_WORDS;
	v = number_at(s->index, s->index_bytes,
		COUNTS_BYTES + word / BLOCK_WORDS * BLOCK_BYTES + BLOCK_BITS_AT +
			word % BLOCK_WORDS / 64 * 8,
		8);
	return before + (uint32_t)(v >> word % 64 & 1);
}

static void put_entry(struct bytes *to, const struct source *s, uint32_t word, uint32_t i)
{
	bytes_put_u32(to, word);
	bytes_put_u32(to, (uint32_t)number_at(s->entries, (size_t)s->n_entries * s->entry_bytes,
				  (size_t)i * s->entry_bytes + s->line_at, 4));
}

static void put_entries(struct bytes *to, const struct source *s)
{
	if (!s->index && s->position_at == RUNTIME_NO_FIELD) { /* one for all words */
		put_entry(to, s, 0, 0);
		return;
	}
	for (uint32_t i = 0; !s->index && i < s->n_entries; i++)
		put_entry(to, s,
			(uint32_t)number_at(s->entries, (size_t)s->n_entries * s->entry_bytes,
				(size_t)i * s->entry_bytes + s->position_at, 4),
			i);
	for (uint32_t word = 0, n, before = 0; s->index && word < s->n_words; word++) {
		n = count_upto(s, word, before);
		if (n <= before || n > s->n_entries)
			continue;
		put_entry(to, s, word, n - 1);
		before = n;
	}
}

static int read_all(const struct interp_memory *m, uint64_t addr, size_t n, uint8_t **ret)
{
	*ret = try_malloc(n);
	return *ret ? m->read(m->arg, addr, *ret, n) : -ENOMEM;
}

static int read_source(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_head *body, struct source *s)
{
	uint64_t index = r->offsets[RUBY_BODY_LINE_INDEX] == RUNTIME_NO_FIELD
				 ? 0
				 : ruby_pointer(body, r->offsets[RUBY_BODY_LINE_INDEX]);
	int error = read_all(m, ruby_pointer(body, r->offsets[RUBY_BODY_LINES]),
		(size_t)s->n_entries * s->entry_bytes, &s->entries);

	if (error < 0 || s->position_at != RUNTIME_NO_FIELD || s->n_entries == 1)
		return error;
	s->index_bytes = COUNTS_BYTES;
	if (s->n_words > COUNTED_WORDS)
		s->index_bytes += (s->n_words - COUNTED_WORDS + BLOCK_WORDS - 1) / BLOCK_WORDS *
				  (size_t)BLOCK_BYTES;
	return read_all(m, index, s->index_bytes, &s->index);
}

int ruby_read_lines(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_head *body, struct interp_code *ret)
{
	_cleanup_source_ struct source s = {
		.n_words = (uint32_t)ruby_field(body, r->offsets[RUBY_BODY_WORDS], 4),
		.n_entries = (uint32_t)ruby_field(body, r->offsets[RUBY_BODY_N_LINES], 4),
		.entry_bytes = r->offsets[RUBY_LINE_BYTES],
		.line_at = r->offsets[RUBY_LINE_NUMBER],
		.position_at = r->offsets[RUBY_LINE_POSITION],
	};
	uint64_t start = ruby_pointer(body, r->offsets[RUBY_BODY_START]) / RUBY_WORD_BYTES;
	_cleanup_bytes_ struct bytes to = {0};
	int error;

	if (!s.n_entries || s.n_entries > MAX_ENTRIES || s.n_words >= RUBY_POSITIONS ||
		s.entry_bytes > RUBY_HEAD_BYTES)
		return 0;
	error = read_source(m, r, body, &s);
	if (error < 0)
		return error;
	bytes_put_u32(&to, (uint32_t)(start % RUBY_POSITIONS));
	bytes_put_u32(&to, s.n_words);
	put_entries(&to, &s);
	error = bytes_error(&to);
	if (error < 0)
		return error;
	ret->lines_bytes = to.len;
	ret->lines = TAKE(to.data);
	return 0;
}

uint32_t ruby_lines_find(const uint8_t *table, size_t bytes, uint32_t position)
{
	uint32_t start = (uint32_t)number_at(table, bytes, 0, 4), word, line;
	uint32_t n = bytes < HEAD_BYTES ? 0 : (uint32_t)((bytes - HEAD_BYTES) / ENTRY_BYTES);
	uint32_t from = 0, to = n;

	word = position % RUBY_POSITIONS;
	word = (word + RUBY_POSITIONS - start % RUBY_POSITIONS) % RUBY_POSITIONS;
	/* One may be behind the last instruction, and each but the first is behind the one that runs. */
	if (word > number_at(table, bytes, 4, 4))
		return 0;
	word -= word != 0;
	while (from < to) { /* the first entry that begins behind it */
		uint32_t mid = from + (to - from) / 2;

		if (number_at(table, bytes, HEAD_BYTES + (size_t)mid * ENTRY_BYTES, 4) > word)
			to = mid;
		else
			from = mid + 1;
	}
	if (!from)
		return 0;
	line = (uint32_t)number_at(
		table, bytes, HEAD_BYTES + (from - 1) * (size_t)ENTRY_BYTES + 4, 4);
	return line <= INT32_MAX ? line : 0;
}
