/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows → words. Two streams go to the file, page entries to its front and rows behind them; only
 * the rows of the page under way are held.
 *
 * Invariants:
 *  1. rows of pages below `page` are written, those of `page` are in `rows`;
 *  2. `rule` holds where the rows given so far end; `carry_rule` where `page` begins;
 *  3. word n_words − 1 is a row of rule `last_rule` unless n_words = n_pages or last_rule is NO_ROW.
 */
#include "exporter/parser/unwind/unwind.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include <stdlib.h>

enum {
	BUFFER_WORDS = 16 << 10,
	MAX_PAGE_ROWS = UNWIND_SLAB_WORDS - 2, /* with carry and number they fill a slab */
	MAX_WORDS = (1 << 25) - 2 * UNWIND_SLAB_WORDS,
	NO_ROW = -1,
};

struct stream {
	uint64_t off; /* in the file: of the next byte to write */
	uint32_t n;
	uint32_t words[BUFFER_WORDS];
};

struct unwind_words {
	int fd;
	int error;
	uint32_t first_page, n_pages;
	uint32_t page; /* counted from the first */
	uint32_t rule, carry_rule;
	int32_t last_rule;
	uint32_t n_words, n_rows, n_refused;
	uint32_t n_page_rows;
	bool overflowed; /* the page under way has more rows than fit */
	uint32_t rows[MAX_PAGE_ROWS];
	struct stream entries, out;
};

static void flush(struct unwind_words *w, struct stream *s)
{
	const uint8_t *p = (const uint8_t *)s->words;

	for (size_t left = (size_t)s->n * sizeof(*s->words); left && !w->error;) {
		ssize_t n = pwrite(w->fd, p, left, (off_t)s->off);

		if (n < 0 && errno != EINTR)
			w->error = -errno;
		if (n > 0) {
			s->off += (uint64_t)n;
			p += n;
			left -= (size_t)n;
		}
	}
	s->n = 0;
}

static void put(struct unwind_words *w, struct stream *s, uint32_t word)
{
	s->words[s->n++] = word;
	if (s->n == BUFFER_WORDS)
		flush(w, s);
}

static void put_row_word(struct unwind_words *w, uint32_t word)
{
	put(w, &w->out, word);
	w->n_words++;
}

struct unwind_words *unwind_words_new(int fd, uint64_t off, uint32_t first_page, uint32_t n_pages)
{
	struct unwind_words *w = try_realloc(NULL, 1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = fd;
	w->error = 0;
	w->first_page = first_page;
	w->n_pages = w->n_words = n_pages;
	w->page = 0;
	w->rule = w->carry_rule = UNWIND_RULE_NONE;
	w->last_rule = NO_ROW;
	w->n_rows = w->n_refused = w->n_page_rows = 0;
	w->overflowed = false;
	w->entries.off = off;
	w->out.off = off + (uint64_t)n_pages * sizeof(uint32_t);
	w->entries.n = w->out.n = 0;
	return w;
}

void unwind_words_freep(struct unwind_words **w)
{
	free(*w);
}

/* Fills the slab up so that the next `n` words lie in one; true when it had to. */
static bool align_slab(struct unwind_words *w, uint32_t n)
{
	uint32_t room = UNWIND_SLAB_WORDS - (w->n_words & UNWIND_SLAB_MASK);

	if (n <= room)
		return false;
	while (room--)
		put_row_word(w, 0);
	w->last_rule = NO_ROW;
	return true;
}

/* The entry of a page whose carry is `rule` and that holds rows[0, n). */
static void put_page(struct unwind_words *w, uint32_t rule, const uint32_t *rows, uint32_t n)
{
	bool many = n >= UNWIND_PAGE_MANY;
	uint32_t behind = n + many;

	if (!n && rule == UNWIND_RULE_NONE) {
		put(w, &w->entries, 0);
		return;
	}
	/* The last row written may serve as carry if what follows goes into its slab. */
	if (w->last_rule != (int32_t)rule || (behind && !(w->n_words & UNWIND_SLAB_MASK)) ||
		(behind && align_slab(w, behind))) {
		align_slab(w, behind + 1);
		put_row_word(w, UNWIND_ROW((w->first_page + w->page) << UNWIND_PAGE_SHIFT, rule));
		w->last_rule = (int32_t)rule;
	}
	put(w, &w->entries, UNWIND_PAGE(w->n_words - 1, many ? UNWIND_PAGE_MANY : n));
	if (many)
		put_row_word(w, n);
	for (uint32_t i = 0; i < n; i++)
		put_row_word(w, rows[i]);
	if (n)
		w->last_rule = (int32_t)UNWIND_ROW_RULE(rows[n - 1]);
}

static void close_page(struct unwind_words *w)
{
	/* A row at the very begin is the carry itself. */
	bool at_begin = w->n_page_rows && !(UNWIND_ROW_OFF(w->rows[0]) & (UNWIND_PAGE_BYTES - 1));

	if (w->overflowed) {
		put_page(w, UNWIND_RULE_UNKNOWN, NULL, 0);
		w->n_refused++;
	} else {
		put_page(w, at_begin ? UNWIND_ROW_RULE(w->rows[0]) : w->carry_rule,
			w->rows + at_begin, w->n_page_rows - at_begin);
	}
	w->page++;
	w->carry_rule = w->rule;
	w->n_page_rows = 0;
	w->overflowed = false;
}

void unwind_words_add(struct unwind_words *w, uint64_t off, uint32_t rule)
{
	uint64_t page = (off >> UNWIND_PAGE_SHIFT) - w->first_page;

	while (w->page < page && w->page < w->n_pages)
		close_page(w);
	if (rule == w->rule || page >= w->n_pages)
		return;
	if (w->n_words > MAX_WORDS) { /* more than a page entry can tell */
		w->n_refused++;
		return;
	}
	/* A stretch of no length: the later row replaces it. */
	if (w->n_page_rows && UNWIND_ROW_OFF(w->rows[w->n_page_rows - 1]) == (off & 0xffff)) {
		w->n_page_rows--;
		w->n_rows--;
	}
	w->rule = rule;
	if (w->n_page_rows == MAX_PAGE_ROWS) {
		w->overflowed = true;
		return;
	}
	w->rows[w->n_page_rows++] = UNWIND_ROW(off, rule);
	w->n_rows++;
}

int64_t unwind_words_finish(struct unwind_words *w)
{
	while (w->page < w->n_pages)
		close_page(w);
	flush(w, &w->entries);
	flush(w, &w->out);
	return w->error ? w->error : (int64_t)w->n_words;
}

uint32_t unwind_words_n_rows(const struct unwind_words *w)
{
	return w->n_rows;
}

uint32_t unwind_words_n_refused(const struct unwind_words *w)
{
	return w->n_refused;
}
