/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker on the host with its tables in plain memory: seven of its hooks (bpf/unwind/hooks.h). A test defines the two others,
 * unwind_read_user and unwind_locate: the program that is walked.
 */
#pragma once
#include "bpf/interp/check.h"
#include "bpf/interp/interp.h"
#include "bpf/unwind/walker.h"
#include "exporter/unwind/tables.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

static struct unwind_memory host_memory;
static struct unwind_near host_near;

static inline struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary)
{
	(void)w;
	return binary < host_memory.n_binaries ? &host_memory.binaries[binary] : NULL;
}

static inline const __u32 *unwind_slab_at(struct walk *w, __u32 slab)
{
	(void)w;
	return slab < host_memory.n_slabs ? host_memory.slabs + (size_t)slab * UNWIND_SLAB_WORDS
					  : NULL;
}

static inline const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule)
{
	(void)w;
	return rule < host_memory.n_rules ? &host_memory.rules[rule] : NULL;
}

static inline struct unwind_near *unwind_near_at(struct walk *w)
{
	(void)w;
	return &host_near;
}

static inline struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w;
	return host_memory.cache && i < host_memory.n_cache ? &host_memory.cache[i] : NULL;
}

static inline void host_memory_init(uint32_t n_slabs, uint32_t n_rules, uint32_t n_binaries)
{
	host_near = (struct unwind_near) {0};
	host_memory = (struct unwind_memory) {
		.slabs = xcalloc((size_t)n_slabs * UNWIND_SLAB_WORDS, sizeof(uint32_t)),
		.n_slabs = n_slabs,
		.rules = xcalloc(n_rules, sizeof(struct unwind_rule)),
		.n_rules = n_rules,
		.binaries = xcalloc(n_binaries, sizeof(struct unwind_binary)),
		.n_binaries = n_binaries,
		.cache = xcalloc(UNWIND_CACHE_ANSWERS, sizeof(struct unwind_answer)),
		.n_cache = UNWIND_CACHE_ANSWERS,
	};
}

static inline void host_memory_done(void)
{
	free(host_memory.slabs);
	free(host_memory.rules);
	free(host_memory.binaries);
	free(host_memory.cache);
	host_memory = (struct unwind_memory) {0};
}

/* A test of languages sets it up (interp_begin); others have none. */
static struct interp host_interp;

static inline int unwind_interp(struct walk *w, __u64 *words)
{
	uint32_t n = host_interp.n_frames;

	if (!interp_is_here(w, &host_interp))
		return 0;
	while (!interp_turn(w, &host_interp, words))
		;
	return w->is_exact_leaf && host_interp.n_frames != n;
}

/* Machine code that the kernel half would tell of, in its order (struct abi_code); a test that wants it gives the room. */
struct host_machine {
	uint64_t address, function, check; /* the function's, 0: none */
	bool is_exact;
};
static struct host_machine *host_machines;
static unsigned host_n_machines, host_max_machines;

static inline void host_tell_machine(struct walk *w)
{
	uint64_t word;
	bool is_read;

	if (!host_interp.machine || host_n_machines >= host_max_machines)
		return;
	word = ABI_INTERP(host_interp.function >> ABI_INTERP_ADDRESS_SHIFT, 0);
	is_read = host_interp.layout.kind == INTERP_V8 && host_interp.function &&
		  interp_check(w, &host_interp, word) == 0;
	host_machines[host_n_machines++] = (struct host_machine) {host_interp.machine,
		host_interp.function, is_read ? host_interp.check : 0, w->exact};
}

static inline int unwind_own_step(struct walk *w, enum unwind_place place)
{
	int found;

	if (w->has_interp != WALK_HAS_FRAMES)
		return 0;
	if (host_interp.layout.kind == INTERP_HOTSPOT) {
		if (!interp_hotspot(w, &host_interp, place))
			return 0;
		host_tell_machine(w);
		interp_hotspot_step(w, &host_interp);
		return 1;
	}
	found = interp_v8(w, &host_interp, place);
	if (found == INTERP_V8_NONE)
		return 0;
	for (uint32_t i = 0; found == INTERP_V8_LOOK && i < INTERP_V8_LOOKS; i++)
		if (interp_v8_look(w, &host_interp, i))
			break;
	host_tell_machine(w);
	interp_v8_step(w, &host_interp);
	return 1;
}

static inline void host_interp_rest(struct walk *w, __u64 *words)
{
	if (!w->has_interp)
		return;
	interp_begin_rest(w, &host_interp);
	while (!interp_turn(w, &host_interp, words))
		;
	interp_end(w, &host_interp);
}
