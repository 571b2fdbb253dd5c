/* SPDX-License-Identifier: Apache-2.0
 *
 * A sealed head becomes a block: five files and meta.json in a temporary directory, fsynced, renamed, parent fsynced.
 */
#include "scraper/store/flush/flush.h"
#include "lib/base/alloc.h"
#include "scraper/store/flush/flush_impl.h"
#include <string.h>

static int write_files(
	struct fs *fs, const char *dir, struct head *h, struct meta *m, struct errbuf *eb)
{
	_cleanup_(flush_order_done)
	struct flush_order o = {.n_label_strings = 0};
	int r = flush_order_make(h, &o, eb);

	r = r ? r : flush_profiles(fs, dir, h, &o, m, eb);
	r = r ? r : flush_symbols(fs, dir, h, &o, m, eb);
	r = r ? r : flush_stacks(fs, dir, h, &o, m, eb);
	return r ? r : flush_index(fs, dir, h, &o, m, eb);
}

int flush_files(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb)
{
	_cleanup_free_ char *tmp = block_path(dir, ulid, ".tmp");
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
	r = r ? r : block_write_meta(fs, tmp, &m, &local);
	r = r ? r : fs->sync_dir(fs, tmp);
	if (r < 0) {
		block_discard(fs, dir, ulid);
		return err_set(eb, r, "%s: %s", tmp, err_text(&local, r));
	}
	return 0;
}

int flush_head(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb)
{
	int r = flush_files(fs, dir, ulid, h, eb);

	return r < 0 ? r : block_commit(fs, dir, ulid, eb);
}
