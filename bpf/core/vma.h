/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Finds the mapping of an address of the current process in the kernel's own tree of mappings (lib/maple_tree.c,
 * mtree_range_walk). For processes that user space has not described yet: most code of a short program is in known
 * files. bpf_find_vma does the same once a sample only, as it gives its lock back by an irq_work of the CPU.
 *
 * No lock is taken. The tree may change meanwhile, so nothing that is read is trusted: a mapping counts when it is
 * of this process and holds the address. Needs the tree (6.1); before that nothing is found.
 */
#pragma once
#include "bpf/unwind/files.h"
#include "bpf/core/maps.h"
#include <bpf/bpf_core_read.h>

struct files_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* buckets, set at load */
	__type(key, __u32);
	__type(value, struct file_bucket);
};
struct files_map known_files SEC(".maps") __weak;

enum vma_found {
	VMA_UNKNOWN, /* not known */
	VMA_DATA,    /* nothing that runs */
	VMA_JIT,     /* code without a file */
	VMA_CODE,    /* code of a file that is not known; the vdso */
	VMA_FILE,    /* binary and off are those of `start` */
};

enum {
	VMA_NODE_WORDS =
		32, /* nodes have 256 bytes, and pointers to them a type in the low 8 bits */
	VMA_MAX_LEVELS = 8,
	VMA_MAX_PIVOTS = 15,
	VMA_LEAF = 1,  /* enum maple_type */
	VMA_RANGE = 2, /* the same layout, its slots are nodes */
	VMA_ARANGE = 3,
	VM_EXEC = 4,
	VMA_PAGE_SHIFT = 12,
};

struct vma_place {
	__u64 mm, addr; /* asked */
	__u64 start, end, off;
	__u32 binary, file_mask;
	__u64 at; /* slot: a node with its type, or a mapping */
	__u32 is_mapping, slot, n_pivots, pad;
	__u64 node[VMA_NODE_WORDS];
};

/* The layouts that vma_turn knows are those of this kernel. */
static __always_inline bool vma_is_readable(void)
{
	return bpf_core_field_exists(struct mm_struct, mm_mt) &&
	       bpf_core_type_size(struct maple_range_64) == VMA_NODE_WORDS * sizeof(__u64) &&
	       bpf_core_field_offset(struct maple_range_64, pivot) == 8 &&
	       bpf_core_field_offset(struct maple_range_64, slot) == 128 &&
	       bpf_core_field_offset(struct maple_arange_64, pivot) == 8 &&
	       bpf_core_field_offset(struct maple_arange_64, slot) == 80 &&
	       bpf_core_field_offset(struct maple_arange_64, meta) == 240;
}

struct vma_search {
	struct vma_place *v;
};

/* One level down: pivot i is the last address of slot i, the slots end where the node's own count or its room does. */
static long vma_turn(__u32 level, struct vma_search *s)
{
	struct vma_place *v = s->v;
	__u32 type = v->at >> 3 & 15;

	(void)level;
	if (type < VMA_LEAF || type > VMA_ARANGE || v->at < UNWIND_PAGE_BYTES ||
		bpf_probe_read_kernel(v->node, sizeof(v->node), (void *)(v->at & ~255ULL)))
		return 1;
	if (type == VMA_ARANGE) {
		v->slot = 10;
		v->n_pivots = v->node[30] & 15;
	} else {
		v->slot = 16;
		v->n_pivots = v->node[15] ? 15 : v->node[31] & 15;
	}
	/* What is counted lies in memory, where the verifier does not follow each value. */
	for (__u32 k = 0; k < VMA_MAX_PIVOTS; k++) {
		if (k >= v->n_pivots || v->node[1 + k] >= v->addr)
			break;
		v->slot++;
	}
	v->at = v->node[v->slot & (VMA_NODE_WORDS - 1)];
	v->is_mapping = type == VMA_LEAF;
	return type == VMA_LEAF;
}

/* When the file was written to last: 6.11 has numbers in place of a struct, 6.6 gave that another name. */
static __always_inline __u64 vma_mtime_ns(struct inode *inode)
{
	struct inode___before_6_11 *before_6_11 = (void *)inode;
	struct inode___before_6_6 *before_6_6 = (void *)inode;
	__s64 sec, nsec;

	if (bpf_core_field_exists(inode->i_mtime_nsec)) {
		sec = BPF_CORE_READ(inode, i_mtime_sec);
		nsec = BPF_CORE_READ(inode, i_mtime_nsec);
	} else if (bpf_core_field_exists(before_6_11->__i_mtime)) {
		sec = BPF_CORE_READ(before_6_11, __i_mtime.tv_sec);
		nsec = BPF_CORE_READ(before_6_11, __i_mtime.tv_nsec);
	} else {
		sec = BPF_CORE_READ(before_6_6, i_mtime.tv_sec);
		nsec = BPF_CORE_READ(before_6_6, i_mtime.tv_nsec);
	}
	return (__u64)sec * 1000000000ULL + (__u64)nsec;
}

static __always_inline __u32 vma_binary(const struct vma_place *v, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct file_key key = {
		.ino = BPF_CORE_READ(inode, i_ino),
		.bytes = (__u64)BPF_CORE_READ(inode, i_size),
		.mtime_ns = vma_mtime_ns(inode),
		.dev = BPF_CORE_READ(inode, i_sb, s_dev),
	};
	__u32 at = file_bucket_of(&key, v->file_mask);
	struct file_bucket *b = bpf_map_lookup_elem(&known_files, &at);

	return b ? file_find(b, &key) : 0;
}

/* Looks at the mapping that v->at leads to. */
static __always_inline enum vma_found vma_look(struct vma_place *v)
{
	struct vm_area_struct *vma = (void *)v->at;
	struct file *file;

	if (!v->at)
		return VMA_DATA; /* a hole */
	if (v->at & 7 || (__u64)BPF_CORE_READ(vma, vm_mm) != v->mm)
		return VMA_UNKNOWN;
	v->start = BPF_CORE_READ(vma, vm_start);
	v->end = BPF_CORE_READ(vma, vm_end);
	if (v->addr - v->start >= v->end - v->start)
		return VMA_UNKNOWN;
	if (!(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return VMA_DATA;
	file = BPF_CORE_READ(vma, vm_file);
	if (!file)
		return BPF_CORE_READ(vma, vm_ops) ? VMA_CODE : VMA_JIT;
	v->off = BPF_CORE_READ(vma, vm_pgoff) << VMA_PAGE_SHIFT;
	v->binary = vma_binary(v, file);
	return v->binary ? VMA_FILE : VMA_CODE;
}

/* enum vma_found of v->addr in the process v->mm, which is the current one. */
UNWIND_ALONE int vma_find(struct vma_place *v)
{
	struct vma_search search = {.v = v};
	struct mm_struct *mm;

	if (!v || !v->mm || !vma_is_readable())
		return VMA_UNKNOWN;
	mm = (void *)v->mm;
	v->at = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	v->is_mapping = 0;
	bpf_loop(VMA_MAX_LEVELS, vma_turn, &search, 0);
	return v->is_mapping ? vma_look(v) : VMA_UNKNOWN;
}
