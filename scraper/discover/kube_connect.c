/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the API server and the credentials for it: from the configuration, from a kubeconfig file, or, in a pod, from
 * the environment and the service account.
 */
#include "scraper/discover/kube.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/conf/conf_yaml.h"
#include "lib/net/kubernetes/kubernetes.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include <string.h>

enum { MAX_KUBECONFIG_BYTES = 4 << 20, MAX_NAMESPACE_BYTES = 4096 };

void kube_connection_done(struct kube_connection *c)
{
	arena_done(&c->arena);
}

/* Takes the URL of the server, without the slashes at its end. Without a scheme it is http, as to Kubernetes' own client. */
static int set_server(struct kube_connection *c, const char *given, struct errbuf *eb)
{
	_cleanup_free_ char *text = xasprintf("%s%s", strstr(given, "://") ? "" : "http://", given);
	_cleanup_bytes_ struct bytes shown = {0};
	_cleanup_url_ struct url u = {0};
	size_t n = strlen(text);
	int r = url_parse(text, &u, eb);

	if (r < 0)
		return r;
	if (u.query)
		return err_set(eb, -EINVAL, "a server's URL cannot have a query");
	while (n && text[n - 1] == '/')
		n--;
	url_print(&u, true, &shown);
	c->server = arena_strndup(&c->arena, text, n);
	c->shown_server = arena_strndup(&c->arena, (const char *)shown.data, shown.len);
	return arena_error(&c->arena, eb);
}

/* ── inside a cluster ── */

static int connect_in_cluster(struct fs *fs, struct kube_connection *c, struct errbuf *eb)
{
	_cleanup_free_ char *server = NULL;
	_cleanup_bytes_ struct bytes own = {0};
	struct errbuf why = {0};
	int r = kubernetes_in_cluster(&c->transport, &server, &why);
	size_t n;

	if (r < 0)
		return err_set(eb, r, "%s; outside give api_server or kubeconfig_file", why.text);
	if (fs_read_file(fs, KUBERNETES_ACCOUNT "namespace", MAX_NAMESPACE_BYTES, &own, NULL) ==
		0) {
		for (n = own.len; n && strchr(" \t\r\n", own.data[n - 1]);)
			n--;
		c->own_namespace = arena_strndup(&c->arena, n ? (const char *)own.data : "", n);
	}
	return set_server(c, server, eb);
}

/* ── kubeconfig ── */

struct reader {
	const char *path;
	struct kube_connection *c;
	struct errbuf *eb;
};

static const char *text_of(const struct conf_node *mapping, const char *key)
{
	const struct conf_node *n =
		mapping && mapping->kind == CONF_MAPPING ? conf_node_get(mapping, key) : NULL;

	return n && n->kind == CONF_SCALAR && !conf_node_is_null(n) && *n->text ? n->text : NULL;
}

/* The entry of that name in one of the lists: its mapping `kind`. */
static int find_entry(const struct reader *r, const struct conf_node *root, const char *list,
	const char *kind, const char *name, const struct conf_node **ret)
{
	const struct conf_node *entries = conf_node_get(root, list);

	for (size_t i = 0; entries && entries->kind == CONF_SEQUENCE && i < entries->n; i++) {
		const char *own = text_of(entries->items[i], "name");

		if (!own || strcmp(own, name))
			continue;
		*ret = conf_node_get(entries->items[i], kind);
		if (*ret && (*ret)->kind == CONF_MAPPING)
			return 0;
	}
	return err_set(r->eb, -EINVAL, "%s: %s has no \"%.100s\" with a mapping \"%s\"", r->path,
		list, name, kind);
}

/* The path of a file, relative to the kubeconfig's own directory; NULL where none is named. */
static const char *file_of(const struct reader *r, const struct conf_node *n, const char *key)
{
	const char *text = text_of(n, key), *slash = strrchr(r->path, '/');

	if (!text || *text == '/' || !slash)
		return text ? arena_strdup(&r->c->arena, text) : NULL;
	return arena_printf(&r->c->arena, "%.*s%s", (int)(slash + 1 - r->path), r->path, text);
}

/* The text behind a key with base64; *ret stays where there is none. */
static int data_of(
	const struct reader *r, const struct conf_node *n, const char *key, const char **ret)
{
	_cleanup_bytes_ struct bytes data = {0};
	const char *text = text_of(n, key);

	if (!text)
		return 0;
	if (str_decode_base64(text, strlen(text), &data) < 0)
		return err_set(r->eb, -EINVAL, "%s:%u: %s is not base64", r->path, n->line, key);
	*ret = arena_strndup(&r->c->arena, data.len ? (const char *)data.data : "", data.len);
	return 0;
}

