/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames → functions. Stage 6. Called by response workers; thread-safe.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/interp/interp.h"
#include "lib/base/arena.h"
#include "lib/base/bell.h"
#include <stdint.h>

enum symbolize_mode { SYMBOLIZE_NONE, SYMBOLIZE_FUNCTIONS, SYMBOLIZE_LINES };

struct symbolizer;
struct symbolizer_options {
	struct binary_registry *binaries;
	struct keeper *keeper;
	struct clock *clock;
	struct budget *budget;
	int parser_fd;	   /* demangles */
	const char *sysfs; /* --path.sysfs, for the kernel's build id; NULL: /sys */
	struct fs *fs;	   /* NULL: fs_system */
	struct bell *
		bell; /* wakes the thread that refreshes; NULL: the kernel's symbols stay as they are */
};
/* Never NULL. When the kernel's symbols cannot be read, `eb` says why. */
struct symbolizer *symbolizer_new(const struct symbolizer_options *o, struct errbuf *eb);
void symbolizer_freep(struct symbolizer **s);

/* Reads kallsyms again when modules came or went since the last time, or records of new code were lost. Blocks. On the only thread
 * that does it, when its bell rings: at most every 30 s, for a profile with kernel frames. */
void symbolizer_refresh(struct symbolizer *s);

/* Where the kernel's records of the code that it makes go. */
struct kernel_code;
struct kernel_code *symbolizer_kernel_code(struct symbolizer *s);

enum { SYMBOL_NO_MAPPING = 0xffffffffU };

/* One line of a frame; inlined callees come first. */
struct symbol_line {
	const char *
		function; /* demangled; when unknown "module+0xoffset", of its function's start if that is known */
	const char *system_name; /* raw */
	const char *file;	 /* "" for code unless mode is lines */
	int64_t line, column, start_line;
};
struct symbol {
	/* n_lines, in the arena; when mode is none, only frames of a language have them. Symbols of one function may have the same. */
	const struct symbol_line *lines;
	uint32_t n_lines;
	uint32_t mapping; /* index into ret_mappings */
	/* native: ELF virtual address in the file, or the offset in it when its segments are unknown; kernel and JIT: runtime address;
	 * else 0 */
	uint64_t address;
	uint8_t named; /* 0: unsymbolized, counted per binary */
};
struct symbol_mapping {
	/* path, "[kernel.kallsyms]", "[MODULE]" of the kernel, "[vdso]", "[jit]", "[python3.13]" or "[v8]" of a language runtime, "[interpreter]" of one that is not known, "[unknown]" */
	const char *filename;
	const char *build_id; /* hex or "" */
	/*
	 * What the kernel maps of one executable segment, in the file's own addresses (what symbol.address is in): a binary has a mapping
	 * for each segment that a frame lies in. From 0 for the whole file when its segments are unknown; all 0 for what is no file.
	 */
	uint64_t start, limit, file_off;
	uint8_t has_lines; /* files and lines were asked for, and the file has them */
};
/* A code object of a language runtime, as frames of it share it. */
struct symbol_code {
	uint32_t kind,
		version; /* of the runtime: enum runtime_kind, RUNTIME_VERSION; kind 0: not known */
	bool is_named;	 /* else what follows is not there */
	struct interp_code code;
	/* Of machine code, in place of `code`: leaf first; all but the last are inlined in that. */
	const struct interp_frame *frames;
	uint32_t n_frames; /* 0: a code object */
};
struct symbol_frame {
	uint64_t frame; /* one of code: abi_frame_is_code */
	const struct symbol_code
		*code;	      /* of _INTERP; NULL: not known. The word has the position in it */
	uint64_t jit_addr;    /* resolved address for _JIT and _RAW */
	const char *jit_comm; /* names what the address belongs to */
	const char *jit_name; /* the runtime's name of that code; NULL: none */
	const char *jit_file; /* "" when unknown */
	uint32_t jit_line;
};
/* Symbols of n frames, in the arena. Waits at most until deadline_ns (CLOCK_MONOTONIC) for symbol files and kernel symbols under
 * way. */
int symbolize(struct symbolizer *s, const struct symbol_frame *frames, uint32_t n,
	enum symbolize_mode mode, int64_t deadline_ns, struct arena *arena, struct symbol *ret,
	struct symbol_mapping **ret_mappings, uint32_t *ret_n_mappings);

/* Counters for /metrics. */
struct symbolizer_stats {
	uint64_t frames_named, frames_unnamed;
	uint64_t demangled, demangle_failed, demangle_cache_bytes;
	uint64_t kernel_symbols, kernel_bytes, kernel_reads; /* symbols and bytes: now */
	uint64_t kernel_code_records; /* of code that the kernel made or dropped */
	uint8_t kallsyms_available;   /* 0: kernel frames have addresses only */
};
/* As of the last whole request; does not wait for one. */
void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret);
