/* SPDX-License-Identifier: Apache-2.0
 *
 * static_configs, and how groups are made and compared.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "scraper/config/config.h"
#include "scraper/discover/provider.h"
#include <string.h>

int discover_group_from(const struct config_static_group *g, const char *source,
	const char *meta_name, const char *meta, struct discover_group *ret)
{
	_cleanup_labels_builder_ struct labels_builder b;
	struct discover_group group = {.source = xstrdup(source)};
	int r;

	labels_builder_init(&b);
	r = labels_builder_reset(&b, &g->labels);
	if (meta)
		labels_builder_set(&b, meta_name, meta);
	if (r == 0)
		r = labels_builder_finish(&b, &group.labels);
	group.targets = try_malloc((g->targets.n + 1) * sizeof(*group.targets));
	if (!group.targets)
		r = -ENOMEM;
	for (size_t i = 0; i < g->targets.n && r == 0; i++) {
		labels_builder_reset(&b, NULL);
		labels_builder_set(&b, "__address__", g->targets.items[i]);
		r = labels_builder_finish(&b, &group.targets[i]);
		group.n_targets += r == 0;
	}
	if (r < 0) {
		discover_group_done(&group);
		return r;
	}
	*ret = group;
	return 0;
}

bool discover_group_equal(const struct discover_group *a, const struct discover_group *b)
{
	if (strcmp(a->source, b->source) || a->n_targets != b->n_targets ||
		!labels_equal(&a->labels, &b->labels))
		return false;
	for (size_t i = 0; i < a->n_targets; i++) {
		if (!labels_equal(&a->targets[i], &b->targets[i]))
			return false;
	}
	return true;
}

/* All static groups of a job are one provider. */
static size_t count(const struct config_job *job)
{
	return job->n_statics ? 1 : 0;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	(void)i;
	for (size_t k = 0; k < job->n_statics; k++) {
		const struct config_static_group *g = &job->statics[k];

		bytes_put_varint(out, g->targets.n);
		for (size_t t = 0; t < g->targets.n; t++)
			bytes_put(out, g->targets.items[t], strlen(g->targets.items[t]) + 1);
		labels_encode(&g->labels, out);
	}
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	(void)i;
	p->groups = xcalloc(job->n_statics, sizeof(*p->groups));
	p->next_ns = INT64_MAX;
	p->refreshes = 1;
	p->is_settled = true;
	p->changed = true;
	for (size_t k = 0; k < job->n_statics; k++) {
		char source[32];
		int r;

		snprintf(source, sizeof(source), "static:%zu", k);
		r = discover_group_from(&job->statics[k], source, NULL, NULL, &p->groups[k]);
		if (r < 0)
			return r;
		p->n_groups++;
	}
	return 0;
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	(void)now_ns;
	p->next_ns = INT64_MAX;
}

static void stop(struct discover_provider *p)
{
	(void)p;
}

const struct discover_kind *discover_static(void)
{
	static const struct discover_kind kind = {
		"static", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
