/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiler and language of a file.
 */
#include "exporter/parser/elf/elf_toolchain.h"
#include "lib/base/str.h"
#include <dwarf.h>
#include <string.h>

enum {
	MAX_COMMENT_BYTES = 64 << 10,
	MAX_TEXTS_BYTES = 32 << 20,
	CXX_SHARE = 8, /* of the functions one in so many has a C++ name in a program of C++ */
};

/* In the text of a producer or a comment. The more special come first: clang's text is in rustc's comments too. */
static const struct {
	const char *text;
	enum toolchain_compiler compiler;
} producers[] = {
	{"rustc", TOOLCHAIN_RUSTC},
	{"Go cmd/compile", TOOLCHAIN_GO},
	{"The Glorious Glasgow Haskell", TOOLCHAIN_GHC},
	{"GHC ", TOOLCHAIN_GHC},
	{"ldc version", TOOLCHAIN_LDC},
	{"LDC", TOOLCHAIN_LDC},
	{"Digital Mars D", TOOLCHAIN_DMD},
	{"Free Pascal", TOOLCHAIN_FPC},
	{"FPC ", TOOLCHAIN_FPC},
	{"Swift", TOOLCHAIN_SWIFTC},
	{"zig ", TOOLCHAIN_ZIG},
	{"Intel(R)", TOOLCHAIN_ICC},
	{"clang version", TOOLCHAIN_CLANG},
	{"GNU ", TOOLCHAIN_GCC},
	{"GCC:", TOOLCHAIN_GCC},
};

static enum toolchain_compiler compiler_of_text(const char *text, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(producers); i++)
		if (memmem(text, n, producers[i].text, strlen(producers[i].text)))
			return producers[i].compiler;
	return TOOLCHAIN_NO_COMPILER;
}

static enum toolchain_language language_of_dwarf(uint64_t language)
{
	switch (language) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11: return LANGUAGE_C;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14: return LANGUAGE_CXX;
	case DW_LANG_Rust: return LANGUAGE_RUST;
	case DW_LANG_Go: return LANGUAGE_GO;
	case DW_LANG_OCaml: return LANGUAGE_OCAML;
	case DW_LANG_Haskell: return LANGUAGE_HASKELL;
	case DW_LANG_D: return LANGUAGE_D;
	case DW_LANG_Ada83:
	case DW_LANG_Ada95: return LANGUAGE_ADA;
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08: return LANGUAGE_FORTRAN;
	case DW_LANG_Pascal83: return LANGUAGE_PASCAL;
	case DW_LANG_Swift: return LANGUAGE_SWIFT;
	case DW_LANG_Mips_Assembler: return LANGUAGE_ASSEMBLER;
	default: return LANGUAGE_NONE;
	}
}

enum toolchain_compiler elf_toolchain_compiler(const char *producer)
{
	return producer ? compiler_of_text(producer, strlen(producer)) : TOOLCHAIN_NO_COMPILER;
}

void elf_toolchain_vote(
	struct toolchain_votes *v, uint64_t language, enum toolchain_compiler compiler)
{
	enum toolchain_language l = language_of_dwarf(language);

	/* The start-up code of libc speaks for no program. */
	if (l == LANGUAGE_ASSEMBLER)
		return;
	v->languages[l]++;
	v->compilers[compiler]++;
}

static uint16_t most(const uint32_t *counts, uint16_t n)
{
	uint16_t best = 0;

	for (uint16_t i = 1; i < n; i++)
		if (counts[i] && (!best || counts[i] > counts[best]))
			best = i;
	return best;
}

/*
 * A function that every program of a language has, and no other one. Fortran's are of the runtimes that are linked statically:
 * MAIN__ is also in programs in C that call Fortran (R has an empty one).
 */
static const struct {
	const char *name;
	enum toolchain_language language;
} marks[] = {
	{"rust_begin_unwind", LANGUAGE_RUST},
	{"rust_eh_personality", LANGUAGE_RUST},
	{"__rust_alloc", LANGUAGE_RUST},
	{"hs_main", LANGUAGE_HASKELL},
	{"stg_upd_frame_info", LANGUAGE_HASKELL},
	{"_Dmain", LANGUAGE_D},
	{"adainit", LANGUAGE_ADA},
	{"_gfortran_set_args", LANGUAGE_FORTRAN},
	{"_FortranAProgramStart", LANGUAGE_FORTRAN},
	{"for_rtl_init_", LANGUAGE_FORTRAN},
	{"FPC_INITIALIZEUNITS", LANGUAGE_PASCAL},
	{"NimMain", LANGUAGE_NIM},
	{"NimMainModule", LANGUAGE_NIM},
	{"__crystal_main", LANGUAGE_CRYSTAL},
	{"runtime.rt0_go", LANGUAGE_GO},
	{"caml_startup", LANGUAGE_OCAML},
	{"caml_program", LANGUAGE_OCAML},
};

