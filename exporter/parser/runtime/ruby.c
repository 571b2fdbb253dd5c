/* SPDX-License-Identifier: Apache-2.0
 *
 * CRuby in an ELF file. Its version is text in the file, and offsets are of a table by version. All else comes from symbols, or, since
 * distributions strip libraries of them, from the code of functions that extensions are linked to and that are thus always there.
 */
#include "exporter/parser/runtime/ruby.h"
#include "exporter/parser/runtime/ruby_code.h"
#include "exporter/parser/runtime/ruby_layouts.h"
#include "exporter/parser/runtime/runtime_symbols.h"

enum symbol {
	VERSION,
	PROFILE_FRAMES, /* a list of the calling thread's frames, for profilers */
	NAME_OF_ID,
	GLOBAL_STATE, /* up to 2.7 */
	SYMBOLS,
	EXEC,
	RANGE_NEW,
	N_SYMBOLS
};

enum { MAX_VERSION_BYTES = 15 };

struct ruby {
	const struct elf_file *f;
	struct elf_image *image;
	struct runtime_record *ret;
	struct runtime_symbol symbols[N_SYMBOLS];
};

static void find_symbols(struct ruby *r)
{
	const struct runtime_symbol wanted[N_SYMBOLS] = {
		[VERSION] = {.name = "ruby_version"},
		[PROFILE_FRAMES] = {.name = "rb_profile_frames"},
		[NAME_OF_ID] = {.name = "rb_id2str"},
		[GLOBAL_STATE] = {.name = "ruby_current_execution_context_ptr"},
		[SYMBOLS] = {.name = "ruby_global_symbols"},
		[EXEC] = {.name = "rb_vm_exec"},
		[RANGE_NEW] = {.name = RUBY_RANGE_NEW},
	};

	memcpy(r->symbols, wanted, sizeof(wanted));
	runtime_symbols_find(r->f, r->f->dynsym, r->symbols, N_SYMBOLS);
}

static bool refuse(struct ruby *r, enum runtime_refusal why)
{
	r->ret->refusal = why;
	return false;
}

/* One number of at most 3 digits and what follows it. */
static bool take_number(const char **at, const char *end, char behind, uint32_t *ret)
{
	const char *from = *at;

	for (*ret = 0; *at < end && **at >= '0' && **at <= '9' && *at - from < 3; (*at)++)
		*ret = *ret * 10 + (uint32_t)(**at - '0');
	if (*at == from || (behind && (*at == end || **at != behind)))
		return false;
	*at += behind != 0;
	return *ret <= UINT8_MAX;
}

/* "3.3.8"; a preview's has no more. */
static bool read_version(struct ruby *r)
{
	size_t n;
	const char *text =
		elf_image_string(r->image, r->symbols[VERSION].addr, MAX_VERSION_BYTES, &n);
	const char *end = text ? text + n : NULL;
	const struct ruby_layout *layout;
	uint32_t major, minor, patch;

	if (!text || !take_number(&text, end, '.', &major) ||
		!take_number(&text, end, '.', &minor) || !take_number(&text, end, 0, &patch))
		return refuse(r, RUNTIME_UNKNOWN_VERSION);
	r->ret->version = RUNTIME_VERSION(major, minor, patch);
	layout = ruby_layout_of(major, minor);
	if (!layout)
		return refuse(r, RUNTIME_UNKNOWN_VERSION);
	memcpy(r->ret->offsets, layout->offsets, sizeof(layout->offsets));
	return true;
}

/* Up to 2.7 one variable has the state of the thread that runs; then each thread has its own. */
static bool find_state(struct ruby *r)
{
	struct runtime_state *state = &r->ret->states[0];
	const struct runtime_symbol *getter = &r->symbols[PROFILE_FRAMES];

	if (RUNTIME_MAJOR(r->ret->version) == 2) {
		*state = (struct runtime_state) {
			.by = RUNTIME_BY_ADDRESS, .at = r->symbols[GLOBAL_STATE].addr};
		return state->at || refuse(r, RUNTIME_NO_STATE);
	}
	if (!runtime_state_in_code(r->image, getter->addr, getter->bytes, state) ||
		(state->by == RUNTIME_BY_GOT_PAIR && !runtime_needs_glibc(r->f)))
		return refuse(r, RUNTIME_NO_STATE);
	return true;
}

/* The symbol counts more than what the code looks like. */
static bool find_interpreter(struct ruby *r)
{
	const struct runtime_symbol *exec = &r->symbols[EXEC];
	uint64_t *addresses = r->ret->addresses;
	struct ruby_interpreter found = {0};

	if (!ruby_find_interpreter(r->image, r->symbols[RANGE_NEW].addr, &found) ||
		(exec->bytes && exec->addr != found.exec.begin))
		found = (struct ruby_interpreter) {.exec = {exec->addr, exec->addr + exec->bytes}};
	addresses[RUBY_EXEC] = found.exec.begin;
	addresses[RUBY_EXEC_END] = found.exec.end;
	addresses[RUBY_CORE] = found.core.begin;
	addresses[RUBY_CORE_END] = found.core.end;
	return found.exec.begin < found.exec.end || refuse(r, RUNTIME_NO_INTERPRETER);
}

/* What frames can do without. */
static void find_more(struct ruby *r)
{
	uint64_t *symbols = &r->ret->addresses[RUBY_SYMBOLS];

	if (!*symbols)
		*symbols = ruby_find_symbols(r->image, r->symbols[NAME_OF_ID].addr);
}

bool ruby_detect(const struct elf_file *f, struct runtime_record *ret)
{
	_cleanup_elf_image_ struct elf_image image = {0};
	struct ruby r = {.f = f, .image = &image, .ret = ret};

	find_symbols(&r);
	if (!r.symbols[VERSION].addr || !r.symbols[PROFILE_FRAMES].addr)
		return false;
	/* What is not exported. Only now: the table may be large, and other files have no Ruby. */
	runtime_symbols_find(f, f->symtab, r.symbols, N_SYMBOLS);
	*ret = (struct runtime_record) {.kind = RUNTIME_RUBY};
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		ret->offsets[i] = RUNTIME_NO_FIELD;
	if (elf_image_open(f, &image) < 0) {
		refuse(&r, RUNTIME_NO_STATE);
		return true;
	}
	ret->addresses[RUBY_SYMBOLS] = r.symbols[SYMBOLS].addr;
	if (read_version(&r) && find_state(&r) && find_interpreter(&r))
		find_more(&r);
	return true;
}
