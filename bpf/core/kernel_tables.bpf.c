/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Where the kernel's unwind table lies and whether it is of the layout that bpf/kernel/rule.h knows. Run once after the load
 * by the keeper: user space learns no address, and we trust none that it could write.
 * Needs bpf_kallsyms_lookup_name (5.16).
 */
#include "bpf/core/maps.h"
#include "bpf/kernel/rule.h"
#include <bpf/bpf_core_read.h>

#if !UNWIND_ARM64

#define FIELD(type, field, what) \
	__builtin_preserve_field_info(((struct type *)0)->field, BPF_FIELD_##what)
#define HAS_FIELD(type, field) bpf_core_field_exists(((struct type *)0)->field)
/* Is the field there, that many bits wide and that far from the beginning? */
#define FIELD_IS(type, field, at, bits)                                                \
	(HAS_FIELD(type, field) &&                                                     \
		FIELD(type, field, BYTE_OFFSET) * 8 + FIELD(type, field, RSHIFT_U64) - \
				FIELD(type, field, LSHIFT_U64) ==                      \
			(at) &&                                                        \
		64 - FIELD(type, field, RSHIFT_U64) == (bits))

/* Sets *ret to the layout of the table's entries; false: none that is known. */
static __always_inline bool find_layout(__u32 *ret)
{
	if (!bpf_core_type_exists(struct orc_entry) || !bpf_core_type_exists(struct irq_stack) ||
		bpf_core_type_size(struct orc_entry) != sizeof(struct kernel_orc_entry) ||
		!FIELD_IS(orc_entry, sp_offset, 0, 16) || !FIELD_IS(orc_entry, bp_offset, 16, 16) ||
		!FIELD_IS(orc_entry, sp_reg, 32, 4) || !FIELD_IS(orc_entry, bp_reg, 36, 4))
		return false;
	if (FIELD_IS(orc_entry, type, 40, 3) && FIELD_IS(orc_entry, signal, 43, 1))
		*ret = KERNEL_ORC_6_4;
	else if (!FIELD_IS(orc_entry___before_6_4, type, 40, 2))
		return false;
	else if (FIELD_IS(orc_entry___before_6_4, signal, 42, 1) &&
		 FIELD_IS(orc_entry___before_6_4, end, 43, 1))
		*ret = KERNEL_ORC_6_3;
	else if (!HAS_FIELD(orc_entry, signal) && FIELD_IS(orc_entry___before_6_4, end, 42, 1))
		*ret = KERNEL_ORC_BEFORE_6_3;
	else
		return false;
	return true;
}

/* Where a symbol is; 0 when the kernel has none of that name. */
#define SYMBOL(name)                                                      \
	({                                                                \
		static const char symbol[] = name;                        \
		__u64 at = 0;                                             \
		bpf_kallsyms_lookup_name(symbol, sizeof(symbol), 0, &at); \
		at;                                                       \
	})

static __always_inline bool symbols_are_hidden(void)
{
	static const char symbol[] = "_stext";
	__u64 at = 0;

	return bpf_kallsyms_lookup_name(symbol, sizeof(symbol), 0, &at) == -EPERM;
}

static __always_inline bool find_table(struct kernel_orc *orc)
{
	__u64 end = SYMBOL("__stop_orc_unwind"), ips_end = SYMBOL("__stop_orc_unwind_ip"), n;

	orc->text = SYMBOL("_stext");
	orc->text_bytes = SYMBOL("_etext") - orc->text;
	orc->ips = SYMBOL("__start_orc_unwind_ip");
	orc->entries = SYMBOL("__start_orc_unwind");
	orc->lookup = (end + 3) & ~3ULL; /* include/asm-generic/vmlinux.lds.h; not relied on */
	orc->hooks[0] = SYMBOL("return_to_handler");
	orc->hooks[1] = SYMBOL("arch_rethook_trampoline");
	orc->hooks[2] = SYMBOL("__kretprobe_trampoline");
	n = (ips_end - orc->ips) / sizeof(__s32);
	orc->n = n;
	return orc->text && orc->ips && orc->entries && n > 1 && n < KERNEL_MAX_ENTRIES &&
	       end - orc->entries == n * sizeof(struct kernel_orc_entry);
}

enum { KERNEL_ORC_LOOKED_AT = 1024, KERNEL_ORC_SP_AS_INSNS = 3 };

struct numbering {
	__u64 entries;
	__u32 old, new;
};

static long numbering_turn(__u32 i, struct numbering *n)
{
	struct kernel_orc_entry e = {};

	bpf_probe_read_kernel(&e, sizeof(e), (void *)(n->entries + (__u64)i * sizeof(e)));
	n->old += (e.bits & 15) == ORC_REG_SP;
	n->new += (e.bits & 15) == KERNEL_ORC_SP_AS_INSNS;
	return 0;
}

/* No type tells how registers are numbered; most frames are found from the stack pointer, though. */
static __always_inline bool is_numbered_as_insns(const struct kernel_orc *orc)
{
	struct numbering n = {.entries = orc->entries};

	bpf_loop(orc->n < KERNEL_ORC_LOOKED_AT ? orc->n : KERNEL_ORC_LOOKED_AT, numbering_turn, &n,
		0);
	return n.new > n.old;
}

static __always_inline int find(struct kernel_orc *orc)
{
	if (symbols_are_hidden())
		return KERNEL_WALK_HIDDEN;
	if (!find_table(orc))
		return KERNEL_WALK_NO_TABLE;
	if (!find_layout(&orc->layout))
		return KERNEL_WALK_LAYOUT;
	if (orc->layout == KERNEL_ORC_6_4 && is_numbered_as_insns(orc))
		orc->layout = KERNEL_ORC_REGS_AS_INSNS;
	/* THREAD_SIZE and IRQ_STACK_SIZE are the same (arch/x86/include/asm/page_64_types.h). */
	orc->stack_bytes = bpf_core_type_size(struct irq_stack);
	return KERNEL_WALK_ORC;
}

#else

static __always_inline int find(struct kernel_orc *orc)
{
	(void)orc;
	return KERNEL_WALK_NO_TABLE;
}

#endif

/* Returns enum kernel_walk_by. */
SEC("syscall")
int kernel_tables(struct kernel_tables_args *args)
{
	__u32 zero = 0;
	struct kernel_orc *orc = bpf_map_lookup_elem(&kernel_orc, &zero);
	int by;

	if (!orc)
		return KERNEL_WALK_NO_TABLE;
	by = find(orc);
	orc->max_frames = args->max_frames;
	orc->check_each = args->check_each;
	orc->is_on = by == KERNEL_WALK_ORC;
	return by;
}
