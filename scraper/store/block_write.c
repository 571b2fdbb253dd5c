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

int block_write_head(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb)
{
	_cleanup_free_ char *final = NULL, *tmp = NULL;
	_cleanup_(meta_done)
	struct meta m = {.level = 1};
	struct errbuf local = {.text = ""};
	char text[ULID_TEXT];
	int r;

	if (!h->profiles.n)
		return -ENODATA;
	ulid_format(ulid, text);
	final = xasprintf("%s/%s", dir, text);
	tmp = xasprintf("%s.tmp", final);
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
	r = r ? r : fs->rename(fs, tmp, final);
	if (r < 0) {
		int removed = fs_remove_all(fs, tmp); /* else start-up does */

		(void)removed;
		return err_set(eb, r, "%s: %s", final, err_text(&local, r));
	}
	r = fs->sync_dir(fs, dir);
	return r < 0 ? err_set(eb, r, "%s: %s", dir, strerror(-r)) : 0;
}
