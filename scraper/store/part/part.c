/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of parts: what heads and blocks have in common, and decoding pages of rows.
 */
#include "lib/base/alloc.h"
#include "scraper/store/part/part_impl.h"
#include <errno.h>
#include <string.h>

void part_init(struct part *p, const struct part_ops *ops, uint32_t id)
{
	*p = (struct part) {.ops = ops, .id = id};
	atomic_store(&p->refs, 1);
}

void part_get(struct part *p)
{
	unsigned before = atomic_fetch_add(&p->refs, 1);

	ASSERT(before);
}

void part_put(struct part *p)
{
	unsigned before = p ? atomic_fetch_sub(&p->refs, 1) : 0;

	ASSERT(!p || before);
	if (before == 1)
		p->ops->free(p);
}

int part_reader_open(struct part *p, struct budget *b, struct part_reader **ret, struct errbuf *eb)
{
	return part_reader_open_at(p, PART_RAW, b, ret, eb);
}

int part_reader_open_at(struct part *p, enum part_resolution resolution, struct budget *b,
	struct part_reader **ret, struct errbuf *eb)
{
	struct part_reader *r = try_malloc(sizeof(*r));
	int e;

	if (!r)
		return err_set(eb, -ENOMEM, "out of memory opening a part");
	*r = (struct part_reader) {.part = p, .info = {.resolution = resolution}};
	arena_init(&r->arena, b);
	arena_init(&r->profiles, b);
	e = p->ops->open(r);
	if (e < 0) {
		err_set(eb, e, "%s", err_text(&r->errbuf, e));
		part_reader_close(r);
		return e;
	}
	r->info.id = p->id;
	*ret = r;
	return 0;
}

void part_reader_close(struct part_reader *r)
{
	if (!r)
		return;
	if (r->part->ops->close)
		r->part->ops->close(r);
	arena_done(&r->arena);
	arena_done(&r->profiles);
	free(r->pins);
	free(r);
}

void part_reader_closep(struct part_reader **r)
{
	part_reader_close(*r);
}

const struct part_info *part_reader_info(const struct part_reader *r)
{
	return &r->info;
}

const char *part_reader_error(const struct part_reader *r)
{
	return r->errbuf.text;
}

bool part_is_damage(int error)
{
	switch (-error) {
	case EBADMSG:
	case ENOTSUP:
	case EIO:
	case EUCLEAN: /* what file systems say of their own damage */
	case ENXIO:
	case EISDIR:
	case ENOTDIR: return true;
	default: return false;
	}
}

bool part_is_damaged(const struct part *p)
{
	return p->ops->is_damaged && p->ops->is_damaged(p);
}

void part_report_damage(struct part_reader *r, const char *what)
{
	if (what)
		err_set(&r->errbuf, -EBADMSG, "%s", what);
	if (r->part->ops->damaged)
		r->part->ops->damaged(r);
}

int part_schemas(struct part_reader *r, const struct part_schema **ret)
{
	return r->part->ops->schemas(r, ret);
}

int part_streams(struct part_reader *r, const struct part_stream **ret)
{
	return r->part->ops->streams(r, ret);
}

int part_label_sets(struct part_reader *r, struct part_label_sets *ret)
{
	return r->part->ops->label_sets(r, ret);
}

int part_mappings(struct part_reader *r, const struct part_mapping **ret)
{
	return r->part->ops->mappings(r, ret);
}

int part_label_strings(struct part_reader *r, const struct prof_str **ret)
{
	return r->part->ops->label_strings(r, ret);
}

int part_nodes(struct part_reader *r, const uint32_t **ret_parents, const uint32_t **ret_locations)
{
	return r->part->ops->nodes(r, ret_parents, ret_locations);
}

int part_location_keys(struct part_reader *r, const uint64_t **ret)
{
	return r->part->ops->location_keys(r, ret);
}

int part_strings(struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret)
{
	return r->part->ops->strings(r, ids, n, ret);
}

int part_functions(struct part_reader *r, const uint32_t *ids, size_t n, struct part_function *ret)
{
	return r->part->ops->functions(r, ids, n, ret);
}

int part_locations(struct part_reader *r, const uint32_t *ids, size_t n, struct part_location *ret)
{
	return r->part->ops->locations(r, ids, n, ret);
}

int part_totals(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from_ns,
	int64_t to_ns, struct part_profiles *ret)
{
	if (!r->part->ops->totals || column >= STORE_MAX_COLUMNS)
		return part_profiles(r, stream, from_ns, to_ns, ret);
	if (stream >= r->info.n_streams)
		return err_set(&r->errbuf, -EINVAL, "stream %u of %u", stream, r->info.n_streams);
	return r->part->ops->totals(r, stream, column, from_ns, to_ns, ret);
}

