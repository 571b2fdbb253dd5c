/* SPDX-License-Identifier: Apache-2.0
 *
 * The web configuration in force: read at the start, again when a file changes, swapped whole. It checks each
 * request's rate, then a user's name and password; a worker compares the bcrypt hash once and remembers the result.
 */
#include "lib/net/server/tls.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/net/web/config.h"
#include <crypt.h>
#include <string.h>
#include <sys/random.h>

struct http_guard {
	_Atomic unsigned refs;
	struct web_config *config;
	struct http_tls *tls; /* NULL: none */
};

/* Compared when the name is unknown, so that the time taken does not tell names; no password has it. */
static const char nobodys_hash[] = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

static struct http_guard *guard_get_locked(struct http_server *s)
{
	ASSERT_HELD(&s->lock);
	if (s->guard)
		s->guard->refs++;
	return s->guard;
}

static struct http_guard *guard_get(struct http_server *s)
{
	struct http_guard *g;

	lock_take(&s->lock);
	g = guard_get_locked(s);
	lock_release(&s->lock);
	return g;
}

void http_guard_put(struct http_guard *g)
{
	if (!g || --g->refs)
		return;
	http_tls_freep(&g->tls);
	web_config_freep(&g->config);
	free(g);
}

static void guard_putp(struct http_guard **g)
{
	http_guard_put(*g);
}

static int guard_load(struct fs *fs, const char *path, struct http_guard **ret, struct errbuf *eb)
{
	_cleanup_(guard_putp)
	struct http_guard *g = xcalloc(1, sizeof(*g));
	int r;

	g->refs = 1;
	r = web_config_load(fs, path, &g->config, eb);
	if (r == 0 && g->config->has_tls)
		r = http_tls_new(g->config, &g->tls, eb);
	if (r < 0)
		return r;
	*ret = TAKE(g);
	return 0;
}

void http_guard_add_metrics(struct http_server *s)
{
	if (!s->web_config_file)
		return;
	s->m_guard_ok =
		metric_only(metrics_gauge(s->o.metrics, "sonde_web_config_last_reload_successful",
			"Whether the last reading of the web configuration file succeeded.", NULL));
	s->m_guard_time = metric_only(metrics_gauge(s->o.metrics,
		"sonde_web_config_last_reload_success_timestamp_seconds",
		"When the web configuration in force was read.", NULL));
}

static void guard_note(struct http_server *s, bool ok)
{
	metric_set(s->m_guard_ok, ok);
	if (ok)
		metric_set(s->m_guard_time, (double)clock_realtime_ns(s->o.clock) / 1e9);
}

int http_guard_open(struct http_server *s, struct errbuf *eb)
{
	int r;

	if (!s->web_config_file)
		return 0;
	if (getrandom(s->verdict_salt, sizeof(s->verdict_salt), 0) != sizeof(s->verdict_salt))
		return err_set(eb, -EIO, "getrandom: %s", strerror(errno));
	r = guard_load(s->o.fs, s->web_config_file, &s->guard, eb);
	if (r < 0)
		return err_prefix(eb, r, "--web.config.file");
	s->has_tls = s->guard->tls != NULL;
	s->rate_tokens = (double)s->guard->config->rate_burst;
	s->rate_at_ns = clock_monotonic_ns(s->o.clock);
	guard_note(s, true);
	return 0;
}

void http_guard_close(struct http_server *s)
{
	http_guard_put(TAKE(s->guard));
}

/* True when these files already failed: one message is enough for one state of them. */
static bool failed_before(struct http_server *s, const struct errbuf *eb)
{
	uint64_t key = hash_xxh3(eb->text, strlen(eb->text));
	bool same = key == s->guard_failure;

	s->guard_failure = key;
	return same;
}

void http_guard_refresh(struct http_server *s)
{
	_cleanup_(guard_putp)
	struct http_guard *old = guard_get(s);
	struct http_guard *new = NULL, *retired;
	struct errbuf eb = {0};
	int r;

	if (!old || !web_config_is_stale(s->o.fs, old->config))
		return;
	r = guard_load(s->o.fs, s->web_config_file, &new, &eb);
	if (r == 0 && !new->tls != !s->has_tls) {
		http_guard_put(new);
		r = err_set(&eb, -EINVAL, "%s: TLS cannot be switched %s without a restart",
			s->web_config_file, s->has_tls ? "off" : "on");
	}
	guard_note(s, r == 0);
	if (r < 0) {
		if (!failed_before(s, &eb))
			log_printf(LOG_ERROR,
				"web configuration not reloaded, the old one stays: %s",
				err_text(&eb, r));
		return;
	}
	s->guard_failure = 0;
	lock_take(&s->lock);
	retired = s->guard;
	s->guard = new;
	s->rate_tokens = MIN(s->rate_tokens, (double)s->guard->config->rate_burst);
	lock_release(&s->lock);
	http_guard_put(retired);
	log_printf(LOG_INFO, "web configuration reloaded from %s", s->web_config_file);
}

struct http_guard *http_guard_begin_tls(
	struct http_server *s, struct MHD_Connection *mhd, struct http_conn *c)
{
	struct http_guard *g = s->has_tls ? guard_get(s) : NULL;

	if (g)
		http_tls_begin(g->tls, mhd, c);
	return g;
}

