/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of scraper/discover: what a kind of discovery provides. A new kind is one file with a
 * table of these functions and one line in discover.c.
 */
#pragma once
#include "lib/base/clock.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/net/client/client.h"
#include "scraper/discover/target.h"
#include <stdbool.h>
#include <stdint.h>

struct bytes;
struct config_job;
struct dns_resolver;
struct fs;

struct discover_provider;

struct discover_kind {
	const char *name; /* "file" */
	/* How many of these the job has; and the settings of the i-th as text: equal texts share a
	 * provider. */
	size_t (*count)(const struct config_job *job);
	void (*key)(const struct config_job *job, size_t i, struct bytes *out);
	/* Fills provider->state from the job's i-th settings. Negative errno: the provider is left out. */
	int (*start)(struct discover_provider *p, const struct config_job *job, size_t i);
	/* Brings the groups up to date; sets p->changed when they differ, p->next_ns for the next
	 * time. Counts failures. */
	void (*refresh)(struct discover_provider *p, int64_t now_ns);
	void (*stop)(struct discover_provider *p);
	bool shares_groups; /* the provider's groups belong to its state, which frees them */
};

struct discover_provider {
	const struct discover_kind *kind;
	char *key;
	struct fs *fs;
	struct clock *clock;
	int inotify_fd;
	struct http_client *client;    /* of all providers; its callbacks run inside discover_run */
	struct dns_resolver *resolver; /* of all providers; the same holds */
	struct config *cfg; /* a reference: job and its settings stay while the provider lives */
	const struct config_job *job;
	size_t idx;			/* the job's idx-th settings of this kind */
	struct discover_fetch *fetches; /* requests under way */
	bool is_settled;		/* a refresh has ended, well or not */
	struct discover_group *groups;	/* what the provider knows now */
	size_t n_groups, cap_groups;
	int64_t next_ns; /* of the next refresh; INT64_MAX: never by itself */
	bool changed;
	uint64_t refreshes, failures, too_large;
	uint64_t replaced; /* bytes that were no UTF-8 */
	size_t n_replaced; /* of the last answer, where there is one at a time */
	uint64_t max_answer_bytes, max_event_bytes;
	char error[512];  /* why the last refresh failed, or "" */
	char logged[512]; /* the last of them that was logged */
	int64_t clear_ns; /* since when there is none; 0: there is one */
	void *state;
	int *watches; /* inotify watch descriptors that concern this provider */
	size_t n_watches, cap_watches;
	bool in_use; /* by a job of the configuration that is being applied */
};

const struct discover_kind *discover_static(void);
const struct discover_kind *discover_file(void);
const struct discover_kind *discover_http(void);
const struct discover_kind *discover_kubernetes(void);
const struct discover_kind *discover_dns(void);
const struct discover_kind *discover_docker(void);
const struct discover_kind *discover_dockerswarm(void);
const struct discover_kind *discover_consul(void);
const struct discover_kind *discover_nomad(void);
const struct discover_kind *discover_ec2(void);

/* What asynchronous kinds are made of (scraper/discover/provider.c). */
/* Counts what config_parse_groups replaced in the text of that name, and logs it when it is not as many as last time. */
void discover_replaced(struct discover_provider *p, const char *name, size_t n, size_t *last);
/* A failed refresh: the groups stay, `error` gets the text, and it is counted. */
void discover_failed(struct discover_provider *p, const char *fmt, ...) _printf_(2, 3);
/* A refresh that worked: takes over the groups and frees the old ones; notes whether they differ. */
void discover_set_groups(struct discover_provider *p, struct discover_group *groups, size_t n);
/* The same for one source: replaces its group or adds it; a group without targets is removed. */
void discover_set_group(struct discover_provider *p, struct discover_group *group);
void discover_groups_free(struct discover_group *groups, size_t n);
/* A request; all but the transport is copied, which must live as long as the provider. */
struct discover_request {
	const char *url;
	const char *method;	    /* NULL: POST with a body, else GET */
	const char *unix_socket;    /* path; NULL: by the URL's host */
	const char *const *headers; /* as in struct http_fetch */
	const struct http_transport *transport;
	uint32_t timeout_ms;
	const void *body; /* sent with POST; NULL: GET */
	size_t n_body;
	const struct http_signature *signature; /* NULL: none */
	/* Of a body that is taken as it arrives, as in struct http_fetch; NULL: the answer comes whole. */
	int (*piece)(struct discover_provider *p, const void *bytes, size_t n, void *arg);
	/* Runs inside discover_run unless the provider stops or cancels first. */
	void (*done)(struct discover_provider *p, struct http_response *r, void *arg);
	void *arg;
	void (*drop)(void *arg); /* frees `arg` of a cancelled request, NULL: nothing to free */
};
/* Any number may be under way. Errors of http_client_start, after which neither `done` nor `drop` is called. */
int discover_fetch(struct discover_provider *p, const struct discover_request *q,
	struct errbuf *eb) _must_check_;
/* Ends the provider's requests without their callbacks. */
void discover_fetch_cancel_all(struct discover_provider *p);

/* Group of `g` with its strings copied; `meta` (may be NULL) is set as label `meta_name` on all. */
struct config_static_group;
int discover_group_from(const struct config_static_group *g, const char *source,
	const char *meta_name, const char *meta, struct discover_group *ret) _must_check_;
bool discover_group_equal(const struct discover_group *a, const struct discover_group *b);
