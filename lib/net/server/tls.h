/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of connections: the credentials of a web configuration, made once and given to each session of libmicrohttpd.
 */
#pragma once
#include "lib/net/server/impl.h"

struct http_tls;
struct web_config;
/* Errors of web_tls_init. `c` must outlive it. */
int http_tls_new(const struct web_config *c, struct http_tls **ret, struct errbuf *eb) _must_check_;
void http_tls_freep(struct http_tls **t);
/* Gives the connection's session, which has not begun, its credentials. `t` must outlive it, `c` its reads. */
void http_tls_begin(struct http_tls *t, struct MHD_Connection *mhd, struct http_conn *c);
/* For libmicrohttpd's start, which needs a source of certificates. */
struct MHD_OptionItem http_tls_mhd_option(void);
