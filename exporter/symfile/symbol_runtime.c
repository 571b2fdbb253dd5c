/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the runtime: encoded, decoded, checked once.
 */
#include "exporter/symfile/symbol_runtime.h"
#include "lib/base/cursor.h"

_Static_assert(SYMBOL_RUNTIME_BYTES == 8 + 16 * RUNTIME_N_STATES + 8 * RUNTIME_MAX_ADDRESSES +
					       2 * RUNTIME_MAX_OFFSETS,
	"what is written");

void symbol_runtime_put(const struct runtime_record *r, struct bytes *b)
{
	bytes_put_u16(b, r->kind);
	bytes_put_u16(b, r->refusal);
	bytes_put_u32(b, r->version);
	for (size_t i = 0; i < RUNTIME_N_STATES; i++) {
		bytes_put_u64(b, r->states[i].by);
		bytes_put_u64(b, r->states[i].at);
	}
	for (size_t i = 0; i < RUNTIME_MAX_ADDRESSES; i++)
		bytes_put_u64(b, r->addresses[i]);
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		bytes_put_u16(b, r->offsets[i]);
}

bool symbol_runtime_of(const struct symbol_file *s, struct runtime_record *ret)
{
	struct cursor c = cursor_of(s->runtime.data, s->runtime.bytes);

	*ret = (struct runtime_record) {.kind = cursor_u16(&c)};
	ret->refusal = cursor_u16(&c);
	ret->version = cursor_u32(&c);
	for (size_t i = 0; i < RUNTIME_N_STATES; i++) {
		uint64_t by = cursor_u64(&c);

		ret->states[i].by = (uint16_t)MIN(by, (uint64_t)UINT16_MAX);
		ret->states[i].at = cursor_u64(&c);
	}
	for (size_t i = 0; i < RUNTIME_MAX_ADDRESSES; i++)
		ret->addresses[i] = cursor_u64(&c);
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		ret->offsets[i] = cursor_u16(&c);
	return s->runtime.bytes;
}

int symbol_runtime_check(const struct symbol_file *s, struct errbuf *eb)
{
	struct runtime_record r;
	bool is_valid;

	if (!symbol_runtime_of(s, &r))
		return 0;
	is_valid = s->runtime.bytes == SYMBOL_RUNTIME_BYTES && r.kind != RUNTIME_NONE &&
		   r.kind < N_RUNTIMES && r.refusal < N_RUNTIME_REFUSALS;
	for (size_t i = 0; i < RUNTIME_N_STATES; i++)
		is_valid &= r.states[i].by < N_RUNTIME_STATES_BY;
	return is_valid ? 0 : err_set(eb, -EBADMSG, "symbol file: a runtime without meaning");
}
