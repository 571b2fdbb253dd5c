/* SPDX-License-Identifier: Apache-2.0
 *
 * Where debug information that was split off a file lies: by its build id, or by the name that the
 * file has of it (its debug link) beside it and below /usr/lib/debug. First as the process would
 * see it, then by build id on this machine: containers share binaries with nobody, but their
 * images are made from packages whose debug information may be here. Servers are asked last, and
 * their answer is not waited for.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <fcntl.h>
#include <string.h>

#define DEBUG_DIR "/usr/lib/debug"

/* /usr/lib/debug/.build-id/ab/cdef….debug */
static char *build_id_path(const struct parser_identity *id)
{
	char hex[2 * PARSER_BUILD_ID_MAX + 1];

	if (id->build_id_len < 2)
		return NULL;
	for (uint32_t i = 0; i < id->build_id_len; i++)
		snprintf(hex + (size_t)i * 2, 3, "%02x", id->build_id[i]);
	return xasprintf(DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2);
}

/* A link may name a file in the directory of its own, even itself. */
static int other_than(int fd, const struct stat *st)
{
	struct stat found;

	if (fd < 0)
		return fd;
	if (fstat(fd, &found) == 0 && (found.st_ino != st->st_ino || found.st_dev != st->st_dev))
		return fd;
	close(fd);
	return -ENOENT;
}

static int open_by_link(
	struct binary_registry *r, const struct entry *e, const char *link, const struct stat *st)
{
	const char *slash = strrchr(e->path, '/');
	int n = slash ? (int)(slash - e->path) : 0, fd = -ENOENT;

	if (!link[0] || !slash || strchr(link, '/'))
		return -ENOENT;
	for (unsigned i = 0; fd < 0 && i < 3; i++) {
		_cleanup_free_ char *path = xasprintf("%s%.*s/%s%s", i == 2 ? DEBUG_DIR : "", n,
			e->path, i == 1 ? ".debug/" : "", link);

		fd = other_than(binary_open_below(r, &e->source, path, 0), st);
	}
	return fd;
}

static int open_here(struct binary_registry *r, const char *path)
{
	struct fs_stat st;

	if (r->o.fs->stat(r->o.fs, path, &st) < 0 || !st.is_regular)
		return -ENOENT;
	return r->o.fs->open(r->o.fs, path, O_RDONLY | O_NONBLOCK, 0);
}

int binary_open_debug(struct binary_registry *r, uint32_t binary, const struct entry *e,
	const struct parser_description *file, const struct stat *st)
{
	_cleanup_free_ char *by_id = NULL;
	int fd = -ENOENT;

	if ((file->has & PARSER_HAS_SYMTAB) && (file->has & PARSER_HAS_DWARF))
		return -ENOENT;
	by_id = build_id_path(&file->identity);
	if (by_id)
		fd = other_than(binary_open_below(r, &e->source, by_id, 0), st);
	if (fd < 0)
		fd = open_by_link(r, e, file->debug_link, st);
	if (fd < 0 && by_id)
		fd = open_here(r, by_id);
	if (fd < 0)
		fd = binary_fetched_open(r, &file->identity);
	if (fd < 0)
		binary_fetch_want(r, binary, &file->identity);
	return fd;
}