/* Rust's legacy names look like those of C++ and end in a hash. */
static bool is_rust(const char *name, size_t n)
{
	return (n > 2 && name[0] == '_' && name[1] == 'R') ||
	       (n > 24 && name[n - 1] == 'E' && memcmp(name + n - 20, "17h", 3) == 0);
}

static enum toolchain_language language_of_symbols(const struct elf_symbols *symbols)
{
	size_t n_cxx = 0, n_rust = 0;

	for (size_t i = 0; i < symbols->n; i++) {
		const char *name = symbols->items[i].name;

		if (symbols->items[i].plt)
			continue;
		if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R')) {
			if (is_rust(name, strlen(name)))
				n_rust++;
			else
				n_cxx += name[1] == 'Z';
			continue;
		}
		for (size_t m = 0; m < ARRAY_SIZE(marks); m++)
			if (name[0] == marks[m].name[0] && strcmp(name, marks[m].name) == 0)
				return marks[m].language;
	}
	if (n_rust > n_cxx)
		return LANGUAGE_RUST;
	return n_cxx * CXX_SHARE > symbols->n ? LANGUAGE_CXX : LANGUAGE_NONE;
}

/* A library that only programs of one language need. */
static const struct {
	const char *prefix;
	enum toolchain_language language;
} libraries[] = {
	{"libHSrts", LANGUAGE_HASKELL},
	{"libHSbase", LANGUAGE_HASKELL},
	{"libgnat-", LANGUAGE_ADA},
	{"libgfortran.", LANGUAGE_FORTRAN},
	{"libgphobos.", LANGUAGE_D},
	{"libphobos2.", LANGUAGE_D},
	{"libgo.", LANGUAGE_GO},
	{"libswiftCore.", LANGUAGE_SWIFT},
	{"librustc_driver", LANGUAGE_RUST},
	{"libstd-", LANGUAGE_RUST},
	{"libstdc++.", LANGUAGE_CXX},
	{"libc++.", LANGUAGE_CXX},
};

/* By the first row of the table that fits a library it needs. */
static enum toolchain_language language_of_libraries(const struct elf_file *f)
{
	size_t best = ARRAY_SIZE(libraries);
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(f, ".dynamic", &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Dyn dyn;

	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		const char *name = dyn.d_tag == DT_NEEDED
					   ? elf_strptr(f->elf, shdr.sh_link, dyn.d_un.d_val)
					   : NULL;

		for (size_t l = 0; name && l < best; l++)
			if (str_starts_with(name, libraries[l].prefix))
				best = l;
	}
	return best < ARRAY_SIZE(libraries) ? libraries[best].language : LANGUAGE_NONE;
}

/*
 * What a runtime says or reads at run time, and so stays in a stripped program. Of several the first counts. Each is looked for by two
 * bytes of it that are rare next to each other, at `rare`.
 */
static const struct {
	const char *text;
	unsigned rare;
	enum toolchain_language language;
} texts[] = {
	{"/library/std/src/", 7, LANGUAGE_RUST},
	{"/library/core/src/", 7, LANGUAGE_RUST},
	{"GHCRTS", 1, LANGUAGE_HASKELL},
	{"CAMLRUNPARAM", 3, LANGUAGE_OCAML},
	{"adainit", 2, LANGUAGE_ADA},
};

typedef uint8_t lane __attribute__((vector_size(16)));

/* Where both bytes are those that are rare in a text. */
static inline lane rare_at(lane first, lane second, size_t text)
{
	const char *rare = texts[text].text + texts[text].rare;

	return (lane)(first == (uint8_t)rare[0]) & (lane)(second == (uint8_t)rare[1]);
}

/* The first place from `at` on where two rare bytes may begin, in steps of a lane; n: there is none in whole lanes. */
static size_t next_rare(const uint8_t *p, size_t n, size_t at)
{
	_Static_assert(ARRAY_SIZE(texts) == 5,
		"each is asked for, but for the first, which is as the second");
	for (; n - at > sizeof(lane); at += sizeof(lane)) {
		lane first, second, any;
		uint64_t halves[2];

		memcpy(&first, p + at, sizeof(first));
		memcpy(&second, p + at + 1, sizeof(second));
		any = rare_at(first, second, 1) | rare_at(first, second, 2) |
		      rare_at(first, second, 3) | rare_at(first, second, 4);
		memcpy(halves, &any, sizeof(halves));
		if (halves[0] | halves[1])
			return at;
	}
	return n;
}

