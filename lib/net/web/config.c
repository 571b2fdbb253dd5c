/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the web configuration. Names and defaults are those of exporter-toolkit; Go's names of suites, versions
 * and curves become a GnuTLS priority string.
 */
#include "lib/net/web/config.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/conf/conf_yaml.h"
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20, BCRYPT_LEN = 60 };

struct reader {
	struct fs *fs;
	const char *path;
	struct arena yaml; /* the tree */
	struct web_config *c;
	struct errbuf *eb;
	const char *section; /* "tls_server_config", or NULL at the top */
};

/* A Go name and what GnuTLS calls its parts, separated by spaces. */
struct name_pair {
	const char *go, *gnutls;
};
static const struct name_pair versions[] = {{"TLS10", "VERS-TLS1.0"}, {"TLS11", "VERS-TLS1.1"},
	{"TLS12", "VERS-TLS1.2"}, {"TLS13", "VERS-TLS1.3"}};
static const struct name_pair curves[] = {{"CurveP256", "GROUP-SECP256R1"},
	{"CurveP384", "GROUP-SECP384R1"}, {"CurveP521", "GROUP-SECP521R1"},
	{"X25519", "GROUP-X25519"}};
static const struct name_pair suites[] = {
	{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA AES-128-GCM AEAD"},
	{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA AES-256-GCM AEAD"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA CHACHA20-POLY1305 AEAD"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA CHACHA20-POLY1305 AEAD"},
	{"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA AES-128-CBC SHA1"},
	{"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA AES-256-CBC SHA1"},
	{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA AES-128-GCM AEAD"},
	{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA AES-256-GCM AEAD"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA CHACHA20-POLY1305 AEAD"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA CHACHA20-POLY1305 AEAD"},
	{"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA AES-128-CBC SHA1"},
	{"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA AES-256-CBC SHA1"},
	{"TLS_RSA_WITH_AES_128_GCM_SHA256", "RSA AES-128-GCM AEAD"},
	{"TLS_RSA_WITH_AES_256_GCM_SHA384", "RSA AES-256-GCM AEAD"},
	{"TLS_RSA_WITH_AES_128_CBC_SHA", "RSA AES-128-CBC SHA1"},
	{"TLS_RSA_WITH_AES_256_CBC_SHA", "RSA AES-256-CBC SHA1"},
	/* those of TLS 1.3 are always offered: Go takes their names and no notice of them */
	{"TLS_AES_128_GCM_SHA256", ""},
	{"TLS_AES_256_GCM_SHA384", ""},
	{"TLS_CHACHA20_POLY1305_SHA256", ""},
};
/* In the order of enum web_client_auth, then an old name of RequireAnyClientCert. */
static const struct name_pair client_auths[] = {{"NoClientCert", NULL}, {"RequestClientCert", NULL},
	{"RequireAnyClientCert", NULL}, {"VerifyClientCertIfGiven", NULL},
	{"RequireAndVerifyClientCert", NULL}, {"RequireClientCert", NULL}};
static const struct name_pair header_names[WEB_MAX_HEADERS] = {{"Content-Security-Policy", NULL},
	{"X-Frame-Options", NULL}, {"X-Content-Type-Options", NULL}, {"X-XSS-Protection", NULL},
	{"Strict-Transport-Security", NULL}};
/* Values of headers that have no others. */
static const struct {
	const char *header, *values[2];
} header_values[] = {
	{"X-Frame-Options", {"deny", "sameorigin"}}, {"X-Content-Type-Options", {"nosniff", NULL}}};

static int fail(struct reader *r, const struct conf_node *at, const char *key, const char *fmt, ...)
	_printf_(4, 5);
static int fail(struct reader *r, const struct conf_node *at, const char *key, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(r->eb, -EINVAL, fmt, ap);
	va_end(ap);
	if (key)
		err_prefix(r->eb, -EINVAL, "%s%s%s", r->section ? r->section : "",
			r->section ? "." : "", key);
	else if (r->section)
		err_prefix(r->eb, -EINVAL, "%s", r->section);
	return err_prefix(r->eb, -EINVAL, "%s:%u:%u", r->path, at->line, at->column);
}

static int out_of_memory(struct reader *r)
{
	return err_set(r->eb, -ENOMEM, "%s: out of memory", r->path);
}

/* Null values stand for absent ones, as in YAML libraries. */
static const struct conf_node *get(const struct conf_node *section, const char *key)
{
	const struct conf_node *n = section ? conf_node_get(section, key) : NULL;

	return n && !conf_node_is_null(n) ? n : NULL;
}

static bool is_empty_text(const struct conf_node *n)
{
	return n->kind == CONF_SCALAR && !*n->text;
}

static int check_keys(
	struct reader *r, const struct conf_node *section, const char *const *known, size_t n)
{
	if (section->kind != CONF_MAPPING)
		return fail(r, section, NULL, "expected a mapping, got %s",
			conf_node_kind_name(section));
	for (size_t i = 0; i < section->n; i += 2) {
		const struct conf_node *key = section->items[i];
		size_t k = 0;

		while (k < n && strcmp(known[k], key->text))
			k++;
		if (k == n)
			return fail(r, key, key->text, "unknown key");
	}
	return 0;
}

static int read_text(
	struct reader *r, const struct conf_node *section, const char *key, const char **ret)
{
	const struct conf_node *n = get(section, key);

	*ret = NULL;
	if (!n)
		return 0;
	if (n->kind != CONF_SCALAR)
		return fail(r, n, key, "expected text, got %s", conf_node_kind_name(n));
	*ret = arena_strdup(&r->c->arena, n->text);
	return *ret ? 0 : out_of_memory(r);
}

static int check_bool(struct reader *r, const struct conf_node *section, const char *key)
{
	const struct conf_node *n = get(section, key);

	if (n && (n->kind != CONF_SCALAR || (strcmp(n->text, "true") && strcmp(n->text, "false"))))
		return fail(r, n, key, "expected true or false");
	return 0;
}

static int find_name(struct reader *r, const struct conf_node *n, const char *key,
	const struct name_pair *names, size_t n_names, size_t *ret)
{
	struct bytes list;
	int e;

	for (size_t i = 0; n->kind == CONF_SCALAR && i < n_names; i++)
		if (!strcmp(n->text, names[i].go)) {
			*ret = i;
			return 0;
		}
	bytes_init(&list, NULL, 0);
	for (size_t i = 0; i < n_names; i++)
		bytes_printf(&list, "%s%s", i ? ", " : "", names[i].go);
	e = fail(r, n, key, "\"%.60s\" is not known, expected one of %.*s",
		n->kind == CONF_SCALAR ? n->text : conf_node_kind_name(n), (int)list.len,
		(const char *)list.data);
	bytes_done(&list);
	return e;
}

/* A file named in the configuration, whole and with a NUL. */
static int read_file(
	struct reader *r, const struct conf_node *at, const char *key, const char **ret)
{
	struct web_file *f = &r->c->files[r->c->n_files];
	const char *slash = strrchr(r->path, '/');
	_cleanup_free_ char *path =
		at->text[0] == '/' || !slash
			? xstrdup(at->text)
			: xasprintf("%.*s/%s", (int)(slash - r->path), r->path, at->text);
	_cleanup_bytes_ struct bytes b;
	int e;

	bytes_init(&b, NULL, 0);
	ASSERT(r->c->n_files < WEB_MAX_FILES);
	e = r->fs->stat(r->fs, path, &f->stat);
	if (e == 0)
		e = fs_read_file(r->fs, path, MAX_FILE_BYTES, &b, NULL);
	if (e < 0)
		return fail(r, at, key, "cannot read %s: %s", path, strerror(-e));
	bytes_put_u8(&b, 0);
	f->path = arena_strdup(&r->c->arena, path);
	*ret = bytes_error(&b) == 0 ? arena_strdup(&r->c->arena, (const char *)b.data) : NULL;
	if (!f->path || !*ret)
		return out_of_memory(r);
	r->c->n_files++;
	return 0;
}

/* KEY in the file itself or KEY_file beside it, not both. */
static int read_pem(
	struct reader *r, const struct conf_node *section, const char *key, const char **ret)
{
	char file_key[32];
	const struct conf_node *in_file;
	int e;

	snprintf(file_key, sizeof(file_key), "%s_file", key);
	in_file = get(section, file_key);
	e = read_text(r, section, key, ret);
	if (e < 0 || !in_file)
		return e;
	if (is_empty_text(in_file))
		return 0;
	if (*ret)
		return fail(r, in_file, file_key, "stands beside %s: give one of them", key);
	if (in_file->kind != CONF_SCALAR)
		return fail(r, in_file, file_key, "expected a path, got %s",
			conf_node_kind_name(in_file));
	return read_file(r, in_file, file_key, ret);
}

/* Adds "+PART" for each part that is not there yet. */
static void add_parts(struct bytes *priority, const char *parts)
{
	char part[48];

	while (*parts) {
		size_t n = strcspn(parts, " ");

		snprintf(part, sizeof(part), ":+%.*s", (int)n, parts);
		bytes_put_u8(priority, 0);
		priority->len--;
		if (!strstr((const char *)priority->data, part))
			bytes_put_str(priority, part);
		parts += n + strspn(parts + n, " ");
	}
}

static int read_names(struct reader *r, const struct conf_node *section, const char *key,
	const struct name_pair *names, size_t n_names, struct bytes *priority, bool *ret_any)
{
	const struct conf_node *list = get(section, key);

	*ret_any = false;
	if (!list)
		return 0;
	if (list->kind != CONF_SEQUENCE)
		return fail(r, list, key, "expected a list, got %s", conf_node_kind_name(list));
	for (size_t i = 0; i < list->n; i++) {
		size_t at = 0;
		int e = find_name(r, list->items[i], key, names, n_names, &at);

		if (e < 0)
			return e;
		add_parts(priority, names[at].gnutls);
		*ret_any = true;
	}
	return 0;
}

static int read_version(struct reader *r, const struct conf_node *section, const char *key,
	size_t fallback, size_t *ret)
{
	const struct conf_node *n = get(section, key);

	*ret = fallback;
	return n ? find_name(r, n, key, versions, ARRAY_SIZE(versions), ret) : 0;
}

static int read_priority(struct reader *r, const struct conf_node *section)
{
	const struct conf_node *cipher_preference = get(section, "prefer_server_cipher_suites");
	_cleanup_bytes_ struct bytes p;
	size_t min = 2, max = 3;
	bool any_suite = false, any_curve = false;
	int e = check_bool(r, section, "prefer_server_cipher_suites");

	bytes_init(&p, NULL, 0);
	e = e ? e : read_version(r, section, "min_version", 2, &min);
	e = e ? e : read_version(r, section, "max_version", 3, &max);
	if (e == 0 && min > max)
		return fail(r, section, "min_version", "%s is above max_version %s",
			versions[min].go, versions[max].go);
	/* TLS 1.3's suites cannot be chosen, as in Go. */
	bytes_put_str(&p, "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD");
	for (size_t v = min; e == 0 && v <= max; v++)
		bytes_printf(&p, ":+%s", versions[v].gnutls);
	e = e ? e
	      : read_names(r, section, "cipher_suites", suites, ARRAY_SIZE(suites), &p, &any_suite);
	if (e == 0 && any_suite && max == 3)
		add_parts(&p, "AES-256-GCM CHACHA20-POLY1305 AES-128-GCM");
	if (e == 0 && !any_suite) {
		p.len = 0;
		bytes_put_str(&p, "NORMAL:-VERS-ALL");
		for (size_t v = min; v <= max; v++)
			bytes_printf(&p, ":+%s", versions[v].gnutls);
	}
	if (e == 0 && get(section, "curve_preferences"))
		bytes_put_str(&p, ":-GROUP-ALL");
	e = e ? e
	      : read_names(r, section, "curve_preferences", curves, ARRAY_SIZE(curves), &p,
			&any_curve);
	if (e == 0 && !any_curve && get(section, "curve_preferences"))
		bytes_put_str(&p, ":+GROUP-ALL");
	if (e == 0 && !(cipher_preference && !strcmp(cipher_preference->text, "false")))
		bytes_put_str(&p, ":%SERVER_PRECEDENCE");
	if (e < 0)
		return e;
	bytes_put_u8(&p, 0);
	r->c->priority =
		bytes_error(&p) == 0 ? arena_strdup(&r->c->arena, (const char *)p.data) : NULL;
	return r->c->priority ? 0 : out_of_memory(r);
}

static int read_client_auth(struct reader *r, const struct conf_node *section)
{
	const struct conf_node *auth = get(section, "client_auth_type");
	const struct conf_node *sans = get(section, "client_allowed_sans");
	struct web_config *c = r->c;
	size_t at = 0;
	int e = read_pem(r, section, "client_ca", &c->client_ca_pem);

	if (e == 0 && auth && !is_empty_text(auth))
		e = find_name(
			r, auth, "client_auth_type", client_auths, ARRAY_SIZE(client_auths), &at);
	if (e < 0)
		return e;
	c->client_auth =
		at > WEB_CLIENT_REQUIRE_VERIFY ? WEB_CLIENT_REQUIRE_ANY : (enum web_client_auth)at;
	if (c->client_ca_pem && c->client_auth == WEB_CLIENT_NONE)
		return fail(r, section, "client_ca_file",
			"has no effect without client_auth_type: set it to "
			"RequireAndVerifyClientCert");
	if (!sans)
		return 0;
	if (sans->kind != CONF_SEQUENCE)
		return fail(r, sans, "client_allowed_sans", "expected a list, got %s",
			conf_node_kind_name(sans));
	/* Clients without a certificate, or with one that nobody vouches for, would come in past the list. */
	if (c->client_auth != WEB_CLIENT_REQUIRE_VERIFY)
		return fail(r, sans, "client_allowed_sans",
			"needs client_auth_type RequireAndVerifyClientCert: with another one "
			"clients "
			"come in without proving any of these names");
	c->client_sans = arena_zalloc(&c->arena, MAX(sans->n, 1U) * sizeof(*c->client_sans));
	for (size_t i = 0; c->client_sans && i < sans->n; i++) {
		if (sans->items[i]->kind != CONF_SCALAR)
			return fail(r, sans->items[i], "client_allowed_sans", "expected text");
		c->client_sans[i] = arena_strdup(&c->arena, sans->items[i]->text);
		if (!c->client_sans[i])
			return out_of_memory(r);
		c->n_client_sans++;
	}
	return c->client_sans ? 0 : out_of_memory(r);
}

static int read_tls(struct reader *r, const struct conf_node *section)
{
	static const char *const known[] = {"cert", "cert_file", "key", "key_file", "client_ca",
		"client_ca_file", "client_auth_type", "client_allowed_sans", "min_version",
		"max_version", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences"};
	struct web_config *c = r->c;
	int e;

	r->section = "tls_server_config";
	e = check_keys(r, section, known, ARRAY_SIZE(known));
	e = e ? e : read_pem(r, section, "cert", &c->cert_pem);
	e = e ? e : read_pem(r, section, "key", &c->key_pem);
	e = e ? e : read_client_auth(r, section);
	e = e ? e : read_priority(r, section);
	if (e < 0)
		return e;
	/* exporter-toolkit: a section without certificate and key is no TLS at all, one of them alone is a mistake */
	if (!c->cert_pem != !c->key_pem)
		return fail(r, section, NULL, "%s is missing beside %s",
			c->cert_pem ? "key_file" : "cert_file",
			c->cert_pem ? "cert_file" : "key_file");
	c->has_tls = c->cert_pem != NULL;
	if (!c->has_tls && section->n)
		return fail(r, section, NULL, "cert_file and key_file are missing");
	return 0;
}

/* As exporter-toolkit, so that one file serves both. */
static int check_header_value(struct reader *r, const struct conf_node *at, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(header_values); i++) {
		const char *const *values = header_values[i].values;

		if (strcmp(header_values[i].header, name) || is_empty_text(at) ||
			!strcmp(at->text, values[0]) || (values[1] && !strcmp(at->text, values[1])))
			continue;
		return fail(r, at, name, "\"%.60s\" is not known, expected %s%s%s", at->text,
			values[0], values[1] ? " or " : "", values[1] ? values[1] : "");
	}
	return 0;
}

static int read_headers(struct reader *r, const struct conf_node *headers)
{
	r->section = "http_server_config.headers";
	if (headers->kind != CONF_MAPPING)
		return fail(r, headers, NULL, "expected a mapping, got %s",
			conf_node_kind_name(headers));
	for (size_t i = 0; i < headers->n; i += 2) {
		size_t at = 0;
		int e = find_name(
			r, headers->items[i], NULL, header_names, ARRAY_SIZE(header_names), &at);
		struct web_pair *h = &r->c->headers[r->c->n_headers];

		if (e == 0)
			e = read_text(r, headers, header_names[at].go, &h->value);
		if (e == 0 && h->value)
			e = check_header_value(r, headers->items[i + 1], header_names[at].go);
		if (e < 0)
			return e;
		h->name = header_names[at].go;
		r->c->n_headers += h->value && *h->value;
	}
	return 0;
}

static int read_http(struct reader *r, const struct conf_node *section)
{
	static const char *const known[] = {"http2", "headers"};
	const struct conf_node *headers;
	int e;

	r->section = "http_server_config";
	e = check_keys(r, section, known, ARRAY_SIZE(known));
	/* This server speaks HTTP/1.1 alone, so either value holds. */
	e = e ? e : check_bool(r, section, "http2");
	headers = get(section, "headers");
	return e < 0 || !headers ? e : read_headers(r, headers);
}

static bool is_bcrypt(const char *hash)
{
	return strlen(hash) == BCRYPT_LEN && hash[0] == '$' && hash[1] == '2' &&
	       strchr("aby", hash[2]) && hash[3] == '$' && hash[4] >= '0' && hash[4] <= '3' &&
	       hash[5] >= '0' && hash[5] <= '9' && hash[6] == '$';
}

static int read_users(struct reader *r, const struct conf_node *section)
{
	struct web_config *c = r->c;

	r->section = "basic_auth_users";
	if (section->kind != CONF_MAPPING)
		return fail(r, section, NULL, "expected a mapping, got %s",
			conf_node_kind_name(section));
	c->users = arena_zalloc(&c->arena, MAX(section->n, 1U) * sizeof(*c->users));
	if (!c->users)
		return out_of_memory(r);
	for (size_t i = 0; i < section->n; i += 2) {
		const struct conf_node *name = section->items[i], *hash = section->items[i + 1];
		struct web_pair *u = &c->users[c->n_users];

		/* The value is a secret: no error shows it. */
		if (hash->kind != CONF_SCALAR || !is_bcrypt(hash->text))
			return fail(r, hash, name->text,
				"expected a bcrypt hash (\"$2y$…\", 60 characters, as `htpasswd "
				"-nBC 10 USER` prints)");
		u->name = arena_strdup(&c->arena, name->text);
		u->value = arena_strdup(&c->arena, hash->text);
		if (!u->name || !u->value)
			return out_of_memory(r);
		c->n_users++;
	}
	return 0;
}

static int read_rate(struct reader *r, const struct conf_node *section)
{
	static const char *const known[] = {"interval", "burst"};
	const struct conf_node *interval, *burst;
	struct errbuf eb = {0};
	int64_t ns = 0;
	int e;

	r->section = "rate_limit";
	e = check_keys(r, section, known, ARRAY_SIZE(known));
	if (e < 0)
		return e;
	interval = get(section, "interval");
	burst = get(section, "burst");
	if (interval && (interval->kind != CONF_SCALAR ||
				str_parse_go_duration_ns(interval->text, &ns, &eb) < 0))
		return fail(r, interval, "interval", "expected a duration such as 100ms: %s",
			err_text(&eb, -EINVAL));
	if (burst && (burst->kind != CONF_SCALAR ||
			     str_parse_u64(burst->text, &r->c->rate_burst, &eb) < 0))
		return fail(r, burst, "burst", "expected a number: %s", err_text(&eb, -EINVAL));
	if (ns && !r->c->rate_burst)
		return fail(r, interval, "burst",
			"must be at least 1 beside interval: nothing would be answered");
	r->c->rate_interval_ns = ns;
	return 0;
}

static int read_top(struct reader *r, const struct conf_node *top)
{
	static const char *const known[] = {
		"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"};
	int (*const readers[])(struct reader *, const struct conf_node *) = {
		read_tls, read_http, read_users, read_rate};
	int e = check_keys(r, top, known, ARRAY_SIZE(known));

	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(known); i++) {
		const struct conf_node *section = get(top, known[i]);

		if (section)
			e = readers[i](r, section);
		r->section = NULL;
	}
	return e;
}

static int read_config(struct reader *r, const char *path)
{
	struct web_file *f = &r->c->files[0];
	_cleanup_bytes_ struct bytes text;
	struct conf_node *top = NULL;
	int e;

	bytes_init(&text, NULL, 0);
	f->path = arena_strdup(&r->c->arena, path);
	if (!f->path)
		return out_of_memory(r);
	r->c->n_files = 1;
	e = r->fs->stat(r->fs, path, &f->stat);
	if (e < 0)
		return err_set(r->eb, e, "%s: %s", path, strerror(-e));
	e = fs_read_file(r->fs, path, MAX_FILE_BYTES, &text, r->eb);
	if (e == 0)
		e = conf_yaml_parse(path, text.data, text.len, &r->yaml, &top, r->eb);
	return e < 0 || !top ? e : read_top(r, top);
}

int web_config_load(struct fs *fs, const char *path, struct web_config **ret, struct errbuf *eb)
{
	_cleanup_(web_config_freep)
	struct web_config *c = xcalloc(1, sizeof(*c));
	struct reader r = {.fs = fs, .path = path, .c = c, .eb = eb};
	int e;

	arena_init(&c->arena, NULL);
	arena_init(&r.yaml, NULL);
	e = read_config(&r, path);
	arena_done(&r.yaml);
	if (e == 0)
		*ret = TAKE(c);
	return e;
}

void web_config_freep(struct web_config **c)
{
	if (*c)
		arena_done(&(*c)->arena);
	free(*c);
	*c = NULL;
}

bool web_config_is_stale(struct fs *fs, const struct web_config *c)
{
	for (size_t i = 0; i < c->n_files; i++) {
		const struct web_file *f = &c->files[i];
		struct fs_stat now = {0};

		if (fs->stat(fs, f->path, &now) < 0 || now.mtime_ns != f->stat.mtime_ns ||
			now.size_bytes != f->stat.size_bytes || now.ino != f->stat.ino ||
			now.dev != f->stat.dev)
			return true;
	}
	return false;
}
