/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that every writer of a block takes, whether it comes from a head or from other blocks: files noted in meta.json, then the name.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/block.h"
#include <stdio.h>
#include <string.h>

int block_finish_file(struct frame_writer *w, enum frame_file f, struct meta *m, struct errbuf *eb)
{
	struct frame frame = {.size = 0};
	int r = frame_writer_finish(w, &frame, eb);

	m->files[f].size = frame.size;
	m->files[f].table_crc = frame.table_crc;
	return r;
}

char *block_path(const char *dir, const uint8_t ulid[ULID_BYTES], const char *suffix)
{
	char text[ULID_TEXT];

	ulid_format(ulid, text);
	return xasprintf("%s/%s%s", dir, text, suffix);
}

int block_write_meta(struct fs *fs, const char *dir, const struct meta *m, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/meta.json", dir);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	int r = meta_write(m, &text);

	return r ? r : fs_write_file(fs, path, text.data, text.len, 0640, eb);
}

void block_discard(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES])
{
	_cleanup_free_ char *tmp = block_path(dir, ulid, ".tmp");
	int removed = fs_remove_all(fs, tmp); /* else start-up does */

	(void)removed;
}

int block_commit(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct errbuf *eb)
{
	_cleanup_free_ char *tmp = block_path(dir, ulid, ".tmp"),
			    *final = block_path(dir, ulid, "");
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
