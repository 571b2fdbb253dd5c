/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing of command lines by a table. What they print lives in options_help.c.
 */
#include "lib/base/options.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <inttypes.h>
#include <string.h>

static void *field(const struct option_spec *s, void *values)
{
	return (char *)values + s->offset;
}

static void list_add(struct option_list *l, const char *text)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 4;
		l->items = xrealloc(l->items, l->cap * sizeof(*l->items));
	}
	l->items[l->n++] = text;
}

void option_list_done(struct option_list *l)
{
	free(l->items);
	*l = (struct option_list) {.n = 0};
}

static bool is_list(const struct option_spec *s)
{
	return s->kind == OPTION_STRINGS || s->kind == OPTION_LABELS;
}

static int check_range(const struct option_spec *s, double v, struct errbuf *eb)
{
	if (s->max <= s->min || (v >= s->min && v <= s->max))
		return 0;
	if (s->kind == OPTION_DURATION) {
		char low[64], high[64];

		str_format_duration_ms((int64_t)s->min, low);
		str_format_duration_ms((int64_t)s->max, high);
		return err_set(eb, -EINVAL, "expected a duration from %s to %s", low, high);
	}
	return err_set(eb, -EINVAL, "expected a number from %.15g to %.15g", s->min, s->max);
}

static int check_choice(const struct option_spec *s, const char *text, struct errbuf *eb)
{
	size_t len = strlen(text);

	for (const char *w = s->value; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL)
		if (len && strcspn(w, "|") == len && !memcmp(w, text, len))
			return 0;
	return err_set(eb, -EINVAL, "expected one of %s", s->value);
}

/* Prometheus label names; the value must be valid UTF-8 since it ends up in profiles. */
static int check_label(const struct option_list *l, const char *text, struct errbuf *eb)
{
	size_t len = strcspn(text, "=");

	if (!text[len] || !len || (text[0] >= '0' && text[0] <= '9'))
		return err_set(
			eb, -EINVAL, "expected NAME=VALUE with a label name before the sign");
	for (size_t i = 0; i < len; i++)
		if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
			    (text[i] >= '0' && text[i] <= '9') || text[i] == '_'))
			return err_set(eb, -EINVAL,
				"expected a label name of letters, digits and _ before the sign");
	if (!str_is_utf8(text, strlen(text)))
		return err_set(eb, -EINVAL, "expected UTF-8");
	for (size_t i = 0; i < l->n; i++)
		if (!strncmp(l->items[i], text, len + 1))
			return err_set(eb, -EINVAL, "the label is given twice");
	return 0;
}

static int set_value(const struct option_spec *s, const char *text, void *values, struct errbuf *eb)
{
	void *at = field(s, values);
	struct option_list *list = at;
	union {
		uint64_t u;
		int64_t i;
		double d;
	} v;
	int r = 0;

	switch (s->kind) {
	case OPTION_KIND_HEADING: ASSERT(!"a heading has no value"); break;
	case OPTION_BOOL: *(bool *)at = !strcmp(text, "true"); break;
	case OPTION_CHOICE:
		r = check_choice(s, text, eb);
		if (r < 0)
			return r;
		*(const char **)at = text;
		break;
	case OPTION_STRING: *(const char **)at = text; break;
	case OPTION_U64:
		r = str_parse_u64(text, &v.u, eb) < 0 ? -EINVAL : check_range(s, (double)v.u, eb);
		if (!r)
			*(uint64_t *)at = v.u;
		break;
	case OPTION_DOUBLE:
		r = str_parse_double(text, &v.d, eb) < 0 ? -EINVAL : check_range(s, v.d, eb);
		if (!r)
			*(double *)at = v.d;
		break;
	case OPTION_DURATION:
		r = str_parse_duration_ms(text, &v.i, eb) < 0 ? -EINVAL
							      : check_range(s, (double)v.i, eb);
		if (!r)
			*(int64_t *)at = v.i;
		break;
	case OPTION_BYTES:
		r = str_parse_bytes(text, &v.u, eb) < 0 ? -EINVAL : check_range(s, (double)v.u, eb);
		if (!r)
			*(uint64_t *)at = v.u;
		break;
	case OPTION_LABELS:
		r = check_label(list, text, eb);
		if (!r)
			list_add(list, text);
		break;
	case OPTION_STRINGS: list_add(list, text); break;
	}
	return r;
}

static int unknown_flag(
	const struct option_program *p, const char *arg, size_t len, struct errbuf *eb)
{
	_cleanup_free_ char *name = xstrndup(arg, len);
	const char *flag = name + strspn(name, "-"), *near = NULL;
	unsigned best = 1 + (unsigned)strlen(flag) / 3;

	for (size_t i = 0; i < p->n_specs; i++) {
		const struct option_spec *s = &p->specs[i];
		unsigned d =
			s->kind == OPTION_KIND_HEADING ? best : str_edit_distance(flag, s->name);

		if (d < best) {
			best = d;
			near = s->name;
		}
	}
	if (near)
		return err_set(eb, -EINVAL, "unknown flag %s: did you mean --%s?", name, near);
	return err_set(eb, -EINVAL, "unknown flag %s: --help lists them", name);
}

struct parser {
	const struct option_program *p;
	int argc, i;
	char **argv;
	void *values;
	bool *given; /* per spec */
};

static bool is_called(const char *own, const char *name, size_t len)
{
	return own && strlen(own) == len && !memcmp(own, name, len);
}

