/* SPDX-License-Identifier: Apache-2.0
 *
 * Pods on their way into the exporter: an object of an API server, whose record main must be able to read, and any bytes that
 * a fetcher taken over might send in its place.
 */
#include "exporter/fetcher/pods.h"
#include "exporter/proc/pod_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_records(const void *p, size_t n, bool must)
{
	struct pod_table *t = NULL;
	struct errbuf eb = {.text = ""};
	size_t n_containers;
	int r = pod_table_read(p, n, 2, NULL, &t, &eb);

	ASSERT(r == 0 || (!must && r == -EBADMSG && eb.text[0]));
	if (r == 0) {
		(void)!pod_table_find(t, "u");
		(void)!pod_table_find_container(t, "c");
		ASSERT(pod_table_count(t, &n_containers) <= n);
	}
	pod_table_freep(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = {"app", "tier"};
	const struct fetcher_pods_options o = {.labels = keys,
		.n_labels = 1,
		.annotations = keys + 1,
		.n_annotations = 1,
		.max_bytes = 1 << 16};
	struct pod_records p = {.o = &o};
	struct bytes text = {0};
	struct json_doc *doc = NULL;

	read_records(data, size, false);
	if (json_read(data, size, 1 << 20, &doc, NULL) == 0 &&
		pod_records_set(&p, json_doc_root(doc), 1, NULL) == 0) {
		pod_records_print(&p, &text);
		read_records(text.data, text.len, true);
		pod_records_delete(&p, json_doc_root(doc));
		ASSERT(!p.n && !p.total_bytes);
	}
	json_doc_freep(&doc);
	bytes_done(&text);
	pod_records_done(&p);
	return 0;
}
