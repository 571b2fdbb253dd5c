/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser: precedence climbing over lex.h's tokens, types checked on the way up. Errors say where, and tell what PromQL does
 * not have from what this subset does not have.
 */
#include "lib/base/alloc.h"
#include "scraper/promql/lex.h"
#include "scraper/promql/promql.h"
#include <string.h>
#include <strings.h>

enum { PREC_OR = 1, PREC_AND, PREC_COMPARE, PREC_ADD, PREC_MUL, PREC_POW };

struct parser {
	struct promql_query *q;
	const char *text;
	size_t len, depth;
	struct lex_token t; /* the one in hand */
	struct errbuf *eb;
};

/* ---- errors ---- */

static int fail_at(struct parser *p, size_t pos, const char *fmt, ...) _printf_(3, 4);
static int fail_at(struct parser *p, size_t pos, const char *fmt, ...)
{
	unsigned line = 1, column = 1;
	char what[400];
	va_list ap;

	for (size_t i = 0; i < pos && i < p->len; i++) {
		column = p->text[i] == '\n' ? 1 : column + 1;
		line += p->text[i] == '\n';
	}
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(p->eb, -EINVAL, "%u:%u: %s", line, column, what);
}

static int unexpected(struct parser *p, const char *where)
{
	if (p->t.kind == LEX_BAD)
		return fail_at(p, p->t.pos, "parse error: %s", p->t.why);
	if (p->t.kind == LEX_END)
		return fail_at(p, p->t.pos, "parse error: unexpected end of input%s", where);
	return fail_at(p, p->t.pos, "parse error: unexpected \"%.*s\"%s",
		(int)MIN(p->t.len, (size_t)40), p->text + p->t.pos, where);
}

static int unsupported(struct parser *p, size_t pos, const char *what)
{
	return fail_at(p, pos, "not supported: %s", what);
}

/* ---- tokens ---- */

static void next(struct parser *p)
{
	p->t = lex_next(p->text, p->len, p->t.pos + p->t.len);
}

static struct lex_token look_ahead(const struct parser *p)
{
	return lex_next(p->text, p->len, p->t.pos + p->t.len);
}

static bool at(const struct parser *p, const char *op)
{
	return lex_is(p->text, &p->t, op);
}

static bool at_word(const struct parser *p, const char *word)
{
	return lex_is_word(p->text, &p->t, word);
}

static int expect(struct parser *p, const char *op, const char *where)
{
	if (!at(p, op))
		return unexpected(p, where);
	next(p);
	return 0;
}

static struct promql_expr *new_expr(struct parser *p, enum promql_kind kind, size_t pos)
{
	struct promql_expr *e = arena_zalloc(&p->q->arena, sizeof(*e));

	if (!e)
		return NULL;
	e->kind = kind;
	e->pos = pos;
	p->q->n_nodes++;
	return e;
}

static int no_memory(struct parser *p)
{
	return err_set(p->eb, -ENOMEM, "out of memory for the expression");
}

static const char *type_name(enum promql_type t)
{
	return t == PROMQL_SCALAR   ? "scalar"
	       : t == PROMQL_VECTOR ? "instant vector"
				    : "range vector";
}

static int parse_expr(struct parser *p, int least, struct promql_expr **ret);

/* ---- words ---- */

static const char *const aggregations[] = {"sum", "avg", "min", "max", "count", "topk"};
static const char *const other_aggregations[] = {"group", "stddev", "stdvar", "bottomk",
	"count_values", "quantile", "limitk", "limit_ratio"};
/* Words that are no metric names. */
static const char *const reserved[] = {
	"on", "ignoring", "group_left", "group_right", "bool", "atan2"};
