/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of --web.config.file: TLS, users, headers and rate of a server, in the form of Prometheus's
 * exporter-toolkit (docs/configuration.md, "Web configuration"). Reading it touches no server.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/fs.h"
#include <stdbool.h>
#include <stdint.h>

enum web_client_auth {
	WEB_CLIENT_NONE,	  /* no certificate is asked for */
	WEB_CLIENT_REQUEST,	  /* asked for, not needed, not verified */
	WEB_CLIENT_REQUIRE_ANY,	  /* needed, not verified */
	WEB_CLIENT_VERIFY_GIVEN,  /* verified when there is one */
	WEB_CLIENT_REQUIRE_VERIFY /* needed and verified */
};

enum { WEB_MAX_FILES = 4, WEB_MAX_HEADERS = 5 };

struct web_pair {
	const char *name, *value;
};

/* One file that the configuration was read from, itself first. */
struct web_file {
	const char *path;
	struct fs_stat stat;
};

/* Strings live as long as it does. */
struct web_config {
	struct arena arena;
	struct web_file files[WEB_MAX_FILES];
	size_t n_files;

	bool has_tls;
	const char *cert_pem, *key_pem, *client_ca_pem; /* the CA may be NULL: the system's */
	enum web_client_auth client_auth;
	const char **client_sans; /* one of them must be in the client's certificate; none: any */
	size_t n_client_sans;
	const char *priority; /* protocol versions, suites and curves as GnuTLS takes them */

	struct web_pair headers[WEB_MAX_HEADERS];
	size_t n_headers;
	struct web_pair *users; /* value: a bcrypt hash */
	size_t n_users;
	int64_t rate_interval_ns; /* one request each; 0: no limit */
	uint64_t rate_burst;
};

/* -EINVAL "FILE:LINE:COL: key: …", -ENOENT and other errors of files, by name. Paths in it are relative to
 * its folder. *ret is freed with web_config_freep. */
int web_config_load(
	struct fs *fs, const char *path, struct web_config **ret, struct errbuf *eb) _must_check_;
/* Whether a server would start with this web configuration: syntax, files, certificate and key. 0, or the errors of web_config_load and
 * web_tls_init. */
int web_config_check(const char *path, struct errbuf *eb) _must_check_;
void web_config_freep(struct web_config **c);
/* True when one of its files is gone, or is another one than when it was read: by device, inode, size and time. */
bool web_config_is_stale(struct fs *fs, const struct web_config *c);
