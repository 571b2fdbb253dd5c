/* SPDX-License-Identifier: Apache-2.0
 *
 * A named pipe, which the reader keeps open for writing too, so that there is no end between two writers.
 */
#include "cli/window.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int window_parse(const char *spec, const char **ret_path, struct errbuf *eb)
{
	static const char kind[] = "fifo:";

	if (!str_starts_with(spec, kind) || !spec[strlen(kind)])
		return err_set(eb, -EINVAL, "\"%s\": expected fifo:PATH", spec);
	*ret_path = spec + strlen(kind);
	return 0;
}

/* A descriptor of the pipe. What else is there stays untouched. */
static int open_pipe(const char *path, int flags, struct errbuf *eb)
{
	_cleanup_close_ int fd = fs_system.open(&fs_system, path, flags | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;

	if (fd == -ENXIO)
		return err_set(eb, fd, "%s: no recording reads it", path);
	if (fd == -ENOENT)
		return err_set(eb, fd, "%s: %s: sonde record --window fifo:%s makes it", path,
			strerror(-fd), path);
	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return err_set(eb, -EINVAL, "%s: expected a pipe, as mkfifo makes it", path);
	return TAKE_FD(fd);
}

int window_open(struct window *w, const char *spec, struct errbuf *eb)
{
	const char *path = NULL;
	int r = window_parse(spec, &path, eb);

	if (r < 0)
		return r;
	w->was_made = mkfifo(path, 0600) == 0;
	if (!w->was_made && errno != EEXIST)
		return err_set(eb, -errno, "%s: %s", path, strerror(errno));
	w->path = realpath(path, NULL);
	if (!w->path)
		return err_set(eb, -errno, "%s: %s", path, strerror(errno));
	w->fd = open_pipe(path, O_RDWR, eb);
	return w->fd < 0 ? w->fd : 0;
}

bool window_read(struct window *w, char ret_line[WINDOW_MAX_LINE])
{
	char c;

	while (w->fd >= 0 && read(w->fd, &c, 1) == 1) {
		if (c != '\n') {
			if (w->n + 1 < sizeof(w->line))
				w->line[w->n++] = c;
			continue;
		}
		memcpy(ret_line, w->line, w->n);
		ret_line[w->n] = '\0';
		w->n = 0;
		return true;
	}
	return false;
}

void window_close(struct window *w)
{
	if (w->was_made && w->path)
		(void)fs_system.unlink(&fs_system, w->path);
	if (w->fd >= 0)
		close(w->fd);
	free(w->path);
	*w = WINDOW_NONE;
}

int window_write(const char *spec, const char *lines, struct errbuf *eb)
{
	size_t n = strlen(lines);
	const char *path = NULL;
	int r = window_parse(spec, &path, eb);
	_cleanup_close_ int fd = r < 0 ? r : open_pipe(path, O_WRONLY, eb);

	if (fd < 0)
		return fd;
	if (write(fd, lines, n) == (ssize_t)n)
		return 0;
	r = errno == EAGAIN ? -EAGAIN : -EIO;
	return err_set(eb, r, "%s: %s", path,
		r == -EAGAIN ? "the recording does not read it" : strerror(errno));
}
