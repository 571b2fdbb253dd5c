/* SPDX-License-Identifier: Apache-2.0
 *
 * One transfer: the options of a curl handle from a fetch and its transport, its callbacks, and what its end means for a person.
 */
#include "lib/net/client/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
	MAX_REDIRECTS = 10,
	SECRET_FILE_MAX = 1 << 20,
	MAX_RESPONSE_HEADERS = 256,
	DIAL_TEXT_MAX = 256,
	BUFFER_BYTES = 16 << 10, /* of each request in flight, the hanging ones too */
	MAX_RESERVE = 256 << 10,
	TLS_FILES_LIFETIME_S = 60, /* of a connection: then its certificates are read again */
};

static void headers_free(struct http_response *r)
{
	for (size_t i = 0; i < r->n_headers; i++) {
		free(r->headers[i].name);
		free(r->headers[i].value);
	}
	free(r->headers);
	r->headers = NULL;
	r->n_headers = 0;
}

const char *http_response_header(const struct http_response *r, const char *lower_case_name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (!strcmp(r->headers[i].name, lower_case_name))
			return r->headers[i].value;
	return NULL;
}

void http_response_done(struct http_response *r)
{
	headers_free(r);
	bytes_done(&r->body);
}

static CURL *take_handle(struct http_client *c)
{
	CURL *easy = c->n_spare ? c->spare[--c->n_spare] : curl_easy_init();

	if (!easy)
		err_panic("out of memory for a transfer");
	return easy;
}

static void put_handle(struct http_client *c, CURL *easy)
{
	if (!easy)
		return;
	if (c->n_spare == HTTP_SPARE_HANDLES) {
		curl_easy_cleanup(easy);
		return;
	}
	/* at once: options hold secrets and point to the transfer */
	curl_easy_reset(easy);
	c->spare[c->n_spare++] = easy;
}

void http_transfer_freep(struct http_transfer **tp)
{
	struct http_transfer *t = *tp;

	if (!t)
		return;
	http_token_forget(t);
	put_handle(t->client, t->easy);
	curl_slist_free_all(t->headers);
	curl_slist_free_all(t->public_headers);
	curl_slist_free_all(t->resolve);
	curl_slist_free_all(t->connect_to);
	curl_slist_free_all(t->proxy_headers);
	http_response_done(&t->response);
	free(t->host);
	free(t);
	*tp = NULL;
}

/* ---- curl's callbacks ---- */

/* What Content-Length announces at once, if it is nothing large. */
static void reserve_body(struct http_transfer *t)
{
	curl_off_t announced = -1;

	curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
	if (announced > 0 && announced <= MAX_RESERVE)
		(void)bytes_reserve(&t->response.body, (size_t)announced);
}

static bool is_ok(const struct http_transfer *t)
{
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	return status == 200;
}

