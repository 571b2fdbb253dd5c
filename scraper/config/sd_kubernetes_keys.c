/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of kubernetes_sd_configs, what excludes what, and selectors, which are checked here so that the API server is never
 * asked with one it cannot read.
 */
#include "lib/base/str.h"
#include "scraper/config/keys.h"
#include <string.h>

/* In the order of enum config_kubernetes_role; 0 for a key that was not written. */
static const char *const roles[] = {
	"", "node", "pod", "service", "endpoints", "endpointslice", "ingress", NULL};

static const struct config_key namespaces_keys[] = {
	CONFIG_VALUE(struct config_kubernetes_namespaces, own_namespace, CONFIG_TYPE_BOOL,
		"own_namespace", "false"),
	CONFIG_VALUE(
		struct config_kubernetes_namespaces, names, CONFIG_TYPE_STRINGS, "names", NULL),
};
static config_check_fn check_namespaces;
const struct config_section config_keys_kubernetes_namespaces = CONFIG_SECTION(
	"namespaces", namespaces_keys, struct config_kubernetes_namespaces, check_namespaces);

static const struct config_key selector_keys[] = {
	{.name = "role",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_kubernetes_selector, role),
		.names = roles},
	CONFIG_VALUE(struct config_kubernetes_selector, label, CONFIG_TYPE_STRING, "label", NULL),
	CONFIG_VALUE(struct config_kubernetes_selector, field, CONFIG_TYPE_STRING, "field", NULL),
};
static config_check_fn check_selector;
const struct config_section config_keys_kubernetes_selector = CONFIG_SECTION(
	"selectors[]", selector_keys, struct config_kubernetes_selector, check_selector);

#define ATTACH(name_, field_) \
	CONFIG_VALUE(struct config_kubernetes_attach, field_, CONFIG_TYPE_BOOL, name_, "false")
static const struct config_key attach_keys[] = {
	ATTACH("node", node),
	ATTACH("namespace", namespace),
	ATTACH("deployment", deployment),
	ATTACH("job", job),
	ATTACH("cronjob", cronjob),
};
const struct config_section config_keys_kubernetes_attach =
	CONFIG_SECTION("attach_metadata", attach_keys, struct config_kubernetes_attach, NULL);

enum { N_OWN_KEYS = 6 }; /* those below that are not the HTTP client's */
static const struct config_key kubernetes_sd_keys[] = {
	{.name = "role",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_kubernetes_sd, role),
		.names = roles},
	CONFIG_VALUE(
		struct config_kubernetes_sd, api_server, CONFIG_TYPE_SERVER, "api_server", NULL),
	CONFIG_VALUE(struct config_kubernetes_sd, kubeconfig_file, CONFIG_TYPE_PATH,
		"kubeconfig_file", NULL),
	CONFIG_NESTED(struct config_kubernetes_sd, namespaces, "namespaces",
		&config_keys_kubernetes_namespaces),
	CONFIG_COUNTED(struct config_kubernetes_sd, selectors, n_selectors, CONFIG_TYPE_LIST,
		"selectors", &config_keys_kubernetes_selector),
	CONFIG_NESTED(struct config_kubernetes_sd, attach, "attach_metadata",
		&config_keys_kubernetes_attach),
	CONFIG_HTTP_KEYS(struct config_kubernetes_sd, http),
};
static config_check_fn check_kubernetes_sd;
const struct config_section config_keys_kubernetes_sd = CONFIG_SECTION("kubernetes_sd_configs[]",
	kubernetes_sd_keys, struct config_kubernetes_sd, check_kubernetes_sd);

