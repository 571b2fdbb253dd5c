/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a target's labels, as pure functions: discovered labels → relabeling → checks →
 * labels that are stored. Source: scrape/target.go of Prometheus 3.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/prof/labels.h"
#include <stdint.h>

struct config_job;

/* A target with this label is reached through the socket of that path. */
#define TARGET_UNIX_SOCKET "__unix_socket__"

/* What a provider knows of one source (a file's n-th group, a pod …). An update replaces the group
 * of that source. */
struct discover_group {
	char *source;		/* unique within a provider, e.g. "/etc/t.yml:0" */
	struct labels labels;	/* of all targets of the group */
	struct labels *targets; /* each has __address__ and its own labels */
	size_t n_targets;
};
void discover_group_done(struct discover_group *g);

enum target_state {
	TARGET_ACTIVE,
	TARGET_DROPPED, /* by a relabel rule */
	TARGET_INVALID, /* `error` says why; counted, never scraped */
};

struct target {
	enum target_state state;
	struct labels discovered; /* before relabeling, with every __meta_ and default label */
	struct labels relabeled;  /* after it, without __meta_*, with __address__, __scheme__ …,
				     instance; empty unless active. With __unix_socket__ the
				     target is asked through that socket */
	struct labels labels; /* what series get: relabeled without names that start with __ (other
				 than __name__) */
	int64_t interval_ms,
		timeout_ms; /* of this target: __scrape_interval__ and __scrape_timeout__ */
	char error[256];
};
void target_done(struct target *t);
#define _cleanup_target_ _cleanup_(target_done)

/*
 * Builds target `i` of `group` for `job`. With `profile_name` the labels __name__ and
 * __profile_path__ are there before relabeling, so that rules see them (one call per profile type);
 * NULL for the target as such. 0 with ret->state; negative only when relabeling failed (-ENOMEM):
 * the target is then TARGET_INVALID too.
 */
int target_build(const struct config_job *job, const struct discover_group *group, size_t i,
	const char *profile_name, const char *profile_path, struct target *ret) _must_check_;

/*
 * Appends the URL of `path` on this target: __scheme__://__address__, __profile_path_prefix__ (the
 * label overrides the job's path_prefix), the path (__profile_path__ overrides `path`), "?", then the job's params with __param_<k> in place of each first value. Further query
 * parameters can be appended with '&', or '?' when *ret_has_query is false.
 */
void target_url(const struct config_job *job, const struct target *t, const char *path,
	struct bytes *out, bool *ret_has_query);
/* Identity: targets of equal hash are scraped once. XXH3-64 over relabeled labels and URL. */
uint64_t target_hash(const struct config_job *job, const struct target *t);