static int write_body(struct http_transfer *t, const char *p, size_t n)
{
	if (!is_ok(t))
		return 0;
	if (t->max_body_bytes && n > t->max_body_bytes - t->n_written)
		return -EFBIG;
	t->n_written += n;
	while (n) {
		ssize_t done = write(t->body_fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;

	if (t->body_fd >= 0) {
		t->refused = write_body(t, p, size * n);
		return t->refused < 0 ? 0 : size * n;
	}
	if (t->piece && is_ok(t)) {
		t->refused = t->piece(p, size * n, t->arg);
		return t->refused < 0 ? 0 : size * n;
	}
	if (!t->response.body.len)
		reserve_body(t);
	bytes_put(&t->response.body, p, size * n);
	t->refused = bytes_error(&t->response.body);
	return t->refused < 0 ? 0 : size * n;
}

/* Without the space around it. */
static char *trimmed(const char *s, size_t n)
{
	const char *end = s + n;

	while (s < end && isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	return xstrndup(s, (size_t)(end - s));
}

static void add_header(struct http_transfer *t, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n);
	struct http_response *r = &t->response;
	struct http_response_header *h;

	if (!colon || r->n_headers >= MAX_RESPONSE_HEADERS)
		return;
	if (alloc_grow(&r->headers, &t->cap_headers, r->n_headers + 1, sizeof(*r->headers)) < 0)
		return;
	h = &r->headers[r->n_headers++];
	h->name = xstrndup(line, (size_t)(colon - line));
	h->value = trimmed(colon + 1, (size_t)(line + n - colon - 1));
	for (char *c = h->name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
}

static void add_line(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);

	if (!longer)
		err_panic("out of memory for a request header");
	*list = longer;
}

/* Whether a request for `to`, what a Location header says, stays with the first host, and does not go in the clear after https. */
static bool stays(const struct http_transfer *t, const char *to)
{
	_cleanup_url_ struct url at = {0}, u = {0};
	_cleanup_free_ char *absolute = NULL;
	size_t n = strcspn(to, "/?#");
	char *url = NULL;

	curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
	if (!url || url_parse(url, &at, NULL) < 0)
		return false;
	if (!strncmp(to, "//", 2))
		to = absolute = xasprintf("%s:%s", at.scheme, to);
	else if (!n || to[n - 1] != ':')
		return true;
	return url_parse(to, &u, NULL) == 0 && !strcasecmp(u.host, t->host) &&
	       (!strcmp(u.scheme, "https") || strcmp(at.scheme, "https") != 0);
}

static bool is_secret(const struct http_transfer *t, const char *line)
{
	for (size_t i = 0; i < t->n_own_headers; i++) {
		const struct http_header *h = &t->own_headers[i];
		size_t n = strlen(h->name);

		if ((h->is_secret || h->value_file) && !strncasecmp(line, h->name, n) &&
			(line[n] == ':' || line[n] == ';'))
			return true;
	}
	return false;
}

/* As Prometheus, credentials go along to other ports of the first host, where curl would keep them back, and never again once it was left. */
static void follow(struct http_transfer *t, const char *value, size_t n)
{
	_cleanup_free_ char *location = trimmed(value, n);
	bool left = t->has_left || !stays(t, location);
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 300 || status > 399)
		return;
	curl_easy_setopt(t->easy, CURLOPT_UNRESTRICTED_AUTH, left ? 0L : 1L);
	if (!left || t->has_left)
		return;
	/* curl knows of Authorization and Cookie alone */
	t->has_left = true;
	for (const struct curl_slist *h = t->headers; h; h = h->next)
		if (!is_secret(t, h->data))
			add_line(&t->public_headers, h->data);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->public_headers);
}

/* Each response of a redirect chain starts with its status line. */
static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	static const char location[] = "location:";
	enum { LOCATION_LEN = sizeof(location) - 1 };
	struct http_transfer *t = arg;

	t->response.stage = HTTP_STAGE_BODY;
	if (size * n >= 5 && !memcmp(p, "HTTP/", 5)) {
		headers_free(&t->response);
		t->cap_headers = 0;
	} else if (t->piece && (*p == '\r' || *p == '\n') && is_ok(t)) {
		t->refused = t->piece(p, 0, t->arg);
		return t->refused < 0 ? 0 : size * n;
	} else {
		add_header(t, p, size * n);
		if (size * n > LOCATION_LEN && !strncasecmp(p, location, LOCATION_LEN))
			follow(t, p + LOCATION_LEN, size * n - LOCATION_LEN);
	}
	return size * n;
}

