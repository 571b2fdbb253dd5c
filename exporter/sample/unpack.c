/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame words out of their packed form.
 */
#include "exporter/sample/unpack.h"
#include "lib/base/cursor.h"

/* The next word, 0 when there is none. */
static uint64_t next_word(struct cursor *c, uint64_t before)
{
	uint32_t first = cursor_u32(c);
	uint64_t word;

	if (first & FRAME_PACK_SAME)
		return (before & ~(uint64_t)(FRAME_PACK_SAME - 1)) |
		       (first & (FRAME_PACK_SAME - 1));
	word = (uint64_t)first << 32 | cursor_u32(c);
	return word | (ABI_FRAME_KIND(word) ? 0 : ABI_FRAME(ABI_FRAME_TRUNCATED, 0));
}

int unpack_sample(const void *rec, size_t len, union unpacked *ret)
{
	struct cursor c = cursor_of(rec, len);
	struct abi_record *r = &ret->record;
	const uint8_t *head = cursor_take(&c, sizeof(*r));
	uint64_t word = 0;
	uint32_t n;

	if (!head)
		return -EBADMSG;
	memcpy(r, head, sizeof(*r));
	n = (uint32_t)r->n_kernel + r->n_user;
	if (r->type != ABI_RECORD_PACKED_SAMPLE || n > FRAME_PACK_MAX)
		return -EBADMSG;
	r->type = ABI_RECORD_SAMPLE;
	for (uint32_t i = 0; i < n; i++)
		r->frames[i] = word = next_word(&c, word);
	if (c.error || cursor_left(&c))
		return -EBADMSG;
	return (int)(sizeof(*r) + n * sizeof(r->frames[0]));
}
