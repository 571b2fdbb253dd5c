/* SPDX-License-Identifier: Apache-2.0
 *
 * A file system in memory behind struct fs that can lose what was not synced. Data of a file is durable after fsync or fdatasync of
 * it, names after sync_dir of their directory; at a power cut every other 512-byte sector is kept, dropped or torn, every other
 * change of a directory is kept up to a random point of its order. Operations can be made to fail from the n-th on (a process
 * that died) or with ENOSPC. Everything follows from one seed.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include <fcntl.h>
#include <string.h>

enum { SIM_SECTOR = 512, SIM_MAX_FDS = 256, SIM_NAME = 64 };

struct sim_inode;
struct sim_entry {
	char name[SIM_NAME];
	struct sim_inode *inode;
};
struct sim_dir {
	struct sim_entry *items;
	size_t n, cap;
};
/* A change of a directory that is not durable yet: removes `from` (when not empty), adds `to` → inode (when not empty). */
struct sim_change {
	char from[SIM_NAME], to[SIM_NAME];
	struct sim_inode *inode;
};
struct sim_inode {
	struct sim_inode *next; /* of all */
	bool is_dir;
	uint8_t *now, *disk; /* content as written, as durable */
	size_t now_size, disk_size, now_cap, disk_cap;
	bool dirty;
	struct sim_dir entries, disk_entries;
	struct sim_change *changes;
	size_t n_changes, cap_changes;
	bool locked;
	struct sim_inode *copy; /* while a file system is copied */
};

struct simfs {
	struct fs fs;
	uint64_t random;
	struct sim_inode *root, *all;
	struct {
		struct sim_inode *inode;
		bool writable;
	} fds[SIM_MAX_FDS];
	uint64_t n_ops;			     /* that change or sync something */
	uint64_t die_at;		     /* 0: never; this op and all later fail with EIO */
	uint64_t no_space_from, no_space_to; /* ops that want space in [from, to) get ENOSPC */
	uint64_t n_space_ops;
	uint64_t fail_sync_at,
		n_syncs; /* the n-th sync fails once with EIO and loses what it should have kept */
	uint64_t fail_dir_sync_at,
		n_dir_syncs;		  /* the n-th sync of a directory fails once with EIO */
	uint64_t fail_read_at, n_reads;	  /* the n-th read fails once with EIO: a bad sector */
	const struct sim_inode *bad_file; /* or NULL; the sector of it at bad_at is never read */
	uint64_t bad_at;
};

/* Grows an array; not through the seam that tests make fail. */
static inline void sim_grow(void *p, size_t *cap, size_t need, size_t elem)
{
	if (need <= *cap)
		return;
	*cap = MAX(need, *cap * 2);
	*(void **)p = xrealloc(*(void **)p, *cap * elem);
}

static inline uint64_t sim_random(struct simfs *s)
{
	return hash_mix(s->random += 0x9e3779b97f4a7c15ULL);
}

static inline struct simfs *sim_of(struct fs *fs)
{
	return (struct simfs *)fs;
}

static inline struct sim_inode *sim_inode_new(struct simfs *s, bool is_dir)
{
	struct sim_inode *i = xcalloc(1, sizeof(*i));

	i->is_dir = is_dir;
	i->next = s->all;
	s->all = i;
	return i;
}

static inline struct sim_inode *sim_find(const struct sim_dir *d, const char *name, size_t n)
{
	for (size_t i = 0; i < d->n; i++)
		if (strlen(d->items[i].name) == n && !memcmp(d->items[i].name, name, n))
			return d->items[i].inode;
	return NULL;
}

static inline void sim_remove(struct sim_dir *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->items[i].name, name)) {
			d->items[i] = d->items[--d->n];
			return;
		}
}

static inline void sim_add(struct sim_dir *d, const char *name, struct sim_inode *inode)
{
	sim_remove(d, name);
	sim_grow(&d->items, &d->cap, d->n + 1, sizeof(*d->items));
	d->items[d->n].inode = inode;
	snprintf(d->items[d->n++].name, SIM_NAME, "%s", name);
}