static int on_connected(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
	struct http_transfer *t = arg;

	(void)remote_ip, (void)local_ip, (void)remote_port, (void)local_port;
	t->response.stage = HTTP_STAGE_WAIT;
	return CURL_PREREQFUNC_OK;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct dialer *d = arg;
	int fd = d->connect(d, &a->addr, a->addrlen);

	(void)purpose;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_sockopt(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg, (void)fd, (void)purpose;
	return CURL_SOCKOPT_ALREADY_CONNECTED;
}

/* ---- options ---- */

void http_transfer_add_pair(struct curl_slist **list, const char *name, const char *value)
{
	_cleanup_free_ char *line =
		*value ? xasprintf("%s: %s", name, value) : xasprintf("%s;", name);

	add_line(list, line);
}

/* The content of a secret file without surrounding space. */
static int read_secret(const char *path, char **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes b = {0};
	int r;

	bytes_init(&b, NULL, 0);
	r = fs_read_file(&fs_system, path, SECRET_FILE_MAX, &b, eb);
	if (r < 0)
		return r;
	*ret = trimmed(b.len ? (const char *)b.data : "", b.len);
	return 0;
}

/* `value`, or the content of `file`; *ret is NULL when neither is set. */
static int resolve_secret(const char *value, const char *file, char **ret, struct errbuf *eb)
{
	if (file)
		return read_secret(file, ret, eb);
	*ret = value ? xstrdup(value) : NULL;
	return 0;
}

static void free_secret(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
}

static int set_credentials(
	struct http_transfer *t, const struct http_transport *tr, struct errbuf *eb)
{
	_cleanup_(free_secret)
	char *user = NULL, *password = NULL, *token = NULL, *value = NULL;
	int r = resolve_secret(tr->basic_username, tr->basic_username_file, &user, eb);

	if (r == 0)
		r = resolve_secret(tr->basic_password, tr->basic_password_file, &password, eb);
	if (r == 0)
		r = resolve_secret(tr->auth_credentials, tr->auth_credentials_file, &token, eb);
	if (r < 0)
		return r;
	if (user || password) {
		curl_easy_setopt(t->easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl_easy_setopt(t->easy, CURLOPT_USERNAME, user ? user : "");
		curl_easy_setopt(t->easy, CURLOPT_PASSWORD, password ? password : "");
	} else if (token) {
		value = xasprintf("%s %s", tr->auth_type ? tr->auth_type : "Bearer", token);
		http_transfer_add_pair(&t->headers, "Authorization", value);
	}
	return 0;
}

static int set_own_headers(
	struct http_transfer *t, const struct http_transport *tr, struct errbuf *eb)
{
	for (size_t i = 0; i < tr->n_headers; i++) {
		_cleanup_(free_secret)
		char *value = NULL;
		int r = resolve_secret(tr->headers[i].value, tr->headers[i].value_file, &value, eb);

		if (r < 0)
			return r;
		http_transfer_add_pair(&t->headers, tr->headers[i].name, value ? value : "");
		if (tr->headers[i].is_secret || tr->headers[i].value_file) {
			t->own_headers = tr->headers;
			t->n_own_headers = tr->n_headers;
		}
	}
	return 0;
}

void http_transfer_add_header(struct http_transfer *t, const char *line)
{
	add_line(&t->headers, line);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static int set_token(struct http_transfer *t, const struct http_oauth2 *o, struct errbuf *eb)
{
	_cleanup_(free_secret)
	char *secret = NULL;
	int r = resolve_secret(o->client_secret, o->client_secret_file, &secret, eb);

	return r < 0 ? r : http_token_get(t, o, secret, eb);
}

static void set_blob(CURL *easy, CURLoption option, const char *text)
{
	struct curl_blob blob = {
		.data = (void *)(uintptr_t)text, .len = strlen(text), .flags = CURL_BLOB_COPY};

	curl_easy_setopt(easy, option, &blob);
}

static long tls_version(int v, bool is_max)
{
	static const long min[] = {CURL_SSLVERSION_TLSv1_0, CURL_SSLVERSION_TLSv1_1,
		CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_3};
	static const long max[] = {CURL_SSLVERSION_MAX_TLSv1_0, CURL_SSLVERSION_MAX_TLSv1_1,
		CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3};

	if (v < 10 || v > 13)
		return is_max ? CURL_SSLVERSION_MAX_DEFAULT : CURL_SSLVERSION_TLSv1_2;
	return is_max ? max[v - 10] : min[v - 10];
}

static void set_tls(struct http_transfer *t, const struct http_client_tls *tls)
{
	CURL *e = t->easy;

	if (tls->ca)
		set_blob(e, CURLOPT_CAINFO_BLOB, tls->ca);
	if (tls->ca_file)
		curl_easy_setopt(e, CURLOPT_CAINFO, tls->ca_file);
	if (tls->cert)
		set_blob(e, CURLOPT_SSLCERT_BLOB, tls->cert);
	if (tls->cert_file)
		curl_easy_setopt(e, CURLOPT_SSLCERT, tls->cert_file);
	if (tls->key)
		set_blob(e, CURLOPT_SSLKEY_BLOB, tls->key);
	if (tls->key_file)
		curl_easy_setopt(e, CURLOPT_SSLKEY, tls->key_file);
	/* A file may change: curl would keep the authorities for a day and a connection for ever. */
	if (tls->ca_file)
		curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	if (tls->ca_file || tls->cert_file) {
		curl_easy_setopt(e, CURLOPT_MAXLIFETIME_CONN, (long)TLS_FILES_LIFETIME_S);
		/* a session that is resumed has the identities of the connection before */
		curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	}
	if (tls->insecure_skip_verify) {
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	curl_easy_setopt(e, CURLOPT_SSLVERSION,
		tls_version(tls->min_version, false) | tls_version(tls->max_version, true));
}

/* Name checks and SNI follow the URL, so another server name becomes the URL's host and the connection is sent to the real one. */
static void set_server_name(struct http_transfer *t, const struct url *u, const char *name)
{
	_cleanup_free_ char *to = xasprintf(strchr(u->host, ':') ? "%s:%u:[%s]:%u" : "%s:%u:%s:%u",
		name, u->port, u->host, u->port);
	_cleanup_free_ char *host =
		xasprintf(strchr(u->host, ':') ? "[%s]:%u" : "%s:%u", u->host, u->port);
	_cleanup_free_ char *url = xasprintf("https://%s:%u%s%s%s", name, u->port, u->path,
		u->query ? "?" : "", u->query ? u->query : "");

	add_line(&t->connect_to, to);
	curl_easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
	curl_easy_setopt(t->easy, CURLOPT_URL, url);
	http_transfer_add_pair(&t->headers, "Host", host);
}

static int set_transport(struct http_transfer *t, const struct http_transport *tr,
	const struct url *u, struct errbuf *eb)
{
	CURL *e = t->easy;
	int r = set_credentials(t, tr, eb);

	if (r == 0)
		r = set_own_headers(t, tr, eb);
	if (r < 0)
		return r;
	set_tls(t, &tr->tls);
	if (tr->tls.server_name && !strcmp(u->scheme, "https"))
		set_server_name(t, u, tr->tls.server_name);
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, tr->follow_redirects ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
		tr->enable_http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1);
	return http_proxy_set(t, tr, u, eb);
}

static int set_dialer(
	struct http_transfer *t, struct dialer *d, const struct url *u, struct errbuf *eb)
{
	char addresses[DIAL_TEXT_MAX] = "";
	_cleanup_free_ char *line = NULL;
	int r;

	if (d->connect) {
		curl_easy_setopt(t->easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
		curl_easy_setopt(t->easy, CURLOPT_OPENSOCKETDATA, d);
		curl_easy_setopt(t->easy, CURLOPT_SOCKOPTFUNCTION, on_sockopt);
	}
	if (!d->resolve)
		return 0;
	r = d->resolve(d, u->host, addresses, eb);
	if (r < 0)
		return r;
	line = xasprintf("%s:%u:%s", u->host, u->port, addresses);
	add_line(&t->resolve, line);
	curl_easy_setopt(t->easy, CURLOPT_RESOLVE, t->resolve);
	return 0;
}

static void set_method(struct http_transfer *t, const struct http_fetch *f)
{
	if (!f->method || !strcmp(f->method, "GET"))
		return;
	if (f->body || !strcmp(f->method, "POST")) {
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->n_body);
		curl_easy_setopt(t->easy, CURLOPT_COPYPOSTFIELDS, f->body ? f->body : "");
		/* curl would sign the line although it stands for a header that is not sent */
		if (!f->signature)
			add_line(&t->headers, "Expect:");
	}
	if (!strcmp(f->method, "HEAD"))
		curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, f->method);
}

static void set_signature(struct http_transfer *t, const struct http_signature *s)
{
	curl_easy_setopt(t->easy, CURLOPT_AWS_SIGV4, s->scope);
	curl_easy_setopt(t->easy, CURLOPT_USERNAME, s->access_key);
	curl_easy_setopt(t->easy, CURLOPT_PASSWORD, s->secret_key);
}

static void set_callbacks(struct http_transfer *t)
{
	CURL *e = t->easy;

	curl_easy_setopt(e, CURLOPT_PRIVATE, t);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->curl_error);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
}

static int set_options(struct http_transfer *t, const struct http_fetch *f, struct errbuf *eb)
{
	static const struct http_transport plain = {.follow_redirects = true};
	_cleanup_url_ struct url u = {0};
	CURL *e = t->easy;
	int r = url_parse(f->url, &u, eb);

	if (r < 0)
		return r;
	t->host = xstrdup(u.host);
	t->shard = http_shard_get(t->client, f->unix_socket ? f->unix_socket : u.host, u.port);
	set_callbacks(t);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_URL, f->url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
	curl_easy_setopt(e, CURLOPT_USERAGENT, t->client->user_agent);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)f->timeout_ms);
	curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)t->client->idle_timeout_s);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	/* a cached name would be looked at, with all others, at each new connection; kept ones are the better cache */
	curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
	if (f->max_body_bytes && !f->piece)
		curl_easy_setopt(e, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)f->max_body_bytes);
	t->is_unix = f->unix_socket;
	if (f->unix_socket)
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket);
	http_transfer_add_pair(
		&t->headers, "Accept-Encoding", f->accept_gzip ? "gzip" : "identity");
	for (const char *const *h = f->headers; h && *h; h++)
		add_line(&t->headers, *h);
	set_method(t, f);
	r = set_transport(t, f->transport ? f->transport : &plain, &u, eb);
	if (r == 0 && f->signature)
		set_signature(t, f->signature);
	if (r == 0)
		r = set_dialer(t, t->client->dialer, &u, eb);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
	if (r == 0 && f->transport && f->transport->oauth2)
		r = set_token(t, f->transport->oauth2, eb);
	return r;
}

