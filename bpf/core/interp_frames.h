/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The hooks of the walker (bpf/unwind/hooks.h) for frames of language runtimes, and the row of a process that has one.
 */
#pragma once
#include "bpf/core/codes.h"

struct walking {
	struct scratch *s;
};

static long interp_callback(__u32 i, struct walking *k)
{
	(void)i;
	return interp_turn(&k->s->walk, &k->s->interp, k->s->words);
}

/* Verified once, by itself. */
UNWIND_ALONE int interp_native_frame(struct scratch *s)
{
	struct walking walking = {.s = s};
	__u32 n;

	if (!s || !interp_is_here(&s->walk, &s->interp))
		return 0;
	n = s->interp.n_frames;
	bpf_loop(INTERP_MAX_TURNS, interp_callback, &walking, 0);
	return s->walk.is_exact_leaf && s->interp.n_frames != n;
}

static __always_inline int unwind_interp(struct walk *w, __u64 *words)
{
	struct scratch *s = (void *)w - __builtin_offsetof(struct scratch, walk);

	(void)words;
	return config.interp & ABI_INTERP_RUNS ? interp_native_frame(s) : 0;
}

static long look_callback(__u32 i, struct walking *k)
{
	return interp_v8_look(&k->s->walk, &k->s->interp, i);
}

/* Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_frame(struct scratch *s, __u32 place)
{
	if (!s || !interp_hotspot(&s->walk, &s->interp, place))
		return 0;
	if (s->interp.machine)
		code_tell_machine(s);
	interp_hotspot_step(&s->walk, &s->interp);
	return 1;
}

/* Verified once, by itself. */
UNWIND_ALONE int interp_v8_own_frame(struct scratch *s, __u32 place)
{
	struct walking walking = {.s = s};
	int found;

	if (!s)
		return 0;
	found = interp_v8(&s->walk, &s->interp, place);
	if (found == INTERP_V8_NONE)
		return 0;
	if (found == INTERP_V8_LOOK)
		bpf_loop(INTERP_V8_LOOKS, look_callback, &walking, 0);
	if (s->interp.machine)
		code_tell_machine(s);
	interp_v8_step(&s->walk, &s->interp);
	return 1;
}

static __always_inline int unwind_own_step(struct walk *w, enum unwind_place place)
{
	struct scratch *s = (void *)w - __builtin_offsetof(struct scratch, walk);

	if (UNWIND_ARM64 || !(config.interp & (ABI_INTERP_FRAMES | ABI_INTERP_CODE)) ||
		USUAL(w->has_interp != WALK_HAS_FRAMES))
		return 0;
	if (config.interp & ABI_INTERP_CODE && s->interp.layout.kind == INTERP_HOTSPOT)
		return interp_hotspot_frame(s, place);
	return config.interp & ABI_INTERP_FRAMES && interp_v8_own_frame(s, place);
}

/* What is left of the language's frames. Verified once, by itself. */
UNWIND_ALONE int interp_rest(struct scratch *s)
{
	struct walking walking = {.s = s};

	if (!s)
		return 0;
	interp_begin_rest(&s->walk, &s->interp);
	bpf_loop(INTERP_MAX_TURNS, interp_callback, &walking, 0);
	interp_end(&s->walk, &s->interp);
	return 0;
}

static __always_inline bool interp_take_over_hotspot(struct scratch *s)
{
	__u32 i = s->interp.process.hotspot;
	const struct interp_hotspot *hotspot = bpf_map_lookup_elem(&interp_hotspots, &i);

	if (hotspot)
		s->interp.hotspot = *hotspot;
	return hotspot;
}

/* The process has a row: takes over what it says. Verified once, by itself. */
UNWIND_ALONE int interp_take_over(struct scratch *s)
{
	const struct interp_process *row;
	const struct interp_layout *layout;
	__u32 i;

	if (!s)
		return 0;
	row = interp_row_of(record_of(s)->pid, config.bucket_mask);
	if (!row || row->image != s->image)
		return 0;
	s->interp.process = *row;
	/* User space may have been writing it. */
	if (UNWIND_ONCE(row->image) != s->image)
		return 0;
	i = s->interp.process.layout;
	layout = bpf_map_lookup_elem(&interp_layouts, &i);
	if (!layout)
		return 0;
	s->interp.layout = *layout;
	if (config.interp & ABI_INTERP_CODE && layout->kind == INTERP_HOTSPOT &&
		!interp_take_over_hotspot(s))
		return 0;
	interp_begin(&s->walk, &s->interp);
	return 0;
}
