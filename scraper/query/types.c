/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile types: their names in profile terms and in Prometheus', and which one a query means.
 */
#include "lib/base/alloc.h"
#include "scraper/query/scan.h"
#include <string.h>

const char *const query_type_labels[QUERY_N_TYPE_LABELS] = {
	"__period_type__", "__period_unit__", "__profile_type__", "__type__", "__unit__"};

const char *query_type_label(const struct query_type *t, const char *name)
{
	const char *values[] = {
		t->period_type, t->period_unit, t->id, t->sample_type, t->sample_unit};

	for (size_t i = 0; t->kind != STORE_GAUGE && i < QUERY_N_TYPE_LABELS; i++)
		if (!strcmp(name, query_type_labels[i]))
			return values[i];
	return NULL;
}

static void put_metric_name(struct bytes *out, const char *s)
{
	for (; *s; s++) {
		bool ok = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
			  *s == ':' || (out->len && *s >= '0' && *s <= '9');

		bytes_put_u8(out, ok ? (uint8_t)*s : '_');
	}
}

static char *metric_name(const struct query_type *t)
{
	_cleanup_bytes_ struct bytes out = {};

	put_metric_name(&out, t->name);
	if (t->kind != STORE_GAUGE) {
		bytes_put_u8(&out, '_');
		put_metric_name(&out, t->sample_type);
		bytes_put_u8(&out, '_');
		put_metric_name(&out, t->sample_unit);
	}
	if (t->kind == STORE_DELTA)
		bytes_put_str(&out, "_total");
	bytes_put_u8(&out, 0);
	return out.error ? xstrdup("") : (char *)TAKE(out.data);
}

void query_type_done(struct query_type *t)
{
	free(t->id);
	free(t->name);
	free(t->sample_type);
	free(t->sample_unit);
	free(t->period_type);
	free(t->period_unit);
	free(t->metric);
	*t = (struct query_type) {};
}

void query_type_copy(const struct query_type *from, struct query_type *ret)
{
	*ret = (struct query_type) {.id = xstrdup(from->id),
		.name = xstrdup(from->name),
		.sample_type = xstrdup(from->sample_type),
		.sample_unit = xstrdup(from->sample_unit),
		.period_type = xstrdup(from->period_type),
		.period_unit = xstrdup(from->period_unit),
		.metric = xstrdup(from->metric),
		.kind = from->kind};
}

static char *dup_string(const struct scan_part *p, uint32_t id)
{
	struct prof_str s = scan_string(p, id);

	return xstrndup(s.p ? s.p : "", s.len);
}

void query_type_name(const struct scan_part *p, const struct part_schema *sc, uint32_t column,
	uint32_t name, struct query_type *ret)
{
	*ret = (struct query_type) {.kind = sc->columns[column].kind};
	ret->name = name == STORE_NONE ? xstrdup("") : dup_string(p, name);
	ret->sample_type = dup_string(p, sc->columns[column].type);
	ret->sample_unit = dup_string(p, sc->columns[column].unit);
	ret->period_type = dup_string(p, sc->period_type);
	ret->period_unit = dup_string(p, sc->period_unit);
	ret->id = ret->kind == STORE_GAUGE
			  ? xstrdup(ret->name)
			  : xasprintf("%s:%s:%s:%s:%s", ret->name, ret->sample_type,
				    ret->sample_unit, ret->period_type, ret->period_unit);
	ret->metric = metric_name(ret);
}

/* The only type among the hits, as an index; -ENOENT when nothing was hit; -EINVAL with a list when there are several. */
static int only_type(const struct scan *s, uint32_t *ret, struct errbuf *eb)
{
	enum { LISTED = 8 };
	char list[400];
	size_t len = 0;

	if (!s->n_types)
		return -ENOENT;
	*ret = 0;
	if (s->n_types == 1)
		return 0;
	for (size_t i = 0; i < s->n_types && i < LISTED && len < sizeof(list) - 1; i++)
		len += (size_t)snprintf(
			list + len, sizeof(list) - len, "%s%s", i ? ", " : "", s->types[i].id);
	return err_set(eb, -EINVAL, "the selector means %zu profile types, name one of: %.380s%s",
		s->n_types, list, s->n_types > LISTED ? ", …" : "");
}

/* What the user asked for, when nothing of it is stored. */
static void name_missing_type(const struct query_selector *q, struct query_type *ret)
{
	const struct query_type_id *t = &q->type;

	*ret = (struct query_type) {
		.name = xstrdup(q->has_type ? t->name : ""),
		.sample_type = xstrdup(q->has_type ? t->sample_type : ""),
		.sample_unit = xstrdup(q->has_type ? t->sample_unit : ""),
		.period_type = xstrdup(q->has_type ? t->period_type : ""),
		.period_unit = xstrdup(q->has_type ? t->period_unit : ""),
		.metric = xstrdup(""),
	};
	ret->id = q->has_type ? xasprintf("%s:%s:%s:%s:%s", t->name, t->sample_type, t->sample_unit,
					t->period_type, t->period_unit)
			      : xstrdup("");
}

int query_find_type(const struct scan *s, const struct query_selector *q, uint32_t *ret_index,
	struct query_type *ret, struct errbuf *eb)
{
	int r = only_type(s, ret_index, eb);

	if (r == -ENOENT)
		name_missing_type(q, ret);
	if (r)
		return r;
	query_type_copy(&s->types[*ret_index], ret);
	return 0;
}
