/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the proxy of a transfer. The environment and lists of exceptions are read as Go's httpproxy reads them, and handed to curl
 * in the form that curl knows.
 */
#include "lib/net/client/impl.h"
#include "lib/base/alloc.h"
#include "lib/net/url/url.h"
#include <string.h>

/* The first of both names that is set to something. */
static const char *variable(const char *upper, const char *lower)
{
	const char *value = getenv(upper);

	if (!value || !*value)
		value = getenv(lower);
	return value && *value ? value : NULL;
}

/* An item may have a port, which curl does not know: it counts for that port alone. Brackets around an IPv6 address go. */
static void put_exception(struct bytes *out, const char *item, size_t n, uint16_t port)
{
	const char *colon = memchr(item, ':', n),
		   *bracket = *item == '[' ? memchr(item, ']', n) : NULL;
	_cleanup_free_ char *own = NULL;
	size_t host = n;

	if (bracket) {
		colon = bracket[1] == ':' && bracket + 1 < item + n ? bracket + 1 : NULL;
		host = (size_t)(bracket - ++item);
		n--;
	} else if (colon && memchr(colon + 1, ':', (size_t)(item + n - colon - 1))) {
		colon = NULL;
	} else if (colon) {
		host = (size_t)(colon - item);
	}
	if (colon) {
		own = xasprintf("%u", port);
		n = (size_t)(item + n - colon - 1);
		if (n != strlen(own) || memcmp(own, colon + 1, n) != 0)
			return;
	}
	/* curl takes ".example" for "*.example" */
	if (host > 1 && item[0] == '*' && item[1] == '.') {
		item++;
		host--;
	}
	bytes_put_str(out, out->len ? "," : "");
	bytes_put(out, item, host);
}

/* The list for a request to that port. */
static void put_exceptions(struct bytes *out, const char *list, uint16_t port)
{
	static const char separators[] = ", \t";

	for (const char *s = list + strspn(list, separators); *s; s += strspn(s, separators)) {
		size_t n = strcspn(s, separators);

		if (n == 1 && *s == '*') {
			bytes_reset(out);
			bytes_put_u8(out, '*'); /* everything, which curl wants to stand alone */
			return;
		}
		put_exception(out, s, n, port);
		s += n;
	}
}

/* Those of CONNECT, which the proxy sees. */
static void set_headers(struct http_transfer *t, const struct http_transport *tr)
{
	for (size_t i = 0; i < tr->n_proxy_headers; i++)
		http_transfer_add_pair(
			&t->proxy_headers, tr->proxy_headers[i].name, tr->proxy_headers[i].value);
	curl_easy_setopt(t->easy, CURLOPT_PROXYHEADER, t->proxy_headers);
	curl_easy_setopt(t->easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
}

int http_proxy_set(struct http_transfer *t, const struct http_transport *tr, const struct url *u,
	struct errbuf *eb)
{
	bool is_https = !strcmp(u->scheme, "https");
	const char *proxy = tr->proxy_url, *list = tr->no_proxy;
	_cleanup_bytes_ struct bytes exceptions = {0};

	if (!proxy && tr->proxy_from_environment) {
		proxy = is_https ? variable("HTTPS_PROXY", "https_proxy")
				 : variable("HTTP_PROXY", "http_proxy");
		list = variable("NO_PROXY", "no_proxy");
		/* as in Go, what is here is asked directly */
		bytes_put_str(&exceptions, "localhost,127.0.0.0/8,::1");
	}
	if (list)
		put_exceptions(&exceptions, list, u->port);
	bytes_put_u8(&exceptions, 0);
	if (bytes_error(&exceptions) < 0)
		return err_set(eb, -ENOMEM, "no memory for a request");
	/* empty texts: nothing of the environment */
	curl_easy_setopt(t->easy, CURLOPT_PROXY, proxy ? proxy : "");
	curl_easy_setopt(t->easy, CURLOPT_NOPROXY, (const char *)exceptions.data);
	if (tr->n_proxy_headers)
		set_headers(t, tr);
	return 0;
}
