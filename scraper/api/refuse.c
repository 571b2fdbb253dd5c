/* SPDX-License-Identifier: Apache-2.0
 *
 * What no route takes, in the words that the path's clients read: Prometheus's and Grafana's show the error of an envelope and
 * nothing of a text.
 */
#include "lib/base/str.h"
#include "lib/json/write.h"
#include "scraper/api/api_impl.h"
#include <string.h>

/* "/package.v1.Service/Method" of Connect. */
static bool is_service(const char *path)
{
	return memchr(path, '.', strcspn(path + 1, "/") + 1) && strstr(path, "Service/");
}

void api_refuse(struct http_request *r, unsigned code, const char *text)
{
	_cleanup_bytes_ struct bytes out = {};
	const char *path = http_request_path(r);
	struct json j = json_to(&out);
	char named[256];

	if (code == 404) {
		snprintf(named, sizeof(named), "%.200s is not served here", path);
		text = named;
	}
	if (str_starts_with(path, "/api/")) {
		json_object_begin(&j);
		json_kv_string(&j, "status", "error");
		json_kv_string(&j, "errorType", code == 404 ? "not_found" : "bad_data");
	} else if (str_starts_with(path, "/pyroscope/") || is_service(path)) {
		json_object_begin(&j);
		json_kv_string(&j, "code", "unimplemented");
	} else {
		http_reply_text(r, code, "%s", code == 404 ? "404 page not found" : text);
		return;
	}
	json_kv_string(&j, str_starts_with(path, "/api/") ? "error" : "message", text);
	json_object_end(&j);
	http_reply_bytes(r, code, "application/json", &out);
}
