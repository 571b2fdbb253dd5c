/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a Java VM, laid by hand as a version lays it: two methods, and a piece of compiled code in which the one has inlined the other.
 * Included behind cmocka.h or in a fuzz target.
 */
#pragma once
#include "exporter/interp/hotspot_code.h"
#include "lib/base/cleanup.h"
#include <errno.h>
#include <string.h>

#define FAKE_BASE 0x7f0000000000ULL
enum {
	FAKE_BYTES = 1 << 16,
	/* Where things lie. */
	FAKE_SEGMENTS = 0x1000,
	FAKE_OUTER =
		0x2000, /* a method; FAKE_PARTS behind each other: its ConstMethod, pool, class, symbols */
	FAKE_INNER = 0x3000,
	FAKE_CONST = 0x100,
	FAKE_POOL = 0x300,
	FAKE_CLASS = 0x500,
	FAKE_SYMBOLS = 0x600,
	FAKE_SYMBOL_BYTES = 0x80,
	FAKE_HEAP = 0x4000,
	FAKE_HEAP_END = 0x8000,
	FAKE_BLOCK = FAKE_HEAP + 0x400,
	FAKE_CODE = 0x200, /* from the blob */
	FAKE_BLOB_BYTES = 0x400,
	FAKE_TABLES = 0x9000,		 /* pcs, then scopes, then methods: immutable or not */
	FAKE_LOWER = FAKE_TABLES + 0x40, /* scopes, then pcs; from 23 on the other way round */
	FAKE_HIGHER = FAKE_LOWER + 0x40, /* behind 4 pcs */
	FAKE_SCOPES_END = FAKE_TABLES + 0x140,
	FAKE_METHODS = FAKE_TABLES + 0x200,
	FAKE_NAME = 0xa000, /* of the kind of blob */
	FAKE_COMPILE_ID = 77,
	FAKE_CALL =
		0x30, /* from the start of the code: where a call in the inlined method returns to */
	FAKE_OWN_CALL = 0x50, /* and one in the outer one */
};

struct fake {
	struct interp_memory m;
	struct runtime_record r;
	struct hotspot_vm vm;
	uint8_t bytes[FAKE_BYTES];
	unsigned n_reads;
	unsigned changes_at,
		changed; /* the reading before which the byte there changes; 0: none does */
};

static inline int fake_read(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct fake *k = arg;
	uint64_t off = addr - FAKE_BASE;

	if (++k->n_reads == k->changes_at)
		k->bytes[k->changed % FAKE_BYTES] ^= 0xff;
	if (off > FAKE_BYTES || bytes > FAKE_BYTES - off)
		return -EFAULT;
	memcpy(to, k->bytes + off, bytes);
	return 0;
}

static inline void fake_put(struct fake *k, uint32_t at, uint64_t value, size_t bytes)
{
	memcpy(k->bytes + at, &value, bytes);
}

static inline uint64_t fake_addr(uint32_t at)
{
	return FAKE_BASE + at;
}

static inline uint64_t fake_symbol(struct fake *k, uint32_t method, unsigned i, const char *text)
{
	uint32_t at = method + FAKE_SYMBOLS + i * FAKE_SYMBOL_BYTES;

	fake_put(k, at + k->vm.symbol_length, strlen(text), 2);
	memcpy(k->bytes + at + k->vm.symbol_body, text, strlen(text));
	return fake_addr(at);
}

static inline void fake_number(struct fake *k, uint32_t *at, uint32_t n)
{
	k->bytes[(*at)++] = (uint8_t)(n + (hotspot_numbers_of(&k->vm) == HOTSPOT_NUMBERS_BIASED));
}

/* Lines: 10 from 0 on, 12 from 5 on. */
static inline void fake_method(
	struct fake *k, uint32_t at, const char *class, const char *name, const char *source)
{
	const struct hotspot_vm *v = &k->vm;
	uint32_t c = at + FAKE_CONST, lines = c + v->const_bytes + 20;

	fake_put(k, at + v->method_const, fake_addr(c), 8);
	fake_put(k, c + v->const_constants, fake_addr(at + FAKE_POOL), 8);
	fake_put(k, c + v->const_code_size, 20, 2);
	fake_put(k, c + v->const_flags, v->const_has_lines, v->const_flags_bytes);
	fake_put(k, c + v->const_name, 1, 2);
	fake_put(k, c + v->const_signature, 2, 2);
	fake_put(k, at + FAKE_POOL + v->pool_holder, fake_addr(at + FAKE_CLASS), 8);
	fake_put(k, at + FAKE_CLASS + v->klass_name, fake_symbol(k, at, 0, class), 8);
	fake_put(k, at + FAKE_POOL + v->pool_bytes + 8, fake_symbol(k, at, 1, name), 8);
	fake_put(k, at + FAKE_POOL + v->pool_bytes + 16, fake_symbol(k, at, 2, "(I)V"), 8);
	fake_put(k, at + FAKE_POOL + v->pool_bytes + 24, fake_symbol(k, at, 3, source), 8);
	if (v->pool_source != HOTSPOT_NONE)
		fake_put(k, at + FAKE_POOL + v->pool_source, 3, 2);
	else
		fake_put(k, at + FAKE_CLASS + v->klass_source, 3, 2);
	k->bytes[lines++] = 0xff;
	fake_number(k, &lines, 0);
	fake_number(k, &lines, 2 * 10);
	k->bytes[lines++] = 5 << 3 | 2;
	k->bytes[lines] = 0;
}

