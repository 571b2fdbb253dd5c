/* SPDX-License-Identifier: Apache-2.0
 *
 * Tombstones: matching, and their text in meta.json.
 */
#include "scraper/store/block/tombstone.h"
#include "lib/base/alloc.h"
#include "lib/json/write.h"
#include "lib/base/regex.h"
#include "lib/json/read.h"
#include "lib/prof/profile.h"
#include <string.h>

enum { MAX_TOMBSTONES = 4096, MAX_MATCHERS = 256 };

static const char *const ops[] = {
	[STORE_EQ] = "=", [STORE_NE] = "!=", [STORE_RE] = "=~", [STORE_NRE] = "!~"};

static void free_one(struct tombstone *t)
{
	for (size_t i = 0; i < t->n_matchers; i++) {
		free(t->matchers[i].name);
		free(t->matchers[i].value);
		regex_free(t->matchers[i].re);
	}
	free(t->matchers);
}

void tombstone_done(struct tombstones *t)
{
	for (size_t i = 0; i < t->n; i++)
		free_one(&t->items[i]);
	free(t->items);
	*t = (struct tombstones) {.items = NULL};
}

int tombstone_add(struct tombstones *t, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, struct errbuf *eb)
{
	struct tombstone *to;

	if (t->n >= MAX_TOMBSTONES || n > MAX_MATCHERS)
		return err_set(eb, -EFBIG,
			"a block takes %d deletions of %d matchers each: clean_tombstones first",
			MAX_TOMBSTONES, MAX_MATCHERS);
	t->items = xrealloc(t->items, (t->n + 1) * sizeof(*t->items));
	to = &t->items[t->n++];
	*to = (struct tombstone) {.min_time_ns = min_ns, .max_time_ns = max_ns};
	to->matchers = xcalloc(n + 1, sizeof(*to->matchers));
	for (size_t i = 0; i < n; i++) {
		struct tombstone_matcher *x = &to->matchers[to->n_matchers++];
		int r = 0;

		*x = (struct tombstone_matcher) {
			.op = m[i].op, .name = xstrdup(m[i].name), .value = xstrdup(m[i].value)};
		if (x->op >= STORE_RE)
			r = regex_compile(x->value, REGEX_ANCHORED, &x->re, eb);
		if (r < 0) {
			free_one(to);
			t->n--;
			return r;
		}
	}
	return 0;
}

int tombstone_copy(struct tombstones *to, const struct tombstones *from, struct errbuf *eb)
{
	struct store_matcher m[MAX_MATCHERS];
	int r = 0;

	for (size_t i = 0; !r && i < from->n; i++) {
		const struct tombstone *t = &from->items[i];

		for (size_t k = 0; k < t->n_matchers; k++)
			m[k] = (struct store_matcher) {
				t->matchers[k].op, t->matchers[k].name, t->matchers[k].value};
		r = tombstone_add(to, m, t->n_matchers, t->min_time_ns, t->max_time_ns, eb);
	}
	return r;
}

bool tombstone_equal(const struct tombstone *a, const struct tombstone *b)
{
	bool same = a->n_matchers == b->n_matchers && a->min_time_ns == b->min_time_ns &&
		    a->max_time_ns == b->max_time_ns;

	for (size_t i = 0; same && i < a->n_matchers; i++) {
		const struct tombstone_matcher *x = &a->matchers[i], *y = &b->matchers[i];

		same = x->op == y->op && !strcmp(x->name, y->name) && !strcmp(x->value, y->value);
	}
	return same;
}

static int matches(
	const struct tombstone_matcher *m, const struct prof_str *value, struct errbuf *eb)
{
	bool equal;
	int r;

	if (m->re) {
		r = regex_match(m->re, value->p ? value->p : "", value->len, eb);
		return r < 0 ? r : m->op == STORE_RE ? r : !r;
	}
	equal = value->len == strlen(m->value) &&
		(!value->len || !memcmp(value->p, m->value, value->len));
	return m->op == STORE_EQ ? equal : !equal;
}

int tombstone_matches(
	const struct tombstone *t, const struct tombstone_labels *l, struct errbuf *eb)
{
	int r = 1;

	for (size_t i = 0; r > 0 && i < t->n_matchers; i++) {
		struct prof_str value = l->value(l->arg, t->matchers[i].name);

		r = matches(&t->matchers[i], &value, eb);
	}
	return r;
}

void tombstone_write(struct json *j, const struct tombstones *t)
{
	json_key(j, "tombstones");
	json_array_begin(j);
	for (size_t i = 0; i < t->n; i++) {
		json_object_begin(j);
		json_kv_int(j, "min_time", t->items[i].min_time_ns);
		json_kv_int(j, "max_time", t->items[i].max_time_ns);
		json_key(j, "matchers");
		json_array_begin(j);
		for (size_t k = 0; k < t->items[i].n_matchers; k++) {
			const struct tombstone_matcher *m = &t->items[i].matchers[k];

			json_object_begin(j);
			json_kv_string(j, "name", m->name);
			json_kv_string(j, "op", ops[m->op]);
			json_kv_string(j, "value", m->value);
			json_object_end(j);
		}
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static int bad(struct errbuf *eb)
{
	return err_set(eb, -EBADMSG, "meta.json: \"tombstones\" is missing or has the wrong type");
}

static int get_one(const struct json_value *v, struct tombstones *ret, struct errbuf *eb)
{
	const struct json_value *min = json_value_get(v, "min_time"),
				*max = json_value_get(v, "max_time"),
				*a = json_value_get(v, "matchers");
	struct store_matcher m[MAX_MATCHERS];
	size_t n = a ? json_value_len(a) : 0;
	int r;

	if (!min || json_value_kind(min) != JSON_KIND_INT || !max ||
		json_value_kind(max) != JSON_KIND_INT || !a ||
		json_value_kind(a) != JSON_KIND_ARRAY || n > MAX_MATCHERS)
		return bad(eb);
	for (size_t i = 0; i < n; i++) {
		const struct json_value *x = json_value_at(a, i);
		const char *op = json_value_str(json_value_get(x, "op"));
		size_t k = 0;

		m[i].name = json_value_str(json_value_get(x, "name"));
		m[i].value = json_value_str(json_value_get(x, "value"));
		while (op && k < ARRAY_SIZE(ops) && strcmp(op, ops[k]) != 0)
			k++;
		if (!op || k == ARRAY_SIZE(ops) || !m[i].name || !m[i].value)
			return bad(eb);
		m[i].op = (enum store_matcher_op)k;
	}
	r = tombstone_add(ret, m, n, json_value_int(min), json_value_int(max), eb);
	return r == -EINVAL || r == -EFBIG ? -EBADMSG : r;
}

int tombstone_read(const struct json_value *v, struct tombstones *ret, struct errbuf *eb)
{
	int r = 0;

	if (!v)
		return 0;
	if (json_value_kind(v) != JSON_KIND_ARRAY)
		return bad(eb);
	for (size_t i = 0; !r && i < json_value_len(v); i++)
		r = get_one(json_value_at(v, i), ret, eb);
	return r;
}