/* PromQL's functions beside rate and increase. */
static const char other_functions[] =
	" abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes "
	"clamp clamp_max clamp_min "
	"cos cosh count_over_time day_of_month day_of_week day_of_year days_in_month deg delta "
	"deriv double_exponential_smoothing end exp first_over_time floor "
	"histogram_avg histogram_count histogram_fraction histogram_quantile histogram_quantiles "
	"histogram_stddev "
	"histogram_stdvar "
	"histogram_sum holt_winters hour idelta info irate label_join label_replace last_over_time "
	"ln "
	"log10 log2 mad_over_time "
	"max_over_time min_over_time minute month pi predict_linear present_over_time "
	"quantile_over_time rad range resets "
	"round scalar sgn sin sinh sort sort_by_label sort_by_label_desc sort_desc sqrt start "
	"stddev_over_time "
	"stdvar_over_time step sum_over_time tan tanh time timestamp ts_of_first_over_time "
	"ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time vector year ";

static int find_word(const struct parser *p, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at_word(p, words[i]))
			return (int)i;
	return -1;
}

static bool is_other_function(const char *name)
{
	_cleanup_free_ char *word = xasprintf(" %s ", name);

	return strstr(other_functions, word) != NULL;
}

static const char trailing_comma[] = "trailing commas not allowed in function call args";

/* ---- aggregations ---- */

static int parse_grouping(struct parser *p, struct promql_expr *e)
{
	struct lex_token first;
	size_t n = 0;
	int r;

	e->has_grouping = true;
	e->without = at_word(p, "without");
	next(p);
	r = expect(p, "(", " in grouping opts, expected \"(\"");
	first = p->t;
	/* Once to count, once to keep. */
	for (int pass = 0; !r && pass < 2; pass++) {
		p->t = first;
		e->n_grouping = 0;
		while (p->t.kind == LEX_NAME || p->t.kind == LEX_NUMBER) {
			if (memchr(p->text + p->t.pos, ':', p->t.len) ||
				(p->t.kind == LEX_NUMBER && !at_word(p, "inf") &&
					!at_word(p, "nan")))
				break;
			if (pass)
				e->grouping[e->n_grouping++] =
					arena_strndup(&p->q->arena, p->text + p->t.pos, p->t.len);
			n += !pass;
			next(p);
			if (!at(p, ","))
				break;
			next(p);
		}
		if (p->t.kind == LEX_STRING)
			return unsupported(p, p->t.pos, "quoted labels in by and without");
		if (!at(p, ")"))
			return unexpected(p, " in grouping opts, expected label");
		if (!pass)
			e->grouping = arena_alloc_array(&p->q->arena, n + 1, sizeof(*e->grouping));
		if (!e->grouping)
			return no_memory(p);
	}
	if (!r)
		next(p);
	return r;
}

static int parse_aggregate_args(struct parser *p, struct promql_expr *e)
{
	struct promql_expr *args[2] = {};
	size_t n = 0, want = e->aggregation == PROMQL_TOPK ? 2 : 1;
	int r = expect(p, "(", " in aggregation");

	while (!r && !at(p, ")")) {
		struct promql_expr *arg = NULL;

		r = parse_expr(p, PREC_OR, &arg);
		if (r)
			return r;
		if (n < ARRAY_SIZE(args))
			args[n] = arg;
		n++;
		if (at(p, ",")) {
			size_t comma = p->t.pos;

			next(p);
			if (at(p, ")"))
				return fail_at(p, comma, "parse error: %s", trailing_comma);
		} else if (!at(p, ")")) {
			return unexpected(p, " in aggregation");
		}
	}
	if (r)
		return r;
	next(p);
	if (n != want)
		return fail_at(p, e->pos,
			"parse error: wrong number of arguments for aggregate expression provided, "
			"expected %zu, got %zu",
			want, n);
	e->left = args[want - 1];
	e->right = want == 2 ? args[0] : NULL;
	return 0;
}

