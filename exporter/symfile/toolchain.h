/* SPDX-License-Identifier: Apache-2.0
 *
 * What a binary was made with, as symbol files and labels know it. The numbers are in symbol files: new ones go to the end.
 */
#pragma once
#include <stdint.h>

#define TOOLCHAIN_COMPILERS(X) \
	X(GCC, "gcc")          \
	X(CLANG, "clang")      \
	X(RUSTC, "rustc")      \
	X(GO, "go")            \
	X(OCAML, "ocaml")      \
	X(GHC, "ghc")          \
	X(DMD, "dmd")          \
	X(LDC, "ldc")          \
	X(ICC, "icc")          \
	X(ZIG, "zig")          \
	X(FPC, "fpc")          \
	X(SWIFTC, "swiftc")    \
	X(NIM, "nim")          \
	X(CRYSTAL, "crystal")

#define TOOLCHAIN_LANGUAGES(X) \
	X(C, "c")              \
	X(CXX, "c++")          \
	X(RUST, "rust")        \
	X(GO, "go")            \
	X(OCAML, "ocaml")      \
	X(HASKELL, "haskell")  \
	X(D, "d")              \
	X(ADA, "ada")          \
	X(FORTRAN, "fortran")  \
	X(PASCAL, "pascal")    \
	X(ZIG, "zig")          \
	X(SWIFT, "swift")      \
	X(NIM, "nim")          \
	X(CRYSTAL, "crystal")  \
	X(ASSEMBLER, "assembler")

enum toolchain_compiler {
	TOOLCHAIN_NO_COMPILER,
#define X(name, text) TOOLCHAIN_##name,
	TOOLCHAIN_COMPILERS(X)
#undef X
		TOOLCHAIN_N_COMPILERS
};

enum toolchain_language {
	LANGUAGE_NONE,
#define X(name, text) LANGUAGE_##name,
	TOOLCHAIN_LANGUAGES(X)
#undef X
		N_LANGUAGES
};

struct toolchain {
	uint16_t compiler,
		language; /* enum toolchain_compiler, enum toolchain_language; 0: not known */
};

/* "" when not known, or not a number of the table. */
const char *toolchain_compiler_name(uint16_t compiler);
const char *toolchain_language_name(uint16_t language);
