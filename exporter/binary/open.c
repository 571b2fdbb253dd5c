/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to a binary's file, best first: the process's own mapping of it, its path below the
 * process's root, its path below that root as it was kept. What is found by path must be the same
 * file.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include <elf.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <fcntl.h>
#include <sys/vfs.h>

enum { MAX_OTHER_FILES = 8 }; /* of the same content: as many are tried */

/* The vdso is part of our own process too; the parser gets a copy. */
static int open_vdso(void)
{
	const uint8_t *vdso = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	Elf64_Ehdr header;
	size_t bytes, page = (size_t)sysconf(_SC_PAGESIZE);

	if (!vdso)
		return -ENOENT;
	memcpy(&header, vdso, sizeof(header));
	bytes = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
	bytes = (bytes + page - 1) / page * page;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || write(fd, vdso, bytes) != (ssize_t)bytes)
		return -ENOMEM;
	return TAKE_FD(fd);
}

/* Overlay and btrfs show another device number to stat than to maps and perf records. */
static bool has_own_devices(int fd)
{
	struct statfs sfs;

	return fstatfs(fd, &sfs) == 0 &&
	       (sfs.f_type == OVERLAYFS_SUPER_MAGIC || sfs.f_type == BTRFS_SUPER_MAGIC);
}

static int identify(struct keeper *k, int fd, const struct stat *st, struct keeper_file *ret)
{
	if (k->identify)
		return k->identify(k, fd, ret);
	*ret = (struct keeper_file) {
		.dev_major = major(st->st_dev), .dev_minor = minor(st->st_dev), .ino = st->st_ino};
	return 0;
}

/* fstat of what is known here: a file system that does not answer any more is not asked. */
static int stat_known(int fd, struct stat *ret)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0)
		return -errno;
	*ret = (struct stat) {.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_size = (off_t)x.stx_size,
		.st_uid = x.stx_uid,
		.st_mtim = {.tv_sec = x.stx_mtime.tv_sec, .tv_nsec = x.stx_mtime.tv_nsec}};
	return 0;
}

static bool is_same_file(struct keeper *k, int fd, const struct stat *st, const struct entry *e)
{
	struct keeper_file file;

	if (!S_ISREG(st->st_mode))
		return false;
	/* By build id: the parser's answer decides later. */
	if (e->build_id_len)
		return true;
	if (identify(k, fd, st, &file) < 0 || file.ino != e->ino ||
		(e->size_bytes && (uint64_t)st->st_size != e->size_bytes))
		return false;
	return (file.dev_major == e->dev_major && file.dev_minor == e->dev_minor) ||
	       file.own_devices || (!k->identify && has_own_devices(fd));
}

/* So that there is no use in other ways to the file. */
static bool hangs(int r)
{
	return r == -ETIMEDOUT || r == -EBUSY;
}

static int checked(struct keeper *k, int fd, const struct entry *e, struct stat *ret_st)
{
	if (fd < 0)
		return fd;
	if (stat_known(fd, ret_st) == 0 && is_same_file(k, fd, ret_st, e))
		return fd;
	close(fd);
	return -ENOENT;
}

/* The path without what the kernel appends to that of a deleted file. */
static char *plain_path(const char *path)
{
	size_t n = strlen(path);

	return xstrndup(path, str_ends_with(path, " (deleted)") ? n - strlen(" (deleted)") : n);
}

static int open_at_process(
	struct binary_registry *r, uint32_t pid, uint64_t start_ns, const char *path, int flags)
{
	struct keeper *k = r->o.keeper;
	_cleanup_close_ int root = k->open(k, pid, start_ns, KEEPER_ROOT, 0, 0);

	return root < 0 ? root : k->open_at(k, root, path, flags);
}

static int open_below_process(
	struct binary_registry *r, const struct entry *e, const char *path, struct stat *ret_st)
{
	return checked(r->o.keeper, open_at_process(r, e->source.pid, e->source.start_ns, path, 0),
		e, ret_st);
}

static struct mount_root *find_root_locked(struct binary_registry *r, uint64_t id)
{
	ASSERT_HELD(&r->lock);
	for (uint32_t i = 0; id && i < r->n_roots; i++)
		if (r->roots[i].id == id)
			return &r->roots[i];
	return NULL;
}

/* May the path be looked up there? That of a record is below the process's own root. That of
 * /proc/PID/maps is as this program sees it: for a process in a chroot, below another root of the
 * namespace; the inode tells whether it is the file. */
static bool is_candidate(const struct mount_root *root, const struct mount_root *own,
	const struct entry *e, bool other_roots)
{
	if (!other_roots)
		return root->id == e->source.root;
	return own && root != own && !e->build_id_len && root->ns_ino &&
	       root->ns_ino == own->ns_ino;
}

/* A copy of the descriptor of the next root after *at. */
static int next_root(
	struct binary_registry *r, const struct entry *e, bool other_roots, uint32_t *at)
{
	const struct mount_root *own;
	int fd = -ENOENT;