static int parse_aggregate(struct parser *p, enum promql_aggregation kind, struct promql_expr **ret)
{
	struct promql_expr *e = new_expr(p, PROMQL_AGGREGATE, p->t.pos);
	int r = 0;

	if (!e)
		return no_memory(p);
	e->aggregation = kind;
	e->type = PROMQL_VECTOR;
	next(p);
	if (at_word(p, "by") || at_word(p, "without"))
		r = parse_grouping(p, e);
	if (!r)
		r = parse_aggregate_args(p, e);
	if (!r && !e->has_grouping && (at_word(p, "by") || at_word(p, "without")))
		r = parse_grouping(p, e);
	if (r)
		return r;
	if (e->left->type != PROMQL_VECTOR)
		return fail_at(p, e->left->pos,
			"parse error: expected type instant vector in aggregation expression, got "
			"%s",
			type_name(e->left->type));
	if (e->right && e->right->type != PROMQL_SCALAR)
		return fail_at(p, e->right->pos,
			"parse error: expected type scalar in aggregation parameter, got %s",
			type_name(e->right->type));
	*ret = e;
	return 0;
}

/* ---- functions ---- */

static int parse_call(struct parser *p, struct promql_expr **ret)
{
	struct promql_expr *e = new_expr(p, PROMQL_CALL, p->t.pos);
	_cleanup_free_ char *name = xstrndup(p->text + p->t.pos, p->t.len);
	int r;

	if (!e)
		return no_memory(p);
	if (strcmp(name, "rate") != 0 && strcmp(name, "increase") != 0) {
		if (is_other_function(name))
			return fail_at(p, e->pos,
				"not supported: function %s(), only rate() and increase()", name);
		return fail_at(
			p, e->pos, "parse error: unknown function with name \"%.100s\"", name);
	}
	e->function = name[0] == 'r' ? PROMQL_RATE : PROMQL_INCREASE;
	e->type = PROMQL_VECTOR;
	next(p);
	next(p); /* ( */
	if (at(p, ")"))
		return fail_at(p, e->pos,
			"parse error: expected 1 argument(s) in call to \"%s\", got 0", name);
	r = parse_expr(p, PREC_OR, &e->left);
	if (r)
		return r;
	if (at(p, ",")) {
		size_t comma = p->t.pos;

		next(p);
		return at(p, ")") ? fail_at(p, comma, "parse error: %s", trailing_comma)
				  : fail_at(p, e->pos,
					    "parse error: expected 1 argument(s) in call to \"%s\"",
					    name);
	}
	r = expect(p, ")", " in function call");
	if (r)
		return r;
	if (e->left->type != PROMQL_RANGE)
		return fail_at(p, e->left->pos,
			"parse error: expected type range vector in call to function \"%s\", got "
			"%s",
			name, type_name(e->left->type));
	*ret = e;
	return 0;
}

/* ---- selectors ---- */

static int set_metric(struct parser *p, struct promql_expr *e, const char *name, size_t n)
{
	struct query_matcher *m;

	for (size_t i = 0; i < e->selector.n_matchers; i++)
		if (!strcmp(e->selector.matchers[i].name, "__name__"))
			return fail_at(p, e->pos,
				"parse error: metric name must not be set twice: \"%.*s\" or "
				"\"%.100s\"",
				(int)MIN(n, (size_t)100), name, e->selector.matchers[i].value);
	if (e->selector.n_matchers == QUERY_MAX_MATCHERS - 1)
		return fail_at(
			p, e->pos, "not supported: more matchers than %d", QUERY_MAX_MATCHERS - 1);
	m = &e->selector.matchers[e->selector.n_matchers++];
	*m = (struct query_matcher) {
		.op = QUERY_EQ, .name = xstrdup("__name__"), .value = xstrndup(name, n)};
	return 0;
}

static int keep_selector(struct parser *p, struct promql_expr *e)
{
	struct promql_query *q = p->q;

	if (alloc_grow(&q->selectors, &q->cap_selectors, q->n_selectors + 1, sizeof(e)) < 0) {
		query_selector_done(&e->selector);
		return no_memory(p);
	}
	q->selectors[q->n_selectors++] = e;
	return 0;
}

