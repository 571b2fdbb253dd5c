/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of steps, each of which ends in the next or in finish(): region, base credentials, roles. Formats:
 * docs.aws.amazon.com, "Use the Instance Metadata Service", and the STS API reference, AssumeRole.
 */
#include "scraper/discover/aws_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/json/read.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/aws_profile.h"
#include "scraper/discover/provider.h"
#include "scraper/discover/xml.h"
#include <string.h>
#include <time.h>

#define METADATA "http://169.254.169.254"
enum { TOKEN_S = 21600 };
static const int64_t MARGIN_NS = 300 * NS_PER_S;

static void credentials_free(struct aws_credentials *c)
{
	free(c->access_key);
	free(c->secret_key);
	free(c->session);
	*c = (struct aws_credentials) {};
}

void aws_init(struct aws *a, struct discover_provider *p, const struct config_ec2_sd *sd)
{
	*a = (struct aws) {.p = p, .sd = sd};
}

static void role_set(
	struct aws_role *to, const char *arn, const char *external_id, const char *name)
{
	free(to->arn);
	free(to->external_id);
	free(to->session_name);
	*to = (struct aws_role) {};
	if (!arn || !*arn)
		return;
	to->arn = xstrdup(arn);
	to->external_id = external_id && *external_id ? xstrdup(external_id) : NULL;
	to->session_name = name && *name ? xstrdup(name) : NULL;
}

void aws_forget(struct aws *a)
{
	for (int i = 0; i < AWS_LEVELS; i++)
		credentials_free(&a->levels[i]);
}

void aws_free(struct aws *a)
{
	aws_forget(a);
	for (int i = 0; i < AWS_LEVELS; i++)
		role_set(&a->roles[i], NULL, NULL, NULL);
	free(a->region);
	free(a->metadata_token);
}

/* The last below a level. */
static const struct aws_credentials *below(const struct aws *a, int level)
{
	while (--level > AWS_BASE && !a->levels[level].access_key)
		;
	return &a->levels[level];
}

const struct aws_credentials *aws_credentials(const struct aws *a)
{
	return below(a, AWS_LEVELS);
}

char *aws_url(const char *service, const char *region)
{
	return xasprintf("https://%s.%s.amazonaws.com%s/", service, region,
		str_starts_with(region, "cn-") ? ".cn" : "");
}

const char *aws_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool is_fresh(const struct aws *a, const struct aws_credentials *c)
{
	return c->access_key && c->expires_ns > clock_realtime_ns(a->p->clock) + MARGIN_NS;
}

/* NULL: all is there. */
static void finish(struct aws *a, const char *error)
{
	void (*done)(struct discover_provider * p, const char *error) = a->done;

	a->done = NULL;
	done(a->p, error);
}

void aws_failed(struct aws *a, const char *fmt, ...)
{
	struct errbuf eb = {};
	va_list ap;

	va_start(ap, fmt);
	err_vset(&eb, -EACCES, fmt, ap);
	va_end(ap);
	finish(a, eb.text);
}

static struct aws *of(struct discover_provider *p, void *arg)
{
	(void)p;
	return arg;
}

int64_t aws_read_time(const char *text)
{
	struct tm tm = {};
	const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	return end && (*end == 'Z' || *end == '.' || *end == 'U') ? (int64_t)timegm(&tm) * NS_PER_S
								  : 0;
}

int aws_set(struct aws_credentials *to, const char *key, const char *secret, const char *session,
	int64_t expires_ns)
{
	if (!key || !secret || !*key || !*secret)
		return -ENOENT;
	credentials_free(to);
	to->access_key = xstrdup(key);
	to->secret_key = xstrdup(secret);
	to->session = session && *session ? xstrdup(session) : NULL;
	to->expires_ns = expires_ns;
	return 0;
}

const char *aws_answer_error(const struct http_response *r, struct errbuf *eb)
{
	if (r->error < 0)
		return r->text.text;
	if (r->status == 200)
		return "";
	err_set(eb, -EPROTO, "the server answered with status %u", r->status);
	return eb->text;
}

/* ---- roles ---- */

