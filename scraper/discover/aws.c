/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of steps, each of which ends in the next or in finish(): region, base credentials, role. Formats:
 * docs.aws.amazon.com, "Use the Instance Metadata Service", and the STS API reference, AssumeRole.
 */
#include "scraper/discover/aws.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/json_read.h"
#include "lib/net/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/aws_profile.h"
#include "scraper/discover/provider.h"
#include "scraper/discover/xml.h"
#include <string.h>
#include <time.h>

#define METADATA "http://169.254.169.254"
enum {
	METADATA_TIMEOUT_MS = 5000,
	STS_TIMEOUT_MS = 30000,
	TOKEN_S = 21600,
	MAX_ANSWER_BYTES = 1 << 20,
};
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

void aws_forget(struct aws *a)
{
	credentials_free(&a->base);
	credentials_free(&a->role);
}

void aws_free(struct aws *a)
{
	aws_forget(a);
	free(a->region);
	free(a->metadata_token);
}

const struct aws_credentials *aws_credentials(const struct aws *a)
{
	return a->role.access_key ? &a->role : &a->base;
}

char *aws_url(const char *service, const char *region)
{
	return xasprintf("https://%s.%s.amazonaws.com%s/", service, region,
		str_starts_with(region, "cn-") ? ".cn" : "");
}

static const char *variable(const char *name)
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

static void _printf_(2, 3) failed(struct aws *a, const char *fmt, ...)
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

/* "2026-01-31T23:59:59Z"; 0 when it is no such time. */
static int64_t read_time(const char *text)
{
	struct tm tm = {};
	const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	return end && (*end == 'Z' || *end == '.') ? (int64_t)timegm(&tm) * NS_PER_S : 0;
}

static int set_credentials(struct aws_credentials *to, const char *key, const char *secret,
	const char *session, int64_t expires_ns)
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

/* Why an answer is of no use, for a person; "" when it is fine. */
static const char *answer_error(const struct http_response *r, struct errbuf *eb)
{
	if (r->error < 0)
		return r->text.text;
	if (r->status == 200)
		return "";
	err_set(eb, -EPROTO, "the server answered with status %u", r->status);
	return eb->text;
}

/* ---- role ---- */

/* The answer's document; an error names AWS's own code and message. */
static void on_role(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct aws *a = of(p, arg);
	_cleanup_arena_ struct arena arena;
	struct xml_node *root = NULL;
	struct errbuf eb = {};
	const struct xml_node *c;
	const char *why = answer_error(r, &eb);
	int e = r->error;

	arena_init(&arena, NULL);
	if (e == 0)
		e = xml_read(r->body.data, r->body.len, &arena, &root, *why ? NULL : &eb);
	if (*why) {
		const char *code = e == 0 ? xml_text(root, "Error.Code") : NULL;
		const char *message = e == 0 ? xml_text(root, "Error.Message") : NULL;

		failed(a, "role_arn: %s%s%.80s%s%.200s", why, code ? ": " : "", code ? code : "",
			message ? ": " : "", message ? message : "");
		return;
	}
	if (e < 0) {
		failed(a, "role_arn: %s", err_text(&eb, e));
		return;
	}
	c = xml_at(root, "AssumeRoleResult.Credentials");
	if (!c || set_credentials(&a->role, xml_text(c, "AccessKeyId"),
			  xml_text(c, "SecretAccessKey"), xml_text(c, "SessionToken"),
			  read_time(xml_text(c, "Expiration"))) < 0) {
		failed(a, "role_arn: the answer has no credentials");
		return;
	}
	finish(a, NULL);
}

static void put_param(struct bytes *b, const char *name, const char *value)
{
	bytes_printf(b, "&%s=", name);
	url_escape_query(b, value, strlen(value));
}

