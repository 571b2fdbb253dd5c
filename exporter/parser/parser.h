/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser role: reads ELF files and mangled names, which anybody may have written, in
 * children that own nothing.
 *
 * The zygote sits at one end of a SOCK_SEQPACKET pair. A request is one datagram (struct
 * parser_request) with descriptors: the end of a fresh socket pair that takes the reply, the input
 * (a regular file, or names or stacks in a memfd), maybe more inputs (the file with the debug
 * information of the first, the files that stacks lead through) and maybe the end of a socket pair over
 * which the child asks for further files that its inputs name. For each request the zygote forks a child
 * under memory and CPU limits; the child can do nothing but read its input and write one memfd,
 * which the zygote seals and sends back. A child that crashes, hangs or asks for too much costs
 * that one request. As each request brings its own reply socket, any number of threads may ask
 * at once.
 */
#pragma once
#include "exporter/symfile/identity.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum parser_op {
	PARSER_IDENTIFY = 1, /* ELF file → struct parser_description */
	PARSER_COMPILE = 2, /* ELF file, debug file → symbol file (docs/formats/symbol-file.md) */
	PARSER_DEMANGLE = 3, /* names, each with a NUL → u32 length + bytes for each, in order */
	PARSER_WALK = 4,     /* stacks, ELF files → what elfutils makes of them (walk.h) */
	PARSER_ROWS = 5,     /* ELF file, debug file → symbol file of unwind rows alone */
};

enum {
	PARSER_MAGIC = 0x31525053,
	PARSER_MAX_CHILDREN = 6, /* of symbol threads, demangling, a second walk */
	PARSER_MAX_INPUTS = 48,	 /* of a request */
	PARSER_DEBUG_LINK_MAX = 256,
	PARSER_LINK_PATH_MAX = 1024,
};

enum parser_has {
	PARSER_HAS_SYMTAB = 1, /* .symtab */
	PARSER_HAS_DWARF = 2,  /* .debug_info */
};

/* Identity, and what the file says of where more is; the output of PARSER_IDENTIFY. */
struct parser_description {
	struct symbol_identity identity;
	uint32_t has;		 /* enum parser_has */
	uint32_t debug_link_crc; /* of the whole file that is named, as CRC-32 of ISO 3309 */
	char debug_link[PARSER_DEBUG_LINK_MAX]; /* .gnu_debuglink: a file name, "" when none */
};

struct parser_request {
	uint32_t magic;
	uint32_t op; /* enum parser_op */
	/* 1 to PARSER_MAX_TIMEOUT_MS: wall time, and CPU time rounded up to seconds */
	uint32_t timeout_ms;
	uint32_t links; /* 1: the last descriptor is the socket for struct parser_link; else 0 */
};
enum {
	PARSER_MAX_TIMEOUT_MS = 60000,
	PARSER_CLOSING_MS = 2000, /* that children have once nobody asks any more */
};

enum parser_link_kind {
	/* what dwz took out of several files: .gnu_debugaltlink, .debug_sup */
	PARSER_LINK_ALT = 1,
	PARSER_LINK_PACKAGE = 2, /* split units of a whole program, FILE.dwp; no path */
	PARSER_LINK_SPLIT = 3,	 /* those of one object file, .dwo */
};

/* A child's question for a file that its input names. The answer is one struct parser_link_answer,
 * with a descriptor where there is such a file. There may be several candidates: the child asks
 * again when one is not what it wants. */
struct parser_link {
	uint32_t magic;
	uint32_t kind;	     /* enum parser_link_kind */
	uint32_t from_debug; /* the second input names it, not the first */
	uint32_t candidate;  /* 0, then parser_link_answer.next */
	uint32_t id_len;
	uint8_t id[SYMBOL_BUILD_ID_MAX]; /* of an ALT: its build id */
	char path[PARSER_LINK_PATH_MAX]; /* as the input has it */
};
struct parser_link_answer {
	uint32_t magic;
	uint32_t next;
};

