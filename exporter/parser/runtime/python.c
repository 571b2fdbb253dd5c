/* SPDX-License-Identifier: Apache-2.0
 *
 * CPython in an ELF file. Its version comes from the file: from 3.13 on the file describes its own structures, from 3.11 on it has the
 * number, before that the size of _PyRuntime is a version's own. Offsets of a table count only when the file's own list of a code
 * object's members (PyCode_Type.tp_members) agrees: what was built with other options is refused, not guessed.
 */
#include "exporter/parser/runtime/python.h"
#include "exporter/parser/runtime/python_layouts.h"
#include "exporter/parser/runtime/runtime_symbols.h"

enum {
	MAX_MEMBERS = 64, /* of a code object; versions have 13 to 20 */
	MEMBER_BYTES = 40,
	MEMBER_OFFSET_AT = 16,
	TYPE_BASIC_SIZE_AT = 32,
	TYPE_MEMBERS_AT = 240,
	MAX_MEMBER_NAME = 32,
};

enum symbol {
	RUNTIME,
	CODE_TYPE,
	STR_TYPE,
	BYTES_TYPE,
	VERSION,
	EVAL,
	GET_STATE,
	GET_UNCHECKED,
	GET_STATE_OF_KEY,
	N_SYMBOLS
};

struct python {
	const struct elf_file *f;
	struct elf_image *image;
	struct runtime_record *ret;
	struct runtime_symbol symbols[N_SYMBOLS];
	const struct python_layout *layout; /* NULL: the file describes itself */
	uint64_t code_bytes;
};

static void find_symbols(struct python *p)
{
	const struct runtime_symbol wanted[N_SYMBOLS] = {
		[RUNTIME] = {.name = "_PyRuntime"},
		[CODE_TYPE] = {.name = "PyCode_Type"},
		[STR_TYPE] = {.name = "PyUnicode_Type"},
		[BYTES_TYPE] = {.name = "PyBytes_Type"},
		[VERSION] = {.name = "Py_Version"},
		[EVAL] = {.name = "_PyEval_EvalFrameDefault"},
		[GET_STATE] = {.name = "_PyThreadState_GetCurrent"},
		[GET_UNCHECKED] = {.name = "PyThreadState_GetUnchecked"},
		[GET_STATE_OF_KEY] = {.name = "PyGILState_GetThisThreadState"},
	};
	const struct elf_file *f = p->f;
	GElf_Shdr section;

	memcpy(p->symbols, wanted, sizeof(wanted));
	runtime_symbols_find(f, f->dynsym, p->symbols, N_SYMBOLS);
	if (p->symbols[CODE_TYPE].addr || !elf_file_section(f, ".PyRuntime", &section))
		return;
	/* A program that exports nothing. */
	runtime_symbols_find(f, f->symtab, p->symbols, N_SYMBOLS);
	if (!p->symbols[RUNTIME].addr)
		p->symbols[RUNTIME].addr = section.sh_addr;
}

static bool refuse(struct python *p, enum runtime_refusal why)
{
	p->ret->refusal = why;
	return false;
}

/* 3.13 and later. */
static bool read_own_offsets(struct python *p, struct cursor c)
{
	struct cursor at = c;
	uint64_t number, is_free_threaded;
	int r;

	cursor_skip(&at, strlen(PYTHON_COOKIE));
	number = cursor_u64(&at);
	is_free_threaded = cursor_u64(&at);
	p->ret->version = (uint32_t)number >> 8; /* the lowest byte: alpha, beta, release */
	if (is_free_threaded)
		return refuse(p, RUNTIME_FREE_THREADED);
	r = RUNTIME_MAJOR(p->ret->version) == 3
		    ? python_layout_read(c, RUNTIME_MINOR(p->ret->version), p->ret->offsets)
		    : -ENOTSUP;
	if (r < 0)
		return refuse(p, r == -ENOTSUP ? RUNTIME_UNKNOWN_VERSION : RUNTIME_UNLIKE_VERSION);
	p->code_bytes = p->ret->offsets[PYTHON_CODE_START];
	return true;
}

static bool read_table(struct python *p)
{
	struct cursor c = elf_image_at(p->image, p->symbols[VERSION].addr);

	if (p->symbols[VERSION].addr) { /* from 3.11 on */
		p->ret->version = cursor_u32(&c) >> 8;
		if (RUNTIME_MAJOR(p->ret->version) == 3)
			p->layout = python_layout_of_minor(RUNTIME_MINOR(p->ret->version));
	} else if (p->symbols[RUNTIME].addr) {
		p->layout = python_layout_of_size(p->symbols[RUNTIME].bytes);
	} else if (p->symbols[EVAL].addr) {
		p->layout = python_layout_of_minor(6);
	}
	if (!p->layout)
		return refuse(p, RUNTIME_UNKNOWN_VERSION);
	if (!p->ret->version)
		p->ret->version = RUNTIME_VERSION(3, p->layout->minor, 0);
	if (p->layout->runtime_bytes && p->layout->runtime_bytes != p->symbols[RUNTIME].bytes)
		return refuse(p, RUNTIME_UNLIKE_VERSION);
	memcpy(p->ret->offsets, p->layout->offsets, sizeof(p->layout->offsets));
	p->code_bytes = p->layout->code_bytes;
	return true;
}

static bool read_layout(struct python *p)
{
	struct cursor c = elf_image_at(p->image, p->symbols[RUNTIME].addr);
	size_t n = strlen(PYTHON_COOKIE);

	if (p->symbols[RUNTIME].addr && cursor_left(&c) >= n &&
		memcmp(c.pos, PYTHON_COOKIE, n) == 0)
		return read_own_offsets(p, c);
	return read_table(p);
}

