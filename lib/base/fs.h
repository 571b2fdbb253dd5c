/* SPDX-License-Identifier: Apache-2.0
 *
 * The file-system seam of the store, configuration and caches. Programs pass &fs_system; crash
 * tests pass one that drops, tears or refuses writes. Paths are absolute or relative to the working
 * directory; descriptors are O_CLOEXEC. All functions return ≥ 0 or the negative errno of the call of that name, and -ENOMEM where they
 * fill a buffer. Any thread.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fs_stat {
	uint64_t size_bytes, allocated_bytes;
	int64_t mtime_ns;
	uint64_t dev, ino;
	bool is_dir, is_regular;
};

struct fs {
	int (*open)(struct fs *fs, const char *path, int flags, mode_t mode);
	int (*close)(struct fs *fs, int fd);
	ssize_t (*pread)(struct fs *fs, int fd, void *buf, size_t n, uint64_t off);
	ssize_t (*pwrite)(struct fs *fs, int fd, const void *buf, size_t n, uint64_t off);
	/* To the end of a file opened with O_APPEND, or into a pipe. */
	ssize_t (*append)(struct fs *fs, int fd, const void *buf, size_t n);
	int (*fallocate)(struct fs *fs, int fd, uint64_t off,
		uint64_t len); /* reserves blocks, extends size */
	int (*ftruncate)(struct fs *fs, int fd, uint64_t len);
	int (*fdatasync)(struct fs *fs, int fd);
	int (*fsync)(struct fs *fs, int fd);
	int (*fstat)(struct fs *fs, int fd, struct fs_stat *ret);
	int (*stat)(struct fs *fs, const char *path, struct fs_stat *ret);
	int (*rename)(struct fs *fs, const char *from, const char *to);
	int (*link)(struct fs *fs, const char *from, const char *to);
	int (*unlink)(struct fs *fs, const char *path);
	int (*mkdir)(struct fs *fs, const char *path, mode_t mode);
	int (*rmdir)(struct fs *fs, const char *path);
	/* Names without "." and "..", sorted bytewise, NUL-separated into `ret`. */
	int (*list)(struct fs *fs, const char *path, struct bytes *ret);
	int (*sync_dir)(struct fs *fs, const char *path);
	/* Exclusive lock; -EWOULDBLOCK when another process holds it. */
	int (*lock)(struct fs *fs, int fd);
	/* Free bytes on the file system that holds `path`, and its size. */
	int (*free_bytes)(struct fs *fs, const char *path, uint64_t *ret);
	int (*total_bytes)(struct fs *fs, const char *path, uint64_t *ret);
};

extern struct fs fs_system;

/* Whole-buffer forms: short reads and writes are continued; -EIO when a file ends early. */
int fs_pread_full(struct fs *fs, int fd, void *buf, size_t n, uint64_t off) _must_check_;
int fs_pwrite_full(struct fs *fs, int fd, const void *buf, size_t n, uint64_t off) _must_check_;
/* Reads a file of at most max_bytes (-EFBIG above), appended to `ret`, which after an error holds a part of it. -EISDIR: a directory.
 * The text names the path. */
int fs_read_file(struct fs *fs, const char *path, size_t max_bytes, struct bytes *ret,
	struct errbuf *eb) _must_check_;
/*
 * Reads the regular file PATH beneath the directory DIR, at most max_bytes (-EFBIG above), appended to `ret`. Nothing outside DIR is
 * reached, by "..", by links or by a PATH that is absolute: openat2(2) with RESOLVE_BENEATH. -ENOENT: no such file, or one that is no
 * regular file or lies outside. Not through the seam: for files that the program only shows.
 */
int fs_read_beneath(const char *dir, const char *path, size_t max_bytes, struct bytes *ret,
	struct errbuf *eb) _must_check_;
/* Writes PATH.tmp, fsyncs, renames to PATH, fsyncs the parent. After a failure PATH.tmp is gone and PATH is the old file, or the new one
 * when only the last step failed. */
int fs_write_file(struct fs *fs, const char *path, const void *p, size_t n, mode_t mode,
	struct errbuf *eb) _must_check_;
/* Paths of the files that a pattern names, sorted, each with a NUL: the pattern itself when it has no '*', else what
 * matches its last component in that directory; none when the directory is missing. */
int fs_glob(struct fs *fs, const char *pattern, struct bytes *ret) _must_check_;
/* mkdir -p. -ENOTDIR: the path is there and is no directory. */
int fs_make_dirs(struct fs *fs, const char *path, mode_t mode) _must_check_;
/* rm -rf of a directory or file; a missing path is fine. */
int fs_remove_all(struct fs *fs, const char *path) _must_check_;
