/* SPDX-License-Identifier: Apache-2.0
 *
 * Query parameters: an ordered list in which a name may occur more than once.
 */
#include "lib/net/url/url.h"
#include "lib/base/alloc.h"
#include <string.h>

void url_params_done(struct url_params *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->items[i].name);
		free(p->items[i].value);
	}
	free(p->items);
	*p = (struct url_params) {0};
}

/* Takes both strings. */
static void params_append(struct url_params *p, char *name, char *value)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 8;
		p->items = xrealloc(p->items, p->cap * sizeof(*p->items));
	}
	p->items[p->n++] = (struct url_param) {.name = name, .value = value};
}

void url_params_add(struct url_params *p, const char *name, const char *value)
{
	params_append(p, xstrdup(name), xstrdup(value));
}

void url_params_set(struct url_params *p, const char *name, const char *value)
{
	size_t n = 0;
	bool set = false;

	for (size_t i = 0; i < p->n; i++) {
		struct url_param *item = &p->items[i];

		if (strcmp(item->name, name)) {
			p->items[n++] = *item;
			continue;
		}
		free(item->value);
		if (set) {
			free(item->name);
			continue;
		}
		item->value = xstrdup(value);
		p->items[n++] = *item;
		set = true;
	}
	p->n = n;
	if (!set)
		url_params_add(p, name, value);
}

const char *url_params_get(const struct url_params *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->items[i].name, name))
			return p->items[i].value;
	return NULL;
}

static int parse_one(struct url_params *p, const char *text, size_t n, struct errbuf *eb)
{
	const char *eq = memchr(text, '=', n);
	size_t n_name = eq ? (size_t)(eq - text) : n;
	_cleanup_free_ char *name = xstrndup(text, n_name);
	_cleanup_free_ char *value = eq ? xstrndup(eq + 1, n - n_name - 1) : xstrdup("");
	int r;

	if (strlen(name) != n_name || (eq && strlen(value) != n - n_name - 1))
		return err_set(eb, -EINVAL, "NUL byte in a parameter");
	r = url_unescape(name, true, eb);
	if (r == 0)
		r = url_unescape(value, true, eb);
	if (r < 0)
		return err_prefix(eb, r, "parameter %zu", p->n + 1);
	params_append(p, TAKE(name), TAKE(value));
	return 0;
}

int url_params_parse(
	struct url_params *p, const char *query, size_t n, size_t max_params, struct errbuf *eb)
{
	const char *end = query + n;

	for (const char *at = query; n && at <= end;) {
		const char *amp = at < end ? memchr(at, '&', (size_t)(end - at)) : NULL;
		size_t len = (size_t)((amp ? amp : end) - at);
		int r;

		if (len && p->n >= max_params)
			return err_set(eb, -EFBIG, "more than %zu parameters", max_params);
		r = len ? parse_one(p, at, len, eb) : 0;
		if (r < 0)
			return r;
		at += len + 1;
	}
	return 0;
}
