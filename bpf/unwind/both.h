/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Attributes of functions that compile both for BPF and for the host, and hints to both compilers.
 */
#pragma once

#ifdef __bpf__
#define UNWIND_FN static __always_inline
/* A function that the verifier looks at once, by itself: what happens in it does not multiply the paths of its caller. */
#define UNWIND_ALONE __attribute__((noinline, weak))
#elif defined(__SANITIZE_THREAD__)
/* Tables are read while they change, as the kernel half reads them: their seq tells, and a thread sanitizer knows no such thing. */
#define UNWIND_FN static inline __attribute__((no_sanitize_thread))
#define UNWIND_ALONE UNWIND_FN
#else
#define UNWIND_FN static inline
#define UNWIND_ALONE static inline
#endif

/*
 * Which way the frames of nearly all stacks go. At each tick the code is cold, and so are the CPU's branches: what is met one line
 * behind the other is on its way before it is wanted, what is jumped to is not.
 */
#define USUAL(x) __builtin_expect(!!(x), 1)
#define RARE(x) __builtin_expect(!!(x), 0)

#define UNWIND_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
