/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics, health, readiness, reload, quit: Prometheus' texts and codes.
 */
#include "scraper/api/api_impl.h"

void api_metrics(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};

	if (a->o.metrics)
		metrics_print(a->o.metrics, &out);
	http_reply_bytes(r, 200, METRICS_CONTENT_TYPE, &out);
}

void api_healthy(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "The scraper is healthy.");
}

void api_ready(struct http_request *r, void *arg)
{
	struct api *a = arg;
	char reason[256] = "";
	bool ready = !a->o.callbacks.ready || a->o.callbacks.ready(a->o.callbacks.arg, reason);

	if (ready)
		http_reply_text(r, 200, "The scraper is ready.");
	else
		http_reply_text(r, 503, "Not ready: %s", *reason ? reason : "starting");
}

void api_reload(struct http_request *r, void *arg)
{
	struct errbuf eb = {};
	struct api *a = arg;
	int e;

	if (!a->o.enable_lifecycle || !a->o.callbacks.reload) {
		http_reply_text(
			r, 403, "Lifecycle API is not enabled; start with --web.enable-lifecycle.");
		return;
	}
	e = a->o.callbacks.reload(a->o.callbacks.arg, &eb);
	if (e)
		http_reply_text(r, 500, "failed to reload config: %s", err_text(&eb, e));
	else
		http_reply_text(r, 200, "reloaded");
}

void api_quit(struct http_request *r, void *arg)
{
	struct api *a = arg;

	if (!a->o.enable_lifecycle || !a->o.callbacks.quit) {
		http_reply_text(
			r, 403, "Lifecycle API is not enabled; start with --web.enable-lifecycle.");
		return;
	}
	a->o.callbacks.quit(a->o.callbacks.arg);
	http_reply_text(r, 200, "Requesting termination... Goodbye!");
}
