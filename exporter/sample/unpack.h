/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as rings have them (bpf/unwind/frame_pack.h) → records as everything behind the drain has them.
 */
#pragma once
#include "bpf/unwind/frame_pack.h"
#include "lib/base/err.h"
#include <stddef.h>

/* A record and all words that a packed one can have. */
union unpacked {
	struct abi_record record;
	__u64 words[sizeof(struct abi_record) / sizeof(__u64) + FRAME_PACK_MAX];
};

/*
 * The record of `len` bytes at `rec`, which is ABI_RECORD_PACKED_SAMPLE, into *ret; returns its size there. -EBADMSG: it holds other
 * words than its head says, or more than fit.
 */
int unpack_sample(const void *rec, size_t len, union unpacked *ret) _must_check_;
