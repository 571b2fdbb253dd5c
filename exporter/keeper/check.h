/* SPDX-License-Identifier: Apache-2.0
 *
 * Can the exporter run here? Looked at before anything is loaded, so that a refusal can say what to do about it.
 */
#pragma once
#include "exporter/keeper/roles.h"

enum { CHECK_MAX_CAPS = 8 };

struct check_result {
	int caps[CHECK_MAX_CAPS]; /* what the keeper keeps */
	uint32_t n_caps;
	struct keeper_missing missing[16];
	uint32_t n_missing;
	const char *admin_why; /* why CAP_SYS_ADMIN is kept, or NULL */
};

/* What this process may do, asked through a function so that tests can answer. */
typedef bool (*check_has_cap)(int cap);

/* 0 with *ret filled, or -errno with a text that says what to do. Reads o->procfs and o->sysfs only. */
int check_start(const struct role_options *o, check_has_cap has_cap, struct check_result *ret,
	struct errbuf *eb);
/* Adds what shows only with the final user and capabilities: hidden kernel addresses, hidden processes. */
void check_final(const struct role_options *o, struct check_result *c);

/* Adds why kernel stacks are not walked by the kernel's unwind table although it has one. */
void check_kernel_walk(enum kernel_walk_by by, struct check_result *c);

/* A small file with a number below `dir`. */
int check_read_number(const char *dir, const char *name, int64_t *ret);

/* Appends a row unless the table is full. */
void check_add_missing(struct check_result *c, const char *cap, const char *effect);
