/* SPDX-License-Identifier: Apache-2.0
 *
 * A watch of any resource, as it comes over the wire: lines in pieces, events, objects, and the groups that every role makes
 * of them.
 */
#include "lib/net/client/lines.h"
#include "lib/base/alloc.h"
#include "scraper/config/config.h"
#include "scraper/discover/kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct stream {
	struct kube_store *store;
	char *resource_version;
	struct errbuf eb;
};

static int on_line(void *arg, const char *line, size_t n)
{
	struct stream *s = arg;

	return kube_store_read_event(s->store, line, n, 0, 1, &s->resource_version, &s->eb);
}

static void make_groups(const struct kube_store *stores, const struct kube_store *own)
{
	struct kube_view v = {stores, true, true, true, true, true};

	for (size_t i = 0; i < own->n; i++) {
		for (int role = CONFIG_KUBERNETES_NODE; role <= CONFIG_KUBERNETES_INGRESS; role++) {
			struct discover_group group;

			if (own->items[i]->is_deleted)
				continue;
			ASSERT(kube_make_group(
				       &v, role, json_doc_root(own->items[i]->doc), &group) == 0);
			ASSERT(group.source);
			for (size_t k = 0; k < group.n_targets; k++)
				ASSERT(group.targets[k].n < 10000);
			discover_group_done(&group);
		}
	}
}

/* The first byte chooses the resource and how pieces fall. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kube_store stores[KUBE_N_RESOURCES] = {0};
	struct stream s = {.store = &stores[size ? data[0] % KUBE_N_RESOURCES : 0]};
	struct kube_page page = {0};
	struct http_lines lines;
	size_t step = size ? 1 + data[0] / KUBE_N_RESOURCES : 1;

	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		stores[r].resource = (enum kube_resource)r;
	http_lines_init(&lines, 1 << 16);
	for (size_t at = 1; at < size; at += step)
		if (http_lines_put(&lines, data + at, MIN(step, size - at), on_line, &s, &s.eb) < 0)
			break;
	if (size && kube_store_read_list(s.store, data + 1, size - 1, 0, 2, &page, &s.eb) == 0)
		kube_store_sweep(s.store, 0, 2);
	free(page.resource_version);
	free(page.next);
	make_groups(stores, s.store);
	kube_store_clean(s.store);
	make_groups(stores, s.store);
	http_lines_done(&lines);
	free(s.resource_version);
	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		kube_store_done(&stores[r]);
	return 0;
}
