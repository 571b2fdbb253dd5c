/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of a language that a file holds: which one, where the state of a thread is, and where fields of its structures lie. The
 * parser makes this record of the file alone, so that one record serves all processes that map the file.
 */
#pragma once
#include <stdint.h>

/* The numbers are in symbol files: new ones go to the end. */
enum runtime_kind {
	RUNTIME_NONE,
	RUNTIME_PYTHON,
	RUNTIME_RUBY,
	RUNTIME_V8,
	RUNTIME_HOTSPOT,
	N_RUNTIMES
};

/* Why no frame of it is shown. */
enum runtime_refusal {
	RUNTIME_NOT_REFUSED,
	RUNTIME_UNKNOWN_VERSION,
	RUNTIME_UNLIKE_VERSION, /* structures differ from those of its version (debug builds, patches) */
	RUNTIME_NO_STATE, /* nothing leads to the state of a thread (stripped, unknown machine code) */
	RUNTIME_FREE_THREADED,
	RUNTIME_NO_INTERPRETER, /* the function of its interpreter is not found */
	RUNTIME_NO_METADATA, /* built or stripped so that nothing says where its fields are (Electron, Deno) */
	RUNTIME_COMPRESSED, /* pointers to its objects have 32 bits */
	N_RUNTIME_REFUSALS
};

/* How the kernel half comes from a thread to the runtime's state of it: a pointer that lies */
enum runtime_state_by {
	RUNTIME_BY_NOTHING,
	RUNTIME_BY_TP,	     /* at the thread pointer + `at`, which is signed */
	RUNTIME_BY_GOT,	     /* at the thread pointer + the signed word at `at` */
	RUNTIME_BY_GOT_PAIR, /* in the thread-local block of a module: {module, offset} at `at` */
	RUNTIME_BY_KEY,	     /* in the value of the pthread key that the u32 at `at` has */
	RUNTIME_BY_ADDRESS,  /* at `at`, the same for all threads: of the one that runs */
	N_RUNTIME_STATES_BY
};

struct runtime_state {
	uint16_t by; /* enum runtime_state_by */
	uint64_t at; /* an ELF virtual address; BY_TP: an offset */
};

enum { RUNTIME_N_STATES = 2 };
enum { RUNTIME_MAX_OFFSETS = 64, RUNTIME_MAX_ADDRESSES = 8 };
/* An offset of a field that this version does not have. */
#define RUNTIME_NO_FIELD UINT16_MAX
#define RUNTIME_VERSION(major, minor, patch) ((uint32_t)(major) << 16 | (minor) << 8 | (patch))
#define RUNTIME_MAJOR(version) ((version) >> 16)
#define RUNTIME_MINOR(version) ((version) >> 8 & 0xff)
#define RUNTIME_PATCH(version) ((version)&0xff)

/* Offsets and addresses by an enum of their runtime's header. */
struct runtime_record {
	uint16_t kind, refusal; /* enum runtime_kind, runtime_refusal */
	uint32_t version;	/* RUNTIME_VERSION; patch 0 where the file does not say it */
	struct runtime_state states[RUNTIME_N_STATES]; /* the next where the one before gives 0 */
	uint64_t addresses[RUNTIME_MAX_ADDRESSES];     /* ELF virtual addresses; 0: not known */
	uint16_t offsets[RUNTIME_MAX_OFFSETS];	       /* bytes; RUNTIME_NO_FIELD */
};

/* "python"; "" for a number that is none. */
const char *runtime_name(uint32_t kind);
/* What it runs, as the label `language` has it: "javascript" of V8. */
const char *runtime_language(uint32_t kind);
/* A sentence for a person, without its full stop; "" when nothing is refused. */
const char *runtime_refusal_text(uint32_t refusal);