bool aws_take_sts(struct aws *a, const struct http_response *r, const char *what, const char *path,
	struct aws_credentials *to)
{
	_cleanup_arena_ struct arena arena;
	struct xml_node *root = NULL;
	struct errbuf eb = {};
	const struct xml_node *c;
	const char *why = aws_answer_error(r, &eb);
	int e = r->error;

	arena_init(&arena, NULL);
	if (e == 0)
		e = xml_read(r->body.data, r->body.len, &arena, &root, *why ? NULL : &eb);
	if (*why) {
		const char *code = e == 0 ? xml_text(root, "Error.Code") : NULL;
		const char *message = e == 0 ? xml_text(root, "Error.Message") : NULL;

		aws_failed(a, "%s: %s%s%.80s%s%.200s", what, why, code ? ": " : "",
			code ? code : "", message ? ": " : "", message ? message : "");
		return false;
	}
	if (e < 0) {
		aws_failed(a, "%s: %s", what, err_text(&eb, e));
		return false;
	}
	c = xml_at(root, path);
	if (!c || aws_set(to, xml_text(c, "AccessKeyId"), xml_text(c, "SecretAccessKey"),
			  xml_text(c, "SessionToken"),
			  aws_read_time(xml_text(c, "Expiration"))) < 0) {
		aws_failed(a, "%s: the answer has no credentials", what);
		return false;
	}
	return true;
}

static void on_role(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);

	if (aws_take_sts(a, r, "role_arn", "AssumeRoleResult.Credentials", &a->levels[a->level]))
		aws_step_roles(a, a->level + 1);
}

void aws_put_param(struct bytes *b, const char *name, const char *value)
{
	bytes_printf(b, "&%s=", name);
	url_escape_query(b, value, strlen(value));
}

void aws_put_session_name(struct aws *a, struct bytes *b, const char *given)
{
	_cleanup_free_ char *own =
		given ? NULL
		      : xasprintf("sonde-%lld",
				(long long)(clock_realtime_ns(a->p->clock) / NS_PER_S));

	aws_put_param(b, "RoleSessionName", given ? given : own);
}

char *aws_sts_url(const struct aws *a)
{
	const char *url = aws_variable("AWS_ENDPOINT_URL_STS");

	return url ? xstrdup(url) : aws_url("sts", a->region);
}

static int ask_role(struct aws *a, const struct aws_role *role, struct errbuf *eb)
{
	const struct aws_credentials *by = below(a, a->level);
	_cleanup_free_ char *service = xasprintf("aws:amz:%s:sts", a->region), *token = NULL;
	_cleanup_free_ char *url = aws_sts_url(a);
	_cleanup_bytes_ struct bytes body = {};
	const char *headers[2] = {NULL};

	bytes_put_str(&body, "Action=AssumeRole&Version=2011-06-15");
	aws_put_param(&body, "RoleArn", role->arn);
	aws_put_session_name(a, &body, role->session_name);
	if (role->external_id)
		aws_put_param(&body, "ExternalId", role->external_id);
	if (by->session)
		headers[0] = token = xasprintf("X-Amz-Security-Token: %s", by->session);
	if (bytes_error(&body) < 0)
		return err_set(eb, -ENOMEM, "no memory for a request");
	return discover_fetch(a->p,
		&(struct discover_request) {.url = url,
			.headers = headers,
			.transport = &a->sd->http.transport,
			.timeout_ms = AWS_STS_TIMEOUT_MS,
			.body = body.data,
			.n_body = body.len,
			.signature =
				&(struct http_signature) {service, by->access_key, by->secret_key},
			.done = on_role,
			.arg = a},
		eb);
}

void aws_step_roles(struct aws *a, enum aws_level level)
{
	struct errbuf eb = {};
	int e;

	for (; level < AWS_LEVELS; level++) {
		if (!a->roles[level].arn)
			credentials_free(&a->levels[level]);
		else if (!is_fresh(a, &a->levels[level]))
			break;
	}
	if (level == AWS_LEVELS) {
		finish(a, NULL);
		return;
	}
	a->level = level;
	e = ask_role(a, &a->roles[level], &eb);
	if (e < 0)
		aws_failed(a, "role_arn: %s", err_text(&eb, e));
}

