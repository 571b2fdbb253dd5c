/* SPDX-License-Identifier: Apache-2.0
 *
 * Label sets and their builder. Sets are small (tens of labels), so the builder keeps a sorted
 * array and moves it.
 */
#include "lib/prof/labels.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

enum { HASH_LOCAL_BYTES = 1024 };

void labels_done(struct labels *l)
{
	free(l->block);
	*l = (struct labels) {.n = 0};
}

/* One block: n items, then all text. The caller fills the items in order through copy_text. */
static int new_block(struct labels *l, size_t n, size_t text_bytes, char **ret_text)
{
	size_t items_bytes, total;

	*l = (struct labels) {.n = 0};
	if (!n)
		return 0;
	if (__builtin_mul_overflow(n, sizeof(struct label), &items_bytes) ||
		__builtin_add_overflow(items_bytes, text_bytes, &total))
		return -ENOMEM;
	l->block = try_malloc(total);
	if (!l->block)
		return -ENOMEM;
	l->items = (struct label *)(void *)l->block;
	l->n = n;
	*ret_text = l->block + items_bytes;
	return 0;
}

static const char *copy_text(char **to, const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = *to;

	memcpy(copy, s, n);
	*to += n;
	return copy;
}

int labels_copy(const struct labels *from, struct labels *ret)
{
	size_t text_bytes = 0;
	char *text = NULL;
	int r;

	for (size_t i = 0; i < from->n; i++)
		text_bytes += strlen(from->items[i].name) + strlen(from->items[i].value) + 2;
	r = new_block(ret, from->n, text_bytes, &text);
	if (r < 0)
		return r;
	for (size_t i = 0; i < from->n; i++) {
		ret->items[i].name = copy_text(&text, from->items[i].name);
		ret->items[i].value = copy_text(&text, from->items[i].value);
	}
	return 0;
}

const char *labels_get(const struct labels *l, const char *name)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = strcmp(l->items[mid].name, name);

		if (!c)
			return l->items[mid].value;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return "";
}

bool labels_equal(const struct labels *a, const struct labels *b)
{
	return a->n == b->n && !labels_compare(a, b);
}

int labels_compare(const struct labels *a, const struct labels *b)
{
	for (size_t i = 0; i < MIN(a->n, b->n); i++) {
		int c = strcmp(a->items[i].name, b->items[i].name);

		if (!c)
			c = strcmp(a->items[i].value, b->items[i].value);
		if (c)
			return c;
	}
	return (a->n > b->n) - (a->n < b->n);
}

static size_t put_varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	return n;
}

static size_t put_text(uint8_t *to, const char *s)
{
	size_t len = strlen(s), n = put_varint(to, len);

	memcpy(to + n, s, len);
	return n + len;
}

/* Room that is surely enough: every varint takes at most 10 bytes. */
static size_t encoded_bound(const struct labels *l)
{
	size_t bytes = 10;

	for (size_t i = 0; i < l->n; i++)
		bytes += 20 + strlen(l->items[i].name) + strlen(l->items[i].value);
	return bytes;
}

static size_t encode_into(const struct labels *l, uint8_t *to)
{
	size_t at = put_varint(to, l->n);

	for (size_t i = 0; i < l->n; i++) {
		at += put_text(to + at, l->items[i].name);
		at += put_text(to + at, l->items[i].value);
	}
	return at;
}

uint64_t labels_hash(const struct labels *l)
{
	uint8_t local[HASH_LOCAL_BYTES];
	_cleanup_free_ uint8_t *heap = NULL;
	size_t bound = encoded_bound(l);

	if (bound > sizeof(local))
		heap = xmalloc(bound);
	return hash_xxh3(heap ? heap : local, encode_into(l, heap ? heap : local));
}

void labels_encode(const struct labels *l, struct bytes *out)
{
	uint8_t *to = bytes_reserve(out, encoded_bound(l));

	if (to)
		out->len += encode_into(l, to);
}

static bool is_identifier(const char *s)
{
	if (*s >= '0' && *s <= '9')
		return false;
	for (; *s; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			    (*s >= '0' && *s <= '9') || *s == '_'))
			return false;
	return true;
}

static void put_quoted(struct bytes *out, const char *s)
{
	bytes_put_u8(out, '"');
	for (; *s; s++) {
		const char *escape = *s == '\\'	  ? "\\\\"
				     : *s == '"'  ? "\\\""
				     : *s == '\n' ? "\\n"
						  : NULL;

		if (escape)
			bytes_put_str(out, escape);
		else
			bytes_put_u8(out, (uint8_t)*s);
	}
	bytes_put_u8(out, '"');
}