static void step_role(struct aws *a)
{
	const struct config_ec2_sd *sd = a->sd;
	_cleanup_free_ char *own = NULL, *service = NULL, *token = NULL;
	_cleanup_bytes_ struct bytes body = {};
	const char *headers[2] = {NULL}, *url = variable("AWS_ENDPOINT_URL_STS");
	struct errbuf eb = {};
	int e;

	if (!sd->role_arn || !*sd->role_arn || is_fresh(a, &a->role)) {
		finish(a, NULL);
		return;
	}
	bytes_put_str(&body, "Action=AssumeRole&Version=2011-06-15");
	put_param(&body, "RoleArn", sd->role_arn);
	bytes_printf(&body, "&RoleSessionName=sonde-%lld",
		(long long)(clock_realtime_ns(a->p->clock) / NS_PER_S));
	if (sd->external_id && *sd->external_id)
		put_param(&body, "ExternalId", sd->external_id);
	if (!url)
		url = own = aws_url("sts", a->region);
	service = xasprintf("aws:amz:%s:sts", a->region);
	if (a->base.session)
		headers[0] = token = xasprintf("X-Amz-Security-Token: %s", a->base.session);
	e = bytes_error(&body);
	if (e == 0)
		e = discover_fetch(a->p,
			&(struct discover_request) {.url = url,
				.headers = headers,
				.transport = &sd->http.transport,
				.timeout_ms = STS_TIMEOUT_MS,
				.body = body.data,
				.n_body = body.len,
				.signature = &(struct http_signature) {service, a->base.access_key,
					a->base.secret_key},
				.done = on_role,
				.arg = a},
			&eb);
	if (e < 0)
		failed(a, "role_arn: %s", err_text(&eb, e));
}

/* ---- the instance's metadata service ---- */

typedef void on_metadata_fn(struct discover_provider *p, struct http_response *r, void *arg);

static int ask_metadata(struct aws *a, const char *method, const char *path, const char *header,
	on_metadata_fn *done, struct errbuf *eb)
{
	static const struct http_transport transport = {.follow_redirects = false};
	const char *endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
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
			.timeout_ms = METADATA_TIMEOUT_MS,
			.done = done,
			.arg = a},
		eb);
}

static void metadata_failed(struct aws *a, const char *why)
{
	failed(a,
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
	const char *why = answer_error(r, &eb);
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
	const char *why = answer_error(r, &eb);
	int64_t expires_ns;

	if (!*why && json_read(r->body.data, r->body.len, MAX_ANSWER_BYTES, &doc, &eb) < 0)
		why = eb.text;
	if (*why) {
		metadata_failed(a, why);
		return;
	}
	root = json_doc_root(doc);
	expires_ns = read_time(json_value_str(json_value_get(root, "Expiration")));
	if (set_credentials(&a->base, json_value_str(json_value_get(root, "AccessKeyId")),
		    json_value_str(json_value_get(root, "SecretAccessKey")),
		    json_value_str(json_value_get(root, "Token")), expires_ns) < 0) {
		metadata_failed(a, "the answer has no credentials");
		return;
	}
	step_role(a);
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
	const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
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

/* 0: found; 1: look further. */
static int from_profile(struct aws *a, const char *name, bool is_needed, struct errbuf *eb)
{
	_cleanup_aws_profile_ struct aws_profile profile = {};
	int r = aws_profile_load(a->p->fs, name, &profile, eb);

	if (r == -ENOENT && !is_needed)
		return 1;
	if (r < 0)
		return r;
	if (!a->region && profile.region)
		a->region = xstrdup(profile.region);
	if (set_credentials(&a->base, profile.access_key, profile.secret_key, profile.session, 0) ==
		0)
		return 0;
	if (!is_needed)
		return 1;
	return err_set(eb, -ENOENT,
		"profile \"%.100s\" has no aws_access_key_id and aws_secret_access_key, the only "
		"kind of profile that is read",
		name);
}

/* 0: found; 1: not at hand. */
static int find_credentials(struct aws *a, struct errbuf *eb)
{
	const struct config_ec2_sd *sd = a->sd;
	const char *name = variable("AWS_PROFILE");

	if (set_credentials(&a->base, sd->access_key, sd->secret_key, NULL, 0) == 0)
		return 0;
	if (sd->profile && *sd->profile)
		return from_profile(a, sd->profile, true, eb);
	if (set_credentials(&a->base, variable("AWS_ACCESS_KEY_ID"),
		    variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN"), 0) == 0)
		return 0;
	if (is_fresh(a, &a->base))
		return 0;
	return from_profile(a, name ? name : "default", name != NULL, eb);
}

static void step_base(struct aws *a)
{
	struct errbuf eb = {};
	int r = find_credentials(a, &eb);

	if (r < 0)
		failed(a, "%s", err_text(&eb, r));
	else if (r > 0 || !a->region)
		step_metadata(a);
	else
		step_role(a);
}

void aws_obtain(struct aws *a, void (*done)(struct discover_provider *p, const char *error))
{
	const char *region = a->sd->region;

	a->done = done;
	if (!region || !*region)
		region = variable("AWS_REGION");
	if (!region)
		region = variable("AWS_DEFAULT_REGION");
	if (!a->region && region)
		a->region = xstrdup(region);
	step_base(a);
}
