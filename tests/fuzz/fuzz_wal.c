/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a WAL record, as replay takes it: checksums do not protect against ourselves. Input: bodies back to back, each behind a
 * u16 length. What a head accepts must also dump, check and become a block that says the same.
 */
#include "lib/base/cursor.h"
#include "scraper/store/block/block.h"
#include "scraper/store/flush/flush.h"
#include "scraper/store/part/dump.h"
#include "scraper/store/wal/cursors.h"
#include "tests/crash/simfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void dump(struct part *p, struct bytes *out)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	struct dump_options o = {.rows = true};
	struct dump_counts counts;
	struct errbuf eb = {.text = ""};
	int e = part_reader_open(p, NULL, &r, &eb);

	e = e ? e : dump_part(r, &o, out);
	ASSERT(!e || e == -EBADMSG || e == -ENOMEM);
	/* Its verdict may differ: totals and the order of rows are the writer's word in a head, and a block sorts. */
	e = dump_check(r, &counts);
	ASSERT(!e || e == -EBADMSG || e == -ENOMEM);
}

/* Flushing a head of this content gives a block that reads the same. */
static void check_block(struct head *h)
{
	static const uint8_t ulid[ULID_BYTES] = {1};
	_cleanup_bytes_ struct bytes before = {.data = NULL}, after = {.data = NULL};
	struct cache *cache = cache_new(1 << 20, NULL);
	struct errbuf eb = {.text = ""};
	struct block *b = NULL;
	char text[ULID_TEXT], dir[64];
	struct simfs fs;
	int r;

	simfs_init(&fs, 1);
	ulid_format(ulid, text);
	snprintf(dir, sizeof(dir), "/%s", text);
	r = flush_head(&fs.fs, "/", ulid, h, &eb);
	if (!r) {
		r = block_open(&fs.fs, cache, dir, 2, &b, &eb);
		r = r ? r : block_verify(b, &eb);
		ASSERT(!r);
		dump(&h->part, &before);
		dump(&b->part, &after);
		ASSERT(before.len == after.len && !memcmp(before.data, after.data, before.len));
		part_put(&b->part);
	}
	cache_free(cache);
	simfs_done(&fs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t generation[ULID_BYTES] = {2};
	struct cursor c = cursor_of(data, size);
	struct errbuf eb = {.text = ""};
	struct cursors cursors;
	struct head *h = NULL;
	bool clean = true;

	if (head_new(generation, 1 << 12, NULL, 1, &h) < 0)
		return 0;
	cursors_init(&cursors);
	while (cursor_left(&c) > 2) {
		size_t said = cursor_u16(&c), n = MIN(said, cursor_left(&c));
		const uint8_t *body = cursor_take(&c, n);
		struct head_applied applied;
		struct record record;
		int r = record_parse(body, n, &record, &eb);

		r = r ? r : cursors_apply(&cursors, &record, &eb);
		r = r ? r : head_apply(h, &record, &applied, &eb);
		clean &= r >= 0;
	}
	if (clean)
		check_block(h);
	cursors_done(&cursors);
	part_put(&h->part);
	return 0;
}
