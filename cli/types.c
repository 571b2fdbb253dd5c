/* SPDX-License-Identifier: Apache-2.0
 *
 * The scraper's list of profile types, read.
 */
#include "cli/types.h"
#include "lib/base/alloc.h"
#include "lib/json/read.h"
#include "scraper/query/selector.h"
#include <string.h>

enum { MAX_LIST_BYTES = 16 << 20 };

static int fetch_list(const struct cli_server_options *server, const char *path,
	struct json_doc **ret, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	int r = cli_server_ask(server, &(struct cli_request) {.path = path}, &answer, eb);

	return r < 0 ? r : json_read(answer.body.data, answer.body.len, MAX_LIST_BYTES, ret, eb);
}

static int fetch_types(
	const struct cli_server_options *server, struct json_doc **ret, struct errbuf *eb)
{
	return fetch_list(server, "/api/v1/profile_types?start=0", ret, eb);
}

static const char *text_of(const struct json_value *type, const char *key)
{
	const char *text = json_value_str(json_value_get(type, key));

	return text ? text : "";
}

int cli_types_is_state(
	const struct cli_server_options *server, const char *selector, bool *ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *types;
	size_t n = strcspn(selector, "{");
	int r = fetch_types(server, &doc, eb);

	*ret = false;
	if (r < 0)
		return r;
	types = json_value_get(json_doc_root(doc), "data");
	for (size_t i = 0; i < json_value_len(types); i++) {
		const struct json_value *t = json_value_at(types, i);
		const char *id = text_of(t, "id");

		if (strlen(id) == n && !memcmp(id, selector, n))
			*ret = !strcmp(text_of(t, "kind"), "instant");
	}
	return 0;
}

/* The id or the metric that a selector names, on the heap; NULL: none. */
static char *named(const struct query_selector *s)
{
	const struct query_type_id *t = &s->type;

	if (s->has_type)
		return xasprintf("%s:%s:%s:%s:%s", t->name, t->sample_type, t->sample_unit,
			t->period_type, t->period_unit);
	for (size_t i = 0; i < s->n_matchers; i++)
		if (s->matchers[i].op == QUERY_EQ && !strcmp(s->matchers[i].name, "__name__"))
			return xstrdup(s->matchers[i].value);
	return NULL;
}

static bool is_listed(const struct json_value *names, const char *name)
{
	for (size_t i = 0; i < json_value_len(names); i++) {
		const char *text = json_value_str(json_value_at(names, i));

		if (text && !strcmp(text, name))
			return true;
	}
	return false;
}

static int say_missing(const struct cli_server_options *server, const char *name,
	const struct json_value *types, struct errbuf *eb)
{
	const size_t n = json_value_len(types);
	char list[300] = "";
	size_t len = 0, i = 0;

	for (; i < n; i++) {
		const char *id = text_of(json_value_at(types, i), "id");

		if (len + strlen(id) + sizeof(", ") > sizeof(list))
			break;
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", id);
	}
	if (!n)
		return err_set(eb, -ENOENT, "%.100s has no %.100s: no profiles are stored",
			server->url, name);
	return err_set(eb, -ENOENT, "%.60s has no %.100s; it has %s%s", server->url, name, list,
		i < n ? ", …" : "");
}

int cli_types_check(
	const struct cli_server_options *server, const char *selector, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL, *names = NULL;
	_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};
	_cleanup_free_ char *name = NULL;
	const struct json_value *types;
	bool found = false;
	int r;

	if (query_selector_parse(selector, &s, NULL) < 0)
		return 0; /* the server says what is wrong with it */
	name = named(&s);
	r = name ? fetch_types(server, &doc, eb) : 0;
	if (r < 0 || !name)
		return r;
	types = json_value_get(json_doc_root(doc), "data");
	for (size_t i = 0; !found && i < json_value_len(types); i++)
		found = !strcmp(text_of(json_value_at(types, i), s.has_type ? "id" : "name"), name);
	if (!found && !s.has_type) { /* a number over time? */
		r = fetch_list(
			server, "/api/v1/label/__name__/values?start=0&query=%7B%7D", &names, eb);
		if (r < 0)
			return r;
		found = is_listed(json_value_get(json_doc_root(names), "data"), name);
	}
	return found ? 0 : say_missing(server, name, types, eb);
}