int part_profiles(struct part_reader *r, uint32_t stream, int64_t from_ns, int64_t to_ns,
	struct part_profiles *ret)
{
	if (stream >= r->info.n_streams)
		return err_set(&r->errbuf, -EINVAL, "stream %u of %u", stream, r->info.n_streams);
	return r->part->ops->profiles(r, stream, from_ns, to_ns, ret);
}

int part_span(struct part_reader *r, uint32_t stream, uint32_t n_streams, struct part_span *ret)
{
	if (n_streams > r->info.n_streams || stream > r->info.n_streams - n_streams)
		return err_set(&r->errbuf, -EINVAL, "streams %u and %u following ones of %u",
			stream, n_streams, r->info.n_streams);
	return r->part->ops->span ? r->part->ops->span(r, stream, n_streams, ret) : 1;
}

int part_pages(struct part_reader *r, const struct part_page **ret)
{
	return r->part->ops->pages(r, ret);
}

uint32_t part_page_of(const struct part_page *pages, uint32_t n_pages, uint64_t row)
{
	uint32_t lo = 0, hi = n_pages;

	while (lo + 1 < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (pages[mid].first_row <= row)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* Decode buffers, one page long; they stay until the reader closes. */
static int need_buffers(struct part_reader *r, uint32_t columns)
{
	if (!r->nodes)
		r->nodes = arena_alloc_array(&r->arena, PAGE_MAX_ROWS, sizeof(*r->nodes));
	for (unsigned i = 0; i < STORE_MAX_COLUMNS; i++)
		if (columns >> i & 1 && !r->values[i])
			r->values[i] =
				arena_alloc_array(&r->arena, PAGE_MAX_ROWS, sizeof(**r->values));
	return arena_error(&r->arena, &r->errbuf);
}

static int read_label_sets(struct part_reader *r, const struct page *p, struct part_rows *ret)
{
	int64_t value;

	if (page_is_const(p, 0, &value)) {
		if (value < 0 || value >= r->info.n_label_sets)
			return err_set(&r->errbuf, -EBADMSG, "label set %lld of %u",
				(long long)value, r->info.n_label_sets);
		ret->const_label_set = (uint32_t)value;
		return 0;
	}
	if (!r->label_sets)
		r->label_sets = arena_alloc_array(&r->arena, PAGE_MAX_ROWS, sizeof(*r->label_sets));
	if (!r->label_sets)
		return arena_error(&r->arena, &r->errbuf);
	ret->label_sets = r->label_sets;
	return page_u32(p, 0, p->n_rows, r->info.n_label_sets, r->label_sets, &r->errbuf);
}

int part_rows(struct part_reader *r, uint32_t number, uint32_t columns, struct part_rows *ret)
{
	const bool nodes = !(columns & PART_SETS_ONLY);
	const struct page *p;
	int e;

	*ret = (struct part_rows) {.n_rows = 0};
	if (number >= r->info.n_pages)
		return err_set(&r->errbuf, -EINVAL, "page %u of %u", number, r->info.n_pages);
	e = r->part->ops->page(r, number, nodes ? UINT32_MAX : 1U << 0, &p);
	if (e < 0)
		return e;
	if (p->n_rows > PAGE_MAX_ROWS || p->n_columns < 2)
		return err_set(&r->errbuf, -EBADMSG, "page of %u rows and %u columns", p->n_rows,
			p->n_columns);
	columns &= (1u << (p->n_columns - 2)) - 1;
	e = need_buffers(r, columns);
	if (e >= 0)
		e = read_label_sets(r, p, ret);
	if (e >= 0 && nodes)
		e = page_u32(p, 1, p->n_rows, r->info.n_nodes, r->nodes, &r->errbuf);
	for (unsigned i = 0; e >= 0 && i < STORE_MAX_COLUMNS; i++) {
		if (!(columns >> i & 1))
			continue;
		e = page_i64(p, i + 2, p->n_rows, r->values[i], &r->errbuf);
		ret->values[i] = r->values[i];
	}
	if (part_is_damage(e) && r->part->ops->damaged)
		r->part->ops->damaged(r);
	ret->n_rows = p->n_rows;
	ret->nodes = nodes ? r->nodes : NULL;
	return e < 0 ? e : 0;
}

int part_recall(
	struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret, size_t *ret_n)
{
	return r->part->ops->recall ? r->part->ops->recall(r, key, n_key, ret, ret_n) : 0;
}

void part_remember(struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n)
{
	if (r->part->ops->remember)
		r->part->ops->remember(r, key, n_key, data, n);
}

int part_reader_pin(struct part_reader *r, struct cache_entry *e)
{
	if (alloc_grow(&r->pins, &r->cap_pins, r->n_pins + 1, sizeof(*r->pins)) < 0)
		return err_set(&r->errbuf, -ENOMEM, "out of memory reading a part");
	r->pins[r->n_pins++] = e;
	return 0;
}
