/* SPDX-License-Identifier: Apache-2.0
 *
 * What travels between the kernel half and user space: frames, records, counters, configuration. Shared by bpf/, by exporter/
 * and by captured bundles, so it holds no pointers and only fixed-size types. docs/formats/abi.md describes it byte by byte;
 * tests/unit/test_abi.c pins sizes and offsets. A change of any layout raises ABI_VERSION.
 *
 * Clocks: every time is CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns; use_clockid for perf side-band records).
 * Integers are in host byte order; both supported hosts are little-endian.
 */
#pragma once
#ifndef __bpf__
#include <linux/types.h> /* the kernel half has them from bpf/core/types.h */
#endif

#define ABI_VERSION 8

#if defined(__TARGET_ARCH_arm64) || (!defined(__bpf__) && defined(__aarch64__))
#define ABI_ARM64 1
#else
#define ABI_ARM64 0
#endif

/* What the walker fits in a record: the leaf-most and root-most words of a stack; what lies between becomes one ELIDED word. */
#define ABI_USER_HEAD_WORDS 512
#define ABI_USER_TAIL_WORDS 512

/* A frame is one u64: kind (4 bits, top) | the rest (60 bits) by kind. */
enum abi_frame_kind {
	ABI_FRAME_NATIVE = 1, /* binary (22 bits) | offset in file (38 bits) */
	ABI_FRAME_KERNEL = 2, /* kernel address, low 60 bits; user space sign-extends */
	ABI_FRAME_RAW =
		3, /* user address, 60 bits, not yet resolved: valid in the record's process generation */
	ABI_FRAME_JIT = 4, /* user address in anonymous executable memory, 60 bits, same validity */
	ABI_FRAME_INTERP =
		5, /* of an interpreter: code object (44 bits) | position in it (16 bits), valid as RAW is */
	ABI_FRAME_REPEAT =
		6, /* period (28 bits) | count (32 bits): the `period` frames before this word, `count` times more */
	ABI_FRAME_ELIDED = 7, /* number of frames left out of the middle (60 bits) */
	ABI_FRAME_TRUNCATED =
		8, /* reason (enum abi_cut): why the stack ends here, at the root end */
};
#define ABI_FRAME_PAYLOAD ((1ULL << 60) - 1)
#define ABI_FRAME(kind, payload) (((__u64)(kind) << 60) | ((__u64)(payload)&ABI_FRAME_PAYLOAD))
/* Of the enum's type: a switch over it without `default` does not compile when a kind is new and the switch lacks it. */
#define ABI_FRAME_KIND(f) ((enum abi_frame_kind)((f) >> 60))
#define ABI_FRAME_VALUE(f) ((f)&ABI_FRAME_PAYLOAD)
#define ABI_NATIVE(binary, off) \
	ABI_FRAME(ABI_FRAME_NATIVE, ((__u64)(binary) << 38) | ((off) & ((1ULL << 38) - 1)))
#define ABI_NATIVE_BINARY(f) ((__u32)(((f) >> 38) & ((1U << 22) - 1)))
#define ABI_NATIVE_OFF(f) ((f) & ((1ULL << 38) - 1))
#define ABI_BINARY_MAX ((1U << 22) - 1)
#define ABI_INTERP(object, position) \
	ABI_FRAME(ABI_FRAME_INTERP, ((__u64)(object) << 16) | ((position)&0xffff))
/* In a record the object is its address >> 3 in the process image; in the stack tree what exporter/proc made of that. */
#define ABI_INTERP_OBJECT(f) (ABI_FRAME_VALUE(f) >> 16)
#define ABI_INTERP_ADDRESS_SHIFT 3
#define ABI_INTERP_POSITION(f) ((__u32)((f)&0xffff))

/* Positions of an INTERP frame that are no distance from the code's start. */
enum {
	ABI_INTERP_AT_START = 0xfffe, /* no instruction has run: the function's own line */
	ABI_INTERP_BEYOND = 0xffff,   /* further from the start than a word has room for: no line */
};

/* Is the payload a user address: in a record as it is, in the stack tree as exporter/proc has interned it? */
static inline int abi_frame_is_address(__u64 f)
{
	switch (ABI_FRAME_KIND(f)) {
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT: return 1;
	case ABI_FRAME_NATIVE:
	case ABI_FRAME_KERNEL:
	case ABI_FRAME_INTERP:
	case ABI_FRAME_REPEAT:
	case ABI_FRAME_ELIDED:
	case ABI_FRAME_TRUNCATED: break;
	}
	return 0;
}

