/* SPDX-License-Identifier: Apache-2.0
 *
 * How requests are made: the keys that scrape jobs and HTTP-based discoveries share (credentials, TLS,
 * proxies, headers), and the transport that they come to.
 */
#pragma once
#include "lib/net/client/client.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stddef.h>

struct config_strings {
	const char **items;
	size_t n;
};

/* A name with its values: query parameters, headers for proxies. */
struct config_param {
	const char *name;
	struct config_strings values;
};

struct config_basic_auth {
	bool is_written;
	const char *username, *username_file, *password, *password_file;
};
struct config_authorization {
	bool is_written;
	const char *type, *credentials, *credentials_file;
};
struct config_tls {
	bool is_written;
	const char *ca, *ca_file, *cert, *cert_file, *key, *key_file, *server_name;
	bool insecure_skip_verify;
	int min_version, max_version; /* 0: unset, else 1 … 4 for TLS10 … TLS13 */
};
struct config_proxy {
	const char *url, *no_proxy;
	bool from_environment;
	struct config_param *connect_headers;
	size_t n_connect_headers;
};
struct config_oauth2 {
	bool is_written;
	const char *client_id, *client_secret, *client_secret_file, *token_url, *grant_type;
	struct config_strings scopes;
	struct labels endpoint_params;
	struct config_tls tls;
	struct config_proxy proxy;
};
struct config_http_header {
	const char *name;
	struct config_strings values, secrets, files;
};

struct config_http {
	struct config_basic_auth basic_auth;
	struct config_authorization authorization;
	const char *bearer_token, *bearer_token_file;
	struct config_oauth2 oauth2;
	struct config_tls tls;
	struct config_proxy proxy;
	bool follow_redirects, enable_http2;
	struct config_http_header *headers;
	size_t n_headers;
	/* All of it, ready for use; points into the configuration. */
	struct http_transport transport;
};
