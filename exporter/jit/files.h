/* SPDX-License-Identifier: Apache-2.0
 *
 * The two kinds of files in which runtimes describe their JIT code: perf maps (kernel,
 * tools/perf/Documentation/jit-interface.txt: lines `START SIZE NAME`, hexadecimal) and dumps
 * (jitdump-specification.txt: records with code, names and lines). Both grow while they are read,
 * and anybody may have written them. Pure but for pread.
 */
#pragma once
#include "exporter/jit/codes.h"

enum {
	JIT_NAME_BYTES = 1024, /* of a name; what is longer is cut */
	JIT_FILE_BYTES = 256,  /* of a source file's name */
	JIT_READ_BYTES = 64 << 10,
	JIT_CALL_BYTES = 4 << 20, /* of work in one call */
};
#define JIT_MAX_FILE_BYTES (4ULL << 30)

/* How far a file was read. */
struct jit_file {
	uint64_t dev, ino;
	uint64_t read_bytes;	       /* whole lines or records up to here are known */
	uint64_t head_hash, tail_hash; /* of up to 64 bytes at the front; before read_bytes */
	uint64_t line_off;   /* dump: of a record of lines that waits for its code; 0 none */
	bool is_known;	     /* was there when looked at last */
	bool is_broken;	     /* a dump that does not follow the format */
	bool in_line;	     /* map: in the middle of a line longer than any name */
	uint64_t n_bad;	     /* lines and records that say nothing */
	uint64_t work_bytes; /* read of it, and copied because pieces moved, since it is known */
};

/* Reads on, telling `codes` of every piece (jit_codes_merge is the caller's). When the file is
 * another than before, or was written anew, the codes are cleared first and all is read again.
 * 1 when it got on (maybe not to the end: JIT_MAX_FRESH pieces wait, or it was work enough), 0 when nothing is new; -EBADMSG for what is no dump,
 * -EFBIG, -ENOMEM, -EIO. */
int jit_map_read(struct jit_file *f, int fd, struct jit_codes *codes);
int jit_dump_read(struct jit_file *f, int fd, struct jit_codes *codes);

struct jit_name {
	char name[JIT_NAME_BYTES];
	char file[JIT_FILE_BYTES]; /* "" when not known */
	uint32_t line;
};
/* The name of a piece, read again at its place: false when something else stands there by now.
 * `addr` picks the line. */
bool jit_map_name(int fd, const struct jit_code *code, struct jit_name *ret);
bool jit_dump_name(int fd, const struct jit_code *code, uint64_t addr, struct jit_name *ret);

/* files.c: what both kinds share. Compares the file with what was read of it; true when reading can
 * go on at read_bytes. ret_bytes: its size. */
int jit_file_check(struct jit_file *f, int fd, uint64_t *ret_bytes, bool *ret_same);
/* Remembers that everything up to read_bytes was read. */
void jit_file_note(struct jit_file *f, int fd);
