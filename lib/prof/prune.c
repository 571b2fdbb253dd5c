/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving out what a profile calls uninteresting.
 */
#include "lib/prof/prune.h"
#include "lib/base/alloc.h"
#include "lib/base/regex.h"
#include <string.h>

/* Of a function, then of a location. */
enum state {
	UNKNOWN,
	KEPT,
	DROPPED, /* with all that it called */
	BENEATH, /* of a location: functions inlined into it are dropped, and with them all that it called */
};

struct pruning {
	struct profile *p;
	struct regex *drop, *keep; /* keep: NULL when there is none */
	uint8_t *functions, *locations;
};

static void pruning_done(struct pruning *w)
{
	regex_free(w->drop);
	regex_free(w->keep);
	free(w->functions);
	free(w->locations);
}

static int compile(const struct profile *p, uint32_t text, const char *what, struct regex **ret,
	struct errbuf *eb)
{
	struct prof_str s = profile_str(p, text);
	_cleanup_free_ char *copy = xstrndup(s.p, s.len);
	int r = regex_compile(copy, REGEX_ANCHORED, ret, eb);

	return r == -EINVAL ? err_prefix(eb, -EBADMSG, "%s", what) : r;
}

/* Up to the arguments. */
static size_t simple_length(const char *s, size_t n)
{
	static const char *const reserved[] = {"(anonymous namespace)", "operator()"};

	for (size_t i = 0; i < n; i++) {
		size_t skip = 0;

		for (size_t k = 0; k < ARRAY_SIZE(reserved); k++)
			if (n - i >= strlen(reserved[k]) &&
				!memcmp(s + i, reserved[k], strlen(reserved[k])))
				skip = strlen(reserved[k]);
		if (skip)
			i += skip - 1;
		else if (s[i] == '(')
			return i;
	}
	return n;
}

static bool is_dropped(struct pruning *w, uint32_t function)
{
	uint8_t *state = &w->functions[function];
	struct prof_str name = profile_str(w->p, w->p->functions[function].name);

	if (*state != UNKNOWN)
		return *state == DROPPED;
	if (name.len && name.p[0] == '.') { /* of PPC's first ELF ABI */
		name.p++;
		name.len--;
	}
	name.len = (uint32_t)simple_length(name.p, name.len);
	/* what takes too long to match is kept */
	*state = name.len && regex_match(w->drop, name.p, name.len, NULL) == 1 &&
				 !(w->keep && regex_match(w->keep, name.p, name.len, NULL) == 1)
			 ? DROPPED
			 : KEPT;
	return *state == DROPPED;
}

/* Lines stand innermost first. */
static enum state cut_location(struct pruning *w, struct prof_location *l)
{
	for (uint32_t i = l->n_lines; i-- > 0;) {
		uint32_t function = w->p->lines[l->first_line + i].function;

		if (function == PROF_NONE || !is_dropped(w, function))
			continue;
		if (i + 1 == l->n_lines)
			return DROPPED;
		l->first_line += i + 1;
		l->n_lines -= i + 1;
		return BENEATH;
	}
	return KEPT;
}

/* How many of a stack's frames, from its leaf on, are dropped. Nothing is before its first other frame, so that something stays. */
static uint64_t count_dropped(const struct pruning *w, uint64_t first, uint64_t end)
{
	bool has_other = false;

	for (uint64_t i = end; i-- > first;) {
		enum state state = w->locations[w->p->stacks[i]];

		if (state == KEPT)
			has_other = true;
		else if (has_other)
			return i - first + (state == DROPPED);
	}
	return 0;
}

static void cut_stacks(struct pruning *w)
{
	struct profile *p = w->p;
	uint64_t to = 0, first = 0;

	for (size_t i = 0; i < p->n_samples; i++) {
		uint64_t end = p->stack_first[i + 1];
		uint64_t from = first + count_dropped(w, first, end);

		memmove(p->stacks + to, p->stacks + from, (end - from) * sizeof(*p->stacks));
		p->stack_first[i] = to;
		to += end - from;
		first = end;
	}
	p->stack_first[p->n_samples] = to;
	p->n_stack_words = to;
}

int prof_prune(struct profile *p, struct errbuf *eb)
{
	_cleanup_(pruning_done)
	struct pruning w = {.p = p};
	int r;

	if (!profile_str(p, p->drop_frames).len || !p->n_samples)
		return 0;
	r = compile(p, p->drop_frames, "drop_frames", &w.drop, eb);
	if (r == 0 && profile_str(p, p->keep_frames).len)
		r = compile(p, p->keep_frames, "keep_frames", &w.keep, eb);
	if (r < 0)
		return r;
	w.functions = try_malloc(p->n_functions + 1);
	w.locations = try_malloc(p->n_locations + 1);
	if (!w.functions || !w.locations)
		return err_set(eb, -ENOMEM, "no memory to apply drop_frames to %zu locations",
			p->n_locations);
	memset(w.functions, UNKNOWN, p->n_functions + 1);
	for (size_t i = 0; i < p->n_locations; i++)
		w.locations[i] = (uint8_t)cut_location(&w, &p->locations[i]);
	cut_stacks(&w);
	return 0;
}
