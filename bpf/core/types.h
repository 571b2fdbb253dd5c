/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The few kernel types that the programs read, kept by hand. Fields are relocated at load (CO-RE), so only names and types
 * matter here, not offsets; fields that no program reads are left out.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

/* Values of the BPF user API (include/uapi/linux/bpf.h). */
enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_MMAPABLE = 1U << 10 };
enum { BPF_ANY = 0 };
enum {
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1
};

enum { EPERM = 1 }; /* include/uapi/asm-generic/errno-base.h */
/* include/linux/sched.h. A process's workers of io_uring and vhost are its threads, but run in the kernel alone. */
enum { PF_IO_WORKER = 0x00000010, PF_USER_WORKER = 0x00004000, PF_KTHREAD = 0x00200000 };

/* Context of uprobe programs, and where that of perf_event programs begins (include/uapi/linux/bpf_perf_event.h, asm/ptrace.h): a fixed
 * layout. */
struct perf_event_regs {
#ifdef __TARGET_ARCH_arm64
	__u64 x[31], sp, pc, pstate;
#else
	__u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax,
		rip, cs, eflags, rsp, ss;
#endif
};
struct bpf_perf_event_data {
	struct perf_event_regs regs;
	__u64 sample_period;
	__u64 addr;
};
/* Its fields are read as whole, separate words: narrowed or merged loads are refused by the verifier. */
#define CTX_READ(ctx, field) (*(const volatile __u64 *)&(ctx)->field)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#ifdef __TARGET_ARCH_arm64
struct pt_regs {
	__s32 syscallno; /* -1: none */
};
#endif

struct hw_perf_event {
	__u64 sample_period;
};

struct perf_event {
	struct hw_perf_event hw;
};

/* What the context of a perf_event program is in the kernel. */
struct bpf_perf_event_data_kern {
	struct perf_event *event;
};

struct maple_tree {
	void *ma_root;
};

struct maple_metadata {
	unsigned char end;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
	struct maple_metadata meta;
};

struct mm_struct {
	struct maple_tree mm_mt;
	unsigned long start_stack;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__s64 i_size;
	__s64 i_mtime_sec;
	__u32 i_mtime_nsec;
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

/* What its time is called before 6.11, and before 6.6. */
struct inode___before_6_11 {
	struct timespec64 __i_mtime;
};
struct inode___before_6_6 {
	struct timespec64 i_mtime;
};

struct file {
	struct inode *f_inode;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	const void *vm_ops;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

/* Where the thread pointer is kept. */
struct thread_struct {
#ifdef __TARGET_ARCH_arm64
	struct {
		unsigned long tp_value;
	} uw;
#else
	unsigned long fsbase;
#endif
};

struct task_struct {
	struct thread_struct thread;
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	int pid, tgid;
	__u64 start_time;
	__u64 self_exec_id;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	unsigned in_execve : 1;
	char comm[16];
};

/* x86-64 */
struct orc_entry {
	__s16 sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 3, signal : 1;
} __attribute__((packed));

/* Before 6.4; `signal` since 6.3. */
struct orc_entry___before_6_4 {
	__s16 sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 2, signal : 1, end : 1;
} __attribute__((packed));

struct irq_stack {
	char stack[1];
};

#pragma clang attribute pop
