/* SPDX-License-Identifier: Apache-2.0
 *
 * Framing of record bodies and cursors.
 */
#include "scraper/store/wal/record.h"
#include "scraper/store/codec/codec.h"

int record_parse(const void *body, size_t len, struct record *ret, struct errbuf *eb)
{
	struct cursor c = cursor_of(body, len);
	uint8_t kind = cursor_u8(&c), zero = cursor_u8(&c);
	uint64_t synced = cursor_varint(&c);

	if (c.error || zero || (kind != RECORD_SCRAPE && kind != RECORD_CURSORS))
		return err_set(eb, -EBADMSG, "record of unknown kind %u", kind);
	*ret = (struct record) {.kind = kind, .synced_sequence = synced, .groups = c};
	return 0;
}

int record_next(struct record *r, struct record_group *ret, struct errbuf *eb)
{
	struct cursor *c = &r->groups;
	uint64_t n, n_columns, len;

	if (!cursor_left(c))
		return 0;
	*ret = (struct record_group) {.tag = cursor_u8(c)};
	n = cursor_varint(c);
	ret->first = cursor_varint(c);
	n_columns = cursor_varint(c);
	len = cursor_varint(c);
	ret->data = cursor_take(c, len);
	if (c->error || n > UINT32_MAX || n_columns > PAGE_MAX_COLUMNS || ret->first > UINT32_MAX ||
		len > UINT32_MAX)
		return err_set(eb, -EBADMSG, "record group %u at byte %zu is malformed", ret->tag,
			c->error_off);
	ret->n = (uint32_t)n;
	ret->n_columns = (uint32_t)n_columns;
	ret->len = (uint32_t)len;
	return 1;
}

static struct store_blob take_blob(struct cursor *c)
{
	uint64_t n = cursor_varint(c);
	const uint8_t *p = cursor_take(c, n);

	return (struct store_blob) {.p = p, .len = p ? n : 0};
}

int record_next_cursor(struct cursor *c, struct record_cursor *ret)
{
	*ret = (struct record_cursor) {.key = take_blob(c)};
	ret->before = take_blob(c);
	ret->after = take_blob(c);
	ret->time_ns = cursor_svarint(c);
	return c->error;
}

static void put_blob(struct bytes *out, struct store_blob b)
{
	bytes_put_varint(out, b.len);
	bytes_put(out, b.p, b.len);
}

void record_put_cursor(struct bytes *out, const struct record_cursor *c)
{
	put_blob(out, c->key);
	put_blob(out, c->before);
	put_blob(out, c->after);
	bytes_put_svarint(out, c->time_ns);
}

void record_begin(struct bytes *out, enum record_kind kind, uint64_t synced_sequence)
{
	bytes_put_u8(out, (uint8_t)kind);
	bytes_put_u8(out, 0);
	bytes_put_varint(out, synced_sequence);
}

void record_put_group(struct bytes *out, const struct record_group *g)
{
	bytes_put_u8(out, (uint8_t)g->tag);
	bytes_put_varint(out, g->n);
	bytes_put_varint(out, g->first);
	bytes_put_varint(out, g->n_columns);
	bytes_put_varint(out, g->len);
	bytes_put(out, g->data, g->len);
}
