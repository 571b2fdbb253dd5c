/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of kubernetes discovery: what its files share. kube.c lists and watches, kube_connect.c knows where and with what
 * credentials, kube_store.c keeps objects and reads lists and events, kube_labels.c and kube_endpoints.c make groups of them.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/err.h"
#include "lib/net/client/client.h"
#include "lib/json/read.h"
#include "scraper/discover/target.h"
#include <stdbool.h>
#include <stdint.h>

struct config_kubernetes_sd;
struct fs;

/* ── kube_connect.c ── */

struct kube_connection {
	struct arena arena;  /* of what follows */
	char *server;	     /* "https://10.0.0.1:443", without a slash at the end */
	char *shown_server;  /* without a password */
	char *own_namespace; /* in a cluster; NULL: not known */
	struct http_transport transport;
};
/* By the settings: api_server, a kubeconfig file, or as a pod of the cluster (environment and service account).
 * kube_connection_done in any case. */
int kube_connect(struct fs *fs, const struct config_kubernetes_sd *sd, struct kube_connection *ret,
	struct errbuf *eb) _must_check_;
void kube_connection_done(struct kube_connection *c);

/* ── kube_store.c ── */

enum kube_resource {
	KUBE_NODES,
	KUBE_PODS,
	KUBE_SERVICES,
	KUBE_ENDPOINTS,
	KUBE_ENDPOINTSLICES,
	KUBE_INGRESSES,
	KUBE_NAMESPACES,
	KUBE_REPLICASETS,
	KUBE_JOBS,
	KUBE_N_RESOURCES,
};
struct kube_resource_info {
	const char *api; /* "/api/v1" */
	const char *plural;
	bool is_namespaced;
	const struct json_keep *keep; /* what groups are made of */
};
const struct kube_resource_info *kube_resource_info(enum kube_resource r);

struct kube_object {
	char *key;	      /* "namespace/name", or "name" */
	struct json_doc *doc; /* trimmed to what is kept */
	unsigned watch;	      /* who brought it, and in which of its lists */
	uint64_t list;
	bool is_dirty;		     /* new or changed since kube_store_clean */
	bool is_deleted;	     /* still here so that what depends on it is made again */
	struct discover_group group; /* of an object of the role's own resource */
};

/* Objects of a resource, sorted by key. */
struct kube_store {
	enum kube_resource resource;
	struct kube_object **items;
	size_t n, cap;
	bool is_dirty; /* one of them is */
};
void kube_store_done(struct kube_store *s);
/* The object, deleted ones too, or NULL. */
struct kube_object *kube_store_find(const struct kube_store *s, const char *key);
/* Keeps `object`, which is trimmed in place and shared with its document; an equal one changes nothing. -EBADMSG: it has no name;
 * -ENOMEM. */
int kube_store_set(struct kube_store *s, const struct json_value *object, unsigned watch,
	uint64_t list, struct errbuf *eb) _must_check_;
void kube_store_delete(struct kube_store *s, const struct json_value *object);
/* The watch's objects that its `list` did not bring are gone. */
void kube_store_sweep(struct kube_store *s, unsigned watch, uint64_t list);
/* Nothing is dirty any more; deleted objects go. */
void kube_store_clean(struct kube_store *s);

/* A page of a list, read into the store. */
struct kube_page {
	char *resource_version, *next; /* `next` is NULL at the last page */
};
/* json_read's errors; -EBADMSG: no resourceVersion or an object without a name; -ENOMEM. The caller frees *ret's texts. */
int kube_store_read_list(struct kube_store *s, const void *text, size_t n, unsigned watch,
	uint64_t list, struct kube_page *ret, struct errbuf *eb) _must_check_;
/* A line of a watch. *resource_version (heap) is replaced by the event's. -ESTALE: what it would say next is lost, list
 * again; -EPROTO: the server's own error; -EBADMSG: no event. */
int kube_store_read_event(struct kube_store *s, const char *line, size_t n, unsigned watch,
	uint64_t list, char **resource_version, struct errbuf *eb) _must_check_;

/* ── kube_labels.c, kube_endpoints.c ── */

/* What groups are made from: all objects that are known, and what is to be attached. */
struct kube_view {
	const struct kube_store *stores; /* KUBE_N_RESOURCES of them */
	bool attach_node, attach_namespace, attach_deployment, attach_job, attach_cronjob;
};
/* The object to look into, or NULL; `namespace` NULL: of none. */
const struct json_value *kube_view_find(
	struct kube_view *v, enum kube_resource r, const char *namespace, const char *name);
/* Group of an object of `role` (enum config_kubernetes_role); no targets: nothing to scrape there. -ENOMEM. */
int kube_make_group(struct kube_view *v, int role, const struct json_value *object,
	struct discover_group *ret) _must_check_;

/* A group under construction. */
struct kube_group {
	struct kube_view *view;
	struct discover_group *group;
	size_t cap;
	struct labels_builder target;
	int error;
};
/* Text of a member, "" when it is none; numbers and booleans as text in `buf` (32 bytes), which may be NULL. */
const char *kube_text(const struct json_value *object, const char *key, char *buf);
/* Sets "__meta_kubernetes_" NAME. */
void kube_set(struct labels_builder *b, const char *name, const char *value);
/* NAME, then a key made fit for a label name. */
void kube_set_key(struct labels_builder *b, const char *name, const char *key, const char *value);
/* ROLE_name, ROLE_label_*, ROLE_annotation_* and their _present_ of the object. */
void kube_set_meta(struct labels_builder *b, const char *role, const struct json_value *object);
void kube_set_namespace(
	struct kube_view *v, struct labels_builder *b, const struct json_value *object);
void kube_set_node(struct kube_view *v, struct labels_builder *b, const char *name);
void kube_set_pod(struct kube_view *v, struct labels_builder *b, const struct json_value *pod);
void kube_set_service(
	struct kube_view *v, struct labels_builder *b, const char *namespace, const char *name);
/* "host:port", with brackets around an IPv6 address. */
void kube_set_address(struct labels_builder *b, const char *host, const char *port);
/* Appends g->target and empties it. */
void kube_add_target(struct kube_group *g);
/* Containers of a pod, the i-th of containers and then initContainers; NULL at the end. */
const struct json_value *kube_container(const struct json_value *pod, size_t i, bool *ret_is_init);
void kube_endpoints(
	struct kube_group *g, struct labels_builder *b, const struct json_value *object);
void kube_endpointslice(
	struct kube_group *g, struct labels_builder *b, const struct json_value *object);
