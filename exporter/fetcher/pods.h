/* SPDX-License-Identifier: Apache-2.0
 *
 * Pods inside the fetcher: pods.c asks servers for them, pod_record.c makes records of their objects, which main reads
 * (exporter/proc/pod_table.h). docs/formats/fetcher-protocol.md has their layout.
 */
#pragma once
#include "exporter/fetcher/fetcher.h"
#include "lib/base/bytes.h"
#include "lib/json/read.h"

enum { PODS_MAGIC = 0x31445053 }; /* "SPD1" */

/* Follows the pods on a thread that lives as long as the process, and writes the changes to `sock`, which it owns. */
void pods_follow(const struct fetcher_pods_options *o, int sock);

/* Pods by namespace and name, as records. */
struct pod_records {
	const struct fetcher_pods_options *o;
	struct pod_record {
		char *key; /* "namespace/name" */
		struct bytes record;
		uint64_t list; /* the last that brought it */
	} * items;	       /* sorted by key */
	size_t n, cap;
	uint64_t total_bytes; /* of all records */
	uint64_t left_out;
};
void pod_records_done(struct pod_records *p);
/* Takes an object, or its successor. -EBADMSG: it is no pod; -EFBIG: records would be above max_bytes. */
int pod_records_set(struct pod_records *p, const struct json_value *object, uint64_t list,
	struct errbuf *eb) _must_check_;
void pod_records_delete(struct pod_records *p, const struct json_value *object);
/* Drops what the list did not bring. */
void pod_records_sweep(struct pod_records *p, uint64_t list);
/* All of them, in order. */
void pod_records_print(const struct pod_records *p, struct bytes *out);
