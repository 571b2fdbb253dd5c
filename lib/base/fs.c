/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's file system behind struct fs, and helpers built on the seam alone.
 */
#include "lib/base/fs.h"
#include <fnmatch.h>
#include "lib/base/alloc.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static int ret_errno(long r)
{
	return r < 0 ? -errno : (int)r;
}

static int sys_open(struct fs *fs, const char *path, int flags, mode_t mode)
{
	(void)fs;
	return ret_errno(open(path, flags | O_CLOEXEC, mode));
}

static int sys_close(struct fs *fs, int fd)
{
	(void)fs;
	return ret_errno(close(fd));
}

static ssize_t sys_pread(struct fs *fs, int fd, void *buf, size_t n, uint64_t off)
{
	ssize_t r = pread(fd, buf, n, (off_t)off);

	(void)fs;
	return r < 0 ? -errno : r;
}

static ssize_t sys_pwrite(struct fs *fs, int fd, const void *buf, size_t n, uint64_t off)
{
	ssize_t r = pwrite(fd, buf, n, (off_t)off);

	(void)fs;
	return r < 0 ? -errno : r;
}

static ssize_t sys_append(struct fs *fs, int fd, const void *buf, size_t n)
{
	ssize_t r = write(fd, buf, n);

	(void)fs;
	return r < 0 ? -errno : r;
}

static int sys_fallocate(struct fs *fs, int fd, uint64_t off, uint64_t len)
{
	(void)fs;
	return -posix_fallocate(fd, (off_t)off, (off_t)len);
}

static int sys_ftruncate(struct fs *fs, int fd, uint64_t len)
{
	(void)fs;
	return ret_errno(ftruncate(fd, (off_t)len));
}

static int sys_fdatasync(struct fs *fs, int fd)
{
	(void)fs;
	return ret_errno(fdatasync(fd));
}

static int sys_fsync(struct fs *fs, int fd)
{
	(void)fs;
	return ret_errno(fsync(fd));
}

static void fill_stat(const struct stat *st, struct fs_stat *ret)
{
	*ret = (struct fs_stat) {
		.size_bytes = (uint64_t)st->st_size,
		.allocated_bytes = (uint64_t)st->st_blocks * 512,
		.mtime_ns = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.is_dir = S_ISDIR(st->st_mode),
		.is_regular = S_ISREG(st->st_mode),
	};
}

static int sys_fstat(struct fs *fs, int fd, struct fs_stat *ret)
{
	struct stat st;

	(void)fs;
	if (fstat(fd, &st) < 0)
		return -errno;
	fill_stat(&st, ret);
	return 0;
}

static int sys_stat(struct fs *fs, const char *path, struct fs_stat *ret)
{
	struct stat st;

	(void)fs;
	if (stat(path, &st) < 0)
		return -errno;
	fill_stat(&st, ret);
	return 0;
}

static int sys_rename(struct fs *fs, const char *from, const char *to)
{
	(void)fs;
	return ret_errno(rename(from, to));
}

static int sys_link(struct fs *fs, const char *from, const char *to)
{
	(void)fs;
	return ret_errno(link(from, to));
}

static int sys_unlink(struct fs *fs, const char *path)
{
	(void)fs;
	return ret_errno(unlink(path));
}

static int sys_mkdir(struct fs *fs, const char *path, mode_t mode)
{
	(void)fs;
	return ret_errno(mkdir(path, mode));
}

static int sys_rmdir(struct fs *fs, const char *path)
{
	(void)fs;
	return ret_errno(rmdir(path));
}

static int sys_list(struct fs *fs, const char *path, struct bytes *ret)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, NULL);

	(void)fs;
	if (n < 0)
		return -errno;
	/* alphasort() follows the locale; the seam promises bytes. */
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && strcmp(names[j - 1]->d_name, names[j]->d_name) > 0; j--) {
			struct dirent *t = names[j];

			names[j] = names[j - 1];
			names[j - 1] = t;
		}
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (strcmp(name, ".") && strcmp(name, ".."))
			bytes_put(ret, name, strlen(name) + 1);
		free(names[i]);
	}
	free(names);
	return bytes_error(ret);
}

static int sys_sync_dir(struct fs *fs, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)fs;
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

static int sys_lock(struct fs *fs, int fd)
{
	(void)fs;
	return ret_errno(flock(fd, LOCK_EX | LOCK_NB));
}

