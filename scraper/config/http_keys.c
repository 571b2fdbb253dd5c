/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of HTTP clients: tables, what excludes what, and the transport that they make.
 */
#include "scraper/config/keys.h"
#include <string.h>
#include <strings.h>

static const struct config_key basic_auth_keys[] = {
	CONFIG_VALUE(struct config_basic_auth, username, CONFIG_TYPE_STRING, "username", NULL),
	CONFIG_VALUE(
		struct config_basic_auth, username_file, CONFIG_TYPE_PATH, "username_file", NULL),
	CONFIG_VALUE(struct config_basic_auth, password, CONFIG_TYPE_SECRET, "password", NULL),
	CONFIG_VALUE(
		struct config_basic_auth, password_file, CONFIG_TYPE_PATH, "password_file", NULL),
};
static int check_basic_auth(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);
const struct config_section config_keys_basic_auth =
	CONFIG_SECTION("basic_auth", basic_auth_keys, struct config_basic_auth, check_basic_auth);

static const struct config_key authorization_keys[] = {
	CONFIG_VALUE(struct config_authorization, type, CONFIG_TYPE_STRING, "type", NULL),
	CONFIG_VALUE(
		struct config_authorization, credentials, CONFIG_TYPE_SECRET, "credentials", NULL),
	CONFIG_VALUE(struct config_authorization, credentials_file, CONFIG_TYPE_PATH,
		"credentials_file", NULL),
};
static int check_authorization(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);
const struct config_section config_keys_authorization = CONFIG_SECTION(
	"authorization", authorization_keys, struct config_authorization, check_authorization);

/* In the order of enum values, 0 for a key that was not written. */
static const char *const tls_versions[] = {"", "TLS10", "TLS11", "TLS12", "TLS13", NULL};
static const struct config_key tls_keys[] = {
	CONFIG_VALUE(struct config_tls, ca, CONFIG_TYPE_STRING, "ca", NULL),
	CONFIG_VALUE(struct config_tls, ca_file, CONFIG_TYPE_PATH, "ca_file", NULL),
	CONFIG_VALUE(struct config_tls, cert, CONFIG_TYPE_STRING, "cert", NULL),
	CONFIG_VALUE(struct config_tls, cert_file, CONFIG_TYPE_PATH, "cert_file", NULL),
	CONFIG_VALUE(struct config_tls, key, CONFIG_TYPE_SECRET, "key", NULL),
	CONFIG_VALUE(struct config_tls, key_file, CONFIG_TYPE_PATH, "key_file", NULL),
	CONFIG_VALUE(struct config_tls, server_name, CONFIG_TYPE_STRING, "server_name", NULL),
	CONFIG_VALUE(struct config_tls, insecure_skip_verify, CONFIG_TYPE_BOOL,
		"insecure_skip_verify", "false"),
	{.name = "min_version",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_tls, min_version),
		.names = tls_versions},
	{.name = "max_version",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_tls, max_version),
		.names = tls_versions},
};
static int check_tls(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);
const struct config_section config_keys_tls =
	CONFIG_SECTION("tls_config", tls_keys, struct config_tls, check_tls);

static const struct config_key oauth2_keys[] = {
	CONFIG_VALUE(struct config_oauth2, client_id, CONFIG_TYPE_STRING, "client_id", NULL),
	CONFIG_VALUE(
		struct config_oauth2, client_secret, CONFIG_TYPE_SECRET, "client_secret", NULL),
	CONFIG_VALUE(struct config_oauth2, client_secret_file, CONFIG_TYPE_PATH,
		"client_secret_file", NULL),
	CONFIG_VALUE(struct config_oauth2, token_url, CONFIG_TYPE_URL, "token_url", NULL),
	CONFIG_VALUE(struct config_oauth2, grant_type, CONFIG_TYPE_STRING, "grant_type", NULL),
	CONFIG_VALUE(struct config_oauth2, scopes, CONFIG_TYPE_STRINGS, "scopes", NULL),
	CONFIG_VALUE(
		struct config_oauth2, endpoint_params, CONFIG_TYPE_LABELS, "endpoint_params", NULL),
	CONFIG_NESTED(struct config_oauth2, tls, "tls_config", &config_keys_tls),
	CONFIG_PROXY_KEYS(struct config_oauth2, proxy),
};
static int check_oauth2(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);
const struct config_section config_keys_oauth2 =
	CONFIG_SECTION("oauth2", oauth2_keys, struct config_oauth2, check_oauth2);