int http_transfer_new(struct http_client *c, const struct http_fetch *f, struct http_transfer **ret,
	struct errbuf *eb)
{
	_cleanup_(http_transfer_freep)
	struct http_transfer *t = xcalloc(1, sizeof(*t));
	int r;

	t->client = c;
	t->done = f->done;
	t->arg = f->arg;
	t->max_body_bytes = f->max_body_bytes;
	t->body_fd = f->body_fd ? *f->body_fd : -1;
	t->piece = f->piece;
	t->timeout_ms = f->timeout_ms;
	t->start_ns = clock_monotonic_ns(&clock_system);
	bytes_init(&t->response.body, f->budget, f->max_body_bytes);
	t->easy = take_handle(c);
	r = set_options(t, f, eb);
	if (r < 0)
		return r;
	*ret = TAKE(t);
	return 0;
}

/* ---- the end ---- */

static int error_of(CURLcode code)
{
	switch (code) {
	case CURLE_OK: return 0;
	case CURLE_OPERATION_TIMEDOUT: return -ETIMEDOUT;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY: return -EHOSTUNREACH;
	case CURLE_COULDNT_CONNECT: return -ECONNREFUSED;
	case CURLE_FILESIZE_EXCEEDED: return -EFBIG;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL: return -EINVAL;
	case CURLE_OUT_OF_MEMORY: return -ENOMEM;
	default: return -EPROTO;
	}
}