/* Some matcher must rule out the series without labels. */
static int check_not_everything(struct parser *p, const struct promql_expr *e)
{
	for (size_t i = 0; i < e->selector.n_matchers; i++) {
		int r = query_matcher_matches(&e->selector.matchers[i], "", 0, p->eb);

		if (r <= 0)
			return r;
	}
	return fail_at(p, e->pos,
		"parse error: vector selector must contain at least one non-empty matcher");
}

static int parse_selector(struct parser *p, struct promql_expr **ret)
{
	struct promql_expr *e = new_expr(p, PROMQL_SELECTOR, p->t.pos);
	const struct lex_token name = p->t;
	_cleanup_free_ char *braces = NULL;
	size_t end, wrong = 0;
	struct errbuf why = {};
	int r;

	if (!e)
		return no_memory(p);
	e->type = PROMQL_VECTOR;
	if (name.kind == LEX_NAME)
		next(p);
	if (at(p, "{")) {
		end = lex_braces_end(p->text, p->len, p->t.pos);
		braces = xstrndup(p->text + p->t.pos, end - p->t.pos);
		r = query_selector_parse_at(braces, &e->selector, &wrong, &why);
		if (r)
			return r == -EINVAL ? fail_at(p, p->t.pos + wrong, "parse error: %s",
						      err_text(&why, r))
					    : err_set(p->eb, r, "%s", err_text(&why, r));
		p->t.len = end - p->t.pos;
		next(p);
	} else {
		r = query_selector_parse_at("{}", &e->selector, &wrong, &why);
		if (r)
			return r;
	}
	r = keep_selector(p, e);
	if (!r && name.kind == LEX_NAME)
		r = set_metric(p, e, p->text + name.pos, name.len);
	if (!r)
		r = check_not_everything(p, e);
	*ret = e;
	return r;
}

static int parse_duration(struct parser *p, const char *where, int64_t *ret)
{
	if (p->t.kind == LEX_NUMBER)
		return fail_at(p, p->t.pos, "parse error: missing unit character in duration");
	if (p->t.kind != LEX_DURATION)
		return unexpected(p, where);
	if (!p->t.duration_ns)
		return fail_at(p, p->t.pos, "parse error: duration must be greater than 0");
	*ret = p->t.duration_ns;
	next(p);
	return 0;
}

static int parse_range(struct parser *p, struct promql_expr *e)
{
	size_t pos = p->t.pos;
	int64_t ns;
	int r;

	next(p);
	r = parse_duration(p, " in range, expected duration", &ns);
	if (r)
		return r;
	if (at(p, ":"))
		return unsupported(p, pos, "subqueries");
	if (!at(p, "]"))
		return unexpected(p, " in range, expected \"]\"");
	next(p);
	if (e->kind != PROMQL_SELECTOR || e->range_ns)
		return fail_at(p, pos, "parse error: ranges only allowed for vector selectors");
	if (e->offset_ns)
		return fail_at(p, pos, "parse error: no offset modifiers allowed before range");
	e->range_ns = ns;
	e->type = PROMQL_RANGE;
	return 0;
}

static int parse_offset(struct parser *p, struct promql_expr *e)
{
	bool negative = false;
	int64_t ns;
	int r;

	next(p);
	if (at(p, "-") || at(p, "+")) {
		negative = at(p, "-");
		next(p);
	}
	r = parse_duration(p, " in offset, expected duration", &ns);
	if (r)
		return r;
	if (e->kind != PROMQL_SELECTOR)
		return fail_at(p, e->pos,
			"parse error: offset modifier must be preceded by an instant vector "
			"selector "
			"or range vector selector or a subquery");
	if (e->offset_ns)
		return fail_at(p, e->pos, "parse error: offset may not be set multiple times");
	e->offset_ns = negative ? -ns : ns;
	return 0;
}

