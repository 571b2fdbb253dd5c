/* SPDX-License-Identifier: Apache-2.0
 *
 * The row and the layout of a stopped CPython, made from its file's record.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/symfile/python.h"
#include <string.h>

/* What the row needs of the process: a u64 of its memory at an address of the file. */
typedef uint64_t interp_rows_read(void *arg, uint64_t vaddr);

enum { GLIBC_KEYS_AT = 0x310, GLIBC_KEY_BYTES = 16, GLIBC_KEY_DATA = 8 };

static inline void interp_rows_layout(const struct runtime_record *r, struct interp_layout *l)
{
	const uint16_t *o = r->offsets;
	uint32_t minor = RUNTIME_MINOR(r->version), first = o[PYTHON_THREAD_ID], last = first;

	for (unsigned i = PYTHON_THREAD_FRAME; i <= PYTHON_THREAD_CFRAME; i++) {
		if (o[i] == RUNTIME_NO_FIELD)
			continue;
		first = o[i] < first ? o[i] : first;
		last = o[i] > last ? o[i] : last;
	}
	*l = (struct interp_layout) {
		.kind = minor >= 12   ? INTERP_PYTHON_SHIMS
			: minor >= 10 ? INTERP_PYTHON_CFRAMES
				      : INTERP_PYTHON_EVALS,
		.thread_from = (uint16_t)first,
		.thread_bytes = (uint16_t)(last + 8 - first),
		.thread_frame = o[PYTHON_THREAD_FRAME],
		.thread_cframe = o[PYTHON_THREAD_CFRAME],
		.thread_id = o[PYTHON_THREAD_ID],
		.thread_base_frame = o[PYTHON_THREAD_BASE_FRAME],
		.cframe_frame = o[PYTHON_CFRAME_FRAME],
		.cframe_back = o[PYTHON_CFRAME_BACK],
		.frame_code = o[PYTHON_FRAME_CODE],
		.frame_back = o[PYTHON_FRAME_BACK],
		.frame_position = o[PYTHON_FRAME_POSITION],
		.frame_owner = o[PYTHON_FRAME_OWNER],
		.frame_is_entry = o[PYTHON_FRAME_IS_ENTRY],
		.code_start = o[PYTHON_CODE_START],
		.code_check = o[PYTHON_CODE_FIRST_LINE],
		.tag_mask = minor >= 14 ? 7 : 0,
		.position_bytes = minor >= 11	? 2
				  : minor == 10 ? 0
						: 1,
		.interp_generation = INTERP_NO_FIELD,
		.thread_interp = INTERP_NO_FIELD,
	};
}

static inline void interp_rows_states(
	const struct runtime_record *r, interp_rows_read *read, void *arg, struct interp_process *p)
{
	for (unsigned i = 0; i < RUNTIME_N_STATES; i++) {
		const struct runtime_state *s = &r->states[i];

		p->states[i].by = s->by ? INTERP_BY_TP : INTERP_BY_NOTHING;
		if (s->by == RUNTIME_BY_TP)
			p->states[i].off = (int64_t)s->at;
		if (s->by == RUNTIME_BY_GOT)
			p->states[i].off = (int64_t)read(arg, s->at);
		if (s->by == RUNTIME_BY_KEY)
			p->states[i].off = GLIBC_KEYS_AT +
					   GLIBC_KEY_BYTES * (int64_t)(uint32_t)read(arg, s->at) +
					   GLIBC_KEY_DATA;
		if (s->by != RUNTIME_BY_GOT_PAIR)
			continue;
		p->states[i].by = INTERP_BY_DTV;
		p->states[i].module = (uint32_t)read(arg, s->at);
		p->states[i].off = (int64_t)read(arg, s->at + 8);
	}
}
