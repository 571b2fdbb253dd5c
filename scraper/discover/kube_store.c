/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects that an API server has reported: lists and events are read here, trimmed to what labels are made of, and compared
 * with what was known.
 */
#include "scraper/discover/kube.h"
#include "lib/base/alloc.h"
#include "lib/net/kubernetes/kubernetes.h"
#include <string.h>

/* ── what is kept ── */

#define ALL(name_)              \
	{                       \
		.name = (name_) \
	}
#define PART(name_, members_)                          \
	{                                              \
		.name = (name_), .members = (members_) \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

static const struct json_keep keep_owner[] = {ALL("kind"), ALL("name"), ALL("controller"), END};
static const struct json_keep keep_metadata[] = {ALL("name"), ALL("namespace"), ALL("uid"),
	ALL("labels"), ALL("annotations"), PART("ownerReferences", keep_owner), END};
static const struct json_keep keep_bare_metadata[] = {
	ALL("name"), ALL("namespace"), PART("ownerReferences", keep_owner), END};
static const struct json_keep keep_condition[] = {ALL("type"), ALL("status"), END};

static const struct json_keep keep_kubelet[] = {ALL("Port"), END};
static const struct json_keep keep_daemon[] = {PART("kubeletEndpoint", keep_kubelet), END};
static const struct json_keep keep_node_spec[] = {ALL("providerID"), END};
static const struct json_keep keep_node_status[] = {ALL("addresses"),
	PART("conditions", keep_condition), PART("daemonEndpoints", keep_daemon), END};
static const struct json_keep keep_node[] = {PART("metadata", keep_metadata),
	PART("spec", keep_node_spec), PART("status", keep_node_status), END};

static const struct json_keep keep_container[] = {ALL("name"), ALL("image"), ALL("ports"), END};
static const struct json_keep keep_container_status[] = {ALL("name"), ALL("containerID"), END};
static const struct json_keep keep_pod_spec[] = {ALL("nodeName"),
	PART("containers", keep_container), PART("initContainers", keep_container), END};
static const struct json_keep keep_pod_status[] = {ALL("podIP"), ALL("hostIP"), ALL("phase"),
	PART("conditions", keep_condition), PART("containerStatuses", keep_container_status),
	PART("initContainerStatuses", keep_container_status), END};
static const struct json_keep keep_pod[] = {PART("metadata", keep_metadata),
	PART("spec", keep_pod_spec), PART("status", keep_pod_status), END};

static const struct json_keep keep_service_spec[] = {ALL("type"), ALL("clusterIP"),
	ALL("externalName"), ALL("loadBalancerIP"), ALL("ports"), ALL("ipFamilyPolicy"),
	ALL("ipFamilies"), END};
static const struct json_keep keep_balancer[] = {ALL("ingress"), END};
static const struct json_keep keep_service_status[] = {PART("loadBalancer", keep_balancer), END};
static const struct json_keep keep_service[] = {PART("metadata", keep_metadata),
	PART("spec", keep_service_spec), PART("status", keep_service_status), END};
static const struct json_keep keep_endpoints[] = {
	PART("metadata", keep_metadata), ALL("subsets"), END};
static const struct json_keep keep_slice[] = {
	PART("metadata", keep_metadata), ALL("addressType"), ALL("endpoints"), ALL("ports"), END};
static const struct json_keep keep_path[] = {ALL("path"), END};
static const struct json_keep keep_rule_http[] = {PART("paths", keep_path), END};
static const struct json_keep keep_rule[] = {ALL("host"), PART("http", keep_rule_http), END};
static const struct json_keep keep_tls[] = {ALL("hosts"), END};
static const struct json_keep keep_ingress_spec[] = {
	ALL("ingressClassName"), PART("rules", keep_rule), PART("tls", keep_tls), END};
static const struct json_keep keep_ingress[] = {
	PART("metadata", keep_metadata), PART("spec", keep_ingress_spec), END};
static const struct json_keep keep_namespace[] = {PART("metadata", keep_metadata), END};
static const struct json_keep keep_owned[] = {PART("metadata", keep_bare_metadata), END};

const struct kube_resource_info *kube_resource_info(enum kube_resource r)
{
	static const struct kube_resource_info infos[KUBE_N_RESOURCES] = {
		[KUBE_NODES] = {"/api/v1", "nodes", false, keep_node},
		[KUBE_PODS] = {"/api/v1", "pods", true, keep_pod},
		[KUBE_SERVICES] = {"/api/v1", "services", true, keep_service},
		[KUBE_ENDPOINTS] = {"/api/v1", "endpoints", true, keep_endpoints},
		[KUBE_ENDPOINTSLICES] = {"/apis/discovery.k8s.io/v1", "endpointslices", true,
			keep_slice},
		[KUBE_INGRESSES] = {"/apis/networking.k8s.io/v1", "ingresses", true, keep_ingress},
		[KUBE_NAMESPACES] = {"/api/v1", "namespaces", false, keep_namespace},
		[KUBE_REPLICASETS] = {"/apis/apps/v1", "replicasets", true, keep_owned},
		[KUBE_JOBS] = {"/apis/batch/v1", "jobs", true, keep_owned},
	};

	return &infos[r];
}

/* ── objects ── */

static void object_free(struct kube_object *o)
{
	discover_group_done(&o->group);
	json_doc_freep(&o->doc);
	free(o->key);
	free(o);
}

void kube_store_done(struct kube_store *s)
{
	for (size_t i = 0; i < s->n; i++)
		object_free(s->items[i]);
	free(s->items);
}

/* Where the key is or belongs. */
static size_t position(const struct kube_store *s, const char *key)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(s->items[middle]->key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct kube_object *kube_store_find(const struct kube_store *s, const char *key)
{
	size_t i = position(s, key);

	return i < s->n && !strcmp(s->items[i]->key, key) ? s->items[i] : NULL;
}

/* NULL: it has no name. */
static char *key_of(const struct json_value *object)
{
	const struct json_value *meta = json_value_get(object, "metadata");
	const char *namespace = kube_text(meta, "namespace", NULL);
	const char *name = kube_text(meta, "name", NULL);

	if (!*name)
		return NULL;
	return *namespace ? xasprintf("%s/%s", namespace, name) : xstrdup(name);
}

static void mark(struct kube_store *s, struct kube_object *o)
{
	o->is_dirty = true;
	s->is_dirty = true;
}

static int insert(struct kube_store *s, char *key, struct json_doc *doc, struct kube_object **ret)
{
	struct kube_object *o;
	size_t i = position(s, key);

	if (alloc_grow(&s->items, &s->cap, s->n + 1, sizeof(struct kube_object *)) < 0)
		return -ENOMEM;
	memmove(s->items + i + 1, s->items + i, (s->n - i) * sizeof(struct kube_object *));
	s->n++;
	o = xcalloc(1, sizeof(*o));
	o->key = key;
	o->doc = doc;
	s->items[i] = o;
	*ret = o;
	mark(s, o);
	return 0;
}

int kube_store_set(struct kube_store *s, const struct json_value *object, unsigned watch,
	uint64_t list, struct errbuf *eb)
{
	_cleanup_free_ char *key = key_of(object);
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct kube_object *o;

	if (!key)
		return err_set(eb, -EBADMSG, "an object without metadata.name");
	doc = json_value_share(object);
	json_doc_keep(doc, kube_resource_info(s->resource)->keep);
	o = kube_store_find(s, key);
	if (!o) {
		int r = insert(s, key, doc, &o);

		if (r < 0)
			return err_set(eb, r, "out of memory");
		key = NULL;
		doc = NULL;
	} else if (o->is_deleted || !json_value_equal(json_doc_root(o->doc), json_doc_root(doc))) {
		json_doc_freep(&o->doc);
		o->doc = TAKE(doc);
		o->is_deleted = false;
		mark(s, o);
	}
	o->watch = watch;
	o->list = list;
	return 0;
}

static void forget(struct kube_store *s, struct kube_object *o)
{
	o->is_deleted = true;
	mark(s, o);
}

void kube_store_delete(struct kube_store *s, const struct json_value *object)
{
	_cleanup_free_ char *key = key_of(object);
	struct kube_object *o = key ? kube_store_find(s, key) : NULL;

	if (o)
		forget(s, o);
}

void kube_store_sweep(struct kube_store *s, unsigned watch, uint64_t list)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->items[i]->watch == watch && s->items[i]->list != list)
			forget(s, s->items[i]);
}