/* Who finds such files. */
struct parser_finder {
	/* A descriptor (the caller's) of the candidate link->candidate or a later one, with *ret_next
	 * behind it; -1: there are no more. */
	int (*find)(void *ctx, const struct parser_link *link, uint32_t *ret_next);
	void *ctx;
};

struct parser_inputs {
	int fd, debug_fd;		    /* debug_fd -1: none */
	const struct parser_finder *finder; /* NULL: nothing is found */
};

/* How a request ended. */
enum parser_status {
	PARSER_OK = 0,
	PARSER_REFUSED = 1,   /* not an ELF file that we read, or malformed */
	PARSER_NO_MEMORY = 2, /* the child's memory limit */
	PARSER_TIMEOUT = 3,   /* killed by its time limit */
	PARSER_CRASHED = 4,   /* ended by a signal */
	PARSER_FAILED = 5,    /* the zygote could not start it, or is gone */
};
enum { PARSER_N_STATUS = PARSER_FAILED + 1 };
/* "refused" …; of PARSER_OK "ok". */
const char *parser_status_name(enum parser_status status);

struct parser_reply {
	uint32_t magic;
	uint32_t status;   /* enum parser_status */
	uint64_t cpu_ns;   /* user and system time of the child */
	uint64_t peak_rss; /* bytes */
	char text[96];	   /* for a person, when refused */
};

/* The zygote's life, in a process that has given up its privileges: serves until the other end of `fd` is closed or
 * stopped, and PARSER_CLOSING_MS more where children are at work. They end with it. Returns the exit status. */
int parser_zygote_run(int fd);
/* No further requests. Those at work have PARSER_CLOSING_MS, those that have not begun fail at once. */
void parser_stop(int parser_fd);

/* Asks, waits for the reply. Returns the sealed memfd (the caller's) or -1 with reply->status
 * saying why. A request of names that failed half-way still gives a descriptor: what was written
 * is whole up to its last complete item. Thread-safe. Blocks at most timeout_ms and a grace of
 * one second. */
int parser_ask(int parser_fd, enum parser_op op, int input_fd, uint32_t timeout_ms,
	struct parser_reply *reply);
/* The same with up to PARSER_MAX_INPUTS inputs. */
int parser_ask_with(int parser_fd, enum parser_op op, const int *inputs, size_t n_inputs,
	uint32_t timeout_ms, struct parser_reply *reply);
/* PARSER_COMPILE. The finder is called on this thread meanwhile. */
int parser_ask_compile(int parser_fd, const struct parser_inputs *in, uint32_t timeout_ms,
	struct parser_reply *reply);

/*
 * What the children run; called in-process by tests and fuzzers. `in_fd`: a regular file;
 * `out_fd`: an empty memfd. 0, -EBADMSG (not ELF, or malformed), -ENOTSUP (a machine or class
 * not read), -ENOMEM, -EFBIG.
 */
int parser_identify(int in_fd, struct parser_description *ret, struct errbuf *eb);
/* in->debug_fd: a file with the debug information of in->fd, or -1. It is used when its build id is the
 * same, or its CRC that of in->fd's debug link; SYMBOL_HAS_DEBUG_FILE says so. in->finder is asked for files
 * that these name; they too count only when their ids are those named. */
int parser_compile(const struct parser_inputs *in, int out_fd, struct errbuf *eb);
/* The same without names and lines: what unwinding needs, many times sooner. */
int parser_compile_rows(int in_fd, int debug_fd, int out_fd, struct errbuf *eb);
int parser_demangle(int in_fd, int out_fd, struct errbuf *eb);

/* The readable form of a raw symbol name: C++ (Itanium), Rust (legacy and v0), D, OCaml, Ada (its runtime and the main
 * procedure: other names of Ada look like those of C).
 * malloc'ed; NULL when the name is readable as it is. */
char *demangle_name(const char *raw);