static const struct config_key header_keys[] = {
	CONFIG_VALUE(struct config_http_header, values, CONFIG_TYPE_STRINGS, "values", NULL),
	CONFIG_VALUE(struct config_http_header, secrets, CONFIG_TYPE_SECRETS, "secrets", NULL),
	CONFIG_VALUE(struct config_http_header, files, CONFIG_TYPE_PATHS, "files", NULL),
};
static int check_header(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);
const struct config_section config_keys_http_header =
	CONFIG_SECTION("http_headers.<name>", header_keys, struct config_http_header, check_header);

/* At most one of two keys. */
static int check_either(
	struct config_reader *r, const struct config_seen *seen, const char *a, const char *b)
{
	if (!config_seen_key(seen, a) || !config_seen_key(seen, b))
		return 0;
	return config_fail(r, config_seen_key(seen, b), b,
		"stands beside %s, expected at most one of them", a);
}

static int check_basic_auth(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	int e = check_either(r, seen, "username", "username_file");

	(void)object, (void)node;
	return e < 0 ? e : check_either(r, seen, "password", "password_file");
}

static int check_authorization(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_authorization *a = object;
	const char *type = a->type ? a->type + strspn(a->type, " \t") : "";
	size_t n = strlen(type);

	(void)node;
	while (n && (type[n - 1] == ' ' || type[n - 1] == '\t'))
		n--;
	a->type = n ? arena_strndup(config_mem_arena(r->mem), type, n) : "Bearer";
	if (!a->type)
		return config_out_of_memory(r);
	if (!strcasecmp(a->type, "basic"))
		return config_fail(r, config_seen_key(seen, "type"), "type",
			"cannot be \"%s\": use basic_auth for a user's name and password", a->type);
	return check_either(r, seen, "credentials", "credentials_file");
}

static int check_tls(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	static const char *const kinds[][2] = {
		{"ca", "ca_file"}, {"cert", "cert_file"}, {"key", "key_file"}};
	const struct config_tls *t = object;
	bool has_cert = t->cert || t->cert_file, has_key = t->key || t->key_file;
	int e = 0;

	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(kinds); i++)
		e = check_either(r, seen, kinds[i][0], kinds[i][1]);
	if (e < 0)
		return e;
	if (has_cert != has_key)
		return config_fail(r, node, has_cert ? "key_file" : "cert_file",
			"is missing beside %s", has_cert ? "the certificate" : "the key");
	if (t->max_version && t->min_version > t->max_version)
		return config_fail(r, config_seen_key(seen, "min_version"), "min_version",
			"%s is above max_version %s", tls_versions[t->min_version],
			tls_versions[t->max_version]);
	return 0;
}

static int check_proxy(
	struct config_reader *r, const struct config_proxy *p, const struct config_seen *seen)
{
	const char *const other[] = {"proxy_url", "no_proxy"};

	if (config_seen_key(seen, "no_proxy") && !config_seen_key(seen, "proxy_url") &&
		!p->from_environment)
		return config_fail(r, config_seen_key(seen, "no_proxy"), "no_proxy",
			"has no effect without proxy_url");
	for (size_t i = 0; i < ARRAY_SIZE(other) && p->from_environment; i++)
		if (config_seen_key(seen, other[i]))
			return config_fail(r, config_seen_key(seen, other[i]), other[i],
				"stands beside proxy_from_environment, expected one of them");
	if (p->n_connect_headers && !p->url && !p->from_environment)
		return config_fail(r, config_seen_key(seen, "proxy_connect_header"),
			"proxy_connect_header", "needs proxy_url or proxy_from_environment");
	return 0;
}

static int check_oauth2(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_oauth2 *o = object;
	int e;

	if (!o->client_id || !*o->client_id)
		return config_fail(r, node, "client_id", "is missing");
	if (!o->token_url || !*o->token_url)
		return config_fail(r, node, "token_url", "is missing");
	if (o->grant_type && *o->grant_type && strcmp(o->grant_type, "client_credentials") != 0)
		return config_fail(r, config_seen_key(seen, "grant_type"), "grant_type",
			"\"%.60s\" is not built in, expected client_credentials", o->grant_type);
	e = check_either(r, seen, "client_secret", "client_secret_file");
	return e < 0 ? e : check_proxy(r, &o->proxy, seen);
}

