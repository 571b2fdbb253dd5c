/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to a server.
 */
#include "cli/server.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/version.h"
#include "scraper/config/config.h"
#include <string.h>

int cli_server_get(const struct cli_server_options *o, const char *path, struct http_response *ret,
	struct errbuf *eb)
{
	struct config_http_file file = {0};
	_cleanup_free_ char *user_agent = xasprintf("sonde/%s", version_number());
	size_t n = strlen(o->url);
	_cleanup_free_ char *url = NULL;
	int r = 0;

	*ret = (struct http_response) {0};
	while (n && o->url[n - 1] == '/')
		n--;
	url = xasprintf("%.*s%s", (int)n, o->url, path);
	if (o->http_config_file)
		r = config_load_http(&fs_system, o->http_config_file, &file, eb);
	if (r == 0)
		r = http_client_fetch(
			&(struct http_fetch) {
				.url = url,
				.transport = o->http_config_file ? &file.http.transport : NULL,
				.timeout_ms = (uint32_t)o->timeout_ms,
				.max_body_bytes = 1 << 20,
			},
			user_agent, ret, eb);
	config_http_file_free(&file);
	return r;
}
