/* SPDX-License-Identifier: Apache-2.0
 *
 * What `perf script` prints: for each sample a head line
 *
 *	comm with blanks  1234/1235 [003]  4711.123456:   10101010 cycles:u:
 *
 * where pid, CPU and period may be missing, then its frames from the leaf on, `ADDRESS SYMBOL+0xOFFSET (FILE)`, then an empty
 * line. Without call chains the one frame stands on the head line.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/text.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_LABELS = 4 };

struct span {
	const char *p;
	size_t n;
};

static struct span skip_blanks(struct span s)
{
	while (s.n && isblank((unsigned char)*s.p)) {
		s.p++;
		s.n--;
	}
	return s;
}

static struct span cut_word(struct span *s)
{
	struct span w = skip_blanks(*s);
	size_t n = 0;

	while (n < w.n && !isblank((unsigned char)w.p[n]))
		n++;
	*s = (struct span) {w.p + n, w.n - n};
	w.n = n;
	return w;
}

static bool take_decimal(struct span w, uint64_t *ret)
{
	char text[24];

	if (!w.n || w.n >= sizeof(text))
		return false;
	memcpy(text, w.p, w.n);
	text[w.n] = '\0';
	return str_parse_u64(text, ret, NULL) == 0;
}

struct head {
	struct span comm, pid, tid, event, rest;
	uint64_t period; /* 1 when there is none */
	double time_s;	 /* negative: not told */
};

/* "PID" or "PID/TID" behind the name. */
static bool take_ids(struct span w, struct head *h)
{
	const char *slash = memchr(w.p, '/', w.n);
	size_t n = slash ? (size_t)(slash - w.p) : w.n;
	uint64_t number;

	h->pid = (struct span) {w.p, n};
	h->tid = slash ? (struct span) {slash + 1, w.n - n - 1} : h->pid;
	return take_decimal(h->pid, &number) && take_decimal(h->tid, &number);
}

static bool take_time(struct span w, double *ret)
{
	char text[32];

	if (w.n < 2 || w.n >= sizeof(text) || w.p[w.n - 1] != ':')
		return false;
	memcpy(text, w.p, w.n - 1);
	text[w.n - 1] = '\0';
	return text[strspn(text, "0123456789.")] == '\0' && str_parse_double(text, ret, NULL) == 0;
}

/* The name ends before the first word that is ids and has a CPU or a time behind it. */
static bool take_comm_and_time(struct span line, struct head *h)
{
	struct span s = line;

	for (struct span w = cut_word(&s); w.n; w = cut_word(&s)) {
		struct span after = s, next;

		if (w.p == line.p || !take_ids(w, h))
			continue;
		next = cut_word(&after);
		if (next.n && next.p[0] == '[')
			next = cut_word(&after);
		if (!take_time(next, &h->time_s))
			continue;
		h->comm = (struct span) {line.p, (size_t)(w.p - line.p)};
		while (h->comm.n && isblank((unsigned char)h->comm.p[h->comm.n - 1]))
			h->comm.n--;
		h->rest = after;
		return true;
	}
	return false;
}

static bool take_head(struct span line, struct head *h)
{
	struct span w;

	*h = (struct head) {.period = 1, .time_s = -1};
	if (!line.n || isblank((unsigned char)*line.p) || !take_comm_and_time(line, h))
		return false;
	w = cut_word(&h->rest);
	if (take_decimal(w, &h->period))
		w = cut_word(&h->rest);
	else
		h->period = 1;
	if (w.n < 2 || w.p[w.n - 1] != ':')
		return false;
	h->event = (struct span) {w.p, w.n - 1};
	return true;
}

bool prof_text_is_perf(const char *p, size_t n)
{
	struct prof_text_line line = {.number = 0};
	struct head h;

	for (size_t at = 0; prof_text_next(p, n, &at, &line);)
		if (line.n && line.p[0] != '#')
			return take_head((struct span) {line.p, line.n}, &h);
	return false;
}

struct reading {
	struct prof_builder *b;
	uint32_t *stack;
	size_t n_stack, cap_stack;
	struct head head;
	bool has_head;
	struct span event; /* the first's: what the second value is of */
	double first_s, last_s;
};

static uint32_t add_text(struct reading *k, struct span s)
{
	return prof_builder_string(k->b, s.p, s.n);
}

static bool is_clock(struct span event)
{
	static const char *const clocks[] = {"cpu-clock", "task-clock"};

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		size_t n = strlen(clocks[i]);

		if (event.n >= n && !memcmp(event.p, clocks[i], n) &&
			(event.n == n || event.p[n] == ':'))
			return true;
	}
	return false;
}

static void add_types(struct reading *k)
{
	struct prof_value_type second;

	k->event = k->head.event;
	prof_builder_type(k->b, "samples", "count");
	if (is_clock(k->event)) {
		prof_builder_type(k->b, "cpu", "nanoseconds");
		return;
	}
	second.type = add_text(k, k->event);
	second.unit = prof_builder_string(k->b, "count", 5);
	prof_builder_type_of(k->b, second);
}

static void add_label(struct reading *k, struct prof_label *l, const char *key, struct span value)
{
	*l = (struct prof_label) {
		.key = prof_builder_string(k->b, key, strlen(key)), .str = add_text(k, value)};
}