void kube_store_clean(struct kube_store *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n && s->is_dirty; i++) {
		struct kube_object *o = s->items[i];

		o->is_dirty = false;
		if (o->is_deleted)
			object_free(o);
		else
			s->items[n++] = o;
	}
	if (s->is_dirty)
		s->n = n;
	s->is_dirty = false;
}

/* ── lists and events ── */

int kube_store_read_list(struct kube_store *s, const void *text, size_t n, unsigned watch,
	uint64_t list, struct kube_page *ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct kubernetes_page page;
	int r = kubernetes_read_page(text, n, &doc, &page, eb);

	if (r < 0)
		return r;
	if (!*page.resource_version)
		return err_set(eb, -EBADMSG, "a list without metadata.resourceVersion");
	for (size_t i = 0; json_value_at(page.items, i); i++) {
		r = kube_store_set(s, json_value_at(page.items, i), watch, list, eb);
		if (r < 0)
			return r;
	}
	*ret = (struct kube_page) {
		.resource_version = xstrdup(page.resource_version),
		.next = *page.next ? xstrdup(page.next) : NULL,
	};
	return 0;
}

int kube_store_read_event(struct kube_store *s, const char *line, size_t n, unsigned watch,
	uint64_t list, char **resource_version, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct kubernetes_event event;
	int r = kubernetes_read_event(line, n, &doc, &event, eb);

	if (r < 0)
		return r;
	/* before the object is trimmed */
	free(*resource_version);
	*resource_version = xstrdup(event.resource_version);
	if (event.change == KUBERNETES_PUT)
		return kube_store_set(s, event.object, watch, list, eb);
	if (event.change == KUBERNETES_DELETE)
		kube_store_delete(s, event.object);
	return 0;
}
