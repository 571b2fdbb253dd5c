/* SPDX-License-Identifier: Apache-2.0
 *
 * What `perf script` prints: for each sample a head line
 *
 *	comm with blanks  1234/1235 [003]  4711.123456:   10101010 cycles:u:
 *
 * of which -F may leave out anything, then its frames from the leaf on, `<tab>ADDRESS SYMBOL+0xOFFSET (FILE)`, each with
 * `  FILE:LINE` below it where that was asked for, then an empty line. Without call chains the one frame stands on the head line.
 */
#include "lib/prof/text_perf.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/text_internal.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_LABELS = 4, TAB = 8, ADDRESS_WIDTH = 16, PEEK_LINES = 8, MAX_VOTES = 10000 };
enum { N_KINDS = 64 }; /* of fields */

struct frame {
	struct perf_span name, file, source;
	uint64_t address, line;
};

struct reading {
	struct prof_builder *b;
	struct arena *arena; /* the profile's */
	struct prof_text_notes *notes;
	struct frame *frames; /* of the sample, leaf first */
	uint32_t *stack;
	size_t n_frames, cap_frames, cap_stack, n_samples, n_begun, n_all_frames;
	struct perf_head head;
	struct perf_span lone; /* what may be the sample's only frame, on its head line */
	unsigned kind;	       /* of the heads of all */
	struct perf_span odd;  /* a line that may be the beginning of a name; n is 0: none */
	size_t odd_line;
	bool has_head, has_chains, has_value;
	bool is_bad; /* what follows, up to the next head or empty line, belongs to nothing that could be read */
	struct perf_span event; /* what the second value is of */
	double first_s, last_s;
};

