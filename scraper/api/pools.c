/* SPDX-License-Identifier: Apache-2.0
 *
 * What concerns one job: its configuration, what each of its relabel rules does to labels, and the page of all
 * discovered targets beside what relabeling made of them.
 */
#include "lib/net/json_read.h"
#include "lib/render/render.h"
#include "scraper/api/api_impl.h"
#include <string.h>

enum { MAX_LABELS_BYTES = 1 << 20 };

static const char *pool_param(struct http_request *r)
{
	const char *pool = http_request_param(r, "scrapePool");

	if (!pool || !*pool)
		api_reply_error(r, API_JSON, -EINVAL, "no scrapePool parameter provided");
	return pool && *pool ? pool : NULL;
}

void api_scrape_pool_config(struct http_request *r, void *arg)
{
	struct api *a = arg;
	const char *pool = pool_param(r);
	_cleanup_bytes_ struct bytes yaml = {};
	struct bytes out = {};
	struct json j;

	if (!pool)
		return;
	if (!a->o.callbacks.pool_yaml ||
		!a->o.callbacks.pool_yaml(a->o.callbacks.arg, pool, &yaml)) {
		api_reply_error(r, API_JSON, -ENOENT, "there is no scrape pool of that name");
		return;
	}
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_key(&j, "yaml");
	json_string_n(&j, (const char *)yaml.data, yaml.len);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

/* An object of label names and text values. */
static int read_labels(const char *text, struct labels_builder *b, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *value;
	const char *name;
	void *pos = NULL;
	int r = json_read(text, strlen(text), MAX_LABELS_BYTES, &doc, eb);

	if (r < 0)
		return err_prefix(eb, -EINVAL, "labels");
	if (json_value_kind(json_doc_root(doc)) != JSON_KIND_OBJECT)
		return err_set(eb, -EINVAL,
			"labels: expected an object of names and values, got %s",
			json_value_kind_name(json_doc_root(doc)));
	while (json_value_next(json_doc_root(doc), &pos, &name, &value)) {
		if (!json_value_str(value) || !*name)
			return err_set(eb, -EINVAL,
				"labels: the value of \"%.100s\" is %s, expected a string", name,
				json_value_kind_name(value));
		labels_builder_set(b, name, json_value_str(value));
	}
	return b->error;
}

void api_relabel_steps(struct http_request *r, void *arg)
{
	struct api *a = arg;
	const char *pool = pool_param(r), *text = http_request_param(r, "labels");
	_cleanup_labels_builder_ struct labels_builder b;
	struct errbuf eb = {};
	struct bytes out = {};
	struct json j;
	int e;

	labels_builder_init(&b);
	if (!pool)
		return;
	e = read_labels(text ? text : "", &b, &eb);
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_key(&j, "steps");
	json_array_begin(&j);
	if (e == 0)
		e = a->o.callbacks.relabel_steps
			    ? a->o.callbacks.relabel_steps(a->o.callbacks.arg, pool, &b, &j, &eb)
			    : -ENOENT;
	json_array_end(&j);
	json_object_end(&j);
	if (e == 0) {
		api_reply_json(r, &j, &out);
		return;
	}
	bytes_done(&out);
	api_reply_error(r, API_JSON, e,
		e == -ENOENT ? "there is no scrape pool of that name" : err_text(&eb, e));
}

/* ---- /service-discovery ---- */

struct discovery_page {
	struct bytes *out;
	const char *pool;
	size_t n_active, n_dropped;
};

static void put_target(const struct api_target *t, void *ctx)
{
	struct discovery_page *p = ctx;

	if (strcmp(t->pool, p->pool))
		return;
	p->n_active += !t->dropped;
	p->n_dropped += t->dropped;
	bytes_printf(p->out, "<tr%s><td>", t->dropped ? " class=\"dropped\"" : "");
	api_page_labels(p->out, t->discovered);
	bytes_put_str(p->out, "</td><td>");
	if (t->dropped)
		bytes_put_str(p->out, "<span class=\"m\">dropped</span>");
	else
		api_page_labels(p->out, t->labels);
	bytes_put_str(p->out, "</td></tr>\n");
}

struct discovery_pools {
	struct api *api;
	struct bytes *out;
};

static void put_pool(const char *name, void *ctx)
{
	struct discovery_pools *pools = ctx;
	struct bytes rows = {};
	struct discovery_page page = {.out = &rows, .pool = name};

	if (pools->api->o.callbacks.each_target)
		pools->api->o.callbacks.each_target(pools->api->o.callbacks.arg, put_target, &page);
	bytes_put_str(pools->out, "<h2>");
	api_page_put(pools->out, name);
	bytes_printf(pools->out,
		" <span class=\"m\">(%zu of %zu active)</span></h2><table><thead><tr>"
		"<th>Discovered labels</th><th>Target labels</th></tr></thead><tbody>\n",
		page.n_active, page.n_active + page.n_dropped);
	bytes_put(pools->out, rows.data, rows.len);
	bytes_put_str(pools->out, "</tbody></table>\n");
	bytes_done(&rows);
}

void api_page_discovery(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct discovery_pools pools = {a, &out};

	api_page_begin(a, &out, "Service discovery", "/service-discovery");
	bytes_put_str(&out, "<h1>Service discovery</h1>\n");
	if (a->o.callbacks.each_pool)
		a->o.callbacks.each_pool(a->o.callbacks.arg, put_pool, &pools);
	api_page_end(&out);
	api_page_reply(r, &out);
}