/* Is it code, which can have a name? Other words say something of the stack. */
static inline int abi_frame_is_code(__u64 f)
{
	switch (ABI_FRAME_KIND(f)) {
	case ABI_FRAME_NATIVE:
	case ABI_FRAME_KERNEL:
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT:
	case ABI_FRAME_INTERP: return 1;
	case ABI_FRAME_REPEAT:
	case ABI_FRAME_ELIDED:
	case ABI_FRAME_TRUNCATED: break;
	}
	return 0;
}

/* Why a user stack ends before its root. Names and sentences: bpf/counters.def (CUT rows, same order). */
enum abi_cut {
#define CUT(name, text) ABI_CUT_##name,
#include "bpf/counters.def"
	ABI_N_CUTS
};

/* What samples are taken of: rows of bpf/events.def. */
enum abi_event {
#define EVENT(NAME, name, CONTEXT) ABI_EVENT_##NAME,
#include "bpf/events.def"
#undef EVENT
	ABI_N_EVENTS
};

/*
 * Counters the kernel half keeps: u64 in an mmapable array, a row of ABI_COUNTERS_STRIDE for each CPU. First those that it has
 * once: of all events together, and those that only one event has. Then a block of those that it has for each event. So an event
 * that counts something of its own takes one place, and not one in each block.
 */
enum abi_counter {
#define COUNTER(name, metric, labels, text) ABI_COUNT_##name,
#include "bpf/counters.def"
	ABI_N_COUNTERS
};
enum abi_event_counter {
#define EVENT_COUNTER(name, metric, labels, text) ABI_EVENT_COUNT_##name,
#include "bpf/counters.def"
	ABI_N_EVENT_COUNTERS
};
enum {
	ABI_MAX_EVENTS = 32,		/* sets of them are bitmaps of 32 bits */
	ABI_EVENT_COUNTERS_AT = 96,	/* of the first event's block */
	ABI_EVENT_COUNTERS_STRIDE = 24, /* u64 of a block: cache lines of its own */
	ABI_COUNTERS_STRIDE = ABI_EVENT_COUNTERS_AT + ABI_MAX_EVENTS * ABI_EVENT_COUNTERS_STRIDE,
};
/* Where the block of an event begins in a row. */
#define ABI_EVENT_COUNTERS(event) (ABI_EVENT_COUNTERS_AT + (event)*ABI_EVENT_COUNTERS_STRIDE)

enum {
	ABI_COMM_LEN = 16,
	ABI_MAX_KERNEL_FRAMES = 127,
	ABI_MAX_USER_FRAMES = ABI_USER_HEAD_WORDS + ABI_USER_TAIL_WORDS,
	ABI_MAX_USER_WORDS = ABI_MAX_USER_FRAMES + 2, /* and ELIDED, and TRUNCATED */
	ABI_MAX_WORDS = ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_WORDS,
	ABI_MAX_STEPS = 8192,	   /* frames walked before a stack is cut as too deep */
	ABI_MAX_REPEAT_PERIOD = 4, /* longest cycle of a recursion that travels as REPEAT */
	ABI_REPEAT_AFTER = 3,	   /* copies of a cycle seen before it becomes REPEAT */
	ABI_MAX_CPUS = 1024,
	ABI_CPUS_PER_RING = 16,
	ABI_N_WEIGHTS = 2,
};

enum abi_record_type {
	ABI_RECORD_SAMPLE = 1,
	ABI_RECORD_STACK = 2, /* struct abi_stack; the sample that it belongs to follows */
	ABI_RECORD_PACKED_SAMPLE =
		3, /* a sample as rings have it: its words are packed (bpf/unwind/frame_pack.h) */
	ABI_RECORD_CODE = 4, /* struct abi_code; the first sample that has the object follows */
};

enum abi_record_flags {
	ABI_FLAG_USER_MODE =
		1
		<< 0, /* the tick interrupted user code: the first user frame is exact, not a return address */
	ABI_FLAG_KTHREAD = 1 << 1,	   /* no user stack exists */
	ABI_FLAG_COMPAT32 = 1 << 2,	   /* 32-bit process: walked by frame pointers alone */
	ABI_FLAG_FIRST_IS_RETURN = 1 << 3, /* user pc is where a system call returns to */
	ABI_FLAG_COPIED =
		1
		<< 4, /* a copy of the stack was sent before (ABI_RECORD_STACK of the same time and CPU) */
	ABI_FLAG_SHADOW = 1 << 5, /* so it was, to be walked a second time and compared */
};