/* A namespace is part of a path. */
static int check_namespaces(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_kubernetes_namespaces *n = object;

	(void)node;
	for (size_t i = 0; i < n->names.n; i++) {
		const char *name = n->names.items[i];
		char key[64];

		if (*name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")])
			continue;
		snprintf(key, sizeof(key), "names[%zu]", i);
		return config_fail(r, config_seen_key(seen, "names"), key,
			"\"%.60s\" is not the name of a namespace", name);
	}
	return 0;
}

static void skip_blanks(const char **s)
{
	*s += strspn(*s, " \t");
}

/* A key or a value: what Kubernetes allows in them, an empty value too. */
static size_t take_word(const char **s)
{
	size_t n = strspn(*s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./");

	*s += n;
	skip_blanks(s);
	return n;
}

static bool take(const char **s, const char *text)
{
	if (!str_starts_with(*s, text))
		return false;
	*s += strlen(text);
	skip_blanks(s);
	return true;
}

/* "(a, b)" */
static bool take_set(const char **s)
{
	if (!take(s, "("))
		return false;
	do
		take_word(s);
	while (take(s, ","));
	return take(s, ")");
}

/* One of: key, !key, key=v, key==v, key!=v, key>n, key<n, key in (a,b), key notin (a,b). */
static bool take_requirement(const char **s)
{
	bool is_negated = take(s, "!");

	if (!take_word(s))
		return false;
	if (is_negated || !**s || **s == ',')
		return true;
	if (take(s, "notin") || take(s, "in"))
		return take_set(s);
	if (take(s, ">") || take(s, "<"))
		return take_word(s) > 0;
	if (!take(s, "==") && !take(s, "=") && !take(s, "!="))
		return false;
	take_word(s);
	return true;
}

static bool is_label_selector(const char *s)
{
	skip_blanks(&s);
	do {
		if (!take_requirement(&s))
			return false;
	} while (take(&s, ","));
	return !*s;
}

/* path=value, path==value or path!=value, separated by commas; a backslash escapes in values. */
static bool is_field_selector(const char *s)
{
	do {
		skip_blanks(&s);
		if (!take_word(&s) || (!take(&s, "==") && !take(&s, "=") && !take(&s, "!=")))
			return false;
		while (*s && *s != ',' && *s != '=') {
			if (*s == '\\' && !(s[1] && strchr("\\,=", s[1])))
				return false;
			s += *s == '\\' ? 2 : 1;
		}
	} while (*s == ',' && *++s);
	return !*s;
}

static int check_selector(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_kubernetes_selector *s = object;

	if (!s->role)
		return config_fail(r, node, "role", "is missing");
	if (s->label && *s->label && !is_label_selector(s->label))
		return config_fail(r, config_seen_key(seen, "label"), "label",
			"\"%.100s\" is not a label selector, expected for example \"app=web,tier "
			"in "
			"(a,b),!canary\"",
			s->label);
	if (s->field && *s->field && !is_field_selector(s->field))
		return config_fail(r, config_seen_key(seen, "field"), "field",
			"\"%.100s\" is not a field selector, expected for example "
			"\"spec.nodeName=n1\"",
			s->field);
	return 0;
}

/* Whether discovery of `role` asks for resources of the selector's. */
static bool role_uses(int role, int selector)
{
	switch (role) {
	case CONFIG_KUBERNETES_POD:
		return selector == CONFIG_KUBERNETES_POD || selector == CONFIG_KUBERNETES_NODE;
	case CONFIG_KUBERNETES_ENDPOINTS:
	case CONFIG_KUBERNETES_ENDPOINTSLICE:
		return selector == role || selector == CONFIG_KUBERNETES_POD ||
		       selector == CONFIG_KUBERNETES_SERVICE;
	default: return selector == role;
	}
}

static int check_selectors(struct config_reader *r, const struct config_kubernetes_sd *sd,
	const struct config_seen *seen)
{
	for (size_t i = 0; i < sd->n_selectors; i++) {
		const struct conf_node *at = config_seen_key(seen, "selectors")->items[i];
		int role = sd->selectors[i].role;
		char key[64];

		snprintf(key, sizeof(key), "selectors[%zu].role", i);
		if (!role_uses(sd->role, role))
			return config_fail(r, at, key, "%s selectors have no effect on role %s",
				roles[role], roles[sd->role]);
		for (size_t k = 0; k < i; k++)
			if (sd->selectors[k].role == role)
				return config_fail(r, at, key,
					"a second selector for %s, expected one for each role",
					roles[role]);
	}
	return 0;
}

/* Prometheus prints what nobody wrote too, and takes that again. */
static bool is_usual(const struct config_key *key, const struct conf_node *value)
{
	return key->default_text && value->kind == CONF_SCALAR &&
	       !strcmp(value->text, key->default_text);
}

/* What only an explicit api_server goes with. */
static int check_server(struct config_reader *r, const struct config_kubernetes_sd *sd,
	const struct config_seen *seen)
{
	const struct conf_node *kubeconfig = config_seen_key(seen, "kubeconfig_file");
	bool is_in_cluster = !sd->api_server && !sd->kubeconfig_file;

	if (sd->api_server && strstr(sd->api_server, "://") &&
		!str_starts_with(sd->api_server, "http://") &&
		!str_starts_with(sd->api_server, "https://"))
		return config_fail(r, config_seen_key(seen, "api_server"), "api_server",
			"expected a URL that starts with http:// or https://, or host:port");
	if (sd->api_server && sd->kubeconfig_file)
		return config_fail(r, kubeconfig, "kubeconfig_file",
			"stands beside api_server, expected at most one of them");
	for (size_t i = N_OWN_KEYS; i < ARRAY_SIZE(kubernetes_sd_keys) && !sd->api_server; i++) {
		const char *name = kubernetes_sd_keys[i].name;
		const struct conf_node *value = config_seen_key(seen, name);

		if (value && !is_usual(&kubernetes_sd_keys[i], value))
			return config_fail(r, value, name,
				"needs api_server: %s says how the server is asked",
				sd->kubeconfig_file ? "the kubeconfig file" : "the cluster");
	}
	if (sd->namespaces.own_namespace && !is_in_cluster)
		return config_fail(r, config_seen_key(seen, "namespaces"),
			"namespaces.own_namespace",
			"is only known inside a cluster, expected neither api_server nor "
			"kubeconfig_file");
	return 0;
}

static int check_kubernetes_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_kubernetes_sd *sd = object;
	int e;

	if (!sd->role)
		return config_fail(r, node, "role",
			"is missing, expected node, pod, service, endpoints, endpointslice or "
			"ingress");
	if (sd->kubeconfig_file && !*sd->kubeconfig_file)
		sd->kubeconfig_file = NULL;
	e = check_server(r, sd, seen);
	if (e == 0)
		e = check_selectors(r, sd, seen);
	return e < 0 ? e : config_check_http(r, &sd->http, seen);
}
