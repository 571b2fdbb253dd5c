/* SPDX-License-Identifier: Apache-2.0
 *
 * Words, types, arrays of V8.
 */
#include "exporter/interp/v8_heap.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"

enum { MAP_TYPE = 12, ARRAY_LENGTH = 8, MAX_LENGTH = 1 << 28 };

int v8_read_at(struct v8_heap *h, uint64_t addr, void *to, size_t n)
{
	if (addr < V8_ADDRESS_MIN || addr >= V8_ADDRESS_MAX || ++h->n_reads > V8_MAX_READS)
		return -EBADMSG;
	return h->m->read(h->m->arg, addr, to, n);
}

int v8_read(struct v8_heap *h, uint64_t object, uint32_t off, void *to, size_t n)
{
	return v8_is_object(object) ? v8_read_at(h, object - 1 + off, to, n) : -ENOENT;
}

int v8_word(struct v8_heap *h, uint64_t object, uint32_t off, uint64_t *ret)
{
	uint8_t bytes[V8_WORD];
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	int error = v8_read(h, object, off, bytes, sizeof(bytes));

	if (error < 0)
		return error;
	*ret = cursor_le(&c, sizeof(bytes));
	return 0;
}

int v8_type_of_map(struct v8_heap *h, uint64_t map)
{
	uint8_t bytes[2];
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	uint16_t type;
	int error;

	for (size_t i = 0; i < MIN(h->n_known, (unsigned)V8_KNOWN_MAPS); i++)
		if (h->known[i].map == map)
			return h->known[i].type;
	error = v8_read(h, map, MAP_TYPE, bytes, sizeof(bytes));
	if (error < 0)
		return error;
	type = cursor_u16(&c);
	h->known[h->n_known % V8_KNOWN_MAPS].map = map;
	h->known[h->n_known++ % V8_KNOWN_MAPS].type = type;
	return type;
}

int v8_type(struct v8_heap *h, uint64_t object)
{
	uint64_t map;
	int error = v8_word(h, object, 0, &map);

	return error < 0 ? error : v8_type_of_map(h, map);
}

int v8_check_type(struct v8_heap *h, uint64_t object, enum v8_number type)
{
	int is = v8_type(h, object);

	if (is < 0)
		return is;
	return h->r->offsets[type] != RUNTIME_NO_FIELD && is == h->r->offsets[type] ? 0 : -ENOENT;
}

int64_t v8_array_length(struct v8_heap *h, uint64_t array)
{
	uint64_t word;
	int error = v8_word(h, array, ARRAY_LENGTH, &word);

	if (error < 0)
		return error;
	if (!v8_is_smi(word) || v8_smi(word) < 0 || v8_smi(word) > MAX_LENGTH)
		return -EBADMSG;
	return v8_smi(word);
}

int v8_element(struct v8_heap *h, uint64_t array, uint32_t i, uint64_t *ret)
{
	int64_t n = v8_array_length(h, array);

	if (n < 0)
		return (int)n;
	return i < n ? v8_word(h, array, V8_ARRAY_DATA + i * V8_WORD, ret) : -EBADMSG;
}

int v8_bytes(struct v8_heap *h, uint64_t array, size_t max_bytes, uint8_t **ret, size_t *ret_n)
{
	int64_t n = v8_array_length(h, array);
	_cleanup_free_ uint8_t *bytes = NULL;
	int error;

	if (n < 0)
		return (int)n;
	if ((uint64_t)n > max_bytes)
		return -EFBIG;
	bytes = try_malloc((size_t)n + 1);
	if (!bytes)
		return -ENOMEM;
	error = n ? v8_read(h, array, V8_ARRAY_DATA, bytes, (size_t)n) : 0;
	if (error < 0)
		return error;
	*ret = TAKE(bytes);
	*ret_n = (size_t)n;
	return 0;
}
