/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of a head line, in the order in which perf prints them, each with a blank behind it:
 *
 *	COMM PID/TID [CPU] MISC DATE TIME: PERIOD EVENT: …
 *
 * COMM may have blanks and look like other fields, so that the rest is searched for, the surest first. A lone id has 5 or 7 columns and a
 * period 10, an address 16 and one blank more.
 */
#include "lib/prof/text_perf.h"
#include "lib/base/str.h"
#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { MAX_WORDS = 48, MIN_ID_WIDTH = 5, MIN_PERIOD_WIDTH = 10, MIN_ADDRESS_WIDTH = 17 };

struct perf_span prof_perf_skip_blanks(struct perf_span s)
{
	while (s.n && isblank((unsigned char)*s.p)) {
		s.p++;
		s.n--;
	}
	return s;
}

struct perf_span prof_perf_cut_word(struct perf_span *s)
{
	struct perf_span w = prof_perf_skip_blanks(*s);
	size_t n = 0;

	while (n < w.n && !isblank((unsigned char)w.p[n]))
		n++;
	*s = (struct perf_span) {w.p + n, w.n - n};
	w.n = n;
	return w;
}

bool prof_perf_take_address(struct perf_span w, uint64_t *ret)
{
	*ret = 0;
	if (!w.n || w.n > 16)
		return false;
	for (size_t i = 0; i < w.n; i++) {
		int c = tolower((unsigned char)w.p[i]);

		if (!isxdigit(c))
			return false;
		*ret = *ret << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return true;
}

static bool take_decimal(struct perf_span w, uint64_t *ret)
{
	char text[24];

	if (!w.n || w.n >= sizeof(text))
		return false;
	memcpy(text, w.p, w.n);
	text[w.n] = '\0';
	return str_parse_u64(text, ret, NULL) == 0;
}

/* ---- words ---- */

struct word {
	struct perf_span s;
	size_t width; /* with the padding before it, without the blank that ends what is before that */
};

struct words {
	struct word items[MAX_WORDS];
	size_t n;
};

static void find_words(struct perf_span line, struct words *ret)
{
	const char *last = line.p;

	for (ret->n = 0; ret->n < MAX_WORDS; ret->n++) {
		struct perf_span w = prof_perf_cut_word(&line);

		if (!w.n)
			return;
		ret->items[ret->n] = (struct word) {w, (size_t)(w.p + w.n - last) - (ret->n > 0)};
		last = w.p + w.n;
	}
}

/* "PID/TID", or one of them. */
static bool take_ids(struct perf_span w, struct perf_head *h)
{
	const char *slash = memchr(w.p, '/', w.n);
	size_t n = slash ? (size_t)(slash - w.p) : w.n;
	struct perf_span pid = {w.p, n}, tid = pid;
	uint64_t number;

	if (slash)
		tid = (struct perf_span) {slash + 1, w.n - n - 1};
	if (!take_decimal(pid, &number) || !take_decimal(tid, &number))
		return false;
	h->pid = pid;
	h->tid = tid;
	return true;
}

static bool is_cpu(struct perf_span w)
{
	uint64_t number;

	return w.n > 2 && *w.p == '[' && w.p[w.n - 1] == ']' &&
	       take_decimal((struct perf_span) {w.p + 1, w.n - 2}, &number);
}

static bool take_time(struct perf_span w, double *ret)
{
	char text[32];

	if (w.n < 2 || w.n >= sizeof(text) || w.p[w.n - 1] != ':')
		return false;
	memcpy(text, w.p, w.n - 1);
	text[w.n - 1] = '\0';
	return text[strspn(text, "0123456789.")] == '\0' && str_parse_double(text, ret, NULL) == 0;
}

static bool is_event(struct perf_span w)
{
	double time_s;

	return w.n > 1 && w.p[w.n - 1] == ':' && !take_time(w, &time_s);
}

/* Letters of how the task was interrupted (-F misc), or the date or time of day (-F tod). */
static bool is_misc_or_date(struct perf_span w)
{
	static const char letters[] = "KUHGgMCSpE-";

	if (!w.n)
		return false;
	if (isdigit((unsigned char)*w.p))
		return w.p[w.n - 1] != ':' && (memchr(w.p, '-', w.n) || memchr(w.p, ':', w.n));
	for (size_t i = 0; i < w.n; i++)
		if (!memchr(letters, w.p[i], strlen(letters)))
			return false;
	return true;
}

/* Over these to the time, if there is one behind them: a name that looks like ids has the ids between it and the time. */
static size_t skip_to_time(const struct words *w, size_t i)
{
	double time_s;
	size_t k = i;

	while (k < w->n && is_misc_or_date(w->items[k].s))
		k++;
	return k < w->n && take_time(w->items[k].s, &time_s) ? k : i;
}

/* ---- heads ---- */

static bool is_alone(const struct words *w, size_t i)
{
	struct perf_head scratch;

	return i + 1 >= w->n ||
	       (!is_cpu(w->items[i + 1].s) && !take_time(w->items[i + 1].s, &scratch.time_s));
}

/* A number with neither a slash in it nor a CPU or time behind it is an id by its width. */
static bool has_ids(const struct words *w, size_t i, struct perf_head *h)
{
	const struct word *at = &w->items[i];
	bool may_be = memchr(at->s.p, '/', at->s.n) || !is_alone(w, i) ||
		      (at->width >= MIN_ID_WIDTH && at->width < MIN_PERIOD_WIDTH);

	return may_be && take_ids(at->s, h);
}

/* The fields from word i on; returns the word behind them. */
static size_t take_fields(const struct words *w, size_t i, struct perf_head *h)
{
	*h = (struct perf_head) {.period = 1, .time_s = -1};
	if (i < w->n && has_ids(w, i, h)) {
		h->fields |= PERF_IDS;
		i++;
	}
	if (i < w->n && is_cpu(w->items[i].s)) {
		h->fields |= PERF_CPU;
		i++;
	}
	if (h->fields)
		i = skip_to_time(w, i);
	if (i < w->n && take_time(w->items[i].s, &h->time_s)) {
		h->fields |= PERF_TIME;
		i++;
	}
	if (i < w->n && take_decimal(w->items[i].s, &h->period)) {
		h->fields |= PERF_PERIOD;
		i++;
	} else
		h->period = 1;
	if (i < w->n && is_event(w->items[i].s)) {
		h->event = (struct perf_span) {w->items[i].s.p, w->items[i].s.n - 1};
		h->fields |= PERF_EVENT;
		i++;
	}
	return i;
}

/* How sure it is that fields begin at word i, from 0, the surest; -1: they do not. */
static int rank(const struct words *w, size_t i, const struct perf_head *h, size_t end)
{
	bool has_moment = h->fields & (PERF_CPU | PERF_TIME), has_event = h->fields & PERF_EVENT;

	if ((h->fields & PERF_IDS) && (has_moment || has_event))
		return 0;
	if (has_moment)
		return 1;
	if (has_event)
		return 2;
	if (h->fields & PERF_IDS)
		return 3;
	if ((h->fields & PERF_PERIOD) && end == w->n && w->items[i].width >= MIN_PERIOD_WIDTH)
		return 4;
	return -1;
}

static struct perf_span trim(const char *from, const char *to)
{
	while (to > from && isblank((unsigned char)to[-1]))
		to--;
	return prof_perf_skip_blanks((struct perf_span) {from, (size_t)(to - from)});
}

void prof_perf_head_parse(struct perf_span line, struct perf_head *ret)
{
	const char *line_end = line.p + line.n, *name_end = line_end, *rest = line_end;
	int best = INT_MAX;
	struct words w;

	*ret = (struct perf_head) {.period = 1, .time_s = -1};
	find_words(line, &w);
	for (size_t i = 0; i < w.n && best; i++) {
		struct perf_head h;
		size_t end = take_fields(&w, i, &h);
		int r = rank(&w, i, &h, end);

		if (r < 0 || r >= best)
			continue;
		best = r;
		*ret = h;
		name_end = w.items[i].s.p;
		rest = w.items[end - 1].s.p + w.items[end - 1].s.n;
	}
	ret->comm = trim(line.p, name_end);
	ret->fields |= ret->comm.n ? PERF_COMM : 0;
	ret->rest = trim(rest, line_end);
}

bool prof_perf_head_cut_frame(struct perf_span *line, struct perf_span *ret_frame)
{
	const char *at = NULL, *last = line->p, *end = line->p + line->n;
	struct perf_span s = *line;
	struct perf_head h;
	uint64_t address;

	for (struct perf_span w = prof_perf_cut_word(&s); w.n; w = prof_perf_cut_word(&s)) {
		if ((size_t)(w.p + w.n - last) >= MIN_ADDRESS_WIDTH &&
			prof_perf_take_address(w, &address))
			at = w.p;
		last = w.p + w.n;
	}
	if (!at) { /* with other blanks than perf's */
		prof_perf_head_parse(*line, &h);
		s = h.rest;
		at = h.rest.p;
		if (!(h.fields & PERF_IDS) || !(h.fields & PERF_EVENT) ||
			!prof_perf_take_address(prof_perf_cut_word(&s), &address) ||
			!prof_perf_skip_blanks(s).n)
			return false;
	}
	*ret_frame = (struct perf_span) {at, (size_t)(end - at)};
	line->n = (size_t)(at - line->p);
	return true;
}