static int sys_free_bytes(struct fs *fs, const char *path, uint64_t *ret)
{
	struct statvfs v;

	(void)fs;
	if (statvfs(path, &v) < 0)
		return -errno;
	*ret = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static int sys_total_bytes(struct fs *fs, const char *path, uint64_t *ret)
{
	struct statvfs v;

	(void)fs;
	if (statvfs(path, &v) < 0)
		return -errno;
	*ret = (uint64_t)v.f_blocks * v.f_frsize;
	return 0;
}

struct fs fs_system = {
	.open = sys_open,
	.close = sys_close,
	.pread = sys_pread,
	.pwrite = sys_pwrite,
	.append = sys_append,
	.fallocate = sys_fallocate,
	.ftruncate = sys_ftruncate,
	.fdatasync = sys_fdatasync,
	.fsync = sys_fsync,
	.fstat = sys_fstat,
	.stat = sys_stat,
	.rename = sys_rename,
	.link = sys_link,
	.unlink = sys_unlink,
	.mkdir = sys_mkdir,
	.rmdir = sys_rmdir,
	.list = sys_list,
	.sync_dir = sys_sync_dir,
	.lock = sys_lock,
	.free_bytes = sys_free_bytes,
	.total_bytes = sys_total_bytes,
};

int fs_pread_full(struct fs *fs, int fd, void *buf, size_t n, uint64_t off)
{
	char *to = buf;

	while (n) {
		ssize_t r = fs->pread(fs, fd, to, n, off);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? (int)r : -EIO;
		to += r;
		off += (size_t)r;
		n -= (size_t)r;
	}
	return 0;
}

int fs_pwrite_full(struct fs *fs, int fd, const void *buf, size_t n, uint64_t off)
{
	const char *from = buf;

	while (n) {
		ssize_t r = fs->pwrite(fs, fd, from, n, off);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? (int)r : -EIO;
		from += r;
		off += (size_t)r;
		n -= (size_t)r;
	}
	return 0;
}

int fs_read_file(
	struct fs *fs, const char *path, size_t max_bytes, struct bytes *ret, struct errbuf *eb)
{
	struct fs_stat st;
	uint64_t off = 0;
	int r, fd = fs->open(fs, path, O_RDONLY, 0);

	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	r = fs->fstat(fs, fd, &st);
	if (r < 0)
		err_set(eb, r, "%s: %s", path, strerror(-r));
	else if (st.is_dir)
		r = err_set(eb, -EISDIR, "%s: is a directory, expected a file", path);
	/* Files of /proc report no size: read until the end instead of trusting it. */
	while (!r) {
		uint8_t *to = bytes_reserve(ret, 65536);
		ssize_t n = to ? fs->pread(fs, fd, to, 65536, off) : bytes_error(ret);

		if (n == -EINTR)
			continue;
		if (n < 0)
			r = err_set(eb, (int)n, "%s: %s", path, strerror((int)-n));
		if (n <= 0)
			break;
		off += (size_t)n;
		ret->len += (size_t)n;
		if (off > max_bytes)
			r = err_set(eb, -EFBIG, "%s: larger than %zu bytes", path, max_bytes);
	}
	fs->close(fs, fd);
	return r;
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

int fs_glob(struct fs *fs, const char *pattern, struct bytes *ret)
{
	_cleanup_bytes_ struct bytes names = {0};
	const char *last = strrchr(pattern, '/');
	_cleanup_free_ char *dir = NULL;
	int r;

	if (!strchr(pattern, '*')) {
		bytes_put(ret, pattern, strlen(pattern) + 1);
		return bytes_error(ret);
	}
	dir = !last ? xstrdup(".")
		    : xstrndup(pattern, last == pattern ? 1 : (size_t)(last - pattern));
	r = fs->list(fs, dir, &names);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t off = 0; off < names.len; off += strlen((char *)names.data + off) + 1) {
		const char *name = (const char *)names.data + off;

		if (fnmatch(last ? last + 1 : pattern, name, FNM_NOESCAPE | FNM_PERIOD))
			continue;
		if (last)
			bytes_put(ret, pattern, (size_t)(last + 1 - pattern));
		bytes_put(ret, name, strlen(name) + 1);
	}
	return bytes_error(ret);
}

int fs_write_file(
	struct fs *fs, const char *path, const void *p, size_t n, mode_t mode, struct errbuf *eb)
{
	_cleanup_free_ char *tmp = xasprintf("%s.tmp", path), *parent = parent_of(path);
	int r, c, fd = fs->open(fs, tmp, O_WRONLY | O_CREAT | O_TRUNC, mode);

	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	r = fs_pwrite_full(fs, fd, p, n, 0);
	if (!r)
		r = fs->fsync(fs, fd);
	c = fs->close(fs, fd);
	if (!r)
		r = c;
	if (!r)
		r = fs->rename(fs, tmp, path);
	if (!r)
		r = fs->sync_dir(fs, parent);
	if (r < 0)
		(void)fs->unlink(fs, tmp);
	return r < 0 ? err_set(eb, r, "%s: %s", path, strerror(-r)) : 0;
}

int fs_make_dirs(struct fs *fs, const char *path, mode_t mode)
{
	struct fs_stat st;
	int r = fs->mkdir(fs, path, mode);

	if (r == -ENOENT) {
		_cleanup_free_ char *parent = parent_of(path);

		r = fs_make_dirs(fs, parent, mode);
		if (!r)
			r = fs->mkdir(fs, path, mode);
	}
	if (r == -EEXIST)
		r = fs->stat(fs, path, &st) < 0 || st.is_dir ? 0 : -ENOTDIR;
	return r;
}

int fs_remove_all(struct fs *fs, const char *path)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	int r = fs->unlink(fs, path); /* first, because it does not follow symbolic links */

	if (r != -EISDIR)
		return r == -ENOENT ? 0 : r;
	r = fs->list(fs, path, &names);
	for (size_t at = 0; !r && at < names.len; at += strlen((char *)names.data + at) + 1) {
		_cleanup_free_ char *child = xasprintf("%s/%s", path, (char *)names.data + at);

		r = fs_remove_all(fs, child);
	}
	return r < 0 ? r : fs->rmdir(fs, path);
}