/* A part that the pointer or offset at its field leads to. */
static inline void fake_part(struct fake *k, uint32_t blob, struct hotspot_part p, uint32_t to)
{
	uint32_t base = p.by == HOTSPOT_PART_OFFSET ? blob : FAKE_TABLES;

	if (p.by == HOTSPOT_PART_POINTER)
		fake_put(k, blob + p.field, fake_addr(to), 8);
	else
		fake_put(k, blob + p.field, to - base, 4);
}

static inline void fake_code(struct fake *k)
{
	const struct hotspot_vm *v = &k->vm;
	bool is_apart = v->nm_immutable != HOTSPOT_NONE;
	uint32_t blob = FAKE_BLOCK + v->block_bytes;
	uint32_t pcs_at = is_apart ? FAKE_LOWER : FAKE_HIGHER;
	uint32_t scopes = is_apart ? FAKE_HIGHER : FAKE_LOWER, at = scopes + 1;
	const struct hotspot_pc pcs[] = {{-1, 0}, {FAKE_CALL, 5}, {FAKE_OWN_CALL, 1}, {0x400, 0}};

	memset(k->bytes + FAKE_SEGMENTS, 255, (FAKE_HEAP_END - FAKE_HEAP) >> v->segment_shift);
	for (uint32_t i = 0; i << v->segment_shift < FAKE_BLOB_BYTES; i++)
		k->bytes[FAKE_SEGMENTS + ((FAKE_BLOCK - FAKE_HEAP) >> v->segment_shift) + i] =
			(uint8_t)MIN(i, 3);
	memcpy(k->bytes + FAKE_NAME, "nmethod", 8);
	fake_put(k, blob + v->blob_name, fake_addr(FAKE_NAME), 8);
	fake_put(k, blob + v->blob_size, FAKE_BLOB_BYTES - v->block_bytes, 4);
	if (v->blob_kind != HOTSPOT_NONE)
		k->bytes[blob + v->blob_kind] = v->kind_nmethod;
	fake_part(k, blob, v->blob_code, blob + FAKE_CODE);
	fake_put(k, blob + v->nm_method, fake_addr(FAKE_OUTER), 8);
	fake_put(k, blob + v->nm_compile_id, FAKE_COMPILE_ID, 4);
	if (is_apart) {
		fake_put(k, blob + v->nm_immutable, fake_addr(FAKE_TABLES), 8);
		fake_put(k, blob + v->nm_immutable_bytes, FAKE_SCOPES_END - FAKE_TABLES, 4);
		fake_put(k, blob + v->nm_mutable, fake_addr(FAKE_TABLES), 8);
	}
	fake_part(k, blob, v->nm_scopes_pcs, pcs_at);
	fake_part(k, blob, v->nm_scopes_pcs_end,
		is_apart ? scopes : pcs_at + 16 * (uint32_t)ARRAY_SIZE(pcs));
	fake_part(k, blob, v->nm_scopes_data, scopes);
	fake_part(k, blob, v->nm_metadata, FAKE_METHODS);
	for (uint32_t i = 0; i < ARRAY_SIZE(pcs); i++)
		memcpy(k->bytes + pcs_at + 16 * i, &pcs[i], sizeof(pcs[i]));
	/* Sender, method, one more than the bytecode: the outer one at 5, then the inner one at 0. */
	fake_number(k, &at, 0);
	fake_number(k, &at, 1);
	fake_number(k, &at, 6);
	at = scopes + 5;
	fake_number(k, &at, 1);
	fake_number(k, &at, 2);
	fake_number(k, &at, 1);
	fake_put(k, FAKE_METHODS, fake_addr(FAKE_OUTER), 8);
	fake_put(k, FAKE_METHODS + 8, fake_addr(FAKE_INNER), 8);
}

