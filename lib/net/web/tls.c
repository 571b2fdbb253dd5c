/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates, keys, authorities, versions and suites, given to GnuTLS as a web configuration says. Servers have GnuTLS
 * anyway, with libmicrohttpd; what only checks a file loads it when that has to be tried.
 */
#include "lib/net/web/tls.h"
#include "lib/base/library.h"
#include "lib/net/web/config.h"
#include <string.h>

#define FUNCTIONS(X)                                \
	X(gnutls_certificate_allocate_credentials)  \
	X(gnutls_certificate_free_credentials)      \
	X(gnutls_certificate_set_x509_key_mem2)     \
	X(gnutls_certificate_set_x509_trust_mem)    \
	X(gnutls_certificate_set_x509_system_trust) \
	X(gnutls_priority_deinit)                   \
	X(gnutls_priority_init)                     \
	X(gnutls_strerror)

static const char *const names[] = {FUNCTIONS(LIBRARY_NAME)};
static struct {
	FUNCTIONS(LIBRARY_POINTER)
} tls;
_Static_assert(sizeof(tls) == ARRAY_SIZE(names) * sizeof(void *), "one pointer for each name");

static struct library library = {
	.soname = "libgnutls.so.30",
	.package = "libgnutls30",
	.names = names,
	.n_names = ARRAY_SIZE(names),
	.functions = &tls,
};

static gnutls_datum_t datum(const char *text)
{
	return (gnutls_datum_t) {
		.data = (unsigned char *)(uintptr_t)text, .size = (unsigned)strlen(text)};
}

static int set_certificate(struct web_tls *t, const struct web_config *c, struct errbuf *eb)
{
	const gnutls_datum_t cert = datum(c->cert_pem), key = datum(c->key_pem);
	int r = tls.gnutls_certificate_set_x509_key_mem2(
		t->credentials, &cert, &key, GNUTLS_X509_FMT_PEM, NULL, 0);

	if (r < 0)
		return err_set(eb, -EINVAL,
			"%s: tls_server_config: certificate and key cannot be used: %s",
			c->files[0].path, tls.gnutls_strerror(r));
	return 0;
}

/* Those of client_ca; without it who verifies trusts the system's, as Go does. */
static int set_authorities(struct web_tls *t, const struct web_config *c, struct errbuf *eb)
{
	gnutls_datum_t ca;
	int r;

	if (!c->client_ca_pem && c->client_auth < WEB_CLIENT_VERIFY_GIVEN)
		return 0;
	if (!c->client_ca_pem) {
		r = tls.gnutls_certificate_set_x509_system_trust(t->credentials);
		return r >= 0 ? 0
			      : err_set(eb, -EINVAL,
					"%s: tls_server_config.client_auth_type: the system's "
					"certificates cannot be read: %s; expected client_ca_file",
					c->files[0].path, tls.gnutls_strerror(r));
	}
	ca = datum(c->client_ca_pem);
	r = tls.gnutls_certificate_set_x509_trust_mem(t->credentials, &ca, GNUTLS_X509_FMT_PEM);
	if (r <= 0)
		return err_set(eb, -EINVAL,
			"%s: tls_server_config.client_ca_file: no certificate could be read: %s",
			c->files[0].path, r < 0 ? tls.gnutls_strerror(r) : "the file has none");
	return 0;
}

static int set_priority(struct web_tls *t, const struct web_config *c, struct errbuf *eb)
{
	const char *bad = NULL;
	int r = tls.gnutls_priority_init(&t->priority, c->priority, &bad);

	if (r < 0)
		return err_set(eb, -EINVAL,
			"%s: tls_server_config: GnuTLS refuses the versions and suites: %s",
			c->files[0].path, bad ? bad : tls.gnutls_strerror(r));
	return 0;
}

int web_tls_init(struct web_tls *t, const struct web_config *c, struct errbuf *eb)
{
	int r = library_load(&library, eb), error;

	*t = (struct web_tls) {0};
	if (r < 0)
		return r;
	error = tls.gnutls_certificate_allocate_credentials(&t->credentials);
	if (error < 0)
		return err_set(eb, -ENOMEM, "TLS: %s", tls.gnutls_strerror(error));
	r = set_certificate(t, c, eb);
	if (r == 0)
		r = set_authorities(t, c, eb);
	return r < 0 ? r : set_priority(t, c, eb);
}

void web_tls_done(struct web_tls *t)
{
	if (t->credentials)
		tls.gnutls_certificate_free_credentials(t->credentials);
	if (t->priority)
		tls.gnutls_priority_deinit(t->priority);
	*t = (struct web_tls) {0};
}

int web_config_check(const char *path, struct errbuf *eb)
{
	_cleanup_(web_config_freep)
	struct web_config *c = NULL;
	_cleanup_(web_tls_done)
	struct web_tls t = {0};
	int r = web_config_load(&fs_system, path, &c, eb);

	return r == 0 && c->has_tls ? web_tls_init(&t, c, eb) : r;
}
