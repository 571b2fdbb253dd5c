/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of a stopped CPython, made from its file's record.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/symfile/python.h"
#include <string.h>

/* What the row needs of the process: a u64 of its memory at an address of the file. */
typedef uint64_t interp_rows_read(void *arg, uint64_t vaddr);

enum { GLIBC_KEYS_AT = 0x310, GLIBC_KEY_BYTES = 16, GLIBC_KEY_DATA = 8 };

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
