/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Files whose binary id is known, by their inodes' data: by them the walker finds code of a process whose mappings it does
 * not know yet. An mmapable array of buckets. User space writes it under a lock, the kernel half reads it. Compiled for BPF
 * and for the host. docs/formats/abi.md describes it.
 */
#pragma once
#include "bpf/unwind/frames.h"

enum { FILES_PER_BUCKET = 4 };

/* An inode as a mapping leads to it: dev is major << 20 | minor. A file that was written to since is another one. */
struct file_key {
	__u64 ino, bytes;
	__u64 mtime_ns; /* since 1970, modulo 2^64 */
	__u32 dev;
};

struct known_file {
	__u64 ino, bytes, mtime_ns;
	__u32 dev;
	__u32 binary; /* 0: free. Written last, and cleared before the rest changes */
};

struct file_bucket {
	struct known_file files[FILES_PER_BUCKET];
};

UNWIND_FN __u32 file_bucket_of(const struct file_key *k, __u32 mask)
{
	return (__u32)((k->ino ^ (__u64)k->dev << 40) * 0x9e3779b97f4a7c15ULL >> 40) & mask;
}

UNWIND_FN int file_is(const volatile struct known_file *f, const struct file_key *k)
{
	return f->ino == k->ino && f->dev == k->dev && f->bytes == k->bytes &&
	       f->mtime_ns == k->mtime_ns;
}

/* The binary of that file, 0 when it is not known. */
UNWIND_FN __u32 file_find(const struct file_bucket *b, const struct file_key *k)
{
	for (__u32 i = 0; i < FILES_PER_BUCKET; i++) {
		const volatile struct known_file *f = &b->files[i];
		__u32 binary = f->binary;

		if (binary && file_is(f, k) && f->binary == binary)
			return binary;
	}
	return 0;
}
