/* SPDX-License-Identifier: Apache-2.0
 *
 * A pod's object → its record: names, the ids that control groups have, containers by id, values of the wanted labels and
 * annotations.
 */
#include "exporter/fetcher/pods.h"
#include "lib/base/alloc.h"
#include "lib/net/kubernetes/kubernetes.h"
#include <string.h>

enum { MAX_CONTAINERS = 1000 };

static void put_text(struct bytes *out, const char *text)
{
	size_t n = strlen(text);

	bytes_put_u16(out, (uint16_t)n);
	bytes_put(out, text, n);
}

/* What is too long is as good as not there. */
static void put_limited(struct pod_records *p, struct bytes *out, const char *text)
{
	bool fits = strlen(text) <= FETCHER_MAX_VALUE;

	p->left_out += !fits;
	put_text(out, fits ? text : "");
}

static void put_values(struct pod_records *p, struct bytes *out, const struct json_value *from,
	const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_limited(p, out, kubernetes_text(from, keys[i]));
}

/* The image as the pod's author wrote it; a status may have a digest in its place. */
static const char *image_of(const struct json_value *specs, const struct json_value *status)
{
	const char *name = kubernetes_text(status, "name");

	for (size_t i = 0; json_value_at(specs, i); i++) {
		const struct json_value *spec = json_value_at(specs, i);

		if (!strcmp(kubernetes_text(spec, "name"), name) && *kubernetes_text(spec, "image"))
			return kubernetes_text(spec, "image");
	}
	return kubernetes_text(status, "image");
}

/* "containerd://ID" → ID; "" while there is none. */
static const char *id_of(const struct json_value *status)
{
	const char *id = kubernetes_text(status, "containerID"), *mark = strstr(id, "://");

	return mark ? mark + 3 : "";
}

static uint32_t put_containers(struct pod_records *p, struct bytes *out,
	const struct json_value *specs, const struct json_value *statuses, uint32_t room)
{
	uint32_t n = 0;

	for (size_t i = 0; json_value_at(statuses, i) && n < room; i++) {
		const struct json_value *status = json_value_at(statuses, i);

		if (!*id_of(status))
			continue;
		put_limited(p, out, id_of(status));
		put_limited(p, out, kubernetes_text(status, "name"));
		put_limited(p, out, image_of(specs, status));
		n++;
	}
	return n;
}

static void put_all_containers(
	struct pod_records *p, struct bytes *out, const struct json_value *object)
{
	static const struct {
		const char *specs, *statuses;
	} kinds[] = {
		{"containers", "containerStatuses"},
		{"initContainers", "initContainerStatuses"},
		{"ephemeralContainers", "ephemeralContainerStatuses"},
	};
	const struct json_value *spec = json_value_get(object, "spec"),
				*status = json_value_get(object, "status");
	_cleanup_bytes_ struct bytes list = {0};
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		n += put_containers(p, &list, json_value_get(spec, kinds[i].specs),
			json_value_get(status, kinds[i].statuses), MAX_CONTAINERS - n);
	bytes_put_u32(out, n);
	bytes_put(out, list.data, list.len);
}

/* Control groups of static pods are named after the hash of their file, which their mirror's annotation tells. */
static const char *uid_of(const struct json_value *meta)
{
	const char *hash =
		kubernetes_text(json_value_get(meta, "annotations"), "kubernetes.io/config.hash");

	return *hash ? hash : kubernetes_text(meta, "uid");
}

static void put_record(struct pod_records *p, const struct json_value *object, struct bytes *out)
{
	const struct json_value *meta = json_value_get(object, "metadata");

	put_limited(p, out, kubernetes_text(meta, "namespace"));
	put_limited(p, out, kubernetes_text(meta, "name"));
	put_limited(p, out, uid_of(meta));
	put_values(p, out, json_value_get(meta, "labels"), p->o->labels, p->o->n_labels);
	put_values(p, out, json_value_get(meta, "annotations"), p->o->annotations,
		p->o->n_annotations);
	put_all_containers(p, out, object);
}

/* NULL: it has no name. */
static char *key_of(const struct json_value *object)
{
	const struct json_value *meta = json_value_get(object, "metadata");
	const char *name = kubernetes_text(meta, "name");

	return *name ? xasprintf("%s/%s", kubernetes_text(meta, "namespace"), name) : NULL;
}

/* Where the key is or belongs. */
static size_t position(const struct pod_records *p, const char *key)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(p->items[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void drop(struct pod_records *p, size_t i)
{
	p->total_bytes -= p->items[i].record.len;
	free(p->items[i].key);
	bytes_done(&p->items[i].record);
	memmove(p->items + i, p->items + i + 1, (--p->n - i) * sizeof(*p->items));
}

void pod_records_done(struct pod_records *p)
{
	while (p->n)
		drop(p, p->n - 1);
	free(TAKE(p->items));
	p->cap = 0;
}

static int insert(struct pod_records *p, size_t at, char *key)
{
	if (alloc_grow(&p->items, &p->cap, p->n + 1, sizeof(*p->items)) < 0)
		return -ENOMEM;
	memmove(p->items + at + 1, p->items + at, (p->n++ - at) * sizeof(*p->items));
	p->items[at] = (struct pod_record) {.key = key};
	return 0;
}

int pod_records_set(
	struct pod_records *p, const struct json_value *object, uint64_t list, struct errbuf *eb)
{
	_cleanup_free_ char *key = key_of(object);
	_cleanup_bytes_ struct bytes record = {0};
	size_t at;
	bool is_known;

	if (!key)
		return err_set(eb, -EBADMSG, "a pod without metadata.name");
	put_record(p, object, &record);
	at = position(p, key);
	is_known = at < p->n && !strcmp(p->items[at].key, key);
	if (p->total_bytes + record.len >
		p->o->max_bytes + (is_known ? p->items[at].record.len : 0))
		return err_set(eb, -EFBIG, "its pods need more than --kubernetes.max-bytes=%llu",
			(unsigned long long)p->o->max_bytes);
	if (!is_known) {
		if (insert(p, at, key) < 0)
			return err_set(eb, -ENOMEM, "out of memory");
		key = NULL;
	}
	p->total_bytes += record.len - p->items[at].record.len;
	bytes_done(&p->items[at].record);
	p->items[at].record = record;
	p->items[at].list = list;
	record = (struct bytes) {0};
	return 0;
}

void pod_records_delete(struct pod_records *p, const struct json_value *object)
{
	_cleanup_free_ char *key = key_of(object);
	size_t at = key ? position(p, key) : p->n;

	if (at < p->n && !strcmp(p->items[at].key, key))
		drop(p, at);
}

void pod_records_sweep(struct pod_records *p, uint64_t list)
{
	for (size_t i = p->n; i--;)
		if (p->items[i].list != list)
			drop(p, i);
}

void pod_records_print(const struct pod_records *p, struct bytes *out)
{
	bytes_put_u32(out, PODS_MAGIC);
	bytes_put_u32(out, (uint32_t)p->n);
	bytes_put_u32(out, (uint32_t)(p->o->n_labels + p->o->n_annotations));
	for (size_t i = 0; i < p->n; i++)
		bytes_put(out, p->items[i].record.data, p->items[i].record.len);
}