/* The inode at a path; *ret_parent and *ret_name say where it hangs or would hang. */
static inline struct sim_inode *sim_walk(
	struct simfs *s, const char *path, struct sim_inode **ret_parent, const char **ret_name)
{
	struct sim_inode *at = s->root, *parent = NULL;
	const char *name = "";

	while (*path) {
		size_t n;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (!n)
			break;
		if (!at || !at->is_dir) {
			parent = NULL;
			at = NULL;
			break;
		}
		parent = at;
		name = path;
		at = sim_find(&at->entries, path, n);
		path += n;
	}
	if (ret_parent)
		*ret_parent = parent;
	if (ret_name)
		*ret_name = name;
	return at;
}

static inline void sim_change(
	struct sim_inode *dir, const char *from, const char *to, struct sim_inode *inode)
{
	struct sim_change *c;

	sim_grow(&dir->changes, &dir->cap_changes, dir->n_changes + 1, sizeof(*dir->changes));
	c = &dir->changes[dir->n_changes++];
	snprintf(c->from, SIM_NAME, "%s", from);
	snprintf(c->to, SIM_NAME, "%s", to);
	c->inode = inode;
	if (from[0])
		sim_remove(&dir->entries, from);
	if (to[0])
		sim_add(&dir->entries, to, inode);
}

/* Counts an operation; true when the process is dead by now. */
static inline bool sim_dead(struct simfs *s)
{
	return s->die_at && ++s->n_ops >= s->die_at;
}

static inline bool sim_no_space(struct simfs *s)
{
	uint64_t n = ++s->n_space_ops;

	return s->no_space_from && n >= s->no_space_from && n < s->no_space_to;
}

static inline int sim_open(struct fs *fs, const char *path, int flags, mode_t mode)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent, *i;
	const char *name;
	int fd = 0;

	(void)mode;
	i = sim_walk(s, path, &parent, &name);
	if (!i && !(flags & O_CREAT))
		return -ENOENT;
	if (i && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (!i) {
		if (!parent)
			return -ENOENT;
		if (sim_dead(s))
			return -EIO;
		if (sim_no_space(s))
			return -ENOSPC;
		i = sim_inode_new(s, false);
		sim_change(parent, "", name, i);
	}
	if (i->is_dir)
		return -EISDIR;
	if (flags & O_TRUNC) {
		i->now_size = 0;
		i->dirty = true;
	}
	while (fd < SIM_MAX_FDS && s->fds[fd].inode)
		fd++;
	ASSERT(fd < SIM_MAX_FDS);
	s->fds[fd].inode = i;
	s->fds[fd].writable = flags & (O_RDWR | O_WRONLY);
	return fd;
}

static inline int sim_close(struct fs *fs, int fd)
{
	struct simfs *s = sim_of(fs);

	ASSERT(s->fds[fd].inode);
	s->fds[fd].inode->locked = false;
	s->fds[fd].inode = NULL;
	return 0;
}

static inline ssize_t sim_pread(struct fs *fs, int fd, void *buf, size_t n, uint64_t off)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = s->fds[fd].inode;

	if (s->fail_read_at && ++s->n_reads == s->fail_read_at)
		return -EIO;
	if (off >= i->now_size)
		return 0;
	n = MIN(n, i->now_size - (size_t)off);
	if (i == s->bad_file && off < s->bad_at + SIM_SECTOR && off + n > s->bad_at)
		return -EIO;
	memcpy(buf, i->now + off, n);
	return (ssize_t)n;
}

static inline void sim_size(uint8_t **p, size_t *size, size_t *cap, size_t want)
{
	sim_grow(p, cap, want, 1);
	if (want > *size)
		memset(*p + *size, 0, want - *size);
	*size = want;
}

