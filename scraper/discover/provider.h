/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of scraper/discover: what a kind of discovery provides. A new kind is one file with a
 * table of these functions and one line in discover.c.
 */
#pragma once
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "scraper/discover/target.h"
#include <stdbool.h>
#include <stdint.h>

struct bytes;
struct config_job;
struct fs;

struct discover_provider;

struct discover_kind {
	const char *name; /* "file" */
	/* How many of these the job has; and the settings of the i-th as text: equal texts share a
	 * provider. */
	size_t (*count)(const struct config_job *job);
	void (*key)(const struct config_job *job, size_t i, struct bytes *out);
	/* Fills provider->state from the job's i-th settings. */
	int (*start)(struct discover_provider *p, const struct config_job *job, size_t i);
	/* Brings the groups up to date; sets p->changed when they differ, p->next_ns for the next
	 * time. Counts failures. */
	void (*refresh)(struct discover_provider *p, int64_t now_ns);
	void (*stop)(struct discover_provider *p);
};

struct discover_provider {
	const struct discover_kind *kind;
	char *key;
	struct fs *fs;
	int inotify_fd;
	struct discover_group *groups; /* what the provider knows now */
	size_t n_groups, cap_groups;
	int64_t next_ns; /* of the next refresh; INT64_MAX: never by itself */
	bool changed;
	uint64_t refreshes, failures;
	char error[512]; /* why the last refresh failed, or "" */
	void *state;
	int *watches; /* inotify watch descriptors that concern this provider */
	size_t n_watches, cap_watches;
	bool in_use; /* by a job of the configuration that is being applied */
};

const struct discover_kind *discover_static(void);
const struct discover_kind *discover_file(void);

/* Group of `g` with its strings copied; `meta` (may be NULL) is set as label `meta_name` on all. */
struct config_static_group;
int discover_group_from(const struct config_static_group *g, const char *source,
	const char *meta_name, const char *meta, struct discover_group *ret) _must_check_;
bool discover_group_equal(const struct discover_group *a, const struct discover_group *b);
/* File modification times of a file provider, for metrics. */
void discover_file_each_mtime(const struct discover_provider *p,
	void (*fn)(void *ctx, const char *path, double seconds), void *ctx);
