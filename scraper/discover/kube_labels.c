/* SPDX-License-Identifier: Apache-2.0
 *
 * From objects to groups: labels that kinds share, and the roles node, pod, service and ingress. Source: prometheus
 * discovery/kubernetes, facts of version 3.
 */
#include "scraper/discover/kube.h"
#include "scraper/discover/build.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "scraper/config/config.h"
#include <ctype.h>
#include <string.h>

const char *kube_text(const struct json_value *object, const char *key, char *buf)
{
	const struct json_value *v = json_value_get(object, key);

	if (!v)
		return "";
	switch (json_value_kind(v)) {
	case JSON_KIND_STRING: return json_value_str(v);
	case JSON_KIND_INT:
		if (!buf)
			return "";
		snprintf(buf, 32, "%lld", (long long)json_value_int(v));
		return buf;
	case JSON_KIND_BOOL: return json_value_bool(v) ? "true" : "false";
	default: return "";
	}
}

void kube_set(struct labels_builder *b, const char *name, const char *value)
{
	char label[128];

	snprintf(label, sizeof(label), "__meta_kubernetes_%s", name);
	labels_builder_set(b, label, value);
}

void kube_set_key(struct labels_builder *b, const char *name, const char *key, const char *value)
{
	char prefix[128];

	snprintf(prefix, sizeof(prefix), "__meta_kubernetes_%s", name);
	discover_set_named(b, prefix, key, value);
}

/* NAME_<key> and NAMEpresent_<key> for each member that is text. */
static void set_map(struct labels_builder *b, const char *name, const struct json_value *map)
{
	const struct json_value *value;
	const char *key;
	char with[96], present[96];

	snprintf(with, sizeof(with), "%s_", name);
	snprintf(present, sizeof(present), "%spresent_", name);
	for (void *at = NULL; map && json_value_next(map, &at, &key, &value);) {
		if (!json_value_str(value))
			continue;
		kube_set_key(b, with, key, json_value_str(value));
		kube_set_key(b, present, key, "true");
	}
}

/* ROLE_label_* and ROLE_annotation_*. */
static void set_maps(struct labels_builder *b, const char *role, const struct json_value *meta)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_label", role);
	set_map(b, name, json_value_get(meta, "labels"));
	snprintf(name, sizeof(name), "%s_annotation", role);
	set_map(b, name, json_value_get(meta, "annotations"));
}

void kube_set_meta(struct labels_builder *b, const char *role, const struct json_value *object)
{
	const struct json_value *meta = json_value_get(object, "metadata");

	kube_set_key(b, role, "_name", kube_text(meta, "name", NULL));
	set_maps(b, role, meta);
}

static const char *namespace_of(const struct json_value *object)
{
	return kube_text(json_value_get(object, "metadata"), "namespace", NULL);
}

void kube_set_namespace(
	struct kube_view *v, struct labels_builder *b, const struct json_value *object)
{
	const char *name = namespace_of(object);
	const struct json_value *ns;

	kube_set(b, "namespace", name);
	if (!v->attach_namespace)
		return;
	ns = kube_view_find(v, KUBE_NAMESPACES, NULL, name);
	if (ns)
		set_maps(b, "namespace", json_value_get(ns, "metadata"));
}

const struct json_value *kube_view_find(
	struct kube_view *v, enum kube_resource r, const char *namespace, const char *name)
{
	_cleanup_free_ char *key = namespace ? xasprintf("%s/%s", namespace, name) : xstrdup(name);
	const struct kube_object *o = kube_store_find(&v->stores[r], key);

	return o && !o->is_deleted ? json_doc_root(o->doc) : NULL;
}

void kube_set_address(struct labels_builder *b, const char *host, const char *port)
{
	_cleanup_free_ char *address =
		xasprintf(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);

	labels_builder_set(b, "__address__", address);
}

void kube_add_target(struct kube_group *g)
{
	struct discover_group *group = g->group;

	if (g->error == 0)
		g->error = alloc_grow(
			&group->targets, &g->cap, group->n_targets + 1, sizeof(*group->targets));
	if (g->error == 0)
		g->error = labels_builder_finish(&g->target, &group->targets[group->n_targets]);
	if (g->error == 0)
		group->n_targets++;
	labels_builder_reset(&g->target, NULL);
}

/* ── node ── */

void kube_set_node(struct kube_view *v, struct labels_builder *b, const char *name)
{
	const struct json_value *node =
		v->attach_node && *name ? kube_view_find(v, KUBE_NODES, NULL, name) : NULL;

	if (node)
		kube_set_meta(b, "node", node);
}

