/* SPDX-License-Identifier: Apache-2.0
 *
 * A sealed head becomes a block: five files and meta.json in a temporary directory, fsynced, renamed, parent fsynced.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block.h"
#include "scraper/store/block_tables.h"
#include <string.h>

static int write_files(
	struct fs *fs, const char *dir, struct head *h, struct meta *m, struct errbuf *eb)
{
	_cleanup_(block_order_done)
	struct block_order o = {.n_label_strings = 0};
	int r = block_order_make(h, &o, eb);

	r = r ? r : block_write_profiles(fs, dir, h, &o, m, eb);
	r = r ? r : block_write_symbols(fs, dir, h, &o, m, eb);
	r = r ? r : block_write_stacks(fs, dir, h, &o, m, eb);
	return r ? r : block_write_index(fs, dir, h, &o, m, eb);
}

static int write_meta(struct fs *fs, const char *dir, const struct meta *m, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/meta.json", dir);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	int r = meta_write(m, &text);

	return r ? r : fs_write_file(fs, path, text.data, text.len, 0640, eb);
}

static char *path_of(const char *dir, const uint8_t ulid[ULID_BYTES], const char *suffix)
{
	char text[ULID_TEXT];

	ulid_format(ulid, text);
	return xasprintf("%s/%s%s", dir, text, suffix);
}

void block_discard(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES])
{
	_cleanup_free_ char *tmp = path_of(dir, ulid, ".tmp");
	int removed = fs_remove_all(fs, tmp); /* else start-up does */

	(void)removed;
}

int block_write_files(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES],
	struct head *h, struct errbuf *eb)
{
	_cleanup_free_ char *tmp = path_of(dir, ulid, ".tmp");
	_cleanup_(meta_done)
	struct meta m = {.level = 1};
	struct errbuf local = {.text = ""};
	int r;

	if (!h->profiles.n)
		return -ENODATA;
	memcpy(m.ulid, ulid, ULID_BYTES);
	m.generations.items = xmalloc(ULID_BYTES);
	memcpy(m.generations.items[0], h->generation, ULID_BYTES);
	m.generations.n = 1;
	r = fs->mkdir(fs, tmp, 0750);
	if (r < 0)
		return err_set(eb, r, "%s: %s", tmp, strerror(-r));
	r = write_files(fs, tmp, h, &m, &local);
	r = r ? r : write_meta(fs, tmp, &m, &local);
	r = r ? r : fs->sync_dir(fs, tmp);
	if (r < 0) {
		block_discard(fs, dir, ulid);
		return err_set(eb, r, "%s: %s", tmp, err_text(&local, r));
	}
	return 0;
}

int block_commit(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct errbuf *eb)
{
	_cleanup_free_ char *tmp = path_of(dir, ulid, ".tmp"), *final = path_of(dir, ulid, "");
	int r = fs->rename(fs, tmp, final);

	if (r < 0) {
		block_discard(fs, dir, ulid);
		return err_set(eb, r, "%s: %s", final, strerror(-r));
	}
	r = fs->sync_dir(fs, dir);
	if (r < 0) {
		/* What is tried again must not stand there twice after a restart. */
		int removed = fs_remove_all(fs, final);

		return err_set(eb, removed < 0 ? removed : r, "%s: %s", dir, strerror(-r));
	}
	return 0;
}

int block_write_head(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb)
{
	int r = block_write_files(fs, dir, ulid, h, eb);

	return r < 0 ? r : block_commit(fs, dir, ulid, eb);
}
