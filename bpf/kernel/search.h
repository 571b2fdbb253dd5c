/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The search for an address in the kernel's unwind table. Compiled for BPF and for the host; whoever searches or walks defines
 * kernel_read behind this header.
 */
#pragma once
#include "bpf/kernel/rule.h"

#define KERNEL_LOOKUP_SHIFT 8 /* LOOKUP_BLOCK_ORDER */

/* Reads kernel memory: 0, or negative when nothing can be read there. */
UNWIND_FN int kernel_read(void *to, __u32 bytes, __u64 from);

/* The last of entries [lo, hi] that begins at or before addr, if lo does. */
struct kernel_search {
	__u64 ips, addr;
	__u32 lo, hi;
	__u32 failed;
};

/* Where entry i begins: an offset from its own place. */
UNWIND_FN __u64 kernel_entry_ip(struct kernel_search *s, __u32 i)
{
	__u64 at = s->ips + 4ULL * i;
	__s32 off = 0;

	if (kernel_read(&off, sizeof(off), at))
		s->failed = 1;
	return at + (__u64)(__s64)off;
}

UNWIND_FN long kernel_search_turn(struct kernel_search *s)
{
	__u32 mid = (s->lo + s->hi + 1) / 2;

	if (s->lo >= s->hi || s->failed)
		return 1;
	if (kernel_entry_ip(s, mid) <= s->addr)
		s->lo = mid;
	else
		s->hi = mid - 1;
	return 0;
}

/* Is entry s->lo of n the one sought? The table is sorted, so it does not matter how it was found. */
UNWIND_FN bool kernel_search_holds(struct kernel_search *s, __u32 n)
{
	if (s->lo >= n || kernel_entry_ip(s, s->lo) > s->addr)
		return false;
	return (s->lo + 1 == n || kernel_entry_ip(s, s->lo + 1) > s->addr) && !s->failed;
}
