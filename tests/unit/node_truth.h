/* SPDX-License-Identifier: Apache-2.0
 *
 * A Node.js program that knows its stacks (tests/data/node/truth.js): it prints them in one run, and goes on for ever in another. What a test
 * finds of the second must be one of the first. Behind cmocka.h.
 */
#pragma once
#include "exporter/interp/v8.h"
#include "lib/base/alloc.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT "tests/data/node/truth.js"
#define LONG "3000"
#define SHORT "3"
enum {
	DEFAULT_STOPS = 300,
	BETWEEN_US = 2000,
	MAX_STACKS = 1024,
	MAX_LINE = 4096,
	MAX_SHOWN = 512
};

enum shown_kind {
	SHOWN_BUILTIN,
	SHOWN_INTERPRETED,
	SHOWN_BASELINE,
	SHOWN_OPTIMIZED,
	SHOWN_INLINED,
	N_SHOWN_KINDS
};

struct shown {
	char *name, *file; /* "": of a builtin */
	struct v8_place place;
	enum shown_kind kind;
	uint64_t pc, start; /* start of its code; 0: the interpreter's */
};

struct js_stack {
	struct shown frames[MAX_SHOWN];
	size_t n;
	bool is_native_leaf, is_builtin_leaf, is_whole;
	int error; /* of the first frame that could not be read, and how many were read before */
	uint64_t error_pc;
	size_t n_before_error;
};

static inline void show(struct js_stack *s, const struct interp_code *c, struct v8_place place,
	enum shown_kind kind, uint64_t pc, uint64_t start)
{
	if (s->n < MAX_SHOWN)
		s->frames[s->n++] =
			(struct shown) {xstrdup(c->name), xstrdup(c->file), place, kind, pc, start};
}

static inline void js_stack_done(struct js_stack *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->frames[i].name);
		free(s->frames[i].file);
	}
	s->n = 0;
}

static inline void show_error(struct js_stack *s, int error, uint64_t pc)
{
	if (error < 0 && !s->error) {
		s->error = error;
		s->error_pc = pc;
		s->n_before_error = s->n;
	}
}

/* What the program prints. */
struct truth {
	struct js_stack *stacks;
	size_t n;
	unsigned *n_seen; /* by stack */
};

static inline pid_t spawn(const char *program, const char *how, const char *size, int out)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(out, STDOUT_FILENO) < 0)
			_exit(126);
		execl(program, program, SCRIPT, how, size, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static inline void read_truth(const char *program, struct truth *t)
{
	char line[MAX_LINE];
	int pipe_of[2];
	FILE *in;
	pid_t pid;
	bool is_whole = false;

	assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
	pid = spawn(program, "stacks", LONG, pipe_of[1]);
	close(pipe_of[1]);
	in = fdopen(pipe_of[0], "r");
	t->stacks = calloc(MAX_STACKS, sizeof(*t->stacks));
	t->n_seen = calloc(MAX_STACKS, sizeof(*t->n_seen));
	while (fgets(line, sizeof(line), in)) {
		struct js_stack *s = &t->stacks[t->n ? t->n - 1 : 0];
		struct v8_place place;
		int name_at = 0;
		char *name, *file;

		line[strcspn(line, "\n")] = 0;
		if (line[0] == 'S') {
			assert_true(t->n < MAX_STACKS);
			t->n++;
		} else if (sscanf(line, "F %u %u %n", &place.line, &place.column, &name_at) == 2) {
			name = line + name_at;
			file = strrchr(name, ' '); /* names have spaces, files have none */
			assert_non_null(file);
			*file++ = 0;
			if (s->n < MAX_SHOWN)
				s->frames[s->n++] = (struct shown) {
					.name = xstrdup(
						strcmp(name, "-") == 0 ? "(anonymous)" : name),
					.file = xstrdup(strcmp(file, "-") == 0 ? "" : file),
					.place = place};
		}
		is_whole |= line[0] == '.';
	}
	fclose(in);
	waitpid(pid, NULL, 0);
	if (!is_whole || t->n < 20)
		fail_msg("%s: %zu stacks", program, t->n);
}

/* Another run of it, which goes on: LONG in its leaf, or SHORT, and so mostly in calls and returns. */
static inline pid_t spawn_ready(const char *program, const char *size)
{
	char line[MAX_LINE] = "";
	int pipe_of[2];
	pid_t pid;
	FILE *in;

	assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
	pid = spawn(program, "spin", size, pipe_of[1]);
	close(pipe_of[1]);
	in = fdopen(pipe_of[0], "r");
	if (!fgets(line, sizeof(line), in) || strcmp(line, "ready\n") != 0)
		fail_msg("%s: %s", program, line);
	fclose(in);
	return pid;
}

static inline void truth_done(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++)
		js_stack_done(&t->stacks[i]);
	free(t->stacks);
	free(t->n_seen);
}