static bool is_text(struct perf_span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

/* ---- lines ---- */

/* perf puts a tab before a frame of a call chain, some editor 8 blanks in its place. */
static bool is_chain_line(struct perf_span line)
{
	struct perf_span s = line, w;
	uint64_t address;

	if (!line.n || *line.p == '\t')
		return line.n > 0;
	w = prof_perf_cut_word(&s);
	return *line.p == ' ' && prof_perf_take_address(w, &address) &&
	       (size_t)(w.p + w.n - line.p) >= TAB + ADDRESS_WIDTH;
}

/* A head with what perf prints by default. */
static bool is_whole_head(const struct perf_head *h)
{
	return (h->fields & PERF_IDS) && (h->fields & PERF_TIME) && (h->fields & PERF_EVENT);
}

/* Such lines stand among samples with --show-mmap-events and the like. */
static bool is_record(struct perf_span line)
{
	return memmem(line.p, line.n, " PERF_RECORD_", strlen(" PERF_RECORD_"));
}

/* A name may begin with #: then the line is a comment only if it is no head with all that heads have by default. */
static bool is_comment(struct perf_span line)
{
	struct perf_head h;

	if (!line.n || *line.p != '#')
		return false;
	prof_perf_head_parse(line, &h);
	return !is_whole_head(&h);
}

/* As folded stacks do. Some heads do too, but not all, or frames follow. */
static bool ends_in_number(struct perf_span s)
{
	static const char marks[] = "0123456789.eE+-";
	size_t n = s.n;

	while (n && memchr(marks, s.p[n - 1], strlen(marks)))
		n--;
	return n < s.n && tolower((unsigned char)s.p[n]) != 'e' &&
	       (!n || isblank((unsigned char)s.p[n - 1]));
}

/* Is it perf's by the text's first line that says something? */
static bool is_surely_perf(struct perf_span line)
{
	struct perf_span frame;
	struct perf_head h;

	prof_perf_head_parse(line, &h);
	return ((h.fields & PERF_IDS) && (h.fields & (PERF_CPU | PERF_TIME))) ||
	       (isblank((unsigned char)*line.p) && h.fields & ~(unsigned)PERF_COMM) ||
	       prof_perf_head_cut_frame(&line, &frame);
}

bool prof_text_is_perf(const char *p, size_t n)
{
	struct prof_text_line line = {.number = 0};
	size_t n_seen = 0;

	for (size_t at = 0; n_seen < PEEK_LINES && prof_text_next(p, n, &at, &line);) {
		struct perf_span s = {line.p, line.n};
		struct perf_head h;

		if (!prof_perf_skip_blanks(s).n || is_comment(s))
			continue;
		/* what is not surely a head is one when a frame follows */
		if (n_seen < 2 && is_chain_line(s))
			return true;
		n_seen++;
		if (ends_in_number(s))
			continue;
		prof_perf_head_parse(s, &h);
		if (is_whole_head(&h) || (n_seen == 1 && is_surely_perf(s)))
			return true;
	}
	return false;
}

/* ---- frames ---- */

/* Where the parenthesis stands that the last character closes; n: nowhere. */
static size_t find_opening(struct perf_span s)
{
	size_t depth = 0;

	for (size_t i = s.n; i--;) {
		depth += s.p[i] == ')';
		if (!depth)
			break;
		depth -= s.p[i] == '(';
		if (!depth)
			return i;
	}
	return s.n;
}

static void trim_end(struct perf_span *s)
{
	while (s->n && isblank((unsigned char)s->p[s->n - 1]))
		s->n--;
}

/* The last thing, in parentheses and behind a blank; what is before it is the symbol. */
static struct perf_span cut_file(struct perf_span *s)
{
	struct perf_span file = {NULL, 0};
	size_t at;

	trim_end(s);
	at = find_opening(*s);
	if (at < s->n && (!at || isblank((unsigned char)s->p[at - 1]))) {
		file = (struct perf_span) {s->p + at + 1, s->n - at - 2};
		s->n = at;
		trim_end(s);
	}
	return file;
}

/* main+0x12 → main */
static struct perf_span without_offset(struct perf_span s)
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

static bool take_frame(struct reading *k, struct perf_span s)
{
	struct perf_span word = prof_perf_cut_word(&s);
	struct frame f = {.line = 0};

	if (!prof_perf_take_address(word, &f.address) ||
		alloc_grow(&k->frames, &k->cap_frames, k->n_frames + 1, sizeof(*k->frames)) < 0)
		return false;
	f.file = cut_file(&s);
	f.name = without_offset(prof_perf_skip_blanks(s));
	k->frames[k->n_frames++] = f;
	return true;
}

/* "FILE:LINE" of the frame above, with " (inlined)" behind it or not. */
static bool take_source(struct reading *k, struct perf_span s)
{
	static const char inlined[] = " (inlined)";
	struct frame *f = &k->frames[k->n_frames - 1];
	const char *colon;
	char number[24];
	size_t n;

	s = prof_perf_skip_blanks(s);
	if (s.n > strlen(inlined) && !memcmp(s.p + s.n - strlen(inlined), inlined, strlen(inlined)))
		s.n -= strlen(inlined);
	colon = memrchr(s.p, ':', s.n);
	n = colon ? (size_t)(s.p + s.n - colon - 1) : 0;
	if (!n || n >= sizeof(number) || colon == s.p)
		return false;
	memcpy(number, colon + 1, n);
	number[n] = '\0';
	if (str_parse_u64(number, &f->line, NULL) < 0 || f->line > INT32_MAX) {
		f->line = 0;
		return false;
	}
	f->source = (struct perf_span) {s.p, (size_t)(colon - s.p)};
	return true;
}

/* ---- samples ---- */

static uint32_t add_text(struct reading *k, struct perf_span s)
{
	return prof_text_name(k->b, k->arena, s.p, s.n);
}

static bool is_clock(struct perf_span event)
{
	static const char *const clocks[] = {"cpu-clock", "task-clock"};

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		size_t n = strlen(clocks[i]);

		if (event.n >= n && !memcmp(event.p, clocks[i], n) &&
			(event.n == n || event.p[n] == ':' || event.p[n] == '/'))
			return true;
	}
	return false;
}

