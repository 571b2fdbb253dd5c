/* SPDX-License-Identifier: Apache-2.0
 *
 * What concerns one job: its configuration, what each of its relabel rules does to labels, and the page of all
 * discovered targets beside what relabeling made of them.
 */
#include "lib/render/render.h"
#include "scraper/api/api_impl.h"
#include <string.h>

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

void api_relabel_steps(struct http_request *r, void *arg)
{
	struct api *a = arg;
	const char *pool = pool_param(r), *text = http_request_param(r, "labels");
	struct errbuf eb = {};
	struct bytes out = {};
	struct json j;
	int e = -ENOENT;

	if (!pool)
		return;
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_key(&j, "steps");
	json_array_begin(&j);
	if (a->o.callbacks.relabel_steps)
		e = a->o.callbacks.relabel_steps(
			a->o.callbacks.arg, pool, text ? text : "", &j, &eb);
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

/* ---- /plain/service-discovery ---- */

struct discovery_page {
	struct bytes *out;
	const char *pool;
	size_t n_active;
};

static void put_target(const struct api_target *t, void *ctx)
{
	struct discovery_page *p = ctx;

	if (strcmp(t->pool, p->pool))
		return;
	p->n_active += !t->dropped;
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

static void put_pool(const char *name, uint64_t n_dropped, void *ctx)
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
		page.n_active, page.n_active + (size_t)n_dropped);
	bytes_put(pools->out, rows.data, rows.len);
	bytes_put_str(pools->out, "</tbody></table>\n");
	bytes_done(&rows);
}

void api_page_discovery(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct discovery_pools pools = {a, &out};

	api_page_begin(a, &out, "Service discovery", "/plain/service-discovery");
	bytes_put_str(&out, "<h1>Service discovery</h1>\n");
	if (a->o.callbacks.each_pool)
		a->o.callbacks.each_pool(a->o.callbacks.arg, put_pool, &pools);
	api_page_end(&out);
	api_page_reply(r, &out);
}