/* ---- the instance's metadata service ---- */

typedef void on_metadata_fn(struct discover_provider *p, struct http_response *r, void *arg);

static int ask_metadata(struct aws *a, const char *method, const char *path, const char *header,
	on_metadata_fn *done, struct errbuf *eb)
{
	static const struct http_transport transport = {.follow_redirects = false};
	const char *endpoint = aws_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *const headers[] = {header, NULL};
	_cleanup_free_ char *url = NULL;

	if (!endpoint)
		endpoint = METADATA;
	url = xasprintf(
		"%.*s%s", (int)(strlen(endpoint) - str_ends_with(endpoint, "/")), endpoint, path);
	return discover_fetch(a->p,
		&(struct discover_request) {.url = url,
			.method = method,
			.headers = headers,
			.transport = &transport,
			.timeout_ms = AWS_LOCAL_TIMEOUT_MS,
			.done = done,
			.arg = a},
		eb);
}

static void metadata_failed(struct aws *a, const char *why)
{
	aws_failed(a,
		"no %s in the configuration, the environment or ~/.aws, and the metadata service "
		"of this instance: %s",
		a->region ? "credentials" : "region", why);
}

static void get_metadata(struct aws *a, const char *path, on_metadata_fn *done)
{
	_cleanup_free_ char *header = xasprintf("X-aws-ec2-metadata-token: %s", a->metadata_token);
	struct errbuf eb = {};
	int e = ask_metadata(a, NULL, path, header, done, &eb);

	if (e < 0)
		metadata_failed(a, err_text(&eb, e));
}

/* The body as a word without white space around it; NULL (and the chain has ended) when there is none. */
static char *metadata_word(struct aws *a, const struct http_response *r, const char *what)
{
	struct errbuf eb = {};
	const char *why = aws_answer_error(r, &eb);
	_cleanup_free_ char *word =
		xstrndup(r->body.len ? (const char *)r->body.data : "", r->body.len);
	size_t n = strcspn(word, " \t\r\n");

	if (!*why && (!n || n > 2048))
		why = "an empty answer";
	for (size_t i = 0; i < n && !*why; i++)
		if (word[i] <= ' ' || word[i] >= 127)
			why = "an answer with characters that do not belong there";
	if (*why) {
		_cleanup_free_ char *text = xasprintf("%s: %s", what, why);

		metadata_failed(a, text);
		return NULL;
	}
	word[n] = '\0';
	return TAKE(word);
}

static void on_credentials(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);
	struct errbuf eb = {};
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *root;
	const char *why = aws_answer_error(r, &eb);
	int64_t expires_ns;

	if (!*why && json_read(r->body.data, r->body.len, AWS_MAX_ANSWER_BYTES, &doc, &eb) < 0)
		why = eb.text;
	if (*why) {
		metadata_failed(a, why);
		return;
	}
	root = json_doc_root(doc);
	expires_ns = aws_read_time(json_value_str(json_value_get(root, "Expiration")));
	if (aws_set(&a->levels[AWS_BASE], json_value_str(json_value_get(root, "AccessKeyId")),
		    json_value_str(json_value_get(root, "SecretAccessKey")),
		    json_value_str(json_value_get(root, "Token")), expires_ns) < 0) {
		metadata_failed(a, "the answer has no credentials");
		return;
	}
	aws_step_roles(a, AWS_PROFILE_ROLE);
}

static void on_role_name(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);
	_cleanup_free_ char *role = NULL, *path = NULL;

	if (r->error == 0 && r->status == 404) {
		metadata_failed(a, "the instance has no role");
		return;
	}
	role = metadata_word(a, r, "the instance's role");
	if (!role)
		return;
	path = xasprintf("/latest/meta-data/iam/security-credentials/%s", role);
	get_metadata(a, path, on_credentials);
}

static void step_base(struct aws *a);

static void on_region(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);
	char *region = metadata_word(a, r, "the instance's region");

	if (!region)
		return;
	a->region = region;
	step_base(a);
}