/* ---- operands ---- */

static int parse_paren(struct parser *p, struct promql_expr **ret)
{
	struct promql_expr *e = new_expr(p, PROMQL_PAREN, p->t.pos);
	int r;

	if (!e)
		return no_memory(p);
	next(p);
	r = parse_expr(p, PREC_OR, &e->left);
	if (!r)
		r = expect(p, ")", "");
	if (!r)
		e->type = e->left->type;
	*ret = e;
	return r;
}

static int parse_sign(struct parser *p, struct promql_expr **ret)
{
	struct promql_expr *e = new_expr(p, at(p, "-") ? PROMQL_NEGATE : PROMQL_PAREN, p->t.pos);
	int r;

	if (!e)
		return no_memory(p);
	next(p);
	r = parse_expr(p, PREC_POW, &e->left);
	if (r)
		return r;
	if (e->left->type == PROMQL_RANGE)
		return fail_at(p, e->pos,
			"parse error: unary expression only allowed on expressions of type scalar "
			"or "
			"instant vector, got \"range vector\"");
	e->type = e->left->type;
	*ret = e;
	return 0;
}

static int parse_name(struct parser *p, struct promql_expr **ret)
{
	struct lex_token after = look_ahead(p);
	bool called = lex_is(p->text, &after, "(") || lex_is_word(p->text, &after, "by") ||
		      lex_is_word(p->text, &after, "without");
	int kind = called ? find_word(p, aggregations, ARRAY_SIZE(aggregations)) : -1;

	if (kind >= 0)
		return parse_aggregate(p, (enum promql_aggregation)kind, ret);
	kind = called ? find_word(p, other_aggregations, ARRAY_SIZE(other_aggregations)) : -1;
	if (kind >= 0)
		return fail_at(p, p->t.pos,
			"not supported: aggregation %s(), only sum, avg, min, max, count and topk",
			other_aggregations[kind]);
	if (find_word(p, reserved, ARRAY_SIZE(reserved)) >= 0)
		return unexpected(p, "");
	if (lex_is(p->text, &after, "(") && !memchr(p->text + p->t.pos, ':', p->t.len))
		return parse_call(p, ret);
	return parse_selector(p, ret);
}

static int parse_operand(struct parser *p, struct promql_expr **ret)
{
	struct promql_expr *e;

	if (at(p, "("))
		return parse_paren(p, ret);
	if (at(p, "-") || at(p, "+"))
		return parse_sign(p, ret);
	if (at(p, "{"))
		return parse_selector(p, ret);
	if (p->t.kind == LEX_NAME)
		return parse_name(p, ret);
	if (p->t.kind == LEX_STRING)
		return unsupported(p, p->t.pos, "strings");
	if (p->t.kind != LEX_NUMBER)
		return unexpected(p, "");
	e = new_expr(p, PROMQL_NUMBER, p->t.pos);
	if (!e)
		return no_memory(p);
	e->number = p->t.number;
	next(p);
	*ret = e;
	return 0;
}

static int parse_postfix(struct parser *p, struct promql_expr *e)
{
	int r = 0;

	while (!r) {
		if (at(p, "["))
			r = parse_range(p, e);
		else if (at_word(p, "offset"))
			r = parse_offset(p, e);
		else if (at(p, "@"))
			r = unsupported(p, p->t.pos, "the @ modifier");
		else
			break;
	}
	return r;
}

/* ---- operators ---- */

