/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are sections, `key = value` or comments; a line that begins with white space continues a value of a nested kind, none of which
 * is needed here.
 */
#include "scraper/discover/aws_profile.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include <stddef.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };

static const struct {
	const char *name;
	size_t off;
} keys[] = {
	{"aws_access_key_id", offsetof(struct aws_profile, access_key)},
	{"aws_secret_access_key", offsetof(struct aws_profile, secret_key)},
	{"aws_session_token", offsetof(struct aws_profile, session)},
	{"region", offsetof(struct aws_profile, region)},
	{"role_arn", offsetof(struct aws_profile, role_arn)},
	{"external_id", offsetof(struct aws_profile, external_id)},
	{"role_session_name", offsetof(struct aws_profile, role_session_name)},
	{"mfa_serial", offsetof(struct aws_profile, mfa_serial)},
	{"source_profile", offsetof(struct aws_profile, source_profile)},
	{"credential_source", offsetof(struct aws_profile, credential_source)},
	{"web_identity_token_file", offsetof(struct aws_profile, web_identity_token_file)},
	{"sso_session", offsetof(struct aws_profile, sso_session)},
	{"sso_start_url", offsetof(struct aws_profile, sso_start_url)},
	{"sso_region", offsetof(struct aws_profile, sso_region)},
	{"sso_account_id", offsetof(struct aws_profile, sso_account_id)},
	{"sso_role_name", offsetof(struct aws_profile, sso_role_name)},
	{"credential_process", offsetof(struct aws_profile, credential_process)},
};

static char **member(struct aws_profile *p, size_t key)
{
	return (char **)(void *)((char *)p + keys[key].off);
}

void aws_profile_done(struct aws_profile *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		free(*member(p, i));
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
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (is_text(key, keys[i].name))
			take(member(ret, i), value);
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

static int load_sso_session(struct fs *fs, struct aws_profile *ret, struct errbuf *eb)
{
	_cleanup_free_ char *section = xasprintf("sso-session %s", ret->sso_session);
	_cleanup_aws_profile_ struct aws_profile session = {};
	int r = load_file(fs, "AWS_CONFIG_FILE", "config", section, &session, eb);

	if (r < 0)
		return r;
	if (!r)
		return err_set(eb, -ENOENT, "there is no [sso-session %.100s] in ~/.aws/config",
			ret->sso_session);
	if (!ret->sso_start_url)
		ret->sso_start_url = TAKE(session.sso_start_url);
	if (!ret->sso_region)
		ret->sso_region = TAKE(session.sso_region);
	return 0;
}

int aws_profile_load(struct fs *fs, const char *name, struct aws_profile *ret, struct errbuf *eb)
{
	_cleanup_free_ char *section =
		strcmp(name, "default") ? xasprintf("profile %s", name) : xstrdup(name);
	int a, b, c = 0;

	*ret = (struct aws_profile) {};
	a = load_file(fs, "AWS_SHARED_CREDENTIALS_FILE", "credentials", name, ret, eb);
	b = a < 0 ? a : load_file(fs, "AWS_CONFIG_FILE", "config", section, ret, eb);
	if (b >= 0 && ret->sso_session)
		c = load_sso_session(fs, ret, eb);
	if (b < 0 || c < 0) {
		aws_profile_done(ret);
		return b < 0 ? b : c;
	}
	return a || b ? 0
		      : err_set(eb, -ENOENT,
				"there is no profile \"%.100s\" in ~/.aws/credentials or "
				"~/.aws/config",
				name);
}