/* Headers that requests set themselves, or that credentials have keys for. */
static bool is_reserved_header(const char *name)
{
	static const char *const reserved[] = {"Authorization", "Host", "Content-Encoding",
		"Content-Length", "Content-Type", "User-Agent", "Connection", "Keep-Alive",
		"Proxy-Authenticate", "Proxy-Authorization", "Www-Authenticate", "Accept-Encoding",
		"X-Prometheus-Remote-Write-Version", "X-Prometheus-Remote-Read-Version",
		"X-Prometheus-Scrape-Timeout-Seconds", "X-Amz-Date", "X-Amz-Security-Token",
		"X-Amz-Content-Sha256"};

	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		if (!strcasecmp(name, reserved[i]))
			return true;
	return false;
}

/* RFC 9110's token, and values without line ends: nothing else reaches a request. */
static bool is_header_name(const char *s)
{
	size_t n = strspn(
		s, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

	return n && !s[n];
}

static int check_header(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_http_header *h = object;
	const struct config_strings *const lists[] = {&h->values, &h->secrets};

	(void)seen;
	if (!is_header_name(r->map_name))
		return config_fail(
			r, node, NULL, "\"%.60s\" is not the name of a header", r->map_name);
	if (is_reserved_header(r->map_name))
		return config_fail(r, node, NULL, "this header cannot be set: %s",
			!strcasecmp(r->map_name, "Authorization")
				? "use basic_auth, authorization or oauth2"
				: "requests set it themselves");
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			if (strpbrk(lists[k]->items[i], "\r\n"))
				return config_fail(
					r, node, NULL, "a header's value cannot have line ends");
	return 0;
}

/* Credentials come from one of these at most. */
static int check_one_kind(struct config_reader *r, const struct config_seen *seen)
{
	static const char *const kinds[] = {
		"basic_auth", "authorization", "bearer_token", "bearer_token_file", "oauth2"};
	const char *first = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!config_seen_key(seen, kinds[i]))
			continue;
		if (first)
			return config_fail(r, config_seen_key(seen, kinds[i]), kinds[i],
				"stands beside %s, expected at most one of basic_auth, "
				"authorization, "
				"bearer_token, bearer_token_file and oauth2",
				first);
		first = kinds[i];
	}
	return 0;
}

static struct http_client_tls tls_of(const struct config_tls *t)
{
	enum { OLDEST = 9 }; /* TLS10 is 1 here and 10 there */

	return (struct http_client_tls) {
		.ca = t->ca,
		.ca_file = t->ca_file,
		.cert = t->cert,
		.cert_file = t->cert_file,
		.key = t->key,
		.key_file = t->key_file,
		.server_name = t->server_name,
		.insecure_skip_verify = t->insecure_skip_verify,
		.min_version = t->min_version ? t->min_version + OLDEST : 0,
		.max_version = t->max_version ? t->max_version + OLDEST : 0,
	};
}

/* Empty text is as good as none. */
static const char *text_or_null(const char *s)
{
	return s && *s ? s : NULL;
}

static int set_proxy(
	struct config_reader *r, const struct config_proxy *p, struct http_transport *t)
{
	struct http_header *headers;
	size_t n = 0;

	t->proxy_url = text_or_null(p->url);
	t->no_proxy = p->no_proxy;
	t->proxy_from_environment = p->from_environment;
	for (size_t i = 0; i < p->n_connect_headers; i++)
		n += p->connect_headers[i].values.n;
	headers = arena_alloc_array(config_mem_arena(r->mem), MAX(n, 1U), sizeof(*headers));
	if (!headers)
		return config_out_of_memory(r);
	t->proxy_headers = headers;
	for (size_t i = 0; i < p->n_connect_headers; i++)
		for (size_t k = 0; k < p->connect_headers[i].values.n; k++)
			headers[t->n_proxy_headers++] =
				(struct http_header) {.name = p->connect_headers[i].name,
					.value = p->connect_headers[i].values.items[k]};
	return 0;
}