static const struct option_spec *find_long(
	const struct option_program *p, const char *name, size_t len)
{
	for (size_t i = 0; i < p->n_specs; i++)
		if (p->specs[i].kind != OPTION_KIND_HEADING &&
			(is_called(p->specs[i].name, name, len) ||
				is_called(p->specs[i].also, name, len)))
			return &p->specs[i];
	return NULL;
}

static const struct option_spec *find_letter(const struct option_program *p, char letter)
{
	for (size_t i = 0; i < p->n_specs; i++)
		if (letter && p->specs[i].letter == letter)
			return &p->specs[i];
	return NULL;
}

/* `inline_value` is what followed "=", or NULL. */
static int take_flag(struct parser *ps, const struct option_spec *s, bool negated,
	const char *inline_value, struct errbuf *eb)
{
	size_t index = (size_t)(s - ps->p->specs);
	const char *text = inline_value;
	int r;

	if (s->kind == OPTION_BOOL) {
		if (text)
			return err_set(eb, -EINVAL,
				"--%s=%s: expected no value, just --%s or --no-%s", s->name, text,
				s->name, s->name);
		text = negated ? "false" : "true";
	} else if (!text) {
		if (++ps->i >= ps->argc)
			return err_set(eb, -EINVAL, "--%s: expected a value (%s) after it", s->name,
				s->value);
		text = ps->argv[ps->i];
	}
	if (ps->given[index] && !is_list(s))
		return err_set(eb, -EINVAL, "--%s is given twice", s->name);
	if (!ps->given[index] && is_list(s))
		option_list_done(field(s, ps->values)); /* the default */
	ps->given[index] = true;
	r = set_value(s, text, ps->values, eb);
	return r < 0 ? err_prefix(eb, r, "--%s=%s", s->name, text) : 0;
}

static int take_long(struct parser *ps, const char *arg, struct errbuf *eb)
{
	size_t len = strcspn(arg + 2, "=");
	const char *value = arg[2 + len] ? arg + 2 + len + 1 : NULL;
	const struct option_spec *s = find_long(ps->p, arg + 2, len);

	if (s)
		return take_flag(ps, s, false, value, eb);
	if (len > 3 && !memcmp(arg + 2, "no-", 3)) {
		s = find_long(ps->p, arg + 5, len - 3);
		if (s && s->kind == OPTION_BOOL)
			return take_flag(ps, s, true, value, eb);
	}
	return unknown_flag(ps->p, arg, len + 2, eb);
}

static int take_short(struct parser *ps, const char *arg, struct errbuf *eb)
{
	const struct option_spec *s = find_letter(ps->p, arg[1]);

	if (!s || (s->kind == OPTION_BOOL && arg[2]))
		return unknown_flag(ps->p, arg, strlen(arg), eb);
	return take_flag(ps, s, false, arg[2] ? arg + 2 : NULL, eb);
}

static int set_defaults(const struct option_program *p, void *values)
{
	for (size_t i = 0; i < p->n_specs; i++)
		if (p->specs[i].fallback) {
			int r = set_value(&p->specs[i], p->specs[i].fallback, values, NULL);

			ASSERT(r == 0); /* a default in our own table that its own rules refuse */
		}
	return 0;
}

static void print_stdout(const struct bytes *b)
{
	fwrite(b->data, 1, b->len, stdout);
	fflush(stdout);
}

/* --help and --version win over mistakes elsewhere on the line. */
static bool answered_on_stdout(const struct option_program *p, int argc, char **argv)
{
	_cleanup_bytes_ struct bytes out;

	bytes_init(&out, NULL, 0);
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "--help") || (!strcmp(argv[i], "-h") && !find_letter(p, 'h')))
			options_print_help(p, &out);
		else if (!strcmp(argv[i], "--version"))
			options_print_version(p, &out);
		else
			continue;
		print_stdout(&out);
		return true;
	}
	return false;
}

int options_parse(const struct option_program *p, int argc, char **argv, void *values,
	struct option_list *ret_args, struct errbuf *eb)
{
	_cleanup_free_ bool *given = xcalloc(p->n_specs, sizeof(*given));
	struct parser ps = {.p = p, .argc = argc, .argv = argv, .values = values, .given = given};
	bool only_arguments = false;
	int r = set_defaults(p, values);

	if (answered_on_stdout(p, argc, argv))
		return OPTIONS_DONE;
	for (ps.i = 1; ps.i < argc && r >= 0; ps.i++) {
		const char *arg = argv[ps.i];

		if (only_arguments || arg[0] != '-' || !arg[1]) {
			if (!p->arguments)
				return err_set(eb, -EINVAL,
					"unexpected argument \"%s\": expected only flags", arg);
			list_add(ret_args, arg);
		} else if (!strcmp(arg, "--")) {
			only_arguments = true;
		} else {
			r = arg[1] == '-' ? take_long(&ps, arg, eb) : take_short(&ps, arg, eb);
		}
	}
	return r < 0 ? r : OPTIONS_RUN;
}

int options_parse_or_exit(const struct option_program *p, int argc, char **argv, void *values,
	struct option_list *ret_args)
{
	struct errbuf eb = {.text = ""};
	int r = options_parse(p, argc, argv, values, ret_args, &eb);

	if (r == OPTIONS_RUN)
		return -1;
	if (r == OPTIONS_DONE)
		return 0;
	fprintf(stderr, "%s: %s\n", p->name, err_text(&eb, r));
	return OPTIONS_EXIT_USAGE;
}

void options_done(const struct option_program *p, void *values)
{
	for (size_t i = 0; i < p->n_specs; i++)
		if (is_list(&p->specs[i]))
			option_list_done(field(&p->specs[i], values));
}