static const struct {
	const char *member;
	enum python_offset what;
} members[] = {
	{"co_firstlineno", PYTHON_CODE_FIRST_LINE},
	{"co_filename", PYTHON_CODE_FILE},
	{"co_name", PYTHON_CODE_NAME},
	{"co_qualname", PYTHON_CODE_QUALNAME},
	{"co_linetable", PYTHON_CODE_LINES},
};
enum { N_NEEDED_MEMBERS = 3 }; /* the first of them; later versions list more */

/* Does one entry of tp_members agree? *known gets its bit when it is one of ours. */
static bool member_agrees(const struct python *p, uint64_t at, const char *name, uint32_t *known)
{
	struct cursor c = elf_image_at(p->image, at);
	uint64_t off;

	cursor_skip(&c, MEMBER_OFFSET_AT);
	off = cursor_u64(&c);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (strcmp(name, members[i].member) != 0)
			continue;
		*known |= 1U << i;
		return !c.error && off == p->ret->offsets[members[i].what];
	}
	return true;
}

/* The file's own description of a code object, which scripts see. */
static bool code_agrees(const struct python *p)
{
	uint64_t type = p->symbols[CODE_TYPE].addr, at;
	struct cursor c = elf_image_at(p->image, type + TYPE_BASIC_SIZE_AT);
	uint32_t known = 0, needed = (1U << N_NEEDED_MEMBERS) - 1;

	/* Without its symbol there is no second opinion; a file that describes itself needs none. */
	if (!type)
		return !p->layout;
	if (cursor_u64(&c) != p->code_bytes)
		return false;
	at = elf_image_pointer(p->image, type + TYPE_MEMBERS_AT);
	for (uint32_t i = 0; i < MAX_MEMBERS; i++, at += MEMBER_BYTES) {
		uint64_t name_at = elf_image_pointer(p->image, at);
		char text[MAX_MEMBER_NAME + 1] = "";
		const char *name;
		size_t n;

		name = name_at ? elf_image_string(p->image, name_at, MAX_MEMBER_NAME, &n) : NULL;
		if (!name)
			break;
		memcpy(text, name, n);
		if (!member_agrees(p, at, text, &known))
			return false;
	}
	return (known & needed) == needed;
}

/*
 * A thread that holds the lock of its interpreter (GIL) has its state in a thread-local variable from 3.12 on. The other state is that of
 * a thread which has let the lock go, to compute in C or to wait: a pthread key, from 3.15 on a variable too. Up to 3.11 it is the key
 * for both.
 */
static bool find_current(const struct python *p, struct runtime_state *ret)
{
	static const enum symbol getters[] = {GET_STATE, GET_UNCHECKED};

	for (size_t i = 0; i < ARRAY_SIZE(getters); i++)
		if (p->symbols[getters[i]].addr &&
			runtime_state_of_code(p->image, p->symbols[getters[i]].addr, ret))
			return true;
	return false;
}

/* The key's number lies behind a word that says whether it is in use; that of 3.6 is a variable of its own. */
static bool find_kept(const struct python *p, struct runtime_state *ret)
{
	const struct runtime_symbol *runtime = &p->symbols[RUNTIME];
	uint64_t get = p->symbols[GET_STATE_OF_KEY].addr, at = 0;

	if (get && runtime_state_of_code(p->image, get, ret))
		return true;
	if (p->layout && p->layout->key)
		at = runtime->addr + p->layout->key + sizeof(uint32_t);
	else if (get && runtime->addr) {
		at = runtime_address_of_code(p->image, get, runtime->addr, runtime->bytes);
		at += at ? sizeof(uint32_t) : 0;
	} else if (get) {
		at = runtime_key_of_code(p->image, get);
	}
	*ret = (struct runtime_state) {.by = RUNTIME_BY_KEY, .at = at};
	return at;
}

static void find_states(struct python *p)
{
	struct runtime_state *states = p->ret->states;

	if (RUNTIME_MINOR(p->ret->version) >= 12 && !find_current(p, states++))
		refuse(p, RUNTIME_NO_STATE);
	else if (!find_kept(p, states))
		refuse(p, RUNTIME_NO_STATE);
}

bool python_detect(const struct elf_file *f, struct runtime_record *ret)
{
	_cleanup_elf_image_ struct elf_image image = {0};
	struct python p = {.f = f, .image = &image, .ret = ret};

	find_symbols(&p);
	if (!p.symbols[CODE_TYPE].addr && !p.symbols[RUNTIME].addr)
		return false;
	*ret = (struct runtime_record) {.kind = RUNTIME_PYTHON};
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		ret->offsets[i] = RUNTIME_NO_FIELD;
	ret->addresses[PYTHON_RUNTIME] = p.symbols[RUNTIME].addr;
	ret->addresses[PYTHON_CODE_TYPE] = p.symbols[CODE_TYPE].addr;
	ret->addresses[PYTHON_STR_TYPE] = p.symbols[STR_TYPE].addr;
	ret->addresses[PYTHON_BYTES_TYPE] = p.symbols[BYTES_TYPE].addr;
	ret->addresses[PYTHON_EVAL] = p.symbols[EVAL].addr;
	ret->addresses[PYTHON_EVAL_END] = p.symbols[EVAL].addr + p.symbols[EVAL].bytes;
	/* Only now: the relocations of a large library take time. */
	if (elf_image_open(f, &image) < 0)
		refuse(&p, RUNTIME_NO_STATE);
	else if (read_layout(&p) && !code_agrees(&p))
		refuse(&p, RUNTIME_UNLIKE_VERSION);
	else if (!ret->refusal)
		find_states(&p);
	return true;
}
