/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that every program runs and no call frame information covers: what the C runtime's startup files bring (.init, .fini, the
 * functions of crtstuff.c in gcc's libgcc, which are compiled without tables), procedure linkage tables by lld, which makes
 * none for them, what Go's threads run on where C makes them, and what the kernel returns to from a signal handler (musl's). It is
 * told by its bytes. The first two would not matter, were they not run when a file's first and last pages are touched: so it is where
 * page faults are.
 */
#include "exporter/parser/unwind.h"
#include "lib/base/cleanup.h"

/*
 * Bytes in hex, ? any digit. A letter says what holds from the next byte on:
 *   R  the return address is on top of the stack
 *   S  8 bytes are above it; T: they are the saved frame pointer; U: and the frame pointer is set
 *   V  16 bytes are above it
 *   N  a signal frame's ucontext is on top of the stack. From one byte before on: a return is looked up by that
 *   G  16 bytes are above it: the saved rbx and the saved frame pointer; H to K: and 8 to 32 more bytes
 */
static const char *const patterns[] = {
	/* _init, by gcc and by lld */
	"R4883ec08S488b05????????4885c07402ffd04883c408Rc3",
	"R4883ec08S488b05????????4885c07405e8????????4883c408Rc3",
	/* _fini */
	"R4883ec08S4883c408Rc3",
	/* deregister_tm_clones, register_tm_clones: position-independent, then not */
	"R488d3d????????488d05????????4839f87415488b05????????4885c07409ffe00f1f8000000000c3",
	"R488d3d????????488d35????????4829fe4889f048c1ee3f48c1f8034801c648d1fe7414488b05????????"
	"4885c0"
	"7408ffe0660f1f440000c3",
	"Rb8????????483d????????7413b8????????4885c07409bf????????ffe06690c3",
	"Rbe????????4881ee????????4889f048c1ee3f48c1f8034801c648d1fe7411b8????????4885c07407bf?????"
	"???"
	"ffe0c3",
	/* __do_global_dtors_aux, the same */
	"R803d????????00752b55T48833d????????004889e5U740c488b3d????????e8????????e8????????c605???"
	"?????"
	"015dRc30f1f00c3",
	"R803d????????00751355T4889e5Ue8????????c605????????015dRc390c3",
	/* frame_dummy */
	"Rf30f1efae9????????",
	"Rf30f1efaeb??",
	/* Go's crosscall1, on which threads that C makes for Go's scheduler run; earlier crosscall_amd64 */
	"R53S55G4154H4155I4156J4157K4889fb4889d7ffd6ffd3415fJ415eI415dH415cG5dS5bRc3",
	/* musl's __restore_rt, and as others write it */
	"N48c7c00f0000000f05",
	"Nb80f0000000f05",
};
/* What trampolines end in, and where it is in them. They lie anywhere in a C library without tables; the others near its ends. */
static const uint8_t sigreturn[] = {0x0f, 0, 0, 0, 0x0f, 0x05};
static const uint8_t sigreturn_at[] = {3, 1};
enum { MAX_NEAR_BYTES = 64 << 10 };
/* The first entry of a procedure linkage table, and the others. */
static const char plt_first[] = "Sff35????????Vff25????????0f1f4000";
static const char plt_entry[] = "ff25????????68????????e9????????";
enum { PLT_BYTES = 16, PLT_PUSHED = 11 };

struct gap {
	const struct cfi_machine *machine;
	const uint8_t *code;
	size_t n;
	uint64_t vaddr;
	cfi_row_fn row;
	void *ctx;
	uint64_t told; /* address up to which rows were given */
};

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_state(char c)
{
	return c >= 'G' && c <= 'V';
}

static struct unwind_rule rule_of(const struct gap *g, char state)
{
	bool pushed = state <= 'K', saved = pushed || state == 'T' || state == 'U',
	     by_fp = state == 'U';
	int32_t above = pushed ? 16 + 8 * (state - 'G') : state == 'R' ? 0 : state == 'V' ? 16 : 8;

