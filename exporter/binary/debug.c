/* SPDX-License-Identifier: Apache-2.0
 *
 * Where debug information that was split off a file lies: by its build id, or by the name that the
 * file has of it (its debug link) beside it and below /usr/lib/debug. First as the process would
 * see it, then by build id on this machine: containers share binaries with nobody, but their
 * images are made from packages whose debug information may be here. Servers are asked last, and
 * their answer is not waited for. Files that these name are found the way gdb does: a supplementary
 * file (dwz) by its path, in the directories where distributions keep them, by its build id; a package of
 * split units beside the program, objects of such where the compiler wrote them.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <fcntl.h>
#include <string.h>

#define DEBUG_DIR "/usr/lib/debug"
#define DWZ_DIR DEBUG_DIR "/.dwz/"
enum { MAX_LINK_CANDIDATES = 12 };

/* /usr/lib/debug/.build-id/ab/cdef….debug */
static char *build_id_path(const uint8_t *id, uint32_t n)
{
	char hex[2 * SYMBOL_BUILD_ID_MAX + 1];

	if (n < 2 || n > SYMBOL_BUILD_ID_MAX)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		snprintf(hex + (size_t)i * 2, 3, "%02x", id[i]);
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

static int open_by_link(struct binary_registry *r, const struct entry *e, const char *link,
	const struct stat *st, char **ret_path)
{
	const char *slash = strrchr(e->path, '/');
	int n = slash ? (int)(slash - e->path) : 0, fd = -ENOENT;

	if (!link[0] || !slash || strchr(link, '/'))
		return -ENOENT;
	for (unsigned i = 0; fd < 0 && i < 3; i++) {
		_cleanup_free_ char *path = xasprintf("%s%.*s/%s%s", i == 2 ? DEBUG_DIR : "", n,
			e->path, i == 1 ? ".debug/" : "", link);

		fd = other_than(binary_open_below(r, &e->source, path, 0), st);
		if (fd >= 0)
			*ret_path = TAKE(path);
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
	const struct parser_description *file, const struct stat *st, char **ret_path)
{
	_cleanup_free_ char *by_id = NULL;
	int fd = -ENOENT;

	if ((file->has & PARSER_HAS_SYMTAB) && (file->has & PARSER_HAS_DWARF))
		return -ENOENT;
	by_id = build_id_path(file->identity.build_id, file->identity.build_id_len);
	if (by_id)
		fd = other_than(binary_open_below(r, &e->source, by_id, 0), st);
	if (fd < 0)
		fd = open_by_link(r, e, file->debug_link, st, ret_path);
	if (fd < 0 && by_id)
		fd = open_here(r, by_id);
	if (fd >= 0 && !*ret_path)
		*ret_path = TAKE(by_id);
	if (fd < 0)
		fd = binary_fetched_open(r, &file->identity);
	if (fd < 0)
		binary_fetch_want(r, binary, &file->identity);
	return fd;
}

/* Where a file that is named may be: below the process's root, then in the exporter's own. */
struct candidates {
	char *paths[MAX_LINK_CANDIDATES];
	uint32_t n;
};

static void candidates_done(struct candidates *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		free(c->paths[i]);
}

/* Takes the path over; NULL is fine. */
static void add_path(struct candidates *c, char *path)
{
	bool known = !path || c->n == MAX_LINK_CANDIDATES;

	for (uint32_t i = 0; i < c->n && !known; i++)
		known = strcmp(c->paths[i], path) == 0;
	if (known)
		free(path);
	else
		c->paths[c->n++] = path;
}

/* `name` as it is when absolute, else in the directory that `beside` lies in. */
static void add_beside(struct candidates *c, const char *beside, const char *name)
{
	const char *slash = beside && beside[0] == '/' ? strrchr(beside, '/') : NULL;

	if (name[0] == '/')
		add_path(c, xstrdup(name));
	else if (slash && name[0])
		add_path(c, xasprintf("%.*s/%s", (int)(slash - beside), beside, name));
}

/* The name of an open file with no symbolic link in it; "" when it is unknown. */
static void real_path(int fd, char *ret, size_t cap)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : readlink(link, ret, cap - 1);
	ret[n < 0 ? 0 : n] = '\0';
}

static void list_alt(
	const struct binary_link_source *s, const struct parser_link *link, struct candidates *c)
{
	const char *dwz = strstr(link->path, "/.dwz/"), *base = strrchr(link->path, '/');
	const char *from = link->from_debug ? s->debug_path : s->entry->path;
	char real[PARSER_LINK_PATH_MAX];

	real_path(link->from_debug ? s->debug_fd : s->fd, real, sizeof(real));
	add_beside(c, real, link->path);
	add_beside(c, from, link->path);
	if (link->path[0])
		add_path(c, xasprintf(DWZ_DIR "%s", dwz	   ? dwz + strlen("/.dwz/")
						    : base ? base + 1
							   : link->path));
	add_path(c, build_id_path(link->id, link->id_len));
}

static void list_candidates(
	const struct binary_link_source *s, const struct parser_link *link, struct candidates *c)
{
	const char *own = s->entry->path, *base = strrchr(link->path, '/');

	switch (link->kind) {
	case PARSER_LINK_ALT: list_alt(s, link, c); break;
	case PARSER_LINK_PACKAGE:
		if (own[0] != '/')
			break;
		add_path(c, xasprintf("%s.dwp", own));
		if (s->debug_path)
			add_path(c, xasprintf("%s.dwp", s->debug_path));
		add_path(c, xasprintf(DEBUG_DIR "%s.dwp", own));
		break;
	case PARSER_LINK_SPLIT:
		add_beside(c, own, link->path);
		add_beside(c, own, base ? base + 1 : link->path);
		break;
	default: break;
	}
}

/* An ELF file, so that nothing else ever reaches a parser child, whatever path it asks for. */
static int elf_only(int fd)
{
	char magic[4];

	if (fd < 0 || (pread(fd, magic, 4, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0))
		return fd;
	close(fd);
	return -ENOENT;
}

/* What servers have by build id: asked when nothing else had it, for the next time. */
static int open_fetched(const struct binary_link_source *s, const struct parser_link *link)
{
	struct symbol_identity id = {.build_id_len = link->id_len};
	int fd;

	memcpy(id.build_id, link->id, link->id_len);
	fd = binary_fetched_open(s->registry, &id);
	if (fd >= 0)
		return fd;
	/* By then what names it is needed again. */
	if (s->debug_fd >= 0 && !s->debug_path)
		binary_fetched_keep(s->registry, s->binary, s->identity, s->debug_fd);
	binary_fetch_want(s->registry, s->binary, &id);
	return -ENOENT;
}

int binary_open_link(void *ctx, const struct parser_link *link, uint32_t *ret_next)
{
	struct binary_link_source *s = ctx;
	_cleanup_(candidates_done)
	struct candidates c = {.n = 0};
	bool is_object = link->kind == PARSER_LINK_SPLIT;
	uint32_t i = link->candidate;
	int fd = -ENOENT;

	/* Built elsewhere, as it seems: a large program has tens of thousands. */
	if (is_object && !s->n_objects_found && s->n_objects_missed >= BINARY_MAX_MISSED)
		return -ENOENT;
	list_candidates(s, link, &c);
	for (; fd < 0 && i < c.n; i++)
		fd = elf_only(binary_open_below(s->registry, &s->entry->source, c.paths[i], 0));
	/* What only the program's own machine can have is not looked for on this one. */
	for (; fd < 0 && link->kind == PARSER_LINK_ALT && i < 2 * c.n; i++)
		fd = elf_only(open_here(s->registry, c.paths[i - c.n]));
	if (fd < 0 && link->kind == PARSER_LINK_ALT && i++ == 2 * c.n)
		fd = elf_only(open_fetched(s, link));
	s->n_found += fd >= 0;
	s->n_objects_found += is_object && fd >= 0;
	s->n_objects_missed += is_object && fd < 0;
	*ret_next = i;
	return fd;
}
