/* SPDX-License-Identifier: Apache-2.0
 *
 * Credentials that are given for a token: of a web identity (what EKS sets for a service account), of the agent of a container (ECS, EKS pod
 * identity), of a sign-on to IAM Identity Center. Formats: the STS API reference, AssumeRoleWithWebIdentity; docs.aws.amazon.com, "Container
 * credential provider" and "GetRoleCredentials".
 */
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/json/read.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/aws_impl.h"
#include "scraper/discover/aws_profile.h"
#include "scraper/discover/provider.h"
#include <arpa/inet.h>
#include <string.h>

#define CONTAINER_AGENT "http://169.254.170.2"
enum { MAX_TOKEN_BYTES = 64 << 10, SHA1_BYTES = 20 };

/* The text of a file without the line end that tools leave; -EINVAL: empty, or more than one line, which no token is. */
static int read_token(struct aws *a, const char *path, char **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text = {};
	int r = fs_read_file(a->p->fs, path, MAX_TOKEN_BYTES, &text, eb);
	size_t n = text.len;

	if (r < 0)
		return r;
	while (n && (text.data[n - 1] == '\n' || text.data[n - 1] == '\r'))
		n--;
	for (size_t i = 0; i < n; i++)
		if (text.data[i] < ' ' || text.data[i] >= 127)
			return err_set(eb, -EINVAL, "%s: a token is one line of ASCII", path);
	if (!n)
		return err_set(eb, -EINVAL, "%s: there is no token in it", path);
	*ret = xstrndup((const char *)text.data, n);
	return 0;
}

/* ---- web identity ---- */

static void on_web_identity(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = arg;

	(void)p;
	if (aws_take_sts(a, r, "web identity", "AssumeRoleWithWebIdentityResult.Credentials",
		    &a->levels[AWS_BASE]))
		aws_step_roles(a, AWS_PROFILE_ROLE);
}

static int ask_web_identity(struct aws *a, const char *token_file, const char *role_arn,
	const char *session_name, struct errbuf *eb)
{
	_cleanup_free_ char *token = NULL, *url = aws_sts_url(a);
	_cleanup_bytes_ struct bytes body = {};
	int r;

	if (!role_arn)
		return err_set(eb, -EINVAL, "AWS_ROLE_ARN is not set, expected the role's name");
	r = read_token(a, token_file, &token, eb);
	if (r < 0)
		return r;
	bytes_put_str(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
	aws_put_param(&body, "RoleArn", role_arn);
	aws_put_session_name(a, &body, session_name);
	aws_put_param(&body, "WebIdentityToken", token);
	if (bytes_error(&body) < 0)
		return err_set(eb, -ENOMEM, "no memory for a request");
	return discover_fetch(a->p,
		&(struct discover_request) {.url = url,
			.transport = &a->sd->http.transport,
			.timeout_ms = AWS_STS_TIMEOUT_MS,
			.body = body.data,
			.n_body = body.len,
			.done = on_web_identity,
			.arg = a},
		eb);
}

void aws_step_web_identity(
	struct aws *a, const char *token_file, const char *role_arn, const char *session_name)
{
	struct errbuf eb = {};
	int r = ask_web_identity(a, token_file, role_arn, session_name, &eb);

	if (r < 0)
		aws_failed(a, "web identity: %s", err_text(&eb, r));
}

/* ---- answers in JSON ---- */

/* NULL: it has failed, with the server's own words where it has some. */
static struct json_doc *read_answer(struct aws *a, const struct http_response *r, const char *what)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct errbuf eb = {};
	const char *why = aws_answer_error(r, &eb), *message;
	int e = r->error;

	if (e == 0)
		e = json_read(
			r->body.data, r->body.len, AWS_MAX_ANSWER_BYTES, &doc, *why ? NULL : &eb);
	if (!*why && e == 0)
		return TAKE(doc);
	if (!*why)
		why = err_text(&eb, e);
	message = doc ? json_value_str(json_value_get(json_doc_root(doc), "message")) : NULL;
	aws_failed(a, "%s: %s%s%.200s", what, why, message ? ": " : "", message ? message : "");
	return NULL;
}