static char *to_lower(const char *text)
{
	char *lower = xstrdup(text);

	for (char *c = lower; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return lower;
}

/* Both the type, in the label's name, and the status are in small letters. */
static void set_condition(struct labels_builder *b, const struct json_value *condition)
{
	_cleanup_free_ char *type = to_lower(kube_text(condition, "type", NULL)),
			    *status = to_lower(kube_text(condition, "status", NULL));

	kube_set_key(b, "node_condition_", type, status);
}

/* The first address of this type. */
static const char *address_of(const struct json_value *addresses, const char *type)
{
	const struct json_value *a;

	for (size_t i = 0; (a = json_value_at(addresses, i)); i++)
		if (!strcmp(kube_text(a, "type", NULL), type))
			return kube_text(a, "address", NULL);
	return "";
}

static void make_node(struct kube_group *g, struct labels_builder *b, const struct json_value *node)
{
	static const char *const order[] = {"InternalIP", "InternalDNS", "ExternalIP",
		"ExternalDNS", "LegacyHostIP", "Hostname"};
	const struct json_value *status = json_value_get(node, "status"), *item;
	const struct json_value *addresses = json_value_get(status, "addresses");
	const struct json_value *kubelet =
		json_value_get(json_value_get(status, "daemonEndpoints"), "kubeletEndpoint");
	const char *address = "", *port;
	char buf[32];

	kube_set_meta(b, "node", node);
	kube_set(
		b, "node_provider_id", kube_text(json_value_get(node, "spec"), "providerID", NULL));
	for (size_t i = 0; (item = json_value_at(json_value_get(status, "conditions"), i)); i++)
		set_condition(b, item);
	for (size_t i = 0; i < ARRAY_SIZE(order) && !*address; i++)
		address = address_of(addresses, order[i]);
	if (!*address)
		return;
	port = kube_text(kubelet, "Port", buf);
	kube_set_address(&g->target, address, *port ? port : "0");
	labels_builder_set(
		&g->target, "instance", kube_text(json_value_get(node, "metadata"), "name", NULL));
	for (size_t i = 0; (item = json_value_at(addresses, i)); i++) {
		const char *type = kube_text(item, "type", NULL);

		kube_set_key(&g->target, "node_address_", type, address_of(addresses, type));
	}
	kube_add_target(g);
}

/* ── pod ── */

/* The owner that manages an object, or NULL. */
static const struct json_value *controller_of(const struct json_value *object)
{
	const struct json_value *owners =
		json_value_get(json_value_get(object, "metadata"), "ownerReferences");
	const struct json_value *owner;

	for (size_t i = 0; (owner = json_value_at(owners, i)); i++)
		if (json_value_bool(json_value_get(owner, "controller")))
			return owner;
	return NULL;
}

/* The controller of a pod's controller: a ReplicaSet's Deployment, a Job's CronJob. */
static void set_grandparent(struct kube_view *v, struct labels_builder *b,
	const struct json_value *pod, enum kube_resource r, const char *kind, const char *label)
{
	const struct json_value *owner = controller_of(pod), *object, *above;

	object = kube_view_find(v, r, namespace_of(pod), kube_text(owner, "name", NULL));
	above = object ? controller_of(object) : NULL;
	if (above && !strcmp(kube_text(above, "kind", NULL), kind))
		kube_set(b, label, kube_text(above, "name", NULL));
}

static void set_controller(
	struct kube_view *v, struct labels_builder *b, const struct json_value *pod)
{
	const struct json_value *owner = controller_of(pod);
	const char *kind = kube_text(owner, "kind", NULL);

	kube_set(b, "pod_controller_kind", kind);
	kube_set(b, "pod_controller_name", kube_text(owner, "name", NULL));
	if (!strcmp(kind, "ReplicaSet") && v->attach_deployment)
		set_grandparent(v, b, pod, KUBE_REPLICASETS, "Deployment", "pod_deployment_name");
	if (!strcmp(kind, "Job") && v->attach_job)
		kube_set(b, "pod_job_name", kube_text(owner, "name", NULL));
	if (!strcmp(kind, "Job") && v->attach_cronjob)
		set_grandparent(v, b, pod, KUBE_JOBS, "CronJob", "pod_cronjob_name");
}

void kube_set_pod(struct kube_view *v, struct labels_builder *b, const struct json_value *pod)
{
	const struct json_value *status = json_value_get(pod, "status"), *condition;
	const struct json_value *conditions = json_value_get(status, "conditions");
	_cleanup_free_ char *ready = NULL;

	kube_set_meta(b, "pod", pod);
	kube_set(b, "pod_ip", kube_text(status, "podIP", NULL));
	for (size_t i = 0; !ready && (condition = json_value_at(conditions, i)); i++)
		if (!strcmp(kube_text(condition, "type", NULL), "Ready"))
			ready = to_lower(kube_text(condition, "status", NULL));
	kube_set(b, "pod_ready", ready ? ready : "unknown");
	kube_set(b, "pod_phase", kube_text(status, "phase", NULL));
	kube_set(b, "pod_node_name", kube_text(json_value_get(pod, "spec"), "nodeName", NULL));
	kube_set(b, "pod_host_ip", kube_text(status, "hostIP", NULL));
	kube_set(b, "pod_uid", kube_text(json_value_get(pod, "metadata"), "uid", NULL));
	set_controller(v, b, pod);
}

const struct json_value *kube_container(const struct json_value *pod, size_t i, bool *ret_is_init)
{
	const struct json_value *spec = json_value_get(pod, "spec");
	const struct json_value *containers = json_value_get(spec, "containers");
	size_t n = json_value_len(containers);

	*ret_is_init = i >= n;
	return i < n ? json_value_at(containers, i)
		     : json_value_at(json_value_get(spec, "initContainers"), i - n);
}

static void set_container(struct labels_builder *b, const struct json_value *pod,
	const struct json_value *container, bool is_init)
{
	const char *name = kube_text(container, "name", NULL);
	const struct json_value *statuses = json_value_get(json_value_get(pod, "status"),
		is_init ? "initContainerStatuses" : "containerStatuses");
	const struct json_value *status;

	kube_set(b, "pod_container_name", name);
	kube_set(b, "pod_container_image", kube_text(container, "image", NULL));
	kube_set(b, "pod_container_init", is_init ? "true" : "false");
	for (size_t i = 0; (status = json_value_at(statuses, i)); i++)
		if (!strcmp(kube_text(status, "name", NULL), name))
			kube_set(b, "pod_container_id", kube_text(status, "containerID", NULL));
}

static void make_pod(struct kube_group *g, struct labels_builder *b, const struct json_value *pod)
{
	const char *ip = kube_text(json_value_get(pod, "status"), "podIP", NULL);
	const char *node = kube_text(json_value_get(pod, "spec"), "nodeName", NULL);
	const struct json_value *container, *port;
	bool is_init;
	char buf[32];

	/* so a selector of nodes selects pods */
	if (!*ip || (g->view->attach_node && !kube_view_find(g->view, KUBE_NODES, NULL, node)))
		return;
	kube_set_pod(g->view, b, pod);
	kube_set_namespace(g->view, b, pod);
	kube_set_node(g->view, b, node);
	for (size_t i = 0; (container = kube_container(pod, i, &is_init)); i++) {
		const struct json_value *ports = json_value_get(container, "ports");

		if (!json_value_len(ports)) {
			labels_builder_set(&g->target, "__address__", ip);
			set_container(&g->target, pod, container, is_init);
			kube_add_target(g);
		}
		for (size_t k = 0; (port = json_value_at(ports, k)); k++) {
			const char *number = kube_text(port, "containerPort", buf);

			kube_set_address(&g->target, ip, number);
			set_container(&g->target, pod, container, is_init);
			kube_set(&g->target, "pod_container_port_number", number);
			kube_set(&g->target, "pod_container_port_name",
				kube_text(port, "name", NULL));
			kube_set(&g->target, "pod_container_port_protocol",
				kube_text(port, "protocol", NULL));
			kube_add_target(g);
		}
	}
}

/* ── service ── */

void kube_set_service(
	struct kube_view *v, struct labels_builder *b, const char *namespace, const char *name)
{
	const struct json_value *service = kube_view_find(v, KUBE_SERVICES, namespace, name);

	if (service)
		kube_set_meta(b, "service", service);
}

/* The addresses that the load balancer got, joined by commas; else the one that was asked for in the old way. */
static void set_balancer(struct labels_builder *t, const struct json_value *service)
{
	const struct json_value *ingress = discover_json_at(service, "status.loadBalancer.ingress");
	_cleanup_bytes_ struct bytes all = {0};

	for (size_t i = 0; i < json_value_len(ingress); i++) {
		const char *ip = kube_text(json_value_at(ingress, i), "ip", NULL);

		if (*ip)
			bytes_printf(&all, "%s%s", all.len ? "," : "", ip);
	}
	bytes_put_u8(&all, 0);
	if (bytes_error(&all) < 0)
		t->error = -ENOMEM;
	else
		kube_set(t, "service_loadbalancer_ip",
			all.len > 1 ? (const char *)all.data
				    : discover_json_text(service, "spec.loadBalancerIP"));
}

static void make_service(
	struct kube_group *g, struct labels_builder *b, const struct json_value *service)
{
	const struct json_value *spec = json_value_get(service, "spec"), *port;
	const char *type = kube_text(spec, "type", NULL);
	_cleanup_free_ char *host =
		xasprintf("%s.%s.svc", kube_text(json_value_get(service, "metadata"), "name", NULL),
			namespace_of(service));
	struct labels_builder *t = &g->target;
	char buf[32];

	kube_set_meta(b, "service", service);
	kube_set_namespace(g->view, b, service);
	for (size_t i = 0; (port = json_value_at(json_value_get(spec, "ports"), i)); i++) {
		const char *number = kube_text(port, "port", buf);

		kube_set_address(t, host, number);
		kube_set(t, "service_port_name", kube_text(port, "name", NULL));
		kube_set(t, "service_port_number", number);
		kube_set(t, "service_port_protocol", kube_text(port, "protocol", NULL));
		kube_set(t, "service_type", type);
		if (!strcmp(type, "ExternalName"))
			kube_set(t, "service_external_name", kube_text(spec, "externalName", NULL));
		else
			kube_set(t, "service_cluster_ip", kube_text(spec, "clusterIP", NULL));
		if (!strcmp(type, "LoadBalancer"))
			set_balancer(t, service);
		kube_add_target(g);
	}
}

/* ── ingress ── */

/* As certificates match: "*" stands for the first component. */
static bool matches_host(const char *pattern, const char *host)
{
	const char *rest = strchr(host, '.');

	if (!strcmp(pattern, host))
		return true;
	return str_starts_with(pattern, "*.") && rest && !strcmp(pattern + 1, rest);
}

static bool has_tls(const struct json_value *spec, const char *host)
{
	const struct json_value *tls, *hosts;

	for (size_t i = 0; (tls = json_value_at(json_value_get(spec, "tls"), i)); i++) {
		hosts = json_value_get(tls, "hosts");
		for (size_t k = 0; k < json_value_len(hosts); k++) {
			const char *pattern = json_value_str(json_value_at(hosts, k));

			if (pattern && matches_host(pattern, host))
				return true;
		}
	}
	return false;
}

static void make_ingress(
	struct kube_group *g, struct labels_builder *b, const struct json_value *ingress)
{
	const struct json_value *spec = json_value_get(ingress, "spec"), *rule;

	kube_set_meta(b, "ingress", ingress);
	kube_set_namespace(g->view, b, ingress);
	kube_set(b, "ingress_class_name", kube_text(spec, "ingressClassName", NULL));
	for (size_t i = 0; (rule = json_value_at(json_value_get(spec, "rules"), i)); i++) {
		const struct json_value *http = json_value_get(rule, "http"),
					*paths = json_value_get(http, "paths");
		const char *host = kube_text(rule, "host", NULL);
		/* all paths of a host lead to the default backend; a rule of no paths leads nowhere */
		size_t n = http && json_value_kind(http) == JSON_KIND_OBJECT ? json_value_len(paths)
									     : 1;

		for (size_t k = 0; k < n; k++) {
			const char *path = kube_text(json_value_at(paths, k), "path", NULL);

			labels_builder_set(&g->target, "__address__", host);
			kube_set(&g->target, "ingress_scheme",
				has_tls(spec, host) ? "https" : "http");
			kube_set(&g->target, "ingress_host", host);
			kube_set(&g->target, "ingress_path", *path ? path : "/");
			kube_add_target(g);
		}
	}
}

/* ── groups ── */

typedef void make_fn(
	struct kube_group *g, struct labels_builder *b, const struct json_value *object);

int kube_make_group(
	struct kube_view *v, int role, const struct json_value *object, struct discover_group *ret)
{
	static const struct {
		const char *source;
		make_fn *make;
	} roles[] = {
		[CONFIG_KUBERNETES_NODE] = {"node", make_node},
		[CONFIG_KUBERNETES_POD] = {"pod", make_pod},
		[CONFIG_KUBERNETES_SERVICE] = {"svc", make_service},
		[CONFIG_KUBERNETES_ENDPOINTS] = {"endpoints", kube_endpoints},
		[CONFIG_KUBERNETES_ENDPOINTSLICE] = {"endpointslice", kube_endpointslice},
		[CONFIG_KUBERNETES_INGRESS] = {"ingress", make_ingress},
	};
	const char *namespace = namespace_of(object);
	_cleanup_labels_builder_ struct labels_builder b;
	struct discover_group group = {0};
	struct kube_group g = {.view = v, .group = &group};

	group.source = xasprintf("%s/%s%s%s", roles[role].source, namespace, *namespace ? "/" : "",
		kube_text(json_value_get(object, "metadata"), "name", NULL));
	labels_builder_init(&b);
	labels_builder_init(&g.target);
	roles[role].make(&g, &b, object);
	if (g.error == 0)
		g.error = labels_builder_finish(&b, &group.labels);
	labels_builder_done(&g.target);
	if (g.error < 0) {
		discover_group_done(&group);
		return g.error;
	}
	*ret = group;
	return 0;
}