	lock_take(&r->lock);
	own = find_root_locked(r, e->source.root);
	for (; fd < 0 && *at < r->n_roots; ++*at)
		if (is_candidate(&r->roots[*at], own, e, other_roots))
			fd = fcntl(r->roots[*at].root_fd, F_DUPFD_CLOEXEC, 3);
	lock_release(&r->lock);
	return fd;
}

static int open_below_kept_roots(
	struct binary_registry *r, const struct entry *e, const char *path, struct stat *ret_st)
{
	struct keeper *k = r->o.keeper;

	for (int other_roots = 0; other_roots < 2; other_roots++)
		for (uint32_t at = 0;;) {
			_cleanup_close_ int root = next_root(r, e, other_roots, &at);
			int fd = root < 0 ? root
					  : checked(k, k->open_at(k, root, path, 0), e, ret_st);

			if (fd >= 0 || hangs(fd))
				return fd;
			if (root < 0)
				break;
		}
	return -ENOENT;
}

int binary_open_below(
	struct binary_registry *r, const struct binary_source *src, const char *path, int flags)
{
	struct keeper *k = r->o.keeper;
	int fd = open_at_process(r, src->pid, src->start_ns, path, flags);
	_cleanup_close_ int root = -1;
	const struct mount_root *kept;

	if (fd >= 0 || !src->root)
		return fd;
	lock_take(&r->lock);
	kept = find_root_locked(r, src->root);
	root = kept ? fcntl(kept->root_fd, F_DUPFD_CLOEXEC, 3) : -1;
	lock_release(&r->lock);
	return root < 0 ? fd : k->open_at(k, root, path, flags);
}

/* Is its device known to hang, and has nothing come back since? */
static bool is_hung(struct binary_registry *r, const struct entry *e)
{
	struct keeper_stats stats;
	bool hung = false;

	keeper_stats(r->o.keeper, &stats);
	lock_take(&r->lock);
	for (uint32_t i = 0; i < r->n_hung;) {
		struct hung_device *d = &r->hung[i];

		if (d->returned != stats.returned) {
			*d = r->hung[--r->n_hung];
			continue;
		}
		hung |= d->dev_major == e->dev_major && d->dev_minor == e->dev_minor;
		i++;
	}
	lock_release(&r->lock);
	return hung;
}

static void note_hung(struct binary_registry *r, const struct entry *e)
{
	struct keeper_stats stats;

	keeper_stats(r->o.keeper, &stats);
	lock_take(&r->lock);
	if (r->n_hung < BINARY_MAX_HUNG)
		r->hung[r->n_hung++] = (struct hung_device) {.dev_major = e->dev_major,
			.dev_minor = e->dev_minor,
			.returned = stats.returned};
	lock_release(&r->lock);
	LOG_RATED(LOG_WARN, "%s is waited for: its file system (device %u:%u) does not answer",
		e->path, e->dev_major, e->dev_minor);
}

static int open_file(struct binary_registry *r, const struct entry *e, struct stat *ret_st)
{
	struct keeper *k = r->o.keeper;
	_cleanup_free_ char *path = NULL;
	int fd;

	if (strcmp(e->path, "[vdso]") == 0) {
		fd = open_vdso();
		return fd >= 0 && fstat(fd, ret_st) < 0 ? -errno : fd;
	}
	fd = -ENOENT;
	if (e->source.map_end)
		fd = k->open(k, e->source.pid, e->source.start_ns, KEEPER_MAP_FILE,
			e->source.map_start, e->source.map_end);
	/* The range may hold another file by now, which is_same_file or the build id tells. */
	fd = checked(k, fd, e, ret_st);
	if (fd >= 0 || hangs(fd) || e->path[0] != '/')
		return fd;
	path = plain_path(e->path);
	fd = open_below_process(r, e, path, ret_st);
	return fd >= 0 || hangs(fd) ? fd : open_below_kept_roots(r, e, path, ret_st);
}

int binary_open_file(struct binary_registry *r, const struct entry *e, struct stat *ret_st)
{
	int fd = is_hung(r, e) ? -EBUSY : open_file(r, e, ret_st);

	if (fd == -ETIMEDOUT)
		note_hung(r, e);
	return hangs(fd) ? -EBUSY : fd;
}

/* The first entry from *at on that has the binary's content, copied, its path with it. */
static bool copy_next(struct binary_registry *r, uint32_t binary, uint32_t *at, struct entry *ret,
	char **ret_path)
{
	bool found = false;
	uint32_t content;

	lock_take(&r->lock);
	content = binary_canonical_locked(r, binary);
	for (; content && !found && *at < r->n_ids; ++*at) {
		if (binary_canonical_locked(r, *at) != content)
			continue;
		*ret = *r->entries[*at];
		ret->path = *ret_path = xstrdup(ret->path);
		found = true;
	}
	lock_release(&r->lock);
	return found;
}

static int open_as(struct binary_registry *r, struct entry *e, const struct binary_source *src,
	struct binary_build_id *ret_build_id)
{
	struct stat st;

