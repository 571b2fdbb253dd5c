/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of the server. libmicrohttpd starts each session with credentials of its own start; before the handshake they
 * are replaced by those of the web configuration in force, so certificates, client rules, versions and suites change
 * without a restart. A client that speaks plain HTTP gets an answer that says so, as from Go's servers.
 */
#include "lib/net/server/tls.h"
#include "lib/base/alloc.h"
#include "lib/net/web/config.h"
#include "lib/net/web/tls.h"
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

enum {
	MAX_SAN_BYTES = 512,
	RECORD_HEADER_BYTES = 5, /* of TLS: as much of a request is looked at */
	DRAIN_BYTES = 16 << 10,
};

struct http_tls {
	const struct web_config *config;
	struct web_tls tls;
};

/* Whether one of the certificate's alternative names is in the list. */
static bool has_allowed_san(gnutls_x509_crt_t cert, const struct web_config *c)
{
	for (unsigned seq = 0;; seq++) {
		char name[MAX_SAN_BYTES], text[INET6_ADDRSTRLEN];
		size_t size = sizeof(name) - 1;
		unsigned critical;
		int kind = gnutls_x509_crt_get_subject_alt_name(cert, seq, name, &size, &critical);

		if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			return false;
		if (kind < 0)
			continue; /* too long to be listed, or of a kind without text */
		name[size] = '\0';
		if (kind == GNUTLS_SAN_IPADDRESS) {
			if ((size != 4 && size != 16) || !inet_ntop(size == 4 ? AF_INET : AF_INET6,
								 name, text, sizeof(text)))
				continue;
			snprintf(name, sizeof(name), "%s", text);
		} else if ((kind != GNUTLS_SAN_DNSNAME && kind != GNUTLS_SAN_URI &&
				   kind != GNUTLS_SAN_RFC822NAME) ||
			   strlen(name) != size) {
			continue; /* "good.example\0.bad" is another name than its beginning */
		}
		for (size_t i = 0; i < c->n_client_sans; i++)
			if (!strcmp(c->client_sans[i], name))
				return true;
	}
}

static bool client_is_allowed(gnutls_session_t session, const struct web_config *c)
{
	unsigned n = 0;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);
	gnutls_x509_crt_t cert;
	bool ok;

	if (!c->n_client_sans)
		return true;
	if (!chain || !n || gnutls_x509_crt_init(&cert) < 0)
		return false;
	ok = gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) >= 0 &&
	     has_allowed_san(cert, c);
	gnutls_x509_crt_deinit(cert);
	return ok;
}

/* libmicrohttpd just closes: the client would not learn why. */
static int refuse_client(gnutls_session_t session, gnutls_alert_description_t why)
{
	(void)gnutls_alert_send(session, GNUTLS_AL_FATAL, why);
	return GNUTLS_E_CERTIFICATE_ERROR;
}

/* GnuTLS asks at the end of the handshake; anything but 0 ends the connection. */
static int verify_client(gnutls_session_t session)
{
	const struct http_tls *t = gnutls_db_get_ptr(session);
	enum web_client_auth auth = t->config->client_auth;
	unsigned n = 0, status = 0;

	if (!gnutls_certificate_get_peers(session, &n) || !n) {
		if (auth != WEB_CLIENT_REQUIRE_ANY && auth != WEB_CLIENT_REQUIRE_VERIFY)
			return 0;
		return refuse_client(session, gnutls_protocol_get_version(session) >= GNUTLS_TLS1_3
						      ? GNUTLS_A_CERTIFICATE_REQUIRED
						      : GNUTLS_A_BAD_CERTIFICATE);
	}
	if (auth < WEB_CLIENT_VERIFY_GIVEN)
		return 0;
	if (gnutls_certificate_verify_peers2(session, &status) < 0)
		return refuse_client(session, GNUTLS_A_BAD_CERTIFICATE);
	if (status)
		return refuse_client(session, status & GNUTLS_CERT_SIGNER_NOT_FOUND
						      ? GNUTLS_A_UNKNOWN_CA
						      : GNUTLS_A_BAD_CERTIFICATE);
	return client_is_allowed(session, t->config)
		       ? 0
		       : refuse_client(session, GNUTLS_A_BAD_CERTIFICATE);
}