/* The period is a second value, of the event of the first head that has one. */
static void add_types(struct reading *k)
{
	struct prof_value_type second;

	prof_builder_type(k->b, "samples", "count");
	if (!k->has_value)
		return;
	if (is_clock(k->event)) {
		prof_builder_type(k->b, "cpu", "nanoseconds");
		return;
	}
	second.type = k->event.n ? add_text(k, k->event) : prof_builder_string(k->b, "events", 6);
	second.unit = prof_builder_string(k->b, "count", 5);
	prof_builder_type_of(k->b, second);
}

static uint32_t add_frame(struct reading *k, const struct frame *f)
{
	bool is_known = f->name.n && !is_text(f->name, "[unknown]");
	uint32_t mapping = PROF_NONE, name = is_known ? add_text(k, f->name) : 0;
	struct prof_line line = {.line = (int64_t)f->line};

	if (f->file.n && !is_text(f->file, "inlined") && !is_text(f->file, "[unknown]"))
		mapping = prof_builder_mapping(
			k->b, &(struct prof_mapping) {
				      .filename = add_text(k, f->file), .has_functions = true});
	if (is_known)
		line.function = prof_builder_function(
			k->b, &(struct prof_function) {.name = name,
				      .system_name = name,
				      .filename = f->source.n ? add_text(k, f->source) : 0});
	/* Lines of one address agree but for its offset, which a name does not have. */
	return prof_builder_location(
		k->b, is_known ? 0 : f->address, mapping, &line, is_known ? 1 : 0);
}

static size_t add_labels(
	struct reading *k, const struct perf_head *h, struct prof_label ret[MAX_LABELS])
{
	const struct {
		const char *key;
		struct perf_span value;
	} all[MAX_LABELS] = {
		{"comm", h->comm}, {"pid", h->pid}, {"tid", h->tid}, {"event", h->event}};
	size_t n = 0;

	for (size_t i = 0; i < MAX_LABELS; i++)
		if (all[i].value.n)
			ret[n++] = (struct prof_label) {
				.key = prof_builder_string(k->b, all[i].key, strlen(all[i].key)),
				.str = prof_text_label(
					k->b, k->arena, all[i].value.p, all[i].value.n)};
	return n;
}

static int end_sample(struct reading *k)
{
	const struct perf_head *h = &k->head;
	struct prof_label labels[MAX_LABELS];
	int64_t values[2] = {1, 0};

	if (!k->has_head)
		return 0;
	if (!k->n_frames && k->lone.n)
		(void)take_frame(k, k->lone);
	if (alloc_grow(&k->stack, &k->cap_stack, k->n_frames + 1, sizeof(*k->stack)) < 0)
		return -ENOMEM;
	if (h->event.n == k->event.n &&
		(!h->event.n || !memcmp(h->event.p, k->event.p, h->event.n)))
		values[1] = (int64_t)MIN(h->period, (uint64_t)INT64_MAX);
	for (size_t i = 0; i < k->n_frames; i++)
		k->stack[i] = add_frame(k, &k->frames[i]);
	prof_builder_sample(
		k->b, k->stack, k->n_frames, values, labels, add_labels(k, h, labels), true);
	k->n_samples++;
	k->n_all_frames += k->n_frames;
	k->has_head = false;
	k->n_frames = 0;
	return 0;
}

/* ---- the text ---- */

/* The fields that samples have in common: perf leaves out the period of some events and, of a recording that is not of all CPUs, the CPU of
 * most. A name may be empty. */
static unsigned kind_of(const struct perf_head *h)
{
	unsigned kind = h->fields & ~(unsigned)(PERF_PERIOD | PERF_CPU);

	return kind & PERF_IDS ? kind & ~(unsigned)PERF_COMM : kind;
}

static void begin_sample(struct reading *k, const struct perf_head *h)
{
	bool is_first = !k->n_begun++;

	k->head = *h;
	k->has_head = true;
	k->lone.n = 0;
	k->first_s = is_first ? h->time_s : fmin(k->first_s, h->time_s);
	k->last_s = is_first ? h->time_s : fmax(k->last_s, h->time_s);
}