static inline ssize_t sim_pwrite(struct fs *fs, int fd, const void *buf, size_t n, uint64_t off)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = s->fds[fd].inode;
	bool dead = sim_dead(s), full = off + n > i->now_size && sim_no_space(s);

	ASSERT(s->fds[fd].writable);
	/* What dies in a write has written a part of it. */
	if (dead && s->n_ops != s->die_at)
		return -EIO;
	if (full)
		return -ENOSPC;
	if (dead)
		n = sim_random(s) % (n + 1);
	if (off + n > i->now_size)
		sim_size(&i->now, &i->now_size, &i->now_cap, (size_t)off + n);
	if (n)
		memcpy(i->now + off, buf, n);
	i->dirty = true;
	return dead ? -EIO : (ssize_t)n;
}

static inline int sim_fallocate(struct fs *fs, int fd, uint64_t off, uint64_t len)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = s->fds[fd].inode;

	if (sim_dead(s))
		return -EIO;
	if (sim_no_space(s))
		return -ENOSPC;
	if (off + len > i->now_size)
		sim_size(&i->now, &i->now_size, &i->now_cap, (size_t)(off + len));
	i->dirty = true;
	return 0;
}

static inline int sim_ftruncate(struct fs *fs, int fd, uint64_t len)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = s->fds[fd].inode;

	if (sim_dead(s))
		return -EIO;
	sim_size(&i->now, &i->now_size, &i->now_cap, (size_t)len);
	i->dirty = true;
	return 0;
}

static inline int sim_fsync(struct fs *fs, int fd)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = s->fds[fd].inode;

	if (sim_dead(s))
		return -EIO;
	if (s->fail_sync_at && ++s->n_syncs == s->fail_sync_at) {
		i->dirty = false; /* as Linux does: the pages are clean now, and not on disk */
		return -EIO;
	}
	if (i->dirty) {
		sim_size(&i->disk, &i->disk_size, &i->disk_cap, i->now_size);
		if (i->now_size)
			memcpy(i->disk, i->now, i->now_size);
	}
	i->dirty = false;
	return 0;
}

static inline void sim_fill_stat(const struct sim_inode *i, struct fs_stat *ret)
{
	*ret = (struct fs_stat) {
		.size_bytes = i->now_size,
		.allocated_bytes = i->now_size,
		.ino = (uint64_t)(uintptr_t)i,
		.is_dir = i->is_dir,
		.is_regular = !i->is_dir,
	};
}

static inline int sim_fstat(struct fs *fs, int fd, struct fs_stat *ret)
{
	sim_fill_stat(sim_of(fs)->fds[fd].inode, ret);
	return 0;
}

static inline int sim_stat(struct fs *fs, const char *path, struct fs_stat *ret)
{
	struct sim_inode *i = sim_walk(sim_of(fs), path, NULL, NULL);

	if (!i)
		return -ENOENT;
	sim_fill_stat(i, ret);
	return 0;
}

static inline int sim_rename(struct fs *fs, const char *from, const char *to)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent_from, *parent_to;
	const char *name_from, *name_to;
	struct sim_inode *i = sim_walk(s, from, &parent_from, &name_from);

	sim_walk(s, to, &parent_to, &name_to);
	if (!i || !parent_to)
		return -ENOENT;
	if (sim_dead(s))
		return -EIO;
	if (parent_from == parent_to) {
		sim_change(parent_from, name_from, name_to, i);
		return 0;
	}
	sim_change(parent_to, "", name_to, i);
	sim_change(parent_from, name_from, "", NULL);
	return 0;
}

static inline int sim_link(struct fs *fs, const char *from, const char *to)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent, *i = sim_walk(s, from, NULL, NULL);
	const char *name;

	if (sim_walk(s, to, &parent, &name))
		return -EEXIST;
	if (!i || !parent)
		return -ENOENT;
	if (sim_dead(s))
		return -EIO;
	if (sim_no_space(s))
		return -ENOSPC;
	sim_change(parent, "", name, i);
	return 0;
}

static inline int sim_unlink(struct fs *fs, const char *path)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent, *i;
	const char *name;

	i = sim_walk(s, path, &parent, &name);
	if (!i)
		return -ENOENT;
	if (i->is_dir)
		return -EISDIR;
	if (sim_dead(s))
		return -EIO;
	sim_change(parent, name, "", NULL);
	return 0;
}

