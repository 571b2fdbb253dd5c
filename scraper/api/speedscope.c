/* SPDX-License-Identifier: Apache-2.0
 *
 * /speedscope/: the static files of speedscope, where they are installed. It asks for a profile of this scraper by the address that its
 * fragment names.
 */
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "scraper/api/api_impl.h"
#include <string.h>

enum { MAX_BYTES = 16 << 20 };

/* Its styles are made by its script, and one importer is WebAssembly. Nothing comes from, or goes, elsewhere. */
static const char policy[] =
	"default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' "
	"'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' "
	"data: blob:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'";

static const char *type_of(const char *name)
{
	static const struct {
		const char *end, *type;
	} types[] = {{".html", "text/html; charset=utf-8"},
		{".js", "application/javascript; charset=utf-8"},
		{".css", "text/css; charset=utf-8"}, {".json", "application/json"},
		{".png", "image/png"}, {".ico", "image/x-icon"}, {".svg", "image/svg+xml"},
		{".woff2", "font/woff2"}, {".wasm", "application/wasm"},
		{".txt", "text/plain; charset=utf-8"}, {".md", "text/plain; charset=utf-8"}};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_ends_with(name, types[i].end))
			return types[i].type;
	return "application/octet-stream";
}

void api_speedscope(struct http_request *r, void *arg)
{
	const char *name = http_request_wildcard(r, 0);
	_cleanup_bytes_ struct bytes body = {};
	struct errbuf eb = {};
	struct api *a = arg;
	int e;

	if (!a->o.speedscope_dir || !*a->o.speedscope_dir) {
		http_reply_text(r, 404, "the scraper was started without --web.speedscope-dir");
		return;
	}
	if (!*name)
		name = "index.html";
	bytes_init(&body, a->o.budget, 0);
	e = fs_read_beneath(a->o.speedscope_dir, name, MAX_BYTES, &body, &eb);
	if (e) {
		http_reply_text(r, e == -ENOENT ? 404 : e == -EACCES ? 403 : 500, "%s", eb.text);
		return;
	}
	http_reply_header(r, "Content-Security-Policy", policy);
	http_reply_header(r, "Referrer-Policy", "no-referrer");
	http_reply_header(r, "Cache-Control", "no-cache");
	http_reply_bytes(r, 200, type_of(name), &body);
}