/* What follows, up to an empty line or a head, belongs to it. */
static void leave_out(struct reading *k, size_t number)
{
	if (!k->is_bad)
		prof_text_note_skipped(k->notes, number);
	k->is_bad = true;
	k->has_head = false;
	k->n_frames = 0;
}

/* A line that is no head begins one when it is part of a name with a line end; else it is left out. */
static void end_odd_line(struct reading *k)
{
	if (k->odd.n)
		leave_out(k, k->odd_line);
	k->odd.n = 0;
}

static void join_odd_line(struct reading *k, struct perf_head *h)
{
	if (!k->odd.n)
		return;
	if (h->fields & PERF_COMM) {
		h->comm.n = (size_t)(h->comm.p + h->comm.n - k->odd.p);
		h->comm.p = k->odd.p;
		prof_text_note_controls(k->notes,
			&(struct prof_text_line) {.p = "\n", .n = 1, .number = k->odd_line});
	}
	k->odd.n = 0;
}

static int end_all(struct reading *k)
{
	end_odd_line(k);
	k->is_bad = false;
	return end_sample(k);
}

static void read_chain_line(struct reading *k, struct perf_span s, size_t number)
{
	static const struct perf_head none = {.period = 1, .time_s = -1};

	end_odd_line(k);
	if (k->is_bad)
		return;
	if (!k->has_head && k->kind == kind_of(&none))
		begin_sample(k, &none);
	if (!k->has_head)
		leave_out(k, number);
	else if (!take_frame(k, s))
		leave_out(k, number);
}

/* Behind frames stand their lines, then registers, branches and the like, and then maybe the next head. */
static bool is_more_of_the_sample(
	struct reading *k, struct perf_span line, const struct perf_head *head)
{
	if (!k->has_head || !k->n_frames || *line.p != ' ')
		return false;
	return take_source(k, line) || !k->kind || k->kind == PERF_COMM || kind_of(head) != k->kind;
}

/* An address alone may be that of data. */
static bool has_name(struct perf_span frame)
{
	return prof_perf_cut_word(&frame).n && prof_perf_skip_blanks(frame).n;
}

/* A line with a tab before it is a frame, or the head of a task whose name begins with one. */
static bool is_frame_line(const struct reading *k, struct perf_span s)
{
	uint64_t address;
	struct perf_head h;

	if (!is_chain_line(s))
		return false;
	prof_perf_head_parse(s, &h);
	if (!is_whole_head(&h) || kind_of(&h) != k->kind)
		return true;
	return k->has_head && prof_perf_take_address(prof_perf_cut_word(&s), &address);
}

static int read_head(struct reading *k, struct perf_span s, size_t number)
{
	struct perf_span cut = s, frame = {NULL, 0};
	struct perf_head head;
	int r;

	if (prof_perf_head_cut_frame(&cut, &frame) && !k->has_chains)
		s = cut;
	prof_perf_head_parse(s, &head);
	if ((k->has_chains || !frame.n) && is_more_of_the_sample(k, s, &head))
		return 0;
	r = end_sample(k);
	if (r < 0)
		return r;
	if (kind_of(&head) != k->kind) {
		if (!k->is_bad && !k->odd.n) {
			k->odd = s;
			k->odd_line = number;
		}
		return 0;
	}
	join_odd_line(k, &head);
	k->is_bad = false;
	begin_sample(k, &head);
	if (k->has_chains && has_name(frame))
		k->lone = frame;
	if (!k->has_chains && frame.n && !take_frame(k, frame))
		leave_out(k, number);
	return 0;
}

static int read_line(struct reading *k, const struct prof_text_line *line, struct errbuf *eb)
{
	struct perf_span s = {line->p, line->n};
	int r = prof_text_check(line, k->n_frames, eb);

	if (r < 0 || is_comment(s))
		return r;
	prof_text_note_controls(k->notes, line);
	if (!prof_perf_skip_blanks(s).n || is_record(s))
		return end_all(k);
	if (!is_frame_line(k, s))
		return read_head(k, s, line->number);
	read_chain_line(k, s, line->number);
	return 0;
}