/* ---- container ---- */

static const char container_what[] = "the container's credentials";

static void on_container(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = arg;
	_cleanup_(json_doc_freep)
	struct json_doc *doc = read_answer(a, r, container_what);
	const struct json_value *root;

	(void)p;
	if (!doc)
		return;
	root = json_doc_root(doc);
	if (aws_set(&a->levels[AWS_BASE], json_value_str(json_value_get(root, "AccessKeyId")),
		    json_value_str(json_value_get(root, "SecretAccessKey")),
		    json_value_str(json_value_get(root, "Token")),
		    aws_read_time(json_value_str(json_value_get(root, "Expiration")))) < 0)
		aws_failed(a, "%s: the answer has none", container_what);
	else
		aws_step_roles(a, AWS_PROFILE_ROLE);
}

bool aws_has_container(void)
{
	return aws_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
	       aws_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* Hosts that may be asked in the clear: this machine and the agents of ECS and EKS. */
static bool is_agent(const char *host)
{
	static const char *const agents[] = {
		"localhost", "169.254.170.2", "169.254.170.23", "fd00:ec2::23", "::1"};
	struct in_addr v4;

	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		if (!strcasecmp(host, agents[i]))
			return true;
	return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
}

static int container_url(char **ret, struct errbuf *eb)
{
	const char *relative = aws_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = aws_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	_cleanup_url_ struct url u = {};
	int r;

	if (relative) {
		*ret = xasprintf("%s%s%s", CONTAINER_AGENT, *relative == '/' ? "" : "/", relative);
		return 0;
	}
	if (!full)
		return err_set(eb, -ENOENT,
			"neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor "
			"AWS_CONTAINER_CREDENTIALS_FULL_URI is set");
	r = url_parse(full, &u, eb);
	if (r < 0)
		return err_prefix(eb, r, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	if (strcmp(u.scheme, "https") != 0 && !is_agent(u.host))
		return err_set(eb, -EINVAL,
			"AWS_CONTAINER_CREDENTIALS_FULL_URI: \"%.100s\" is neither this machine "
			"nor an agent of ECS or EKS, expected https",
			u.host);
	*ret = xstrdup(full);
	return 0;
}

/* What the agent wants to see; NULL: nothing. */
static int container_token(struct aws *a, char **ret, struct errbuf *eb)
{
	const char *file = aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");

	if (file)
		return read_token(a, file, ret, eb);
	if (token && strpbrk(token, "\r\n"))
		return err_set(
			eb, -EINVAL, "AWS_CONTAINER_AUTHORIZATION_TOKEN: a token is one line");
	*ret = token ? xstrdup(token) : NULL;
	return 0;
}

static int ask_container(struct aws *a, struct errbuf *eb)
{
	static const struct http_transport transport = {.follow_redirects = false};
	_cleanup_free_ char *url = NULL, *token = NULL, *header = NULL;
	const char *headers[2] = {NULL};
	int r = container_url(&url, eb);

	if (r == 0)
		r = container_token(a, &token, eb);
	if (r < 0)
		return r;
	if (token)
		headers[0] = header = xasprintf("Authorization: %s", token);
	return discover_fetch(a->p,
		&(struct discover_request) {.url = url,
			.headers = headers,
			.transport = &transport,
			.timeout_ms = AWS_LOCAL_TIMEOUT_MS,
			.done = on_container,
			.arg = a},
		eb);
}

void aws_step_container(struct aws *a)
{
	struct errbuf eb = {};
	int r = ask_container(a, &eb);

	if (r < 0)
		aws_failed(a, "%s: %s", container_what, err_text(&eb, r));
}

/* ---- sign-on ---- */

static void on_sso(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = arg;
	_cleanup_(json_doc_freep)
	struct json_doc *doc = read_answer(a, r, "sso");
	const struct json_value *c;

	(void)p;
	if (!doc)
		return;
	c = json_value_get(json_doc_root(doc), "roleCredentials");
	if (aws_set(&a->levels[AWS_BASE], json_value_str(json_value_get(c, "accessKeyId")),
		    json_value_str(json_value_get(c, "secretAccessKey")),
		    json_value_str(json_value_get(c, "sessionToken")),
		    json_value_int(json_value_get(c, "expiration")) * NS_PER_MS) < 0)
		aws_failed(a, "sso: the answer has no credentials");
	else
		aws_step_roles(a, AWS_PROFILE_ROLE);
}

/* ~/.aws/sso/cache/SHA1.json, of the session's name or, in profiles without one, of the start URL. */
static char *sso_cache_path(const struct aws_profile *p)
{
	const char *name = p->sso_session ? p->sso_session : p->sso_start_url;
	const char *home = getenv("HOME");
	uint8_t digest[SHA1_BYTES];
	char hex[2 * SHA1_BYTES + 1];

	hash_sha1(name, strlen(name), digest);
	for (size_t i = 0; i < SHA1_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	return xasprintf("%s/.aws/sso/cache/%s.json", home ? home : "", hex);
}

/* The token that `aws sso login` left. */
static int sso_token(struct aws *a, const struct aws_profile *p, char **ret, struct errbuf *eb)
{
	_cleanup_free_ char *path = sso_cache_path(p);
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	_cleanup_bytes_ struct bytes text = {};
	const char *token;
	int64_t expires_ns;
	int r = fs_read_file(a->p->fs, path, AWS_MAX_ANSWER_BYTES, &text, eb);

	if (r == -ENOENT)
		return err_set(eb, r, "nobody has signed on (there is no %s): aws sso login", path);
	if (r < 0)
		return r;
	r = json_read(text.data, text.len, AWS_MAX_ANSWER_BYTES, &doc, eb);
	if (r < 0)
		return err_prefix(eb, r, "%s", path);
	token = json_value_str(json_value_get(json_doc_root(doc), "accessToken"));
	expires_ns = aws_read_time(json_value_str(json_value_get(json_doc_root(doc), "expiresAt")));
	if (!token || !*token || strpbrk(token, "\r\n") || !expires_ns)
		return err_set(eb, -EBADMSG, "%s: expected accessToken and expiresAt", path);
	if (expires_ns <= clock_realtime_ns(a->p->clock))
		return err_set(eb, -EACCES, "the sign-on in %s has expired: aws sso login", path);
	*ret = xstrdup(token);
	return 0;
}

static int ask_sso(struct aws *a, const struct aws_profile *p, struct errbuf *eb)
{
	const char *endpoint = aws_variable("AWS_ENDPOINT_URL_SSO");
	_cleanup_free_ char *token = NULL, *header = NULL, *own = NULL;
	_cleanup_bytes_ struct bytes url = {};
	const char *headers[2] = {NULL};
	int r;

	if (!p->sso_start_url || !p->sso_region || !p->sso_account_id || !p->sso_role_name)
		return err_set(eb, -EINVAL,
			"expected sso_start_url, sso_region, sso_account_id and sso_role_name, of "
			"the profile or its sso_session");
	r = sso_token(a, p, &token, eb);
	if (r < 0)
		return r;
	headers[0] = header = xasprintf("x-amz-sso_bearer_token: %s", token);
	if (!endpoint)
		endpoint = own = aws_url("portal.sso", p->sso_region);
	bytes_printf(&url, "%.*s/federation/credentials?account_id=",
		(int)(strlen(endpoint) - str_ends_with(endpoint, "/")), endpoint);
	url_escape_query(&url, p->sso_account_id, strlen(p->sso_account_id));
	aws_put_param(&url, "role_name", p->sso_role_name);
	bytes_put_u8(&url, 0);
	if (bytes_error(&url) < 0)
		return err_set(eb, -ENOMEM, "no memory for a request");
	return discover_fetch(a->p,
		&(struct discover_request) {.url = (const char *)url.data,
			.headers = headers,
			.transport = &a->sd->http.transport,
			.timeout_ms = AWS_STS_TIMEOUT_MS,
			.done = on_sso,
			.arg = a},
		eb);
}

void aws_step_sso(struct aws *a, const struct aws_profile *profile)
{
	struct errbuf eb = {};
	int r = ask_sso(a, profile, &eb);

	if (r < 0)
		aws_failed(a, "sso: %s", err_text(&eb, r));
}
