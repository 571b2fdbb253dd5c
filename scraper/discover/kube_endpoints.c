/* SPDX-License-Identifier: Apache-2.0
 *
 * The roles endpoints and endpointslice: a target per address and port with the labels of its service and pod, and one for each
 * port of such a pod that the service does not name.
 */
#include "scraper/discover/kube.h"
#include "lib/base/alloc.h"
#include <string.h>

/* Pods that addresses led to, with the ports that were seen; in the order of their first address. */
struct seen_pod {
	const struct json_value *pod;
	int64_t *ports;
	size_t n_ports, cap_ports;
};
struct seen {
	struct seen_pod *pods;
	size_t n, cap;
};

static void seen_done(struct seen *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->pods[i].ports);
	free(s->pods);
}
#define _cleanup_seen_ _cleanup_(seen_done)

static int seen_add(struct seen *s, const struct json_value *pod, int64_t port)
{
	struct seen_pod *p;
	size_t i = 0;

	while (i < s->n && s->pods[i].pod != pod)
		i++;
	if (i == s->n) {
		if (alloc_grow(&s->pods, &s->cap, s->n + 1, sizeof(*s->pods)) < 0)
			return -ENOMEM;
		s->pods[s->n++] = (struct seen_pod) {.pod = pod};
	}
	p = &s->pods[i];
	if (alloc_grow(&p->ports, &p->cap_ports, p->n_ports + 1, sizeof(*p->ports)) < 0)
		return -ENOMEM;
	p->ports[p->n_ports++] = port;
	return 0;
}

static bool seen_has(const struct seen_pod *p, int64_t port)
{
	for (size_t i = 0; i < p->n_ports; i++)
		if (p->ports[i] == port)
			return true;
	return false;
}

static void set_container_port(struct labels_builder *b, const struct json_value *container,
	const struct json_value *port, bool is_init)
{
	char buf[32];

	kube_set(b, "pod_container_name", kube_text(container, "name", NULL));
	kube_set(b, "pod_container_image", kube_text(container, "image", NULL));
	kube_set(b, "pod_container_init", is_init ? "true" : "false");
	kube_set(b, "pod_container_port_name", kube_text(port, "name", NULL));
	kube_set(b, "pod_container_port_number", kube_text(port, "containerPort", buf));
	kube_set(b, "pod_container_port_protocol", kube_text(port, "protocol", NULL));
}

/* The container that has this port, the last one if several do, with its labels. */
static bool set_matching_container(
	struct labels_builder *b, const struct json_value *pod, int64_t number)
{
	const struct json_value *container, *port;
	bool is_init, found = false;

	for (size_t i = 0; (container = kube_container(pod, i, &is_init)); i++) {
		const struct json_value *ports = json_value_get(container, "ports");

		for (size_t k = 0; (port = json_value_at(ports, k)); k++) {
			if (json_value_int(json_value_get(port, "containerPort")) != number)
				continue;
			set_container_port(b, container, port, is_init);
			found = true;
			break;
		}
	}
	return found;
}

/* The pod that an address is of, or NULL. */
static const struct json_value *pod_of(struct kube_view *v, const struct json_value *ref)
{
	if (!ref || strcmp(kube_text(ref, "kind", NULL), "Pod"))
		return NULL;
	return kube_view_find(
		v, KUBE_PODS, kube_text(ref, "namespace", NULL), kube_text(ref, "name", NULL));
}

/* Adds g->target, with what is known of the pod behind it. Of endpoints the protocol is that of their port: a container may
 * have the same number for two. */
static void add_with_pod(struct kube_group *g, struct seen *seen, const struct json_value *ref,
	const struct json_value *port, bool has_own_protocol)
{
	const struct json_value *pod = pod_of(g->view, ref);
	int64_t number = json_value_int(json_value_get(port, "port"));

	if (pod) {
		kube_set_pod(g->view, &g->target, pod);
		if (set_matching_container(&g->target, pod, number) && has_own_protocol)
			kube_set(&g->target, "pod_container_port_protocol",
				kube_text(port, "protocol", NULL));
		if (seen_add(seen, pod, number) < 0)
			g->error = -ENOMEM;
	}
	kube_add_target(g);
}