/* ---- the first pass: call chains, which fields heads have, and what the second value is of ---- */

static bool has_chains(const char *p, size_t n)
{
	struct prof_text_line line = {.number = 0};

	for (size_t at = 0; prof_text_next(p, n, &at, &line);)
		if (line.n && is_chain_line((struct perf_span) {line.p, line.n}))
			return true;
	return false;
}

/* The next line that may be a head: it does not follow a frame, as registers do. */
static bool next_head(const struct reading *k, const char *p, size_t n, size_t *at,
	struct prof_text_line *line, bool *follows_frame, struct perf_head *ret)
{
	while (prof_text_next(p, n, at, line)) {
		struct perf_span s = {line->p, line->n}, frame;
		bool is_after_frame = *follows_frame;

		*follows_frame = is_chain_line(s);
		if (*follows_frame || is_after_frame || !prof_perf_skip_blanks(s).n ||
			is_comment(s) || is_record(s))
			continue;
		if (!k->has_chains)
			(void)prof_perf_head_cut_frame(&s, &frame);
		prof_perf_head_parse(s, ret);
		return true;
	}
	return false;
}

/* Most heads agree. */
static unsigned choose_kind(const struct reading *k, const char *p, size_t n)
{
	size_t votes[N_KINDS] = {0}, at = 0, most = 0;
	struct prof_text_line line = {.number = 0};
	bool follows_frame = false;
	struct perf_head h;
	unsigned kind = 0;

	for (size_t i = 0; i < MAX_VOTES && next_head(k, p, n, &at, &line, &follows_frame, &h);
		i++) {
		unsigned own = kind_of(&h);

		if (++votes[own] > most) {
			most = votes[own];
			kind = own;
		}
	}
	return kind;
}

static void choose_value(struct reading *k, const char *p, size_t n)
{
	struct prof_text_line line = {.number = 0};
	bool follows_frame = false;
	struct perf_head h;

	for (size_t at = 0; !k->has_value && next_head(k, p, n, &at, &line, &follows_frame, &h);) {
		if (kind_of(&h) != k->kind || !(h.fields & PERF_PERIOD))
			continue;
		k->event = h.event;
		k->has_value = true;
	}
}

static int read_all(struct reading *k, const char *p, size_t n, struct errbuf *eb)
{
	struct prof_text_line line = {.number = 0};
	int r = 0;

	k->has_chains = has_chains(p, n);
	k->kind = choose_kind(k, p, n);
	choose_value(k, p, n);
	add_types(k);
	for (size_t at = 0; r == 0 && prof_text_next(p, n, &at, &line);)
		r = read_line(k, &line, eb);
	if (r == 0)
		r = end_all(k);
	if (r < 0)
		return r == -ENOMEM ? err_set(eb, r, "out of memory") : r;
	if (k->notes->n_skipped > k->n_samples)
		return err_set(eb, -EBADMSG,
			"line %zu: expected a sample of perf script: its head, frames ADDRESS "
			"SYMBOL (FILE) and an empty line (%zu of %zu are none)",
			k->notes->first_skipped, k->notes->n_skipped,
			k->notes->n_skipped + k->n_samples);
	if (!k->n_all_frames)
		return err_set(eb, -EBADMSG,
			"no sample has a frame: expected that perf script prints at least ip, as "
			"with -F +ip,sym");
	return 0;
}

int prof_text_read_perf(const char *p, size_t n, struct profile *ret, struct prof_text_notes *notes,
	struct errbuf *eb)
{
	struct reading k = {.b = prof_builder_new(ret), .arena = &ret->arena, .notes = notes};
	int r = read_all(&k, p, n, eb);

	notes->is_perf = true;
	if (r == 0 && k.last_s - k.first_s < 9e9)
		ret->duration_ns = llround((k.last_s - k.first_s) * 1e9);
	if (r == 0)
		r = prof_builder_finish(k.b, eb);
	prof_builder_freep(&k.b);
	free(k.frames);
	free(k.stack);
	return r;
}