static void end_sample(struct reading *k)
{
	const struct head *h = &k->head;
	int64_t values[2] = {1, 0};
	struct prof_label labels[MAX_LABELS];

	if (!k->has_head)
		return;
	if (h->event.n == k->event.n &&
		(!h->event.n || !memcmp(h->event.p, k->event.p, h->event.n)))
		values[1] = (int64_t)MIN(h->period, (uint64_t)INT64_MAX);
	add_label(k, &labels[0], "comm", h->comm);
	add_label(k, &labels[1], "pid", h->pid);
	add_label(k, &labels[2], "tid", h->tid);
	add_label(k, &labels[3], "event", h->event);
	prof_builder_sample(k->b, k->stack, k->n_stack, values, labels, MAX_LABELS, true);
	k->has_head = false;
	k->n_stack = 0;
}

/* "FILE)" from the last " (" on; what is before it is the symbol. */
static struct span cut_file(struct span *s)
{
	struct span file = {NULL, 0};

	while (s->n && isblank((unsigned char)s->p[s->n - 1]))
		s->n--;
	if (!s->n || s->p[s->n - 1] != ')')
		return file;
	for (size_t i = s->n - 1; i--;)
		if (s->p[i] == '(' && (!i || isblank((unsigned char)s->p[i - 1]))) {
			file = (struct span) {s->p + i + 1, s->n - i - 2};
			s->n = i;
			break;
		}
	while (s->n && isblank((unsigned char)s->p[s->n - 1]))
		s->n--;
	return file;
}

/* main+0x12 → main */
static struct span without_offset(struct span s)
{
	for (size_t i = s.n; i--;) {
		if (s.p[i] != '+')
			continue;
		if (s.n - i > 3 && s.p[i + 1] == '0' && s.p[i + 2] == 'x')
			s.n = i;
		break;
	}
	return s;
}

static bool take_address(struct span w, uint64_t *ret)
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

static bool is_text(struct span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static bool add_frame(struct reading *k, struct span s)
{
	struct span word = cut_word(&s), file, name;
	uint32_t mapping = PROF_NONE, text;
	struct prof_line line = {.line = 0};
	uint64_t address;
	bool is_known;

	if (!take_address(word, &address) ||
		alloc_grow(&k->stack, &k->cap_stack, k->n_stack + 1, sizeof(*k->stack)) < 0)
		return false;
	file = cut_file(&s);
	name = without_offset(skip_blanks(s));
	is_known = name.n && !is_text(name, "[unknown]");
	if (file.n && !is_text(file, "inlined") && !is_text(file, "[unknown]"))
		mapping = prof_builder_mapping(
			k->b, &(struct prof_mapping) {
				      .filename = add_text(k, file), .has_functions = true});
	text = is_known ? add_text(k, name) : 0;
	if (is_known)
		line.function = prof_builder_function(
			k->b, &(struct prof_function) {.name = text, .system_name = text});
	/* Lines of one address agree but for its offset, which a name does not have. */
	k->stack[k->n_stack++] = prof_builder_location(
		k->b, is_known ? 0 : address, mapping, &line, is_known ? 1 : 0);
	return true;
}

static int read_line(struct reading *k, const struct prof_text_line *line, struct errbuf *eb)
{
	struct span s = {line->p, line->n}, bare = skip_blanks(s);
	bool was_first = !k->event.n;
	int r = prof_text_check(line, k->n_stack, eb);

	if (r < 0)
		return r;
	if (!bare.n) {
		end_sample(k);
		return 0;
	}
	if (bare.p != s.p)
		return k->has_head && add_frame(k, bare)
			       ? 0
			       : err_set(eb, -EBADMSG,
					 "line %zu: expected a frame: ADDRESS SYMBOL (FILE)",
					 line->number);
	end_sample(k);
	if (!take_head(s, &k->head))
		return err_set(eb, -EBADMSG,
			"line %zu: expected the head of a sample of perf script: COMM PID TIME: "
			"EVENT:",
			line->number);
	if (was_first)
		add_types(k);
	k->has_head = true;
	k->first_s = was_first ? k->head.time_s : fmin(k->first_s, k->head.time_s);
	k->last_s = was_first ? k->head.time_s : fmax(k->last_s, k->head.time_s);
	bare = skip_blanks(k->head.rest);
	return !bare.n || add_frame(k, bare)
		       ? 0
		       : err_set(eb, -EBADMSG, "line %zu: expected a frame behind the event",
				 line->number);
}

int prof_text_read_perf(const char *p, size_t n, struct profile *ret, struct errbuf *eb)
{
	struct reading k = {.b = prof_builder_new(ret)};
	struct prof_text_line line = {.number = 0};
	int r = 0;

	for (size_t at = 0; r == 0 && prof_text_next(p, n, &at, &line);)
		if (!line.n || line.p[0] != '#')
			r = read_line(&k, &line, eb);
	if (r == 0)
		end_sample(&k);
	if (r == 0 && k.last_s - k.first_s < 9e9)
		ret->duration_ns = llround((k.last_s - k.first_s) * 1e9);
	if (r == 0)
		r = prof_builder_finish(k.b, eb);
	prof_builder_freep(&k.b);
	free(k.stack);
	return r;
}