int http_tls_new(const struct web_config *c, struct http_tls **ret, struct errbuf *eb)
{
	_cleanup_(http_tls_freep)
	struct http_tls *t = xcalloc(1, sizeof(*t));
	int r = web_tls_init(&t->tls, c, eb);

	if (r < 0)
		return r;
	t->config = c;
	gnutls_certificate_set_verify_function(t->tls.credentials, verify_client);
	*ret = TAKE(t);
	return 0;
}

void http_tls_freep(struct http_tls **tp)
{
	struct http_tls *t = *tp;

	if (!t)
		return;
	web_tls_done(&t->tls);
	free(t);
	*tp = NULL;
}

/* How much of these bytes begins a request of plain HTTP (those that net/http of Go knows): all of them, or none. */
static bool begins_http(const char *bytes, size_t n)
{
	static const char methods[][RECORD_HEADER_BYTES + 1] = {
		"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (!memcmp(bytes, methods[i], n))
			return true;
	return false;
}

/* What has come is read first: a socket closed with bytes unread is reset, and the client may lose the answer. */
static void answer_http(int fd)
{
	static const char answer[] =
		"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
	char rest[DRAIN_BYTES];

	(void)!recv(fd, rest, sizeof(rest), MSG_DONTWAIT);
	(void)!send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
}

/* GnuTLS reads here. Until a whole header of a record is there, it may be a request without TLS: then the session ends. */
static ssize_t pull(gnutls_transport_ptr_t ptr, void *ret, size_t n)
{
	struct http_conn *c = ptr;
	char head[RECORD_HEADER_BYTES];
	ssize_t len;

	if (c->is_tls)
		return recv(c->fd, ret, n, 0);
	len = recv(c->fd, head, sizeof(head), MSG_PEEK);
	if (len <= 0)
		return len;
	if (!begins_http(head, (size_t)len)) {
		c->is_tls = true;
		return recv(c->fd, ret, n, 0);
	}
	if (len < (ssize_t)sizeof(head)) {
		errno = EAGAIN;
		return -1;
	}
	answer_http(c->fd);
	return 0;
}

void http_tls_begin(struct http_tls *t, struct MHD_Connection *mhd, struct http_conn *c)
{
	static const gnutls_certificate_request_t requests[] = {
		[WEB_CLIENT_NONE] = GNUTLS_CERT_IGNORE,
		[WEB_CLIENT_REQUEST] = GNUTLS_CERT_REQUEST,
		[WEB_CLIENT_REQUIRE_ANY] = GNUTLS_CERT_REQUEST,
		[WEB_CLIENT_VERIFY_GIVEN] = GNUTLS_CERT_REQUEST,
		[WEB_CLIENT_REQUIRE_VERIFY] = GNUTLS_CERT_REQUEST,
	};
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = info->tls_session;
	gnutls_transport_ptr_t unused, send_ptr;

	gnutls_credentials_clear(session);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->tls.credentials);
	gnutls_priority_set(session, t->tls.priority);
	gnutls_certificate_server_set_request(session, requests[t->config->client_auth]);
	gnutls_db_set_ptr(session, t); /* sessions are not kept, so the place for that is free */
	gnutls_transport_get_ptr2(session, &unused, &send_ptr);
	gnutls_transport_set_ptr2(session, c, send_ptr);
	gnutls_transport_set_pull_function(session, pull);
}

/* libmicrohttpd wants a source of certificates at its start; no session is left to ask it. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int nreqs,
	const gnutls_pk_algorithm_t *pk_algos, int pk_algos_length, gnutls_pcert_st **pcert,
	unsigned int *pcert_length, gnutls_privkey_t *privkey)
{
	(void)session, (void)req_ca_dn, (void)nreqs, (void)pk_algos, (void)pk_algos_length;
	(void)pcert, (void)pcert_length, (void)privkey;
	return -1;
}

struct MHD_OptionItem http_tls_mhd_option(void)
{
	return (struct MHD_OptionItem) {
		MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)no_certificate};
}