static inline int sim_mkdir(struct fs *fs, const char *path, mode_t mode)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent, *i = sim_walk(s, path, &parent, NULL);
	const char *name;

	(void)mode;
	if (i)
		return -EEXIST;
	sim_walk(s, path, &parent, &name);
	if (!parent)
		return -ENOENT;
	if (sim_dead(s))
		return -EIO;
	if (sim_no_space(s))
		return -ENOSPC;
	sim_change(parent, "", name, sim_inode_new(s, true));
	return 0;
}

static inline int sim_rmdir(struct fs *fs, const char *path)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *parent, *i;
	const char *name;

	i = sim_walk(s, path, &parent, &name);
	if (!i || !i->is_dir)
		return -ENOENT;
	if (i->entries.n)
		return -ENOTEMPTY;
	if (sim_dead(s))
		return -EIO;
	sim_change(parent, name, "", NULL);
	return 0;
}

static inline int sim_by_name(const void *a, const void *b)
{
	const struct sim_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static inline int sim_list(struct fs *fs, const char *path, struct bytes *ret)
{
	struct sim_inode *i = sim_walk(sim_of(fs), path, NULL, NULL);

	if (!i || !i->is_dir)
		return -ENOENT;
	if (i->entries.n)
		qsort(i->entries.items, i->entries.n, sizeof(*i->entries.items), sim_by_name);
	for (size_t k = 0; k < i->entries.n; k++)
		bytes_put(ret, i->entries.items[k].name, strlen(i->entries.items[k].name) + 1);
	return bytes_error(ret);
}

static inline void sim_apply_changes(struct sim_inode *dir, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const struct sim_change *c = &dir->changes[k];

		if (c->from[0])
			sim_remove(&dir->disk_entries, c->from);
		if (c->to[0])
			sim_add(&dir->disk_entries, c->to, c->inode);
	}
	dir->n_changes = 0;
}

static inline int sim_sync_dir(struct fs *fs, const char *path)
{
	struct simfs *s = sim_of(fs);
	struct sim_inode *i = sim_walk(s, path, NULL, NULL);

	if (!i)
		return -ENOENT;
	if (sim_dead(s) || (s->fail_dir_sync_at && ++s->n_dir_syncs == s->fail_dir_sync_at))
		return -EIO;
	sim_apply_changes(i, i->n_changes);
	return 0;
}

static inline int sim_lock(struct fs *fs, int fd)
{
	struct sim_inode *i = sim_of(fs)->fds[fd].inode;

	if (i->locked)
		return -EWOULDBLOCK;
	i->locked = true;
	return 0;
}

static inline int sim_free_bytes(struct fs *fs, const char *path, uint64_t *ret)
{
	(void)fs;
	(void)path;
	*ret = 1ULL << 40;
	return 0;
}

static inline void simfs_init(struct simfs *s, uint64_t seed)
{
	*s = (struct simfs) {
		.fs =
			{
				.open = sim_open,
				.close = sim_close,
				.pread = sim_pread,
				.pwrite = sim_pwrite,
				.fallocate = sim_fallocate,
				.ftruncate = sim_ftruncate,
				.fdatasync = sim_fsync,
				.fsync = sim_fsync,
				.fstat = sim_fstat,
				.stat = sim_stat,
				.rename = sim_rename,
				.link = sim_link,
				.unlink = sim_unlink,
				.mkdir = sim_mkdir,
				.rmdir = sim_rmdir,
				.list = sim_list,
				.sync_dir = sim_sync_dir,
				.lock = sim_lock,
				.free_bytes = sim_free_bytes,
				.total_bytes = sim_free_bytes,
			},
		.random = seed,
	};
	s->root = sim_inode_new(s, true);
}

static inline void simfs_done(struct simfs *s)
{
	while (s->all) {
		struct sim_inode *i = s->all;

		s->all = i->next;
		free(i->now);
		free(i->disk);
		free(i->entries.items);
		free(i->disk_entries.items);
		free(i->changes);
		free(i);
	}
}

