/* SPDX-License-Identifier: Apache-2.0
 *
 * Pods of this node as the fetcher reported them (docs/formats/fetcher-protocol.md), found by the ids that control groups carry.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum { POD_MAX_VALUES = 64 };

struct pod_table;
struct pod {
	const char *namespace_, *name;
	const char *const *values; /* of labels and annotations that are wanted, "" when absent */
};
struct pod_container {
	const struct pod *pod;
	const char *name, *image;
};

/* Reads records with n_values values a pod. -EBADMSG: they are none; -ENOMEM with the budget's text. */
int pod_table_read(const void *p, size_t n, uint32_t n_values, struct budget *budget,
	struct pod_table **ret, struct errbuf *eb) _must_check_;
void pod_table_freep(struct pod_table **t);

/* NULL when there is none; "" is never found. */
const struct pod_container *pod_table_find_container(const struct pod_table *t, const char *id);
const struct pod *pod_table_find(const struct pod_table *t, const char *uid);
size_t pod_table_count(const struct pod_table *t, size_t *ret_n_containers);