static const char *copy_of(const struct reader *r, const struct conf_node *n, const char *key)
{
	const char *text = text_of(n, key);

	return text ? arena_strdup(&r->c->arena, text) : NULL;
}

static bool is_true(const struct conf_node *n, const char *key)
{
	const char *text = text_of(n, key);

	return text && !strcmp(text, "true");
}

static int read_cluster(const struct reader *r, const struct conf_node *n)
{
	struct http_transport *t = &r->c->transport;
	int e;

	if (!text_of(n, "server"))
		return err_set(
			r->eb, -EINVAL, "%s:%u: the cluster has no server", r->path, n->line);
	t->tls.insecure_skip_verify = is_true(n, "insecure-skip-tls-verify");
	t->tls.server_name = copy_of(r, n, "tls-server-name");
	t->proxy_url = copy_of(r, n, "proxy-url");
	e = data_of(r, n, "certificate-authority-data", &t->tls.ca);
	if (e < 0)
		return e;
	if (!t->tls.ca)
		t->tls.ca_file = file_of(r, n, "certificate-authority");
	return set_server(r->c, text_of(n, "server"), r->eb);
}

static int read_user(const struct reader *r, const struct conf_node *n)
{
	static const char *const foreign[] = {"exec", "auth-provider"};
	struct http_transport *t = &r->c->transport;
	int e;

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (conf_node_get(n, foreign[i]))
			return err_set(r->eb, -EOPNOTSUPP,
				"%s:%u: the user's credentials come from \"%s\", which is not "
				"supported: expected a token, a certificate or a password",
				r->path, n->line, foreign[i]);
	t->auth_credentials = copy_of(r, n, "token");
	t->auth_credentials_file = file_of(r, n, "tokenFile");
	t->basic_username = copy_of(r, n, "username");
	t->basic_password = copy_of(r, n, "password");
	e = data_of(r, n, "client-certificate-data", &t->tls.cert);
	if (e == 0)
		e = data_of(r, n, "client-key-data", &t->tls.key);
	if (e < 0)
		return e;
	if (!t->tls.cert)
		t->tls.cert_file = file_of(r, n, "client-certificate");
	if (!t->tls.key)
		t->tls.key_file = file_of(r, n, "client-key");
	return 0;
}

static int read_kubeconfig(const struct reader *r, const struct conf_node *root)
{
	const char *current = root ? text_of(root, "current-context") : NULL;
	const struct conf_node *context, *cluster, *user;
	int e;

	if (!current)
		return err_set(r->eb, -EINVAL, "%s: no current-context", r->path);
	e = find_entry(r, root, "contexts", "context", current, &context);
	if (e < 0)
		return e;
	if (!text_of(context, "cluster"))
		return err_set(r->eb, -EINVAL, "%s:%u: the context \"%.100s\" names no cluster",
			r->path, context->line, current);
	e = find_entry(r, root, "clusters", "cluster", text_of(context, "cluster"), &cluster);
	if (e == 0)
		e = read_cluster(r, cluster);
	if (e < 0 || !text_of(context, "user"))
		return e;
	e = find_entry(r, root, "users", "user", text_of(context, "user"), &user);
	return e < 0 ? e : read_user(r, user);
}

static int connect_by_file(
	struct fs *fs, const char *path, struct kube_connection *c, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text = {0};
	_cleanup_arena_ struct arena arena;
	struct reader reader = {.path = path, .c = c, .eb = eb};
	struct conf_node *root = NULL;
	int r;

	arena_init(&arena, NULL);
	c->transport.enable_http2 = true;
	r = fs_read_file(fs, path, MAX_KUBECONFIG_BYTES, &text, eb);
	if (r == 0)
		r = conf_yaml_parse(path, text.data, text.len, &arena, &root, eb);
	return r < 0 ? r : read_kubeconfig(&reader, root);
}

int kube_connect(struct fs *fs, const struct config_kubernetes_sd *sd, struct kube_connection *ret,
	struct errbuf *eb)
{
	*ret = (struct kube_connection) {0};
	arena_init(&ret->arena, NULL);
	if (sd->kubeconfig_file)
		return connect_by_file(fs, sd->kubeconfig_file, ret, eb);
	if (!sd->api_server)
		return connect_in_cluster(fs, ret, eb);
	ret->transport = sd->http.transport;
	return set_server(ret, sd->api_server, eb);
}
