/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets of a record, checked against what bpf/interp/ruby.h reads at once: a symbol file may say anything.
 */
#include "exporter/interp/ruby_rows.h"
#include "exporter/interp/ruby.h"
#include "lib/base/cleanup.h"

enum {
	WORD_BYTES = 8,
	READ_OF_FRAME = 40,	/* as there */
	MAX_FRAME_BYTES = 4096, /* of a frame; 48 to 64 as they come */
};

static bool is_known(uint16_t off)
{
	return off != RUNTIME_NO_FIELD;
}

/* Words within the first `bytes` of a structure. */
static bool lie_within(const uint16_t *fields, size_t n, uint32_t bytes)
{
	for (size_t i = 0; i < n; i++)
		if (fields[i] % WORD_BYTES || fields[i] + (uint32_t)WORD_BYTES > bytes)
			return false;
	return true;
}

static bool cover_state(struct interp_layout *l)
{
	const uint16_t fields[] = {l->thread_frame, l->thread_stack, l->thread_stack_words};
	uint32_t bytes = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		bytes = MAX(bytes, fields[i] + (uint32_t)WORD_BYTES);
	l->thread_bytes = (uint16_t)bytes;
	return lie_within(fields, ARRAY_SIZE(fields), INTERP_THREAD_BYTES);
}

static bool fits_frame(const struct interp_layout *l)
{
	const uint16_t fields[] = {l->frame_code, l->frame_position, l->frame_env};

	return lie_within(fields, ARRAY_SIZE(fields), READ_OF_FRAME) &&
	       l->frame_bytes >= READ_OF_FRAME && l->frame_bytes <= MAX_FRAME_BYTES &&
	       l->frame_bytes % WORD_BYTES == 0;
}

bool ruby_rows_layout(const struct runtime_record *r, struct interp_layout *ret)
{
	const uint16_t *o = r->offsets;

	*ret = (struct interp_layout) {
		.kind = INTERP_RUBY,
		.thread_frame = o[RUBY_EC_FRAME],
		.thread_stack = o[RUBY_EC_STACK],
		.thread_stack_words = o[RUBY_EC_STACK_WORDS],
		.thread_id = o[RUBY_THREAD_ID],
		.thread_interp = o[RUBY_EC_THREAD],
		.frame_bytes = o[RUBY_FRAME_BYTES],
		.frame_position = o[RUBY_FRAME_POSITION],
		.frame_code = o[RUBY_FRAME_CODE],
		.frame_env = o[RUBY_FRAME_ENV],
		.interp_generation = INTERP_NO_FIELD,
		.has_context = is_known(o[RUBY_CLASS_PATH]),
	};
	ruby_check_of(r, ret);
	/* A sequence and a method have what they are told by at one place. */
	return is_known(o[RUBY_CODE_BODY]) && o[RUBY_CODE_BODY] == o[RUBY_METHOD_DEFINITION] &&
	       is_known(o[RUBY_EC_THREAD]) && cover_state(ret) && fits_frame(ret) &&
	       ret->name_check_bytes <= INTERP_CHECK_BYTES;
}