/* The number of the first of the texts before `best` whose rare bytes are at `at`; `best`: none is. */
static size_t text_at(const uint8_t *p, size_t n, size_t at, size_t best)
{
	for (size_t i = 0; i < best; i++) {
		size_t bytes = strlen(texts[i].text), rare = texts[i].rare;

		if (at >= rare && at - rare <= n && bytes <= n - (at - rare) &&
			memcmp(p + at - rare, texts[i].text, bytes) == 0)
			return i;
	}
	return best;
}

/* In one pass: 32 MiB in five of memmem took a third of the time that libLLVM's symbol file takes. */
static size_t first_text(const uint8_t *p, size_t n)
{
	size_t best = ARRAY_SIZE(texts);

	for (size_t at = 0; at < n && best;) {
		size_t lane_at = n - at > sizeof(lane) ? next_rare(p, n, at) : at;
		size_t end = MIN(lane_at + sizeof(lane), n);

		/* Behind the last whole lane there are few bytes. */
		if (lane_at == n)
			lane_at = MAX(at, n - MIN(n, 2 * sizeof(lane)));
		for (at = lane_at; at < end && best; at++)
			best = text_at(p, n, at, best);
	}
	return best;
}

static enum toolchain_language language_of_texts(const struct elf_file *f)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".rodata", &shdr));
	size_t i = data ? first_text(data->d_buf, MIN(data->d_size, (size_t)MAX_TEXTS_BYTES))
			: ARRAY_SIZE(texts);

	return i < ARRAY_SIZE(texts) ? texts[i].language : LANGUAGE_NONE;
}

static bool is_go(const struct elf_file *f)
{
	GElf_Shdr shdr;

	return f->go_build_id[0] || elf_file_section(f, ".gopclntab", &shdr) ||
	       elf_file_section(f, ".go.buildinfo", &shdr);
}

static enum toolchain_language language_of(const struct elf_file *f,
	const struct elf_symbols *symbols, const struct toolchain_votes *votes)
{
	enum toolchain_language l, by_symbols;

	if (is_go(f))
		return LANGUAGE_GO;
	if (symbols->ocaml_frametable)
		return LANGUAGE_OCAML;
	l = by_symbols = language_of_symbols(symbols);
	if (l == LANGUAGE_NONE || l == LANGUAGE_CXX)
		l = (enum toolchain_language)most(votes->languages, N_LANGUAGES);
	if (l == LANGUAGE_NONE)
		l = by_symbols;
	if (l == LANGUAGE_NONE)
		l = language_of_libraries(f);
	/* A stripped program; with a table of symbols the marks would have been in it. */
	if ((l == LANGUAGE_NONE || l == LANGUAGE_CXX) && !f->symtab) {
		enum toolchain_language by_texts = language_of_texts(f);

		l = by_texts == LANGUAGE_NONE ? l : by_texts;
	}
	return l == LANGUAGE_NONE ? LANGUAGE_C : l;
}

static enum toolchain_compiler compiler_of_comment(const struct elf_file *f)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".comment", &shdr));

	return data ? compiler_of_text(data->d_buf, MIN(data->d_size, (size_t)MAX_COMMENT_BYTES))
		    : TOOLCHAIN_NO_COMPILER;
}

/* Languages of which one compiler is in use; its runtime in C is built by another one. */
static enum toolchain_compiler only_compiler_of(enum toolchain_language l)
{
	switch (l) {
	case LANGUAGE_RUST: return TOOLCHAIN_RUSTC;
	case LANGUAGE_OCAML: return TOOLCHAIN_OCAML;
	case LANGUAGE_HASKELL: return TOOLCHAIN_GHC;
	case LANGUAGE_PASCAL: return TOOLCHAIN_FPC;
	case LANGUAGE_SWIFT: return TOOLCHAIN_SWIFTC;
	case LANGUAGE_NIM: return TOOLCHAIN_NIM;
	case LANGUAGE_CRYSTAL: return TOOLCHAIN_CRYSTAL;
	case LANGUAGE_ZIG: return TOOLCHAIN_ZIG;
	default: return TOOLCHAIN_NO_COMPILER;
	}
}

struct toolchain elf_toolchain(const struct elf_file *f, const struct elf_symbols *symbols,
	const struct toolchain_votes *votes)
{
	enum toolchain_language language = language_of(f, symbols, votes);
	enum toolchain_compiler compiler = only_compiler_of(language);

	if (language == LANGUAGE_GO && is_go(f))
		compiler = TOOLCHAIN_GO;
	if (compiler == TOOLCHAIN_NO_COMPILER)
		compiler = (enum toolchain_compiler)most(votes->compilers, TOOLCHAIN_N_COMPILERS);
	if (compiler == TOOLCHAIN_NO_COMPILER)
		compiler = compiler_of_comment(f);
	return (struct toolchain) {.compiler = compiler, .language = language};
}
