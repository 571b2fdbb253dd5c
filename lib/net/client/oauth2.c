/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of OAuth 2.0 (RFC 6749 §4.4, client credentials). A client keeps one token for each server, identity and
 * scope; transfers that need it wait here while it is asked for. As Go's clients do, the identity goes into a Basic
 * header first and into the form when the server refuses that.
 */
#include "lib/net/client/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/json/read.h"
#include "lib/net/url/url.h"
#include <string.h>

enum {
	MAX_TOKENS = 128,
	TOKEN_TIMEOUT_MS = 10000,
	MAX_ANSWER_BYTES = 1 << 20,
	EARLY_S = 10, /* a token is renewed this long before it expires */
	MAX_EXPIRY_S = 366 * 86400,
};

struct http_token {
	struct http_token *next;
	struct http_client *client;
	struct arena
		arena; /* of the copies below: a configuration may go while an answer is awaited */
	uint64_t key;
	const char *url, *id, *id_escaped, *secret, *secret_escaped, *form;
	struct http_transport transport;
	bool in_form; /* the server wants the identity in the form */
	uint64_t fetch_id;
	char *header; /* "Bearer TOKEN"; NULL: none yet */
	int64_t expires_ns, used_ns;
	struct http_transfer *waiting;
};

static const char *copy(struct http_token *k, const char *s)
{
	const char *c = s ? arena_strdup(&k->arena, s) : NULL;

	if (s && !c)
		err_panic("out of memory for OAuth 2.0 settings");
	return c;
}

static void copy_transport(struct http_token *k, const struct http_transport *t)
{
	struct http_transport *to = &k->transport;
	struct http_header *headers =
		arena_zalloc(&k->arena, MAX(t->n_proxy_headers, 1U) * sizeof(*headers));

	if (!headers)
		err_panic("out of memory for OAuth 2.0 settings");
	*to = *t;
	to->tls.ca = copy(k, t->tls.ca);
	to->tls.ca_file = copy(k, t->tls.ca_file);
	to->tls.cert = copy(k, t->tls.cert);
	to->tls.cert_file = copy(k, t->tls.cert_file);
	to->tls.key = copy(k, t->tls.key);
	to->tls.key_file = copy(k, t->tls.key_file);
	to->tls.server_name = copy(k, t->tls.server_name);
	to->proxy_url = copy(k, t->proxy_url);
	to->no_proxy = copy(k, t->no_proxy);
	for (size_t i = 0; i < t->n_proxy_headers; i++)
		headers[i] = (struct http_header) {.name = copy(k, t->proxy_headers[i].name),
			.value = copy(k, t->proxy_headers[i].value)};
	to->proxy_headers = headers;
	to->headers = NULL;
	to->n_headers = 0;
}

static const char *escaped(struct http_token *k, const char *s)
{
	_cleanup_bytes_ struct bytes b = {0};

	url_escape_query(&b, s, strlen(s));
	bytes_put_u8(&b, 0);
	if (bytes_error(&b) < 0)
		err_panic("out of memory for OAuth 2.0 settings");
	return copy(k, (const char *)b.data);
}

static void put_field(struct bytes *b, const char *name, const char *value)
{
	bytes_put_str(b, b->len ? "&" : "");
	url_escape_query(b, name, strlen(name));
	bytes_put_u8(b, '=');
	url_escape_query(b, value, strlen(value));
}

static const char *form_of(struct http_token *k, const struct http_oauth2 *o)
{
	_cleanup_bytes_ struct bytes form = {0}, scopes = {0};

	put_field(&form, "grant_type", "client_credentials");
	for (size_t i = 0; i < o->n_scopes; i++)
		bytes_printf(&scopes, "%s%s", i ? " " : "", o->scopes[i]);
	bytes_put_u8(&scopes, 0);
	if (bytes_error(&scopes) < 0)
		err_panic("out of memory for OAuth 2.0 settings");
	if (o->n_scopes)
		put_field(&form, "scope", (const char *)scopes.data);
	for (size_t i = 0; i < o->n_params; i++)
		put_field(&form, o->params[i].name, o->params[i].value);
	bytes_put_u8(&form, 0);
	if (bytes_error(&form) < 0)
		err_panic("out of memory for OAuth 2.0 settings");
	return copy(k, (const char *)form.data);
}

static struct http_token *token_new(
	struct http_client *c, const struct http_oauth2 *o, const char *secret)
{
	struct http_token *k = xcalloc(1, sizeof(*k));

	arena_init(&k->arena, NULL);
	k->client = c;
	k->url = copy(k, o->token_url);
	k->id = copy(k, o->client_id);
	k->secret = copy(k, secret);
	k->id_escaped = escaped(k, o->client_id);
	k->secret_escaped = escaped(k, secret);
	k->form = form_of(k, o);
	copy_transport(k, o->transport);
	return k;
}

static void token_free(struct http_token *k)
{
	if (k->header)
		explicit_bzero(k->header, strlen(k->header));
	free(k->header);
	arena_done(&k->arena);
	free(k);
}

/* What makes tokens different; the certificates of the connection do not. */
static uint64_t token_key(const struct http_token *k)
{
	const char *const parts[] = {k->url, k->id, k->secret, k->form};
	uint64_t key = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		key = hash_xxh3_seed(parts[i], strlen(parts[i]), key);
	return key;
}

/* Makes room by forgetting the token that has not been used for longest. */
static void forget_one(struct http_client *c)
{
	struct http_token **oldest = NULL;
	size_t n = 0;

	for (struct http_token **at = &c->tokens; *at; at = &(*at)->next, n++)
		if (!(*at)->fetch_id && (!oldest || (*at)->used_ns < (*oldest)->used_ns))
			oldest = at;
	if (n >= MAX_TOKENS && oldest) {
		struct http_token *k = *oldest;

		*oldest = k->next;
		token_free(k);
	}
}