/* Takes one of the requests that the rate allows: a bucket that fills by one each interval. */
static bool is_above_rate(struct http_server *s, const struct web_config *c)
{
	int64_t now_ns = clock_monotonic_ns(s->o.clock);
	bool empty;

	if (!c->rate_interval_ns)
		return false;
	lock_take(&s->lock);
	s->rate_tokens += (double)(now_ns - s->rate_at_ns) / (double)c->rate_interval_ns;
	s->rate_tokens = MIN(s->rate_tokens, (double)c->rate_burst);
	s->rate_at_ns = now_ns;
	empty = s->rate_tokens < 1;
	if (!empty)
		s->rate_tokens -= 1;
	lock_release(&s->lock);
	return empty;
}

static const char *find_hash(const struct web_config *c, const char *name)
{
	for (size_t i = 0; i < c->n_users; i++)
		if (!strcmp(c->users[i].name, name))
			return c->users[i].value;
	return nobodys_hash;
}

static void verdict_key(const struct http_server *s, const char *hash, const char *name,
	const char *password, uint8_t ret[32])
{
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	bytes_put(&b, s->verdict_salt, sizeof(s->verdict_salt));
	bytes_put(&b, hash, strlen(hash) + 1);
	bytes_put(&b, name, strlen(name) + 1);
	bytes_put_str(&b, password);
	if (bytes_error(&b) < 0)
		err_panic("out of memory for a password");
	hash_sha256(b.data, b.len, ret);
	explicit_bzero(b.data, b.len);
}

/* 1 right, 0 wrong, -EAGAIN not known yet. */
static int find_verdict(struct http_server *s, const uint8_t key[32])
{
	int r = -EAGAIN;

	lock_take(&s->lock);
	for (int right = 1; right >= 0; right--)
		for (size_t i = 0; r == -EAGAIN && i < HTTP_MAX_VERDICTS; i++)
			if (s->verdicts[right][i].is_used &&
				!memcmp(s->verdicts[right][i].key, key, 32))
				r = right;
	lock_release(&s->lock);
	return r;
}

static void keep_verdict(struct http_server *s, const uint8_t key[32], bool is_right)
{
	struct http_verdict *v;

	lock_take(&s->lock);
	v = &s->verdicts[is_right][s->next_verdict[is_right]++ % HTTP_MAX_VERDICTS];
	*v = (struct http_verdict) {.is_used = true};
	memcpy(v->key, key, 32);
	lock_release(&s->lock);
}

static void refuse_user(struct http_request *r)
{
	http_reply_header(r, "WWW-Authenticate", "Basic");
	http_reply_cut(r, 401, "Unauthorized");
}

static void forget(struct bytes *secret)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->len);
	bytes_done(secret);
}

/* The name and the password of the Authorization header (RFC 7617), both in `buffer`. */
static bool read_basic_auth(struct http_request *r, struct bytes *buffer, const char **ret_name,
	const char **ret_password)
{
	static const char scheme[] = "Basic ";
	const char *value = http_request_header(r, "Authorization");
	char *colon;

	if (!value || strncasecmp(value, scheme, strlen(scheme)) ||
		str_decode_base64(value + strlen(scheme), strlen(value) - strlen(scheme), buffer) <
			0)
		return false;
	bytes_put_u8(buffer, '\0');
	/* a NUL would cut the password that is compared */
	if (bytes_error(buffer) < 0 || strlen((char *)buffer->data) + 1 != buffer->len)
		return false;
	colon = strchr((char *)buffer->data, ':');
	if (!colon)
		return false;
	*colon = '\0';
	*ret_name = (char *)buffer->data;
	*ret_password = colon + 1;
	return true;
}

/* The answer that is known already: 1, 0, or -EAGAIN after which a worker has to compute. */
static int judge(struct http_request *r, const struct web_config *c, bool may_compute)
{
	_cleanup_(forget)
	struct bytes buffer;
	struct crypt_data data = {0};
	const char *name, *password, *hash, *got;
	uint8_t key[32];
	int right;

	bytes_init(&buffer, NULL, 0);
	if (!read_basic_auth(r, &buffer, &name, &password))
		return 0;
	hash = find_hash(c, name);
	verdict_key(r->server, hash, name, password, key);
	right = find_verdict(r->server, key);
	if (right != -EAGAIN || !may_compute)
		return right;
	got = crypt_rn(password, hash, &data, sizeof(data));
	right = got && hash != nobodys_hash && !strcmp(got, hash);
	explicit_bzero(&data, sizeof(data));
	keep_verdict(r->server, key, right);
	return right;
}

bool http_guard_refuses(struct http_request *r)
{
	_cleanup_(guard_putp)
	struct http_guard *g = guard_get(r->server);
	const struct web_config *c;
	int right;

	if (!g)
		return false;
	c = g->config;
	for (size_t i = 0; i < c->n_headers; i++)
		http_reply_header(r, c->headers[i].name, c->headers[i].value);
	if (is_above_rate(r->server, c)) {
		http_reply_cut(r, 429, "too many requests: rate_limit of the web configuration");
		return true;
	}
	if (!c->n_users)
		return false;
	right = judge(r, c, false);
	r->must_verify = right == -EAGAIN;
	if (right == 0)
		refuse_user(r);
	return right == 0;
}

void http_guard_verify(struct http_request *r, void *arg)
{
	_cleanup_(guard_putp)
	struct http_guard *g = guard_get(r->server);

	/* the users may have changed since the headers came: those of now decide */
	if (g->config->n_users && judge(r, g->config, true) != 1)
		refuse_user(r);
	else
		r->route->handler(r, arg);
}
