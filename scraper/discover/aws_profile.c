/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are sections, `key = value` or comments; a line that begins with white space continues a value of a nested kind, none of which
 * is needed here.
 */
#include "scraper/discover/aws_profile.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };

void aws_profile_done(struct aws_profile *p)
{
	free(p->access_key);
	free(p->secret_key);
	free(p->session);
	free(p->region);
	*p = (struct aws_profile) {};
}

struct span {
	const char *p;
	size_t n;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(const char *p, size_t n)
{
	while (n && is_space(*p))
		p++, n--;
	while (n && is_space(p[n - 1]))
		n--;
	return (struct span) {p, n};
}

static bool is_text(struct span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static void take(char **to, struct span value)
{
	if (!*to && value.n && !memchr(value.p, 0, value.n))
		*to = xstrndup(value.p, value.n);
}

static void read_line(const char *line, size_t n, struct aws_profile *ret)
{
	const char *equals = memchr(line, '=', n);
	struct span key, value;

	if (!equals || !n || is_space(*line))
		return;
	key = trim(line, (size_t)(equals - line));
	value = trim(equals + 1, n - (size_t)(equals + 1 - line));
	if (is_text(key, "aws_access_key_id"))
		take(&ret->access_key, value);
	else if (is_text(key, "aws_secret_access_key"))
		take(&ret->secret_key, value);
	else if (is_text(key, "aws_session_token"))
		take(&ret->session, value);
	else if (is_text(key, "region"))
		take(&ret->region, value);
}

bool aws_profile_read(const char *text, size_t n, const char *section, struct aws_profile *ret)
{
	const char *end = text + n;
	bool inside = false, found = false;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((newline ? newline : end) - text);
		const char *close = *text == '[' ? memchr(text, ']', len) : NULL;

		if (close) {
			inside = is_text(trim(text + 1, (size_t)(close - text - 1)), section);
			found |= inside;
		} else if (inside && *text != '#' && *text != ';') {
			read_line(text, len, ret);
		}
		text += len + 1;
	}
	return found;
}

/* 1: the section is there, 0: it is not, or the file is not. */
static int load_file(struct fs *fs, const char *variable, const char *name, const char *section,
	struct aws_profile *ret, struct errbuf *eb)
{
	const char *path = getenv(variable), *home = getenv("HOME");
	_cleanup_free_ char *own = NULL;
	_cleanup_bytes_ struct bytes text = {};
	int r;

	if (!path || !*path) {
		if (!home)
			return 0;
		path = own = xasprintf("%s/.aws/%s", home, name);
	}
	r = fs_read_file(fs, path, MAX_FILE_BYTES, &text, eb);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return r;
	return text.len && aws_profile_read((const char *)text.data, text.len, section, ret);
}

int aws_profile_load(struct fs *fs, const char *name, struct aws_profile *ret, struct errbuf *eb)
{
	_cleanup_free_ char *section =
		strcmp(name, "default") ? xasprintf("profile %s", name) : xstrdup(name);
	int a, b;

	*ret = (struct aws_profile) {};
	a = load_file(fs, "AWS_SHARED_CREDENTIALS_FILE", "credentials", name, ret, eb);
	b = a < 0 ? a : load_file(fs, "AWS_CONFIG_FILE", "config", section, ret, eb);
	if (b < 0) {
		aws_profile_done(ret);
		return b;
	}
	return a || b ? 0
		      : err_set(eb, -ENOENT,
				"there is no profile \"%.100s\" in ~/.aws/credentials or "
				"~/.aws/config",
				name);
}