static int timeout_text(struct http_transfer *t)
{
	static const char *const doing[] = {
		[HTTP_STAGE_CONNECT] = "connecting",
		[HTTP_STAGE_WAIT] = "waiting for the answer",
		[HTTP_STAGE_BODY] = "reading the answer",
	};
	char text[64];

	str_format_duration_ms(t->timeout_ms, text);
	return err_set(&t->response.text, -ETIMEDOUT,
		"timed out after %s while %s (%zu bytes so far)", text, doing[t->response.stage],
		t->response.body.len);
}

/* libcurl would name the host of the URL, which nobody wrote. */
static int socket_text(struct http_transfer *t, int error)
{
	long os_error = 0;

	curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_error);
	return err_set(&t->response.text, error, "cannot connect to the Unix socket%s%s",
		os_error ? ": " : "", os_error ? strerror((int)os_error) : "");
}

void http_transfer_finish(struct http_transfer *t, CURLcode code)
{
	struct http_response *r = &t->response;
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	r->status = (unsigned)status;
	r->duration_ns = clock_monotonic_ns(&clock_system) - t->start_ns;
	r->error = t->refused < 0 ? t->refused : error_of(code);
	if (r->error == -ETIMEDOUT)
		timeout_text(t);
	else if (r->error == -EFBIG)
		err_set(&r->text, r->error, "body larger than %zu bytes as sent",
			t->max_body_bytes);
	else if (r->error == -ENOMEM)
		err_set(&r->text, r->error,
			"no memory left in the budget for the body (%zu bytes so far)",
			r->body.len);
	else if (code == CURLE_COULDNT_CONNECT && t->is_unix)
		socket_text(t, r->error);
	else if (r->error < 0)
		err_set(&r->text, r->error, "%s",
			t->curl_error[0] ? t->curl_error : curl_easy_strerror(code));
}