/* What is wanted of the service, once there is a token. */
static void use_metadata(struct aws *a)
{
	if (!a->region)
		get_metadata(a, "/latest/meta-data/placement/region", on_region);
	else
		get_metadata(a, "/latest/meta-data/iam/security-credentials/", on_role_name);
}

static void on_token(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);
	char *token = metadata_word(a, r, "a token");

	if (!token)
		return;
	free(a->metadata_token);
	a->metadata_token = token;
	a->metadata_token_until_ns =
		clock_monotonic_ns(a->p->clock) + (int64_t)TOKEN_S * NS_PER_S - MARGIN_NS;
	use_metadata(a);
}

static void step_metadata(struct aws *a)
{
	const char *disabled = aws_variable("AWS_EC2_METADATA_DISABLED");
	struct errbuf eb = {};
	char header[80];
	int e;

	if (disabled && !strcasecmp(disabled, "true")) {
		metadata_failed(a, "AWS_EC2_METADATA_DISABLED is set");
		return;
	}
	if (a->metadata_token && clock_monotonic_ns(a->p->clock) < a->metadata_token_until_ns) {
		use_metadata(a);
		return;
	}
	snprintf(header, sizeof(header), "X-aws-ec2-metadata-token-ttl-seconds: %d", TOKEN_S);
	e = ask_metadata(a, "PUT", "/latest/api/token", header, on_token, &eb);
	if (e < 0)
		metadata_failed(a, err_text(&eb, e));
}

/* ---- what is at hand ---- */

/* Where the base credentials are, or come from. */
enum source { AT_HAND, UNKNOWN, WEB_IDENTITY, SSO, CONTAINER, INSTANCE };

static int take_keys(struct aws *a, const struct aws_profile *p)
{
	return aws_set(&a->levels[AWS_BASE], p->access_key, p->secret_key, p->session, 0);
}

static int from_environment(struct aws *a)
{
	return aws_set(&a->levels[AWS_BASE], aws_variable("AWS_ACCESS_KEY_ID"),
		aws_variable("AWS_SECRET_ACCESS_KEY"), aws_variable("AWS_SESSION_TOKEN"), 0);
}

static int from_source_profile(struct aws *a, const char *name, struct errbuf *eb)
{
	_cleanup_aws_profile_ struct aws_profile source = {};
	int r = aws_profile_load(a->p->fs, name, &source, eb);

	if (r < 0)
		return err_prefix(eb, r, "source_profile");
	if (take_keys(a, &source) == 0)
		return AT_HAND;
	return err_set(eb, -ENOTSUP,
		"source_profile \"%.100s\" has no aws_access_key_id and aws_secret_access_key: "
		"no other kind is read there",
		name);
}

