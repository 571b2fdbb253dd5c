/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing of filter parameters and their evaluation over the task table.
 */
#include "exporter/profile/filter.h"
#include "exporter/profile/labels.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <string.h>

enum { CONTAINER_ID_PREFIX_MIN = 12, MAX_MATCHERS = 1000 };

const char profile_filter_names[] = "pid children comm thread container unit label.NAME";

enum clause_kind {
	CLAUSE_LABEL,	  /* a label of the task */
	CLAUSE_CONTAINER, /* name, or id by prefix */
	CLAUSE_CONSTANT,  /* a label that all samples have */
	CLAUSE_POD,	  /* a label of its pod */
};

struct matcher {
	char *text;	     /* exact */
	struct regex *regex; /* or this */
	uint32_t pid;	     /* of `text` in clauses on the pid */
};

/* One parameter name with its values. */
struct clause {
	char *name;
	enum clause_kind kind;
	enum profile_label label;
	const char *constant;
	uint32_t pod_label; /* index */
	struct matcher *matchers;
	size_t n, cap;
};

struct profile_filter {
	const struct labels *constants;
	const char *const *pod_labels;
	uint32_t n_pod_labels;
	struct clause *clauses;
	size_t n, cap, n_matchers;
	bool children;
};

struct profile_filter *profile_filter_new(
	const struct labels *constants, const char *const *pod_labels, uint32_t n_pod_labels)
{
	struct profile_filter *f = xcalloc(1, sizeof(*f));

	f->constants = constants;
	f->pod_labels = pod_labels;
	f->n_pod_labels = n_pod_labels;
	return f;
}

static void clause_free(struct clause *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->matchers[i].text);
		regex_free(c->matchers[i].regex);
	}
	free(c->matchers);
	free(c->name);
}

void profile_filter_freep(struct profile_filter **fp)
{
	struct profile_filter *f = *fp;

	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		clause_free(&f->clauses[i]);
	free(f->clauses);
	free(f);
	*fp = NULL;
}

static int unknown_label(const struct profile_filter *f, const char *name, struct errbuf *eb)
{
	char valid[400];
	size_t len = 0;

	for (unsigned i = 0; i < PROFILE_N_TASK_LABELS; i++)
		len += (size_t)snprintf(valid + len, sizeof(valid) - len, "%s%s", i ? " " : "",
			profile_label_name((enum profile_label)i));
	for (uint32_t i = 0; i < f->n_pod_labels && len < sizeof(valid); i++)
		len += (size_t)snprintf(valid + len, sizeof(valid) - len, " %s", f->pod_labels[i]);
	for (size_t i = 0; i < f->constants->n && len < sizeof(valid); i++)
		len += (size_t)snprintf(
			valid + len, sizeof(valid) - len, " %s", f->constants->items[i].name);
	return err_set(eb, -EINVAL, "unknown label \"%.64s\": valid ones are %s", name, valid);
}

static const struct {
	const char *name;
	enum clause_kind kind;
	enum profile_label label;
} parameters[] = {
	{"pid", CLAUSE_LABEL, PROFILE_LABEL_PID},
	{"comm", CLAUSE_LABEL, PROFILE_LABEL_COMM},
	{"thread", CLAUSE_LABEL, PROFILE_LABEL_THREAD_NAME},
	{"container", CLAUSE_CONTAINER, PROFILE_LABEL_CONTAINER_ID},
	{"unit", CLAUSE_LABEL, PROFILE_LABEL_SYSTEMD_UNIT},
};

/* What a parameter name stands for. 1, 0 when it is no filter, -EINVAL. */
static int clause_of_name(
	const struct profile_filter *f, const char *name, struct clause *ret, struct errbuf *eb)
{
	const char *label = name + strlen("label.");

	*ret = (struct clause) {.kind = CLAUSE_LABEL};
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
		if (!strcmp(name, parameters[i].name)) {
			ret->kind = parameters[i].kind;
			ret->label = parameters[i].label;
			return 1;
		}
	if (!str_starts_with(name, "label."))
		return 0;
	ret->label = profile_label_of_name(label);
	if (ret->label != PROFILE_N_TASK_LABELS)
		return 1;
	for (size_t i = 0; i < f->constants->n; i++)
		if (!strcmp(f->constants->items[i].name, label)) {
			ret->kind = CLAUSE_CONSTANT;
			ret->constant = f->constants->items[i].value;
			return 1;
		}
	for (uint32_t i = 0; i < f->n_pod_labels; i++)
		if (!strcmp(f->pod_labels[i], label)) {
			ret->kind = CLAUSE_POD;
			ret->pod_label = i;
			return 1;
		}
	return unknown_label(f, label, eb);
}

/* The clause of this parameter name, made like `like` when new. */
static struct clause *get_clause(
	struct profile_filter *f, const char *name, const struct clause *like)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->clauses[i].name, name))
			return &f->clauses[i];
	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 4;
		f->clauses = xrealloc(f->clauses, f->cap * sizeof(*f->clauses));
	}
	f->clauses[f->n] = *like;
	f->clauses[f->n].name = xstrdup(name);
	return &f->clauses[f->n++];
}

static bool is_pid(const struct clause *c)
{
	return c->kind == CLAUSE_LABEL && c->label == PROFILE_LABEL_PID;
}

static int make_matcher(const struct clause *c, const char *name, const char *value,
	struct matcher *ret, struct errbuf *eb)
{
	uint64_t pid = 0;