static int precedence(const struct parser *p)
{
	static const struct {
		const char *text;
		int prec;
	} ops[] = {{"+", PREC_ADD}, {"-", PREC_ADD}, {"*", PREC_MUL}, {"/", PREC_MUL},
		{"%", PREC_MUL}, {"^", PREC_POW}, {"==", PREC_COMPARE}, {"!=", PREC_COMPARE},
		{"<", PREC_COMPARE}, {">", PREC_COMPARE}, {"<=", PREC_COMPARE},
		{">=", PREC_COMPARE}};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (at(p, ops[i].text))
			return ops[i].prec;
	if (at_word(p, "or"))
		return PREC_OR;
	if (at_word(p, "and") || at_word(p, "unless"))
		return PREC_AND;
	return at_word(p, "atan2") ? PREC_MUL : 0;
}

static int check_modifiers(struct parser *p)
{
	static const char *const words[] = {"on", "ignoring", "bool", "group_left", "group_right"};
	struct lex_token after = look_ahead(p);
	int word = find_word(p, words, ARRAY_SIZE(words));

	if (word == 2 || (word >= 0 && lex_is(p->text, &after, "(")))
		return fail_at(p, p->t.pos, "not supported: %s after an operator", words[word]);
	return 0;
}

static int binary(struct parser *p, char op, struct promql_expr **left, struct promql_expr *right)
{
	struct promql_expr *e = new_expr(p, PROMQL_BINARY, (*left)->pos);

	if (!e)
		return no_memory(p);
	if ((*left)->type == PROMQL_RANGE || right->type == PROMQL_RANGE)
		return fail_at(p, (*left)->type == PROMQL_RANGE ? (*left)->pos : right->pos,
			"parse error: binary expression must contain only scalar and instant "
			"vector "
			"types");
	e->op = op;
	e->left = *left;
	e->right = right;
	e->type = MAX((*left)->type, right->type);
	*left = e;
	return 0;
}

static int parse_expr(struct parser *p, int least, struct promql_expr **ret)
{
	int r = 0;

	if (++p->depth > PROMQL_MAX_DEPTH || p->q->n_nodes > PROMQL_MAX_NODES)
		r = fail_at(p, p->t.pos, "not supported: more than %d levels or %d operands",
			PROMQL_MAX_DEPTH, PROMQL_MAX_NODES);
	if (!r)
		r = parse_operand(p, ret);

	if (!r)
		r = parse_postfix(p, *ret);
	for (int prec = precedence(p); !r && prec && prec >= least; prec = precedence(p)) {
		struct lex_token op = p->t;
		struct promql_expr *right = NULL;

		next(p);
		if (prec <= PREC_COMPARE || op.len > 1)
			return fail_at(p, op.pos, "not supported: operator %.*s", (int)op.len,
				p->text + op.pos);
		r = check_modifiers(p);
		/* ^ alone groups to the right. */
		if (!r)
			r = parse_expr(p, prec == PREC_POW ? prec : prec + 1, &right);
		if (!r)
			r = binary(p, p->text[op.pos], ret, right);
	}
	p->depth--;
	return r;
}

int promql_parse(const char *text, struct promql_query *ret, struct errbuf *eb)
{
	struct parser p = {.q = ret, .text = text, .len = strlen(text), .eb = eb};
	int r;

	*ret = (struct promql_query) {};
	arena_init(&ret->arena, NULL);
	if (p.len > PROMQL_MAX_BYTES)
		return err_set(
			eb, -EINVAL, "1:1: not supported: more than %d bytes", PROMQL_MAX_BYTES);
	p.t = lex_next(text, p.len, 0);
	if (p.t.kind == LEX_END)
		r = fail_at(&p, 0, "parse error: no expression found in input");
	else
		r = parse_expr(&p, PREC_OR, &ret->root);
	if (!r && p.t.kind != LEX_END)
		r = unexpected(&p, "");
	if (r)
		promql_done(ret);
	return r;
}

void promql_done(struct promql_query *q)
{
	for (size_t i = 0; i < q->n_selectors; i++)
		query_selector_done(&q->selectors[i]->selector);
	free(q->selectors);
	arena_done(&q->arena);
	*q = (struct promql_query) {};
}