static int from_credential_source(struct aws *a, const char *source, struct errbuf *eb)
{
	if (!strcmp(source, "Environment"))
		return from_environment(a) == 0
			       ? AT_HAND
			       : err_set(eb, -ENOENT,
					 "credential_source = Environment, but it has no "
					 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	if (strcmp(source, "Ec2InstanceMetadata") && strcmp(source, "EcsContainer"))
		return err_set(eb, -EINVAL,
			"credential_source = %.60s, expected Environment, Ec2InstanceMetadata or "
			"EcsContainer",
			source);
	if (is_fresh(a, &a->levels[AWS_BASE]))
		return AT_HAND;
	return !strcmp(source, "EcsContainer") ? CONTAINER : INSTANCE;
}

/* A profile with a role. */
static int from_role(struct aws *a, const struct aws_profile *p, struct errbuf *eb)
{
	if (p->mfa_serial)
		return err_set(eb, -ENOTSUP,
			"mfa_serial: its role wants a code that only a person can enter");
	if (p->web_identity_token_file)
		return is_fresh(a, &a->levels[AWS_BASE]) ? AT_HAND : WEB_IDENTITY;
	if (!p->source_profile && !p->credential_source)
		return err_set(eb, -EINVAL,
			"role_arn stands without source_profile, credential_source and "
			"web_identity_token_file");
	role_set(&a->roles[AWS_PROFILE_ROLE], p->role_arn, p->external_id, p->role_session_name);
	return p->source_profile ? from_source_profile(a, p->source_profile, eb)
				 : from_credential_source(a, p->credential_source, eb);
}

static int from_profile_keys(struct aws *a, const struct aws_profile *p, struct errbuf *eb)
{
	if (p->role_arn)
		return from_role(a, p, eb);
	if (take_keys(a, p) == 0)
		return AT_HAND;
	if (p->sso_start_url || p->sso_account_id)
		return is_fresh(a, &a->levels[AWS_BASE]) ? AT_HAND : SSO;
	if (p->credential_process)
		return err_set(
			eb, -ENOTSUP, "credential_process: programs are not run for credentials");
	return UNKNOWN;
}

/* An enum source; `ret` is the profile that was read. */
static int from_profile(
	struct aws *a, const char *name, bool is_needed, struct aws_profile *ret, struct errbuf *eb)
{
	int r = aws_profile_load(a->p->fs, name, ret, eb);

	if (r == -ENOENT && !is_needed)
		return UNKNOWN;
	if (r < 0)
		return r;
	if (!a->region && ret->region)
		a->region = xstrdup(ret->region);
	r = from_profile_keys(a, ret, eb);
	if (r < 0)
		return err_prefix(eb, r, "profile \"%.100s\"", name);
	if (r == UNKNOWN && is_needed)
		return err_set(eb, -ENOENT,
			"profile \"%.100s\" has no aws_access_key_id and aws_secret_access_key, "
			"no role and no sign-on",
			name);
	return r;
}

static int find_credentials(struct aws *a, struct aws_profile *profile, struct errbuf *eb)
{
	const struct config_ec2_sd *sd = a->sd;
	const char *name = aws_variable("AWS_PROFILE");
	int r;

	role_set(&a->roles[AWS_PROFILE_ROLE], NULL, NULL, NULL);
	if (aws_set(&a->levels[AWS_BASE], sd->access_key, sd->secret_key, NULL, 0) == 0)
		return AT_HAND;
	if (sd->profile && *sd->profile)
		return from_profile(a, sd->profile, true, profile, eb);
	if (from_environment(a) == 0)
		return AT_HAND;
	if (aws_variable("AWS_WEB_IDENTITY_TOKEN_FILE"))
		return is_fresh(a, &a->levels[AWS_BASE]) ? AT_HAND : WEB_IDENTITY;
	r = from_profile(a, name ? name : "default", name != NULL, profile, eb);
	if (r != UNKNOWN)
		return r;
	if (is_fresh(a, &a->levels[AWS_BASE]))
		return AT_HAND;
	return aws_has_container() ? CONTAINER : INSTANCE;
}

static void step_web_identity(struct aws *a, const struct aws_profile *p)
{
	if (p->web_identity_token_file)
		aws_step_web_identity(
			a, p->web_identity_token_file, p->role_arn, p->role_session_name);
	else
		aws_step_web_identity(a, aws_variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
			aws_variable("AWS_ROLE_ARN"), aws_variable("AWS_ROLE_SESSION_NAME"));
}

static void step_base(struct aws *a)
{
	_cleanup_aws_profile_ struct aws_profile profile = {};
	struct errbuf eb = {};
	int r = find_credentials(a, &profile, &eb);

	if (r < 0)
		aws_failed(a, "%s", err_text(&eb, r));
	else if (!a->region || r == INSTANCE)
		step_metadata(a);
	else if (r == WEB_IDENTITY)
		step_web_identity(a, &profile);
	else if (r == SSO)
		aws_step_sso(a, &profile);
	else if (r == CONTAINER)
		aws_step_container(a);
	else
		aws_step_roles(a, AWS_PROFILE_ROLE);
}

void aws_obtain(struct aws *a, void (*done)(struct discover_provider *p, const char *error))
{
	const char *region = a->sd->region;

	a->done = done;
	if (!region || !*region)
		region = aws_variable("AWS_REGION");
	if (!region)
		region = aws_variable("AWS_DEFAULT_REGION");
	if (!a->region && region)
		a->region = xstrdup(region);
	role_set(&a->roles[AWS_ROLE], a->sd->role_arn, a->sd->external_id, NULL);
	step_base(a);
}