static inline void sim_copy_entries(struct sim_dir *to, const struct sim_dir *from)
{
	sim_grow(&to->items, &to->cap, from->n, sizeof(*to->items));
	for (size_t i = 0; i < from->n; i++) {
		to->items[i] = from->items[i];
		to->items[i].inode = from->items[i].inode->copy;
	}
	to->n = from->n;
}

static inline void sim_copy_inode(struct sim_inode *to, const struct sim_inode *from)
{
	sim_size(&to->now, &to->now_size, &to->now_cap, from->now_size);
	sim_size(&to->disk, &to->disk_size, &to->disk_cap, from->disk_size);
	if (from->now_size)
		memcpy(to->now, from->now, from->now_size);
	if (from->disk_size)
		memcpy(to->disk, from->disk, from->disk_size);
	to->dirty = from->dirty;
	sim_copy_entries(&to->entries, &from->entries);
	sim_copy_entries(&to->disk_entries, &from->disk_entries);
	sim_grow(&to->changes, &to->cap_changes, from->n_changes, sizeof(*to->changes));
	for (size_t i = 0; i < from->n_changes; i++) {
		to->changes[i] = from->changes[i];
		if (from->changes[i].inode)
			to->changes[i].inode = from->changes[i].inode->copy;
	}
	to->n_changes = from->n_changes;
}

/* A second file system that is like the first one, in which nothing is open. */
static inline void simfs_copy(struct simfs *to, const struct simfs *from)
{
	*to = (struct simfs) {.fs = from->fs, .random = from->random};
	for (struct sim_inode *i = from->all; i; i = i->next)
		i->copy = sim_inode_new(to, i->is_dir);
	to->root = from->root->copy;
	for (const struct sim_inode *i = from->all; i; i = i->next)
		sim_copy_inode(i->copy, i);
}

/* The process is gone: descriptors and locks too, faults are over. Files stay as they were written. */
static inline void simfs_restart(struct simfs *s)
{
	memset(s->fds, 0, sizeof(s->fds));
	for (struct sim_inode *i = s->all; i; i = i->next)
		i->locked = false;
	s->die_at = s->n_ops = s->no_space_from = s->no_space_to = s->n_space_ops =
		s->fail_sync_at = s->n_syncs = s->fail_dir_sync_at = s->n_dir_syncs =
			s->fail_read_at = s->n_reads = 0;
}

static inline void sim_cut_file(struct simfs *s, struct sim_inode *i)
{
	size_t size = i->dirty && sim_random(s) % 2 ? i->now_size : i->disk_size;
	size_t before = i->disk_size;

	sim_size(&i->disk, &i->disk_size, &i->disk_cap, MAX(size, before));
	for (size_t at = 0; i->dirty && at < MIN(size, i->now_size); at += SIM_SECTOR) {
		size_t n = MIN((size_t)SIM_SECTOR, MIN(size, i->now_size) - at);

		switch (sim_random(s) % 4) {
		case 0: /* dropped */ break;
		case 1: /* torn */ memcpy(i->disk + at, i->now + at, sim_random(s) % n); break;
		default: memcpy(i->disk + at, i->now + at, n);
		}
	}
	i->disk_size = size;
	sim_size(&i->now, &i->now_size, &i->now_cap, size);
	if (size)
		memcpy(i->now, i->disk, size);
	i->dirty = false;
}

/* Power is cut: what was not synced is kept, dropped or torn. */
static inline void simfs_power_cut(struct simfs *s)
{
	for (struct sim_inode *i = s->all; i; i = i->next) {
		if (!i->is_dir) {
			sim_cut_file(s, i);
			continue;
		}
		sim_apply_changes(i, i->n_changes ? sim_random(s) % (i->n_changes + 1) : 0);
		i->entries.n = 0;
		for (size_t k = 0; k < i->disk_entries.n; k++)
			sim_add(&i->entries, i->disk_entries.items[k].name,
				i->disk_entries.items[k].inode);
	}
	simfs_restart(s);
}
