/* SPDX-License-Identifier: Apache-2.0
 *
 * What handlers ask of a request.
 */
#include "lib/net/server/impl.h"

const char *http_request_path(const struct http_request *r)
{
	return r->path;
}

const char *http_request_wildcard(const struct http_request *r, size_t i)
{
	return i < r->n_wildcards ? r->wildcards[i] : NULL;
}

const struct url_params *http_request_params(const struct http_request *r)
{
	return &r->params;
}

const char *http_request_param(const struct http_request *r, const char *name)
{
	return url_params_get(&r->params, name);
}

const char *http_request_header(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

const char *http_request_host(const struct http_request *r)
{
	const char *host = http_request_header(r, "Host");

	return host ? host : "";
}

const void *http_request_body(const struct http_request *r, size_t *ret_n)
{
	*ret_n = r->body.len;
	return r->body.data;
}

struct arena *http_request_arena(struct http_request *r)
{
	return &r->arena;
}

void http_request_set_data(struct http_request *r, void *data, void (*free_data)(void *))
{
	if (r->free_data)
		r->free_data(r->data);
	r->data = data;
	r->free_data = free_data;
}

void *http_request_data(const struct http_request *r)
{
	return r->data;
}
