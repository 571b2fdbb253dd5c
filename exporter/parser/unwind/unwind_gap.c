/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that every program runs and no call frame information covers: what the C runtime's startup files bring (.init, .fini, the
 * functions of crtstuff.c in gcc's libgcc, which are compiled without tables), procedure linkage tables by lld, which makes
 * none for them, the code that Go's threads start in where C makes them, and the code that a signal handler returns to (musl's). The parser
 * knows it by its bytes. The first two matter because they run when a file's first and last pages are touched, which is where
 * page faults are. All other code is followed (unwind_flow.h).
 */
#include "exporter/parser/unwind/unwind.h"
#include "exporter/parser/unwind/unwind_flow.h"
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

/* Code that the parser knows by its bytes. */
struct known {
	size_t at, n;
	const char *pattern; /* NULL: a procedure linkage table */
};
enum { MAX_KNOWN = 256 };

struct gap {
	const struct unwind_gap *u;
	bool begins[UINT8_MAX + 1]; /* a pattern does so */
	struct known known[MAX_KNOWN];
	size_t n_known;
	uint64_t known_to; /* address up to which such code is known */
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
		return (struct unwind_rule) {.cfa = UNWIND_CFA_SIGNAL, .reg = g->u->machine->sp};
	return (struct unwind_rule) {
		.cfa = UNWIND_CFA_REG,
		.reg = by_fp ? g->u->machine->fp : g->u->machine->sp,
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
		if (at + n >= g->u->n)
			return 0;
		if (*p != '?' && (digit(p[0]) << 4 | digit(p[1])) != g->u->code[at + n])
			return 0;
		p++;
		n++;
	}
	return n;
}

static void put_row(const struct gap *g, uint64_t vaddr, const struct unwind_rule *rule)
{
	g->u->row(g->u->ctx, vaddr, rule);
}

static void put_rows(const struct gap *g, size_t at, const char *pattern)
{
	size_t digits = 0;

	for (const char *p = pattern; *p; p++) {
		struct unwind_rule rule;
		uint64_t begin = g->u->vaddr + at + digits / 2;

		if (!is_state(*p)) {
			digits++;
			continue;
		}
		rule = rule_of(g, *p);
		put_row(g, begin - (*p == 'N' && begin > g->known_to), &rule);
	}
}

static void put_plt(const struct gap *g, size_t at)
{
	const struct unwind_rule entry = {.cfa = UNWIND_CFA_PLT,
		.reg = g->u->machine->sp,
		.ra = UNWIND_AT_CFA,
		.off = 8,
		.d1 = PLT_PUSHED,
		.ra_off = -8};

	put_rows(g, at, plt_first);
	put_row(g, g->u->vaddr + at + PLT_BYTES, &entry);
}

/* The rows of what is known, and none behind it. */
static void put_known(struct gap *g, const struct known *k)
{
	if (k->pattern)
		put_rows(g, k->at, k->pattern);
	else
		put_plt(g, k->at);
	g->known_to = g->u->vaddr + k->at + k->n;
	put_row(g, g->known_to, NULL);
}

static void note_begin(struct gap *g, const char *pattern)
{
	const char *p = pattern + is_state(*pattern);

	g->begins[digit(p[0]) << 4 | digit(p[1])] = true;
}

/* The length of a whole table from its first entry on, or 0. */
static size_t match_plt(const struct gap *g, size_t at)
{
	size_t n = match(g, at, plt_first), end = at + n;

	while (n && match(g, end, plt_entry))
		end += PLT_BYTES;
	return end <= at + n || (g->u->vaddr + at) % PLT_BYTES ? 0 : end - at;
}

/* Notes what there is at `at`. Where to go on: behind it, or a byte further when it is nothing. */
static size_t find_at(struct gap *g, size_t at)
{
	struct known k = {.at = at};

	if (!g->begins[g->u->code[at]])
		return at + 1;
	k.n = match_plt(g, at);
	for (size_t i = 0; !k.n && i < ARRAY_SIZE(patterns); i++) {
		k.pattern = patterns[i];
		k.n = match(g, at, patterns[i]);
	}
	if (k.n && g->n_known < MAX_KNOWN)
		g->known[g->n_known++] = k;
	return at + (k.n ? k.n : 1);
}

static void find_trampolines(struct gap *g, size_t at)
{
	const struct unwind_gap *u = g->u;
	const uint8_t *found;

	while (at < u->n &&
		(found = memmem(u->code + at, u->n - at, sigreturn, sizeof(sigreturn)))) {
		size_t here = (size_t)(found - u->code), from = at;

		for (size_t i = 0; at <= here && i < ARRAY_SIZE(sigreturn_at); i++)
			if (here - from >= sigreturn_at[i])
				at = find_at(g, here - sigreturn_at[i]);
		if (at <= here)
			at = here + 1;
	}
}

/* Follows bytes [at, at + n). False: that is not to be had, what is known by its bytes is all there is. */
static bool follow(const struct gap *g, size_t at, size_t n)
{
	const struct unwind_gap *u = g->u;
	const struct unwind_flow_code code = {.code = u->code + at,
		.n = n,
		.vaddr = u->vaddr + at,
		.data = u->data,
		.next_named = u->next_named,
		.ctx = u->data_ctx};

	if (!u->flow || unwind_flow_begin(u->flow, &code) < 0)
		return false;
	for (size_t i = 0; i < g->n_known; i++) {
		const struct known *k = &g->known[i];

		if (k->at < at + n && k->at + k->n > at)
			unwind_flow_take(u->flow, k->at > at ? k->at - at : 0,
				k->at + k->n - MAX(k->at, at));
	}
	unwind_flow_run(u->flow);
	return true;
}

/* Rows of bytes [at, at + n), which were followed or not; *next is the first that is known by its bytes and has none yet. */
static void put_piece(struct gap *g, size_t at, size_t n, size_t *next)
{
	bool is_followed = follow(g, at, n);
	unsigned last = 0;
	size_t i = at;

	while (i < at + n) {
		const struct known *k = *next < g->n_known ? &g->known[*next] : NULL;
		size_t end = is_followed ? at + unwind_flow_next(g->u->flow, i - at) : at + n;
		unsigned number = is_followed ? unwind_flow_at(g->u->flow, i - at) : 0;

		if (k && k->at == i) {
			put_known(g, k);
			(*next)++;
			last = 0;
			i += k->n;
			continue;
		}
		if (number != last) {
			struct unwind_rule rule = number ? unwind_flow_rule(g->u->flow, number)
							 : (struct unwind_rule) {0};

			put_row(g, g->u->vaddr + i, number ? &rule : NULL);
			*g->u->ret_followed |= number && number != UNWIND_FLOW_NO_FP;
		}
		last = number;
		i = k ? MIN(end, k->at) : end;
	}
	if (last)
		put_row(g, g->u->vaddr + at + n, NULL);
}

void unwind_gap(const struct unwind_gap *u)
{
	struct gap g = {.u = u, .known_to = u->vaddr};
	size_t at = 0, next = 0, piece = u->flow ? u->flow_bytes : u->n;

	if (u->machine->ra_is_reg)
		return;
	note_begin(&g, plt_first);
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		note_begin(&g, patterns[i]);
	while (at < MIN(u->n, (size_t)MAX_NEAR_BYTES))
		at = find_at(&g, at);
	find_trampolines(&g, at);
	for (at = 0; at < u->n; at += piece)
		put_piece(&g, at, MIN(u->n - at, piece), &next);
}