	*ret = (struct matcher) {.text = NULL};
	if (*value == '~') {
		int r = regex_compile(value + 1, REGEX_ANCHORED, &ret->regex, eb);

		return r < 0 ? err_prefix(eb, r, "%s=%.64s", name, value) : 0;
	}
	if (is_pid(c) && (str_parse_u64(value, &pid, NULL) < 0 || !pid || pid > INT32_MAX))
		return err_set(eb, -EINVAL, "%s=%.64s: expected a process id", name, value);
	ret->pid = (uint32_t)pid;
	ret->text = xstrdup(value);
	return 0;
}

static int set_children(struct profile_filter *f, const char *value, struct errbuf *eb)
{
	if (strcmp(value, "1") != 0 && strcmp(value, "0") != 0)
		return err_set(eb, -EINVAL, "children=%.64s: expected 0 or 1", value);
	f->children = *value == '1';
	return 1;
}

int profile_filter_add(
	struct profile_filter *f, const char *name, const char *value, struct errbuf *eb)
{
	struct clause like, *c;
	struct matcher m;
	int r;

	if (!strcmp(name, "children"))
		return set_children(f, value, eb);
	r = clause_of_name(f, name, &like, eb);
	if (r <= 0)
		return r;
	if (++f->n_matchers > MAX_MATCHERS)
		return err_set(eb, -EINVAL, "more than %d filter parameters", MAX_MATCHERS);
	r = make_matcher(&like, name, value, &m, eb);
	if (r < 0)
		return r;
	c = get_clause(f, name, &like);
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 4;
		c->matchers = xrealloc(c->matchers, c->cap * sizeof(*c->matchers));
	}
	c->matchers[c->n++] = m;
	return 1;
}

static int match_text(const struct matcher *m, const char *value, struct errbuf *eb)
{
	return m->regex ? regex_match(m->regex, value, strlen(value), eb) : !strcmp(m->text, value);
}

static int match_container(
	const struct matcher *m, const struct proc_task_info *info, struct errbuf *eb)
{
	int r = match_text(m, info->container_name, eb);

	if (m->text && !*m->text)
		return !*info->container_id; /* container= is what runs in none */
	if (r)
		return r;
	if (m->regex)
		return match_text(m, info->container_id, eb);
	return strlen(m->text) >= CONTAINER_ID_PREFIX_MIN &&
	       str_starts_with(info->container_id, m->text);
}

struct evaluation {
	const struct profile_filter *filter;
	const struct proc_table *procs;
	struct table *
		known; /* per clause: address of a value → result; the task table stores equal strings once */
};

static int run_matchers(const struct evaluation *e, const struct clause *c, uint32_t task,
	const struct proc_task_info *info, const char *value, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; i < c->n && !r; i++) {
		const struct matcher *m = &c->matchers[i];

		r = c->kind == CLAUSE_CONTAINER ? match_container(m, info, eb)
						: match_text(m, value, eb);
		if (!r && is_pid(c) && e->filter->children && !m->regex)
			r = proc_is_descendant(e->procs, task, m->pid);
	}
	return r;
}

static const char *value_of(
	const struct clause *c, const struct proc_task_info *info, char buf[PROFILE_LABEL_BUF])
{
	if (c->kind == CLAUSE_CONSTANT)
		return c->constant;
	if (c->kind == CLAUSE_POD)
		return info->pod_values ? info->pod_values[c->pod_label] : "";
	return profile_label_value(info, c->label, buf);
}

static int match_clause(const struct evaluation *e, size_t index, uint32_t task,
	const struct proc_task_info *info, struct errbuf *eb)
{
	const struct clause *c = &e->filter->clauses[index];
	char buf[PROFILE_LABEL_BUF];
	const char *value = value_of(c, info, buf);
	uint64_t *known;
	bool is_new;
	int r;

	if (value == buf)
		return run_matchers(e, c, task, info, value, eb);
	known = table_find(&e->known[index], (uintptr_t)value);
	if (known)
		return (int)*known;
	r = run_matchers(e, c, task, info, value, eb);
	known = r < 0 ? NULL : table_insert(&e->known[index], (uintptr_t)value, &is_new);
	if (known)
		*known = (uint64_t)r;
	return r;
}

static int match_task(const struct evaluation *e, uint32_t task, struct errbuf *eb)
{
	struct proc_task_info info;
	int r = 1;

	proc_task_info(e->procs, task, &info);
	for (size_t i = 0; i < e->filter->n && r > 0; i++)
		r = match_clause(e, i, task, &info, eb);
	return r;
}

int profile_filter_tasks(const struct profile_filter *f, const struct proc_table *procs,
	struct arena *arena, uint64_t **ret, struct errbuf *eb)
{
	struct evaluation e = {.filter = f, .procs = procs};
	uint32_t n = proc_n_tasks(procs);
	uint64_t *bits;
	int r = 0;

	*ret = NULL;
	if (!f->n)
		return 0;
	bits = arena_zalloc(arena, bits_words(n) * sizeof(*bits));
	e.known = arena_zalloc(arena, f->n * sizeof(*e.known));
	if (!bits || !e.known)
		return arena_error(arena, eb);
	for (size_t i = 0; i < f->n; i++)
		table_init(&e.known[i], arena->budget);
	for (uint32_t task = 0; task < n && r >= 0; task++) {
		r = match_task(&e, task, eb);
		if (r > 0)
			bits_set(bits, task);
	}
	for (size_t i = 0; i < f->n; i++)
		table_done(&e.known[i]);
	if (r < 0)
		return err_prefix(eb, -EINVAL, "filter");
	*ret = bits;
	return 0;
}
