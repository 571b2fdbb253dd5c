/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files beneath a directory for clients that name them: the kernel refuses every path that leads out of it.
 */
#include "lib/base/fs.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* A pipe or device must not make the reader wait. */
static int open_beneath(const char *dir, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dir_fd < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

int fs_read_beneath(
	const char *dir, const char *path, size_t max_bytes, struct bytes *ret, struct errbuf *eb)
{
	_cleanup_close_ int fd = open_beneath(dir, path);
	struct stat st;
	uint64_t off = 0;

	if (fd == -EXDEV || fd == -ELOOP || fd == -ENOTDIR || fd == -ENXIO || fd == -ENAMETOOLONG)
		return err_set(eb, -ENOENT, "%s: no such file", path);
	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	if (fstat(fd, &st) < 0)
		return err_set(eb, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(eb, -ENOENT, "%s: no regular file", path);
	for (;;) {
		uint8_t *to = bytes_reserve(ret, 65536);
		ssize_t n = to ? pread(fd, to, 65536, (off_t)off) : bytes_error(ret);

		if (n < 0 && to && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(eb, to ? -errno : -ENOMEM, "%s: cannot be read", path);
		if (n == 0)
			return 0;
		off += (uint64_t)n;
		ret->len += (size_t)n;
		if (off > max_bytes)
			return err_set(eb, -EFBIG, "%s: larger than %zu bytes", path, max_bytes);
	}
}