/* What a function that has no name in the source is called comes from its property `name`, which V8 makes for each closure. */
static inline bool same_name(const char *got, const char *truth)
{
	return strcmp(got, truth) == 0 ||
	       (strcmp(got, "(anonymous)") == 0 &&
		       (truth[0] == '[' || strcmp(truth, "eval") == 0 ||
			       strncmp(truth, "get ", 4) == 0 || strncmp(truth, "set ", 4) == 0));
}

static inline bool same_frame(const struct shown *a, const struct shown *b)
{
	return same_name(a->name, b->name) && strcmp(a->file, b->file) == 0 &&
	       a->place.line == b->place.line && a->place.column == b->place.column;
}

/* Optimised code has no frames of the builtins that it inlines, and one that C++ implements has none here: the truth may have more. */
static inline bool same_rest(
	const struct js_stack *got, size_t i, const struct js_stack *truth, size_t k)
{
	for (;; i++, k++) {
		while (i < got->n && !got->frames[i].file[0])
			i++;
		while (k < truth->n && !truth->frames[k].file[0])
			k++;
		if (i == got->n || k == truth->n)
			return i == got->n && k == truth->n;
		if (!same_frame(&got->frames[i], &truth->frames[k]))
			return false;
	}
}

/* Is this one of the stacks, or the outer part of one that is on its way to work()? */
static inline bool is_true(const struct js_stack *got, struct truth *t, bool has_leaf)
{
	const struct shown *leaf = &got->frames[0];

	for (size_t i = 0; i < t->n; i++) {
		const struct js_stack *s = &t->stacks[i];

		if (strcmp(leaf->name, "work") == 0 && same_rest(got, 1, s, 0)) {
			t->n_seen[i]++;
			return true;
		}
		for (size_t k = 0; k < s->n; k++)
			if (!has_leaf && same_rest(got, 0, s, k))
				return true;
			else if (same_name(leaf->name, s->frames[k].name) &&
				 same_rest(got, 1, s, k + 1))
				return true;
	}
	return false;
}

static inline void print_stack(const struct js_stack *s)
{
	static const char *const kinds[N_SHOWN_KINDS] = {
		[SHOWN_BUILTIN] = "builtin",
		[SHOWN_INTERPRETED] = "interpreted",
		[SHOWN_BASELINE] = "baseline",
		[SHOWN_OPTIMIZED] = "optimised",
		[SHOWN_INLINED] = "inlined",
	};

	for (size_t i = 0; i < s->n; i++)
		print_message("  %-12s %s %s:%u:%u at %#llx of %#llx\n", kinds[s->frames[i].kind],
			s->frames[i].name, s->frames[i].file, s->frames[i].place.line,
			s->frames[i].place.column, (unsigned long long)s->frames[i].pc,
			(unsigned long long)s->frames[i].start);
}

/* Of the script, not of what Node.js has of its own. */
static inline bool is_of_program(const struct shown *frame)
{
	return frame->file[0] == '/' || strcmp(frame->file, "ctx.js") == 0 ||
	       strcmp(frame->file, "[eval]") == 0;
}