/* Takes over `k` and returns it or the equal one that is there. */
static struct http_token *intern(struct http_client *c, struct http_token *k)
{
	k->key = token_key(k);
	for (struct http_token *at = c->tokens; at; at = at->next)
		if (at->key == k->key) {
			token_free(k);
			return at;
		}
	forget_one(c);
	k->next = c->tokens;
	c->tokens = k;
	return k;
}

/* The text of a member, or NULL. */
static const char *member(const struct json_value *root, const char *key)
{
	const struct json_value *v = json_value_get(root, key);

	return v ? json_value_str(v) : NULL;
}

static void keep_token(
	struct http_token *k, const char *token, const char *type, const struct json_value *expires)
{
	int64_t expires_s = expires ? json_value_int(expires) : 0;

	free(k->header);
	k->header = xasprintf("Authorization: %s %s",
		!type || !strcasecmp(type, "bearer") ? "Bearer" : type, token);
	k->expires_ns = expires_s > 0 ? clock_monotonic_ns(&clock_system) +
						(MIN(expires_s, MAX_EXPIRY_S) - EARLY_S) * NS_PER_S
				      : INT64_MAX;
}

static int read_answer(struct http_token *k, const struct http_response *r, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const char *token, *type;

	if (r->error < 0)
		return err_set(eb, r->error, "%s", r->text.text);
	if (r->status != 200)
		return err_set(eb, -EACCES, "the server answered with status %u", r->status);
	if (json_read((const char *)r->body.data, r->body.len, MAX_ANSWER_BYTES, &doc, eb) < 0)
		return err_prefix(eb, -EPROTO, "the answer is not JSON");
	token = member(json_doc_root(doc), "access_token");
	type = member(json_doc_root(doc), "token_type");
	if (!token || !*token || strpbrk(token, "\r\n") || (type && strpbrk(type, "\r\n")))
		return err_set(eb, -EPROTO, "the answer has no access_token");
	keep_token(k, token, type, json_value_get(json_doc_root(doc), "expires_in"));
	return 0;
}

/* Those that waited go on, or end with the token's error. */
static void release(struct http_token *k, int error, const char *why)
{
	struct http_transfer *t;

	k->fetch_id = UINT64_MAX; /* a callback below may not forget this token */
	while ((t = k->waiting)) {
		k->waiting = t->next_waiting;
		t->waits_for = NULL;
		if (error == 0)
			http_transfer_add_header(t, k->header);
		http_client_go_on(t, error, why);
	}
	k->fetch_id = 0;
}

static int ask(struct http_token *k, struct errbuf *eb);

static void on_answer(struct http_response *r, void *arg)
{
	struct http_token *k = arg;
	struct errbuf eb = {0};
	int e;

	k->fetch_id = 0;
	if (r->error == 0 && r->status >= 400 && r->status < 500 && !k->in_form) {
		k->in_form = true;
		if (ask(k, &eb) == 0)
			return;
	}
	e = read_answer(k, r, &eb);
	if (e < 0) {
		k->in_form = false;
		err_prefix(&eb, e, "oauth2: no token from %s", k->url);
	}
	release(k, e, err_text(&eb, e));
}

static int ask(struct http_token *k, struct errbuf *eb)
{
	static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
		"Accept: application/json", NULL};
	_cleanup_bytes_ struct bytes form = {0};
	struct http_transport transport = k->transport;
	int r;

	bytes_put_str(&form, k->form);
	if (k->in_form) {
		put_field(&form, "client_id", k->id);
		put_field(&form, "client_secret", k->secret);
	} else {
		transport.basic_username = k->id_escaped;
		transport.basic_password = k->secret_escaped;
	}
	if (bytes_error(&form) < 0)
		return err_set(eb, -ENOMEM, "no memory for a request");
	r = http_client_start(k->client,
		&(struct http_fetch) {
			.url = k->url,
			.method = "POST",
			.headers = headers,
			.transport = &transport,
			.body = form.data,
			.n_body = form.len,
			.timeout_ms = TOKEN_TIMEOUT_MS,
			.max_body_bytes = MAX_ANSWER_BYTES,
			.done = on_answer,
			.arg = k,
		},
		&k->fetch_id, eb);
	explicit_bzero(form.data, form.len);
	return r;
}

int http_token_get(
	struct http_transfer *t, const struct http_oauth2 *o, const char *secret, struct errbuf *eb)
{
	struct http_token *k = intern(t->client, token_new(t->client, o, secret ? secret : ""));
	int64_t now_ns = clock_monotonic_ns(&clock_system);
	int r = 0;

	k->used_ns = now_ns;
	if (k->header && now_ns < k->expires_ns) {
		http_transfer_add_header(t, k->header);
		return 0;
	}
	if (!k->fetch_id)
		r = ask(k, eb);
	if (r < 0)
		return err_prefix(eb, r, "oauth2: no token from %s", k->url);
	t->waits_for = k;
	t->next_waiting = k->waiting;
	k->waiting = t;
	return 0;
}

void http_token_forget(struct http_transfer *t)
{
	struct http_transfer **at = t->waits_for ? &t->waits_for->waiting : NULL;

	while (at && *at && *at != t)
		at = &(*at)->next_waiting;
	if (at && *at)
		*at = t->next_waiting;
	t->waits_for = NULL;
}

void http_tokens_free(struct http_client *c)
{
	while (c->tokens) {
		struct http_token *k = c->tokens;

		c->tokens = k->next;
		token_free(k);
	}
}