void labels_print(const struct labels *l, struct bytes *out)
{
	bytes_put_u8(out, '{');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			bytes_put_u8(out, ',');
		if (is_identifier(l->items[i].name))
			bytes_put_str(out, l->items[i].name);
		else
			put_quoted(out, l->items[i].name);
		bytes_put_u8(out, '=');
		put_quoted(out, l->items[i].value);
	}
	bytes_put_u8(out, '}');
}

void labels_builder_init(struct labels_builder *b)
{
	*b = (struct labels_builder) {.n = 0};
}

static void remove_all(struct labels_builder *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->items[i].name);
	b->n = 0;
}

void labels_builder_done(struct labels_builder *b)
{
	remove_all(b);
	free(b->items);
	labels_builder_init(b);
}

int labels_builder_reset(struct labels_builder *b, const struct labels *base)
{
	remove_all(b);
	b->error = 0;
	for (size_t i = 0; base && i < base->n; i++)
		labels_builder_set(b, base->items[i].name, base->items[i].value);
	return b->error;
}

/* memcmp order of a NUL-terminated name against one of known length. */
static int compare_name(const char *a, const char *name, size_t n)
{
	int c = strncmp(a, name, n);

	return c ? c : a[n] ? 1 : 0;
}

static size_t find(const struct labels_builder *b, const char *name, size_t n, bool *ret_found)
{
	size_t lo = 0, hi = b->n;

	*ret_found = false;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = compare_name(b->items[mid].name, name, n);

		if (!c) {
			*ret_found = true;
			return mid;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void remove_at(struct labels_builder *b, size_t at)
{
	free(b->items[at].name);
	b->n--;
	memmove(&b->items[at], &b->items[at + 1], (b->n - at) * sizeof(*b->items));
}

/* Copies first, so that name and value may point into the builder itself. */
static struct labels_builder_item new_item(
	const char *name, size_t name_len, const char *value, size_t value_len)
{
	struct labels_builder_item item = {.name = NULL};
	size_t bytes;

	if (!__builtin_add_overflow(name_len, value_len, &bytes) && bytes < SIZE_MAX - 2)
		item.name = try_malloc(bytes + 2);
	if (!item.name)
		return item;
	memcpy(item.name, name, name_len);
	item.name[name_len] = 0;
	item.value = item.name + name_len + 1;
	memcpy(item.value, value, value_len);
	item.value[value_len] = 0;
	return item;
}

void labels_builder_set_n(struct labels_builder *b, const char *name, size_t name_len,
	const char *value, size_t value_len)
{
	struct labels_builder_item item;
	bool found;
	size_t at;

	name_len = strnlen(name, name_len);
	value_len = strnlen(value, value_len);
	if (b->error)
		return;
	at = find(b, name, name_len, &found);
	if (!value_len) {
		if (found)
			remove_at(b, at);
		return;
	}
	item = new_item(name, name_len, value, value_len);
	if (!item.name || (!found && alloc_grow(&b->items, &b->cap, b->n + 1, sizeof(item)) < 0)) {
		free(item.name);
		b->error = -ENOMEM;
		return;
	}
	if (found) {
		free(b->items[at].name);
	} else {
		memmove(&b->items[at + 1], &b->items[at], (b->n - at) * sizeof(item));
		b->n++;
	}
	b->items[at] = item;
}

void labels_builder_set(struct labels_builder *b, const char *name, const char *value)
{
	labels_builder_set_n(b, name, strlen(name), value, strlen(value));
}

const char *labels_builder_get(const struct labels_builder *b, const char *name)
{
	bool found;
	size_t at = find(b, name, strlen(name), &found);

	return found ? b->items[at].value : "";
}

int labels_builder_finish(struct labels_builder *b, struct labels *ret)
{
	struct labels view;
	_cleanup_free_ struct label *items = NULL;

	*ret = (struct labels) {.n = 0};
	if (b->error)
		return b->error;
	if (!b->n)
		return 0;
	items = try_realloc(NULL, b->n, sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		items[i] = (struct label) {b->items[i].name, b->items[i].value};
	view = (struct labels) {.items = items, .n = b->n};
	return labels_copy(&view, ret);
}