/* Header of every record in a ring. Followed by n_kernel, then n_user frame words (leaf first in each part). */
struct abi_record {
	__u8 type;	/* enum abi_record_type */
	__u8 event;	/* enum abi_event */
	__u16 flags;	/* enum abi_record_flags */
	__u16 n_kernel; /* words of kernel frames */
	__u16 n_user; /* words of user frames; the last is ABI_FRAME_TRUNCATED when the stack was cut */
	__u64 time_ns; /* when */
	/* What this sample stands for, by the event's row in exporter/event: of the CPU clock nanoseconds, and 0. */
	__u64 weight[ABI_N_WEIGHTS];
	__u64 start_ns; /* start time of the thread-group leader, CLOCK_MONOTONIC (task->start_time) */
	__u32 pid, tid; /* in the host's PID namespace; pid is the thread group */
	__u32 exec_id; /* task->self_exec_id: counts execs, so (pid, start_ns, exec_id) is a process image */
	__u32 cpu;
	__u64 cgroup_id;		/* cgroup v2 id, 0 when unknown */
	char comm[ABI_COMM_LEN];	/* of the thread */
	char leader_comm[ABI_COMM_LEN]; /* of the thread-group leader */
	__u64 frames[];
};

enum { ABI_MAX_RECORD_BYTES = sizeof(struct abi_record) + ABI_MAX_WORDS * sizeof(__u64) };

/* x86-64: rax to r15; arm64: x0 to x30, sp */
enum { ABI_N_REGS = ABI_ARM64 ? 32 : 16 };

/* Registers and the top of a user stack that could not be walked yet. */
struct abi_stack {
	__u8 type;   /* ABI_RECORD_STACK */
	__u8 event;  /* of its sample */
	__u16 flags; /* 0 */
	__u32 bytes; /* of the stack, from its stack pointer up; behind this header. A multiple of 8 */
	__u64 time_ns; /* of its sample */
	__u32 pid, tid, cpu, reserved;
	__u64 pc;
	__u64 regs[ABI_N_REGS]; /* DWARF numbers */
};
enum { ABI_MAX_STACK_BYTES = 124 * 1024 };

/* Machine code that the runtime made: `object` is the address behind the first byte of an instruction, which for a caller is its return
 * address. EXACT: the sample was at that instruction. */
enum abi_code_flags { ABI_CODE_MACHINE = 1 << 0, ABI_CODE_EXACT = 1 << 1 };

/*
 * A code object of a language runtime: at first sight in its process image, when another one lies at its address, and again with the
 * first sample that is ABI_CODE_AGAIN_NS later, so that what was lost is there in the end. Samples of that time and later mean the object
 * that this record describes.
 */
#define ABI_CODE_AGAIN_NS 30000000000ULL
struct abi_code {
	__u8 type;   /* ABI_RECORD_CODE */
	__u8 event;  /* of its sample */
	__u16 flags; /* enum abi_code_flags */
	__u32 cpu;
	__u64 time_ns;	/* of its sample */
	__u64 start_ns; /* as in the sample's record */
	__u32 pid, exec_id;
	__u64 object; /* address >> ABI_INTERP_ADDRESS_SHIFT; ABI_CODE_MACHINE: see there */
	__u64 check; /* of the object's memory, by its runtime (bpf/interp/rows.h); ABI_CODE_MACHINE: the function that the frame says it runs (V8), 0: it says none; address of the method << 16 | low bits of the number of the compilation (HotSpot) */
	__u64 context; /* what it ran for in that sample, where its name alone does not say; 0: not known. Ruby: a word that leads to the method. ABI_CODE_MACHINE: the check of that function or method */
};

/* Where the languages that are walked have their frames: in chains of their own (CPython, Ruby), or as native frames, which say whose they are (V8), or whose code does (HotSpot). */
enum abi_interp_walks {
	ABI_INTERP_RUNS = 1 << 0,
	ABI_INTERP_FRAMES = 1 << 1,
	ABI_INTERP_CODE = 1 << 2
};

/* Written by user space before load (.rodata). */
struct abi_config {
	__u32 version;	     /* ABI_VERSION */
	__u32 cost_interval; /* own run time is measured in one of this many runs; a power of two */
	__u32 bucket_mask; /* buckets of process heads (bpf/process/heads.h), less one; a power of two */
	__u32 shadow;	   /* one user stack of this many is sent with a copy; 0: none */
	__u32 file_mask; /* buckets of known files (bpf/unwind/files.h), less one; a power of two */
	__u32 by_fp;	 /* mappings never known (captures): frame pointers only */
	__u32 interp;	 /* enum abi_interp_walks: frames of language runtimes are found too */
	__u32 reserved;
};