	if (state == 'N')
		return (struct unwind_rule) {.cfa = UNWIND_CFA_SIGNAL, .reg = g->machine->sp};
	return (struct unwind_rule) {
		.cfa = UNWIND_CFA_REG,
		.reg = by_fp ? g->machine->fp : g->machine->sp,
		.ra = UNWIND_AT_CFA,
		.fp = saved ? UNWIND_AT_CFA : UNWIND_SAME,
		.bx = pushed ? UNWIND_AT_CFA : UNWIND_SAME,
		.off = above + 8,
		.ra_off = -8,
		.fp_off = pushed  ? -24
			  : saved ? -16
				  : 0,
		.bx_off = pushed ? -16 : 0,
	};
}

/* The length of what the pattern says when the code at `at` is that, else 0. */
static size_t match(const struct gap *g, size_t at, const char *pattern)
{
	size_t n = 0;

	for (const char *p = pattern; *p; p++) {
		if (is_state(*p))
			continue;
		if (at + n >= g->n)
			return 0;
		if (*p != '?' && (digit(p[0]) << 4 | digit(p[1])) != g->code[at + n])
			return 0;
		p++;
		n++;
	}
	return n;
}

static void put_rows(const struct gap *g, size_t at, const char *pattern)
{
	size_t digits = 0;

	for (const char *p = pattern; *p; p++) {
		struct unwind_rule rule;
		uint64_t begin = g->vaddr + at + digits / 2;

		if (!is_state(*p)) {
			digits++;
			continue;
		}
		rule = rule_of(g, *p);
		g->row(g->ctx, begin - (*p == 'N' && begin > g->told), &rule);
	}
}

/* A whole table from its first entry on: its length, or 0. */
static size_t put_plt(const struct gap *g, size_t at)
{
	const struct unwind_rule entry = {.cfa = UNWIND_CFA_PLT,
		.reg = g->machine->sp,
		.ra = UNWIND_AT_CFA,
		.off = 8,
		.d1 = PLT_PUSHED,
		.ra_off = -8};
	size_t n = match(g, at, plt_first), end = at + n;

	while (n && match(g, end, plt_entry))
		end += PLT_BYTES;
	if (end <= at + n || (g->vaddr + at) % PLT_BYTES)
		return 0;
	put_rows(g, at, plt_first);
	g->row(g->ctx, g->vaddr + at + n, &entry);
	return end - at;
}

static size_t put_known(const struct gap *g, size_t at)
{
	size_t n = put_plt(g, at);

	for (size_t i = 0; !n && i < ARRAY_SIZE(patterns); i++) {
		n = match(g, at, patterns[i]);
		if (n)
			put_rows(g, at, patterns[i]);
	}
	return n;
}

/* What there is at `at` has its rows, and what follows none. Where to go on: behind it, or a byte further when it is nothing. */
static size_t put_and_pass(struct gap *g, size_t at)
{
	size_t found = put_known(g, at);

	if (found) {
		g->told = g->vaddr + at + found;
		g->row(g->ctx, g->told, NULL);
	}
	return at + (found ? found : 1);
}

static void put_trampolines(struct gap *g, size_t at)
{
	const uint8_t *found;

	while (at < g->n &&
		(found = memmem(g->code + at, g->n - at, sigreturn, sizeof(sigreturn)))) {
		size_t here = (size_t)(found - g->code), from = at;

		for (size_t i = 0; at <= here && i < ARRAY_SIZE(sigreturn_at); i++)
			if (here - from >= sigreturn_at[i])
				at = put_and_pass(g, here - sigreturn_at[i]);
		if (at <= here)
			at = here + 1;
	}
}

void unwind_gap(const struct cfi_machine *machine, const uint8_t *code, size_t n, uint64_t vaddr,
	cfi_row_fn row, void *ctx)
{
	struct gap g = {machine, code, n, vaddr, row, ctx, .told = vaddr};
	size_t at = 0;

	if (machine->ra_is_reg)
		return;
	while (at < MIN(n, (size_t)MAX_NEAR_BYTES))
		at = put_and_pass(&g, at);
	put_trampolines(&g, at);
}
