/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a block: header, sections, section table (docs/formats/block.md, "File frame"), and
 * tables of pages in them.
 */
#pragma once
#include "lib/base/fs.h"
#include "scraper/store/codec/codec.h"

enum frame_file {
	FRAME_INDEX = 1,
	FRAME_SYMBOLS,
	FRAME_STACKS,
	FRAME_PROFILES,
	FRAME_ROWS,
	FRAME_PROFILES_10M, /* of compacted blocks only */
	FRAME_ROWS_10M,
	FRAME_PROFILES_1H,
	FRAME_ROWS_1H,
	FRAME_N,
	FRAME_N_RAW = FRAME_ROWS + 1 /* below it: in every block */
};
enum frame_table {
	TABLE_SCHEMAS = 1,
	TABLE_STREAMS,
	TABLE_STRINGS,
	TABLE_FUNCTIONS,
	TABLE_MAPPINGS,
	TABLE_LOCATIONS,
	TABLE_KEYS,
	TABLE_LABEL_SETS,
	TABLE_NODES,
	TABLE_PROFILES,
	TABLE_ROWS,
	TABLE_N
};
enum {
	FRAME_HEADER = 8,
	FRAME_ENTRY = 24,
	FRAME_TRAILER = 12,
	FRAME_MAGIC = 0x746b6c62,
	FRAME_VERSION = 1,
	FRAME_MAX_SECTIONS = 32,
	PAGE_ENTRY = 48,
	/* How hard zstd tries: names are most of a young block, and compaction has time. */
	FRAME_LEVEL_NAMES = 9,
	FRAME_LEVEL_COMPACTED_NAMES = 19,
	FRAME_LEVEL_COMPACTED = 6,
	/* Columns of a page of profiles before the totals, raw and in rollups. */
	FRAME_PROFILE_COLUMNS = 7,
	FRAME_ROLLUP_COLUMNS = 9
};

/* "index", "symbols" …; the file that holds a table; the table's name for people. */
const char *frame_file_name(enum frame_file f);
enum frame_file frame_file_of(enum frame_table t);
const char *frame_table_name(enum frame_table t);

struct frame_section {
	uint32_t id, crc;
	uint64_t offset, length;
};
struct frame {
	uint64_t size;
	uint32_t table_crc;
	size_t n_sections;
	struct frame_section sections[FRAME_MAX_SECTIONS];
};

/* Reading: -EBADMSG, -ENOTSUP, -ENOMEM and errors of the disk, with a text that names the path. Any thread.
 *
 * Reads and checks header, trailer and section table. size and table_crc are what meta.json says; 0, 0: take what is there. */
int frame_read(struct fs *fs, const char *path, enum frame_file file, uint64_t size,
	uint32_t table_crc, struct frame *ret, struct errbuf *eb) _must_check_;
/* Checks the CRC32C of every section: every byte of the file is then covered. */
int frame_verify(
	struct fs *fs, const char *path, const struct frame *f, struct errbuf *eb) _must_check_;

struct frame_page {
	uint64_t offset, first_row; /* offset in the file; first_row: sum of the pages before */
	uint32_t length, n_rows, crc, first_stream, last_stream;
	uint16_t n_columns;
	int64_t min_time_ns, max_time_ns;
};
/* One allocation; free() it. */
struct frame_pages {
	uint64_t n_rows;
	uint32_t n_pages;
	struct frame_page pages[];
};
int frame_read_pages(struct fs *fs, const char *path, const struct frame *f, enum frame_table t,
	struct frame_pages **ret, struct errbuf *eb) _must_check_;
/* The page that holds a row, which is in the table. */
uint32_t frame_page_of(const struct frame_pages *pages, uint64_t row);
/* *ret is freed with free(). */
int frame_read_page(struct fs *fs, const char *path, const struct frame_page *entry,
	struct page **ret, struct errbuf *eb) _must_check_;
/* Some columns of it: page_load_columns. */
int frame_read_columns(struct fs *fs, const char *path, const struct frame_page *entry,
	uint32_t columns, struct page **ret, struct errbuf *eb) _must_check_;

/* Writing, front to back, through a buffer of 1 MiB. Errors stick; frame_writer_finish reports the first. One thread. */
struct frame_writer {
	struct fs *fs;
	char *path;
	int fd, error;
	uint64_t offset;
	struct bytes buf;
	struct frame_section sections[FRAME_MAX_SECTIONS];
	size_t n_sections;
	struct bytes entries; /* page table of the current table */
	uint64_t section_start;
	struct page_writer *pages;
};
/* A new file: -EEXIST and other errors of open(2). frame_writer_done is due either way. */
int frame_writer_open(
	struct frame_writer *w, struct fs *fs, const char *path, enum frame_file file) _must_check_;
void frame_writer_table_begin(struct frame_writer *w, enum frame_table t);
/* Ends the page that was built in w->pages. Streams and times may be 0. */
void frame_writer_page(struct frame_writer *w, uint32_t n_rows, uint32_t first_stream,
	uint32_t last_stream, int64_t min_time, int64_t max_time);
void frame_writer_table_end(struct frame_writer *w);
/* Writes the section table, fsyncs, closes. ret: size and CRC for meta.json. */
int frame_writer_finish(struct frame_writer *w, struct frame *ret, struct errbuf *eb) _must_check_;
/* Closes without finishing; also after finish. */
void frame_writer_done(struct frame_writer *w);