/* Ports of the pods that no address had. */
static void add_other_ports(struct kube_group *g, const struct seen_pod *p)
{
	const char *ip = kube_text(json_value_get(p->pod, "status"), "podIP", NULL);
	const struct json_value *container, *port;
	bool is_init;
	char buf[32];

	for (size_t i = 0; *ip && (container = kube_container(p->pod, i, &is_init)); i++) {
		const struct json_value *ports = json_value_get(container, "ports");

		for (size_t k = 0; (port = json_value_at(ports, k)); k++) {
			if (seen_has(p, json_value_int(json_value_get(port, "containerPort"))))
				continue;
			kube_set_address(&g->target, ip, kube_text(port, "containerPort", buf));
			set_container_port(&g->target, container, port, is_init);
			kube_set_pod(g->view, &g->target, p->pod);
			kube_add_target(g);
		}
	}
}

static void set_target_ref(
	struct labels_builder *b, const char *prefix, const struct json_value *ref)
{
	if (!ref)
		return;
	kube_set_key(b, prefix, "address_target_kind", kube_text(ref, "kind", NULL));
	kube_set_key(b, prefix, "address_target_name", kube_text(ref, "name", NULL));
}

/* ── endpoints ── */

static void add_address(struct kube_group *g, struct seen *seen, const struct json_value *address,
	const struct json_value *port, const char *ready)
{
	const struct json_value *ref = json_value_get(address, "targetRef");
	const char *node = kube_text(address, "nodeName", NULL);
	struct labels_builder *t = &g->target;
	char buf[32];

	kube_set_address(t, kube_text(address, "ip", NULL), kube_text(port, "port", buf));
	kube_set(t, "endpoint_port_name", kube_text(port, "name", NULL));
	kube_set(t, "endpoint_port_protocol", kube_text(port, "protocol", NULL));
	kube_set(t, "endpoint_ready", ready);
	kube_set(t, "endpoint_node_name", node);
	kube_set(t, "endpoint_hostname", kube_text(address, "hostname", NULL));
	set_target_ref(t, "endpoint_", ref);
	if (*node)
		kube_set_node(g->view, t, node);
	else if (!strcmp(kube_text(ref, "kind", NULL), "Node"))
		kube_set_node(g->view, t, kube_text(ref, "name", NULL));
	add_with_pod(g, seen, ref, port, true);
}

static void add_subset(struct kube_group *g, struct seen *seen, const struct json_value *subset)
{
	static const char *const lists[][2] = {
		{"addresses", "true"}, {"notReadyAddresses", "false"}};
	const struct json_value *port, *address;

	for (size_t p = 0; (port = json_value_at(json_value_get(subset, "ports"), p)); p++) {
		for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
			const struct json_value *all = json_value_get(subset, lists[l][0]);

			for (size_t i = 0; (address = json_value_at(all, i)); i++)
				add_address(g, seen, address, port, lists[l][1]);
		}
	}
}

void kube_endpoints(struct kube_group *g, struct labels_builder *b, const struct json_value *object)
{
	const struct json_value *meta = json_value_get(object, "metadata"), *subset;
	_cleanup_seen_ struct seen seen = {0};

	kube_set_namespace(g->view, b, object);
	kube_set_meta(b, "endpoints", object);
	kube_set_service(
		g->view, b, kube_text(meta, "namespace", NULL), kube_text(meta, "name", NULL));
	for (size_t i = 0; (subset = json_value_at(json_value_get(object, "subsets"), i)); i++)
		add_subset(g, &seen, subset);
	for (size_t i = 0; i < seen.n; i++)
		add_other_ports(g, &seen.pods[i]);
}

/* ── endpointslice ── */