/* Of live VMs (test_unwind_hotspot.c prints them, or jhsdb's clhsdb: vmstructsdump). */
static inline struct hotspot_vm fake_layout(uint32_t major)
{
	struct hotspot_vm v = {.major = major,
		.n_heaps = 1,
		.heaps = {{FAKE_BASE + FAKE_HEAP, FAKE_BASE + FAKE_HEAP_END,
			FAKE_BASE + FAKE_SEGMENTS}},
		.interpreter = FAKE_BASE + FAKE_HEAP,
		.interpreter_end = FAKE_BASE + FAKE_HEAP + 0x200,
		.entry = FAKE_BASE + FAKE_HEAP + 0x300,
		.segment_shift = major == 8 ? 6 : 7,
		.block_bytes = major >= 25 ? 8 : 16,
		.blob_name = 8,
		.blob_size = 16,
		.blob_frame_size = 44,
		.blob_frame_complete = 36,
		.blob_frame_complete_bytes = 4,
		.blob_kind = HOTSPOT_NONE,
		.blob_code = {HOTSPOT_PART_OFFSET, 32},
		.nm_method = 64,
		.nm_compile_id = 204,
		.nm_immutable = HOTSPOT_NONE,
		.nm_mutable = HOTSPOT_NONE,
		.nm_orig_pc = 200,
		.nm_immutable_bytes = HOTSPOT_NONE,
		.nm_deopt = {HOTSPOT_PART_OFFSET, 148},
		.nm_scopes_data = {HOTSPOT_PART_OFFSET, 176},
		.nm_scopes_pcs = {HOTSPOT_PART_OFFSET, 180},
		.nm_scopes_pcs_end = {HOTSPOT_PART_OFFSET, 184},
		.nm_metadata = {HOTSPOT_PART_OFFSET, 172},
		.method_const = 8,
		.const_bytes = 56,
		.const_constants = 8,
		.const_code_size = 32,
		.const_flags = 28,
		.const_name = 34,
		.const_signature = 36,
		.const_has_lines = 1,
		.const_flags_bytes = 2,
		.pool_bytes = 80,
		.pool_holder = 24,
		.pool_source = HOTSPOT_NONE,
		.klass_source = 258,
		.klass_name = 16,
		.symbol_length = 0,
		.symbol_body = 8};

	if (major == 8)
		return v;
	v.blob_name = 96;
	v.blob_size = 12;
	v.blob_frame_size = 28;
	v.blob_frame_complete = 20;
	v.blob_code = (struct hotspot_part) {HOTSPOT_PART_POINTER, 32};
	v.nm_method = 112;
	v.nm_compile_id = 304;
	v.nm_orig_pc = 300;
	v.nm_deopt = (struct hotspot_part) {HOTSPOT_PART_POINTER, 128};
	v.nm_scopes_data = (struct hotspot_part) {HOTSPOT_PART_POINTER, 120};
	v.nm_scopes_pcs.field = 268;
	v.nm_scopes_pcs_end.field = 272;
	v.nm_metadata.field = 260;
	v.const_bytes = 48;
	v.pool_bytes = 72;
	v.pool_source = 54;
	v.klass_source = HOTSPOT_NONE;
	v.klass_name = 24;
	v.symbol_length = 4;
	v.symbol_body = 6;
	if (major < 25)
		return v;
	v.blob_name = 8;
	v.blob_size = 24;
	v.blob_frame_size = 44;
	v.blob_frame_complete = 54;
	v.blob_frame_complete_bytes = 2;
	v.blob_kind = 56;
	v.kind_nmethod = 1;
	v.blob_code = (struct hotspot_part) {HOTSPOT_PART_OFFSET, 36};
	v.nm_method = 80;
	v.nm_compile_id = 212;
	v.nm_immutable = 96;
	v.nm_immutable_bytes = 160;
	v.nm_mutable = 16;
	v.nm_orig_pc = 208;
	v.nm_deopt = (struct hotspot_part) {HOTSPOT_PART_OFFSET, 176};
	v.nm_scopes_data = (struct hotspot_part) {HOTSPOT_PART_IMMUTABLE, 200};
	v.nm_scopes_pcs = (struct hotspot_part) {HOTSPOT_PART_IMMUTABLE, 196};
	v.nm_scopes_pcs_end = v.nm_scopes_data;
	v.nm_metadata = (struct hotspot_part) {HOTSPOT_PART_MUTABLE, 28};
	v.const_flags_bytes = 4;
	v.const_bytes = 56;
	v.const_code_size = 34;
	v.const_name = 36;
	v.const_signature = 38;
	return v;
}

static inline void fake_init(struct fake *k, uint32_t major)
{
	memset(k, 0, sizeof(*k));
	k->m = (struct interp_memory) {.read = fake_read, .arg = k, .hotspot = &k->vm};
	k->r.kind = RUNTIME_HOTSPOT;
	k->vm = fake_layout(major);
	fake_method(k, FAKE_OUTER, "pkg/Outer$Part", "run", "Outer.java");
	fake_method(k, FAKE_INNER, "Inner$$Lambda/0x00007f0001", "<init>", "Inner.java");
	fake_code(k);
}

static inline uint64_t fake_code_start(const struct fake *k)
{
	return fake_addr(FAKE_BLOCK + k->vm.block_bytes + FAKE_CODE);
}
