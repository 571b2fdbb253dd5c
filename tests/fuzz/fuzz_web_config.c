/* SPDX-License-Identifier: Apache-2.0
 *
 * Web configurations: every file that one names has its own text. What loads keeps the promises that the server relies on.
 */
#include "lib/base/fs.h"
#include "lib/net/web/config.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct one_file {
	struct fs fs;
	const uint8_t *p;
	size_t n;
};

static int open_it(struct fs *fs, const char *path, int flags, mode_t mode)
{
	(void)fs;
	(void)flags;
	(void)mode;
	return strstr(path, "missing") ? -ENOENT : 3;
}

static int close_it(struct fs *fs, int fd)
{
	(void)fs;
	(void)fd;
	return 0;
}

static ssize_t pread_it(struct fs *fs, int fd, void *buf, size_t n, uint64_t off)
{
	const struct one_file *f = (const struct one_file *)fs;
	size_t len = off < f->n ? MIN(n, f->n - off) : 0;

	(void)fd;
	if (len)
		memcpy(buf, f->p + off, len);
	return (ssize_t)len;
}

static int fstat_it(struct fs *fs, int fd, struct fs_stat *ret)
{
	(void)fd;
	*ret = (struct fs_stat) {.size_bytes = ((struct one_file *)fs)->n};
	return 0;
}

static int stat_it(struct fs *fs, const char *path, struct fs_stat *ret)
{
	int r = open_it(fs, path, 0, 0);

	return r < 0 ? r : fstat_it(fs, r, ret);
}

static void check(struct fs *fs, const struct web_config *c)
{
	ASSERT(!c->has_tls || (c->cert_pem && c->key_pem && c->priority));
	ASSERT(c->client_auth <= WEB_CLIENT_REQUIRE_VERIFY);
	ASSERT(c->client_auth < WEB_CLIENT_VERIFY_GIVEN || c->client_ca_pem);
	ASSERT(!c->n_client_sans || c->client_auth == WEB_CLIENT_REQUIRE_VERIFY);
	ASSERT(c->n_headers <= WEB_MAX_HEADERS && c->n_files >= 1 && c->n_files <= WEB_MAX_FILES);
	ASSERT(c->rate_interval_ns >= 0 && (!c->rate_interval_ns || c->rate_burst));
	for (size_t i = 0; i < c->n_headers; i++)
		ASSERT(*c->headers[i].name && *c->headers[i].value);
	for (size_t i = 0; i < c->n_users; i++)
		ASSERT(c->users[i].name && strlen(c->users[i].value) == 60);
	ASSERT(!web_config_is_stale(fs, c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct one_file f = {.fs = {.open = open_it,
				     .close = close_it,
				     .pread = pread_it,
				     .fstat = fstat_it,
				     .stat = stat_it},
		.p = data,
		.n = size};
	struct web_config *c = NULL;
	struct errbuf eb = {0};

	if (web_config_load(&f.fs, "/etc/web.yml", &c, &eb) < 0)
		ASSERT(eb.text[0] && !c);
	else
		check(&f.fs, c);
	if (c)
		web_config_freep(&c);
	return 0;
}