static int set_headers(
	struct config_reader *r, const struct config_http *h, struct http_transport *t)
{
	struct http_header *headers;
	size_t n = 0;

	for (size_t i = 0; i < h->n_headers; i++)
		n += h->headers[i].values.n + h->headers[i].secrets.n + h->headers[i].files.n;
	headers = arena_alloc_array(config_mem_arena(r->mem), MAX(n, 1U), sizeof(*headers));
	if (!headers)
		return config_out_of_memory(r);
	t->headers = headers;
	for (size_t i = 0; i < h->n_headers; i++) {
		const struct config_http_header *own = &h->headers[i];

		for (size_t k = 0; k < own->values.n; k++)
			headers[t->n_headers++] = (struct http_header) {
				.name = own->name, .value = own->values.items[k]};
		for (size_t k = 0; k < own->secrets.n; k++)
			headers[t->n_headers++] = (struct http_header) {.name = own->name,
				.value = own->secrets.items[k],
				.is_secret = true};
		for (size_t k = 0; k < own->files.n; k++)
			headers[t->n_headers++] = (struct http_header) {
				.name = own->name, .value_file = own->files.items[k]};
	}
	return 0;
}

static int set_oauth2(
	struct config_reader *r, const struct config_oauth2 *o, struct http_transport *t)
{
	struct http_oauth2 *to = arena_zalloc(config_mem_arena(r->mem), sizeof(*to));
	struct http_transport *token = arena_zalloc(config_mem_arena(r->mem), sizeof(*token));
	struct http_header *params;
	int e;

	if (!to || !token)
		return config_out_of_memory(r);
	token->tls = tls_of(&o->tls);
	token->follow_redirects = true;
	e = set_proxy(r, &o->proxy, token);
	to->client_id = o->client_id;
	to->client_secret = o->client_secret;
	to->client_secret_file = o->client_secret_file;
	to->token_url = o->token_url;
	to->scopes = o->scopes.items;
	to->n_scopes = o->scopes.n;
	params = arena_alloc_array(
		config_mem_arena(r->mem), MAX(o->endpoint_params.n, 1U), sizeof(*params));
	if (!params)
		return config_out_of_memory(r);
	for (size_t i = 0; i < o->endpoint_params.n; i++)
		params[i] = (struct http_header) {.name = o->endpoint_params.items[i].name,
			.value = o->endpoint_params.items[i].value};
	to->params = params;
	to->n_params = o->endpoint_params.n;
	to->transport = token;
	t->oauth2 = to;
	return e;
}

int config_check_http(
	struct config_reader *r, struct config_http *h, const struct config_seen *seen)
{
	struct http_transport *t = &h->transport;
	int e = check_one_kind(r, seen);

	if (e == 0)
		e = check_proxy(r, &h->proxy, seen);
	if (e < 0)
		return e;
	*t = (struct http_transport) {
		.basic_username = h->basic_auth.username,
		.basic_username_file = h->basic_auth.username_file,
		.basic_password = h->basic_auth.password,
		.basic_password_file = h->basic_auth.password_file,
		.auth_type = h->authorization.type,
		.auth_credentials = h->authorization.credentials ? h->authorization.credentials
								 : h->bearer_token,
		.auth_credentials_file = h->authorization.credentials_file
						 ? h->authorization.credentials_file
						 : h->bearer_token_file,
		.tls = tls_of(&h->tls),
		.follow_redirects = h->follow_redirects,
		.enable_http2 = h->enable_http2,
	};
	e = set_proxy(r, &h->proxy, t);
	if (e == 0)
		e = set_headers(r, h, t);
	if (e == 0 && h->oauth2.is_written)
		e = set_oauth2(r, &h->oauth2, t);
	return e;
}

/* The same as a file of its own. */
struct http_file {
	struct config_http http;
};

static int check_http_file(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct http_file *f = object;

	(void)node;
	return config_check_http(r, &f->http, seen);
}

static const struct config_key http_file_keys[] = {CONFIG_HTTP_KEYS(struct http_file, http)};
const struct config_section config_keys_http_file =
	CONFIG_SECTION("--http.config.file", http_file_keys, struct http_file, check_http_file);
