/* SPDX-License-Identifier: Apache-2.0
 *
 * What GnuTLS makes of the TLS of a web configuration.
 */
#pragma once
#include "lib/base/err.h"
#include <gnutls/gnutls.h>

struct web_config;
struct web_tls {
	gnutls_certificate_credentials_t credentials;
	gnutls_priority_t priority;
};

/* -EINVAL: certificate, key, authorities, versions or suites cannot be used; the text names the file. -ELIBACC: GnuTLS
 * is not installed. `t` needs web_tls_done in any case. */
int web_tls_init(struct web_tls *t, const struct web_config *c, struct errbuf *eb) _must_check_;
void web_tls_done(struct web_tls *t);
