/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The hooks of the walker (bpf/unwind/hooks.h) and of the search for mappings that are a look-up in a map.
 */
#pragma once
#include "bpf/core/maps.h"
#include "bpf/interp/interp.h"
#include "bpf/process/search.h"
#include "bpf/unwind/walker.h"

struct slab {
	__u32 words[UNWIND_SLAB_WORDS];
};

#define MMAPABLE_ARRAY(name, type_of_value)               \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY);         \
		__uint(map_flags, BPF_F_MMAPABLE);        \
		__uint(max_entries, 1); /* set at load */ \
		__type(key, __u32);                       \
		__type(value, type_of_value);             \
	} name SEC(".maps") __weak

MMAPABLE_ARRAY(run_words, __u64);
MMAPABLE_ARRAY(unwind_slabs, struct slab);
MMAPABLE_ARRAY(unwind_rules, struct unwind_rule);
MMAPABLE_ARRAY(unwind_binaries, struct unwind_binary);
MMAPABLE_ARRAY(unwind_cache, struct unwind_answer);
MMAPABLE_ARRAY(interp_layouts, struct interp_layout);
MMAPABLE_ARRAY(interp_hotspots, struct interp_hotspot);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* of the first slot of scratch of each kind, set at load */
	__type(key, __u32);
	__type(value, struct unwind_near);
} near_cpu SEC(".maps") __weak;
_Static_assert(sizeof(struct unwind_near) <= 32 * 1024, "limit of per-CPU map values");

static __always_inline const __u64 *process_word_at(__u32 i)
{
	return bpf_map_lookup_elem(&run_words, &i);
}

static __always_inline struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary)
{
	(void)w;
	return bpf_map_lookup_elem(&unwind_binaries, &binary);
}

static __always_inline const __u32 *unwind_slab_at(struct walk *w, __u32 slab)
{
	struct slab *s = bpf_map_lookup_elem(&unwind_slabs, &slab);

	(void)w;
	return s ? s->words : NULL;
}

static __always_inline const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule)
{
	(void)w;
	return bpf_map_lookup_elem(&unwind_rules, &rule);
}

static __always_inline struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w;
	return bpf_map_lookup_elem(&unwind_cache, &i);
}