static void set_endpoint(
	struct kube_group *g, struct labels_builder *t, const struct json_value *endpoint)
{
	static const char *const conditions[] = {"ready", "serving", "terminating"};
	const struct json_value *topology = json_value_get(endpoint, "deprecatedTopology");
	const struct json_value *ref = json_value_get(endpoint, "targetRef"), *value;
	const char *key, *node = kube_text(endpoint, "nodeName", NULL);

	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		kube_set_key(t, "endpointslice_endpoint_conditions_", conditions[i],
			kube_text(json_value_get(endpoint, "conditions"), conditions[i], NULL));
	kube_set(t, "endpointslice_endpoint_hostname", kube_text(endpoint, "hostname", NULL));
	kube_set(t, "endpointslice_endpoint_node_name", node);
	kube_set(t, "endpointslice_endpoint_zone", kube_text(endpoint, "zone", NULL));
	set_target_ref(t, "endpointslice_", ref);
	for (void *at = NULL; topology && json_value_next(topology, &at, &key, &value);) {
		if (!json_value_str(value))
			continue;
		kube_set_key(t, "endpointslice_endpoint_topology_", key, json_value_str(value));
		kube_set_key(t, "endpointslice_endpoint_topology_present_", key, "true");
	}
	kube_set_node(g->view, t,
		!strcmp(kube_text(ref, "kind", NULL), "Node") ? kube_text(ref, "name", NULL)
							      : node);
}

static void add_slice_address(struct kube_group *g, struct seen *seen, const char *address,
	const struct json_value *endpoint, const struct json_value *port)
{
	struct labels_builder *t = &g->target;
	char buf[32];
	const char *number = kube_text(port, "port", buf);

	if (*number)
		kube_set_address(t, address, number);
	else
		labels_builder_set(t, "__address__", address);
	kube_set(t, "endpointslice_port", number);
	kube_set(t, "endpointslice_port_name", kube_text(port, "name", NULL));
	kube_set(t, "endpointslice_port_protocol", kube_text(port, "protocol", NULL));
	kube_set(t, "endpointslice_port_app_protocol", kube_text(port, "appProtocol", NULL));
	set_endpoint(g, t, endpoint);
	add_with_pod(g, seen, json_value_get(endpoint, "targetRef"), port, false);
}

static void add_endpoint(struct kube_group *g, struct seen *seen, const struct json_value *endpoint,
	const struct json_value *ports)
{
	const struct json_value *addresses = json_value_get(endpoint, "addresses"), *port;

	for (size_t p = 0; (port = json_value_at(ports, p)); p++) {
		for (size_t i = 0; i < json_value_len(addresses); i++) {
			const char *address = json_value_str(json_value_at(addresses, i));

			if (address)
				add_slice_address(g, seen, address, endpoint, port);
		}
	}
}

/* The other slice of a service with two address families: the pods are those of the slice of the first family. */
static bool is_second_family(const struct json_value *service, const struct json_value *object)
{
	const struct json_value *spec = json_value_get(service, "spec");
	const char *policy = kube_text(spec, "ipFamilyPolicy", NULL);
	const char *first = json_value_str(json_value_at(json_value_get(spec, "ipFamilies"), 0));

	return first &&
	       (!strcmp(policy, "PreferDualStack") || !strcmp(policy, "RequireDualStack")) &&
	       strcmp(first, kube_text(object, "addressType", NULL)) != 0;
}

void kube_endpointslice(
	struct kube_group *g, struct labels_builder *b, const struct json_value *object)
{
	const struct json_value *meta = json_value_get(object, "metadata"), *endpoint;
	const struct json_value *endpoints = json_value_get(object, "endpoints");
	const char *service =
		kube_text(json_value_get(meta, "labels"), "kubernetes.io/service-name", NULL);
	const char *namespace = kube_text(meta, "namespace", NULL);
	_cleanup_seen_ struct seen seen = {0};

	kube_set_namespace(g->view, b, object);
	kube_set_meta(b, "endpointslice", object);
	kube_set(b, "endpointslice_address_type", kube_text(object, "addressType", NULL));
	if (*service)
		kube_set_service(g->view, b, namespace, service);
	if (*service && is_second_family(
				kube_view_find(g->view, KUBE_SERVICES, namespace, service), object))
		return;
	for (size_t i = 0; (endpoint = json_value_at(endpoints, i)); i++)
		add_endpoint(g, &seen, endpoint, json_value_get(object, "ports"));
	for (size_t i = 0; i < seen.n; i++)
		add_other_ports(g, &seen.pods[i]);
}