	e->source = *src;
	memcpy(ret_build_id->bytes, e->build_id, sizeof(ret_build_id->bytes));
	ret_build_id->len = e->build_id_len;
	return binary_open_file(r, e, &st);
}

int binary_open(struct binary_registry *r, uint32_t binary, const struct binary_source *src,
	struct binary_build_id *ret_build_id)
{
	uint32_t at = binary;
	int fd = -ENOENT;

	for (int tries = 0; fd < 0 && tries <= MAX_OTHER_FILES; tries++) {
		_cleanup_free_ char *path = NULL;
		struct entry e;
		struct binary_source own;

		if (!copy_next(r, binary, &at, &e, &path))
			break;
		own = e.source;
		fd = open_as(r, &e, src, ret_build_id);
		if (fd < 0 && e.has_source)
			fd = open_as(r, &e, &own, ret_build_id);
		at = tries ? at : 1;
	}
	return fd;
}

/* Which root the descriptor is. Kernels before 5.8 do not tell the mount. */
static int identify_root(int fd, struct mount_root *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &st) < 0)
		return -errno;
	ret->mount_id = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
	ret->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	ret->ino = st.stx_ino;
	return 0;
}

/* One more reference to the same root, if it is there: its id, or 0. A mount that is held open
 * keeps its number. */
static uint64_t ref_same_root(struct binary_registry *r, const struct mount_root *like)
{
	uint64_t id = 0;

	lock_take(&r->lock);
	for (uint32_t i = 0; !id && i < r->n_roots; i++) {
		struct mount_root *root = &r->roots[i];

		if (root->mount_id != like->mount_id || root->dev != like->dev ||
			root->ino != like->ino)
			continue;
		root->n_refs++;
		id = root->id;
	}
	lock_release(&r->lock);
	return id;
}

static void close_root(struct mount_root *root)
{
	close(root->root_fd);
	if (root->ns_fd >= 0)
		close(root->ns_fd);
}

/* Takes the root's descriptors over; its id, or 0 when there are too many. */
static uint64_t add_root(struct binary_registry *r, struct mount_root *root)
{
	lock_take(&r->lock);
	if (r->n_roots < BINARY_MAX_ROOTS) {
		root->id = ++r->last_root;
		r->roots[r->n_roots++] = *root;
	}
	lock_release(&r->lock);
	if (!root->id)
		close_root(root);
	return root->id;
}

uint64_t binary_root_open(
	struct binary_registry *r, uint32_t pid, uint64_t start_ns, int *ret_error)
{
	struct keeper *k = r->o.keeper;
	struct mount_root root = {.n_refs = 1};
	_cleanup_close_ int fd = k->open(k, pid, start_ns, KEEPER_ROOT, 0, 0);
	struct stat st;
	uint64_t id;

	*ret_error = fd < 0 ? fd : identify_root(fd, &root);
	if (*ret_error < 0)
		return 0;
	id = ref_same_root(r, &root);
	if (id)
		return id;
	root.root_fd = TAKE_FD(fd);
	root.ns_fd = k->open(k, pid, start_ns, KEEPER_MNT_NS, 0, 0);
	if (root.ns_fd >= 0 && fstat(root.ns_fd, &st) == 0)
		root.ns_ino = st.st_ino;
	return add_root(r, &root);
}

uint64_t binary_root_ref(struct binary_registry *r, uint64_t id)
{
	struct mount_root *root;

	lock_take(&r->lock);
	root = find_root_locked(r, id);
	if (root)
		root->n_refs++;
	lock_release(&r->lock);
	return root ? id : 0;
}

void binary_root_put(struct binary_registry *r, uint64_t id)
{
	struct mount_root *root;

	lock_take(&r->lock);
	root = find_root_locked(r, id);
	if (root && root->n_refs && --root->n_refs == 0)
		root->idle_since_ns = clock_monotonic_ns(r->o.clock);
	lock_release(&r->lock);
}

/* Takes a root that has been idle for long enough out of the table. */
static bool take_idle_root(struct binary_registry *r, int64_t now_ns, struct mount_root *ret)
{
	bool found = false;

	lock_take(&r->lock);
	for (uint32_t i = 0; i < r->n_roots && !found; i++) {
		struct mount_root *root = &r->roots[i];

		found = !root->n_refs && now_ns - root->idle_since_ns >= BINARY_KEEP_ROOT_NS;
		if (found) {
			*ret = *root;
			*root = r->roots[--r->n_roots];
		}
	}
	lock_release(&r->lock);
	return found;
}

void binary_expire_roots(struct binary_registry *r)
{
	int64_t now_ns = clock_monotonic_ns(r->o.clock);
	struct mount_root root;

	while (take_idle_root(r, now_ns, &root))
		close_root(&root);
}

void binary_close_roots(struct binary_registry *r)
{
	for (uint32_t i = 0; i < r->n_roots; i++)
		close_root(&r->roots[i]);
	r->n_roots = 0;
}
