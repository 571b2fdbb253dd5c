/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves the web interface. Every page is the same file: its script finds in the address what to show.
 */
#include "scraper/api/ui.h"
#include "lib/render/render.h"
#include "scraper/api/api_impl.h"
#include <string.h>

static const char policy[] =
	"default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src "
	"'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'";

static const struct ui_asset *find(const char *name)
{
	for (size_t i = 0; i < ui_n_assets; i++)
		if (!strcmp(ui_assets[i].name, name))
			return &ui_assets[i];
	return NULL;
}

/* What the web interface fills with what it has read from files. */
static void reply_frame(struct http_request *r, const struct api *a)
{
	_cleanup_bytes_ struct bytes out = {};

	bytes_init(&out, a->o.budget, 0);
	render_page_frame(&out);
	http_reply_header(r, "Content-Security-Policy", render_page_policy);
	http_reply_bytes(r, 200, "text/html; charset=utf-8", &out);
}

static void reply(struct http_request *r, const struct ui_asset *a)
{
	const char *known = http_request_header(r, "If-None-Match");

	http_reply_header(r, "ETag", a->etag);
	http_reply_header(r, "Cache-Control",
		"no-cache"); /* kept, but asked for: a new version shows at once */
	http_reply_header(r, "Content-Security-Policy", policy);
	http_reply_header(r, "Referrer-Policy", "no-referrer");
	/* A list, and a proxy that compresses makes a weak tag of ours. */
	if (known && (strstr(known, a->etag) || !strcmp(known, "*")))
		http_reply_static(r, 304, a->type, "", 0);
	else
		http_reply_gzip(r, 200, a->type, a->gzip, a->n);
}

void api_ui_page(struct http_request *r, void *arg)
{
	(void)arg;
	reply(r, find("index.html"));
}

void api_ui_asset(struct http_request *r, void *arg)
{
	const char *name = http_request_wildcard(r, 0);
	const struct ui_asset *a = find(name);

	if (a)
		reply(r, a);
	else if (!strcmp(name, "page.html"))
		reply_frame(r, arg);
	else
		http_reply_text(r, 404, "no such file: %.100s", name);
}
