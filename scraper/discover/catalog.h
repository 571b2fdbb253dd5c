/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogs of services that are followed by blocking queries, as Consul and Nomad have them: a query names the index of
 * the last answer and waits until there is a newer one. One query waits for the list of services and one for each
 * service; each service is a group.
 *
 * What happens to an index follows developer.hashicorp.com/consul/api-docs/features/blocking: one that goes backwards
 * starts again from 0, one of 0 or none makes no blocking query.
 */
#pragma once
#include "lib/json/read.h"
#include "scraper/discover/build.h"
#include "scraper/discover/provider.h"

enum {
	CATALOG_WAIT_S = 120,
	CATALOG_TIMEOUT_MS = 150000, /* the server adds up to a 16th to the wait */
	CATALOG_RETRY_MS = 15000,    /* after a failure, unless the refresh interval is shorter */
};

struct catalog;

struct catalog_kind {
	const char *index_header; /* in lower case */
	/* URL of the list of services, and of one. Without the parameters index and wait. */
	void (*list_url)(const struct discover_provider *p, struct bytes *out);
	void (*service_url)(const struct discover_provider *p, const char *name, struct bytes *out);
	enum json_kind list_kind;
	/* Calls catalog_want for each service to follow. */
	void (*read_list)(struct discover_provider *p, const struct json_value *list);
	/* Targets of one instance. */
	void (*read_instance)(struct discover_provider *p, const char *name,
		const struct json_value *instance, struct discover_build *d);
	/* One request before all others, answered by an object; NULL: none. */
	void (*self_url)(const struct discover_provider *p, struct bytes *out);
	int (*read_self)(
		struct discover_provider *p, const struct json_value *self, struct errbuf *eb);
};

struct catalog_options {
	const struct catalog_kind *kind;
	const struct http_transport *transport;
	const char *const *headers;
	int64_t refresh_interval_ms; /* the least time between two queries of the same */
	const char *const *names;    /* to follow without asking for a list; n_names 0: ask */
	size_t n_names;
	bool needs_self;
	void *own; /* of the kind: catalog_own */
};

/* p->state becomes the catalog, which catalog_stop frees; `own` stays the kind's. `o` is copied; what it points to must outlive the
 * provider. */
void catalog_start(struct discover_provider *p, const struct catalog_options *o);
void catalog_stop(struct discover_provider *p);
void catalog_refresh(struct discover_provider *p, int64_t now_ns);
/* Follows a service; the name is copied. */
void catalog_want(struct discover_provider *p, const char *name);
void *catalog_own(const struct discover_provider *p);
