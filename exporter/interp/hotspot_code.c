/* SPDX-License-Identifier: Apache-2.0
 *
 * Address → heap → block → blob → its tables.
 */
#include "exporter/interp/hotspot_code.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	MAX_HOPS = 64,
	FREE_SEGMENT = 255,
	PC_BYTES = 16, /* pc, scope, and two that are of no use here */
	HEAD_BYTES = HOTSPOT_MAX_STRUCT + 16,
	NAME_BYTES = 48,
};
#define MAX_ADDRESS (1ULL << 47)

void hotspot_code_done(struct hotspot_code *c)
{
	interp_code_done(&c->own);
	for (size_t i = 0; i < c->n_methods; i++)
		interp_code_done(&c->methods[i].code);
	free(c->methods);
	free(c->pcs);
	free(c->scopes);
	*c = (struct hotspot_code) {0};
}

/* ---- where it is ---- */

static const struct hotspot_heap *heap_of(const struct hotspot_vm *vm, uint64_t addr)
{
	for (uint32_t i = 0; i < vm->n_heaps; i++)
		if (addr >= vm->heaps[i].low && addr < vm->heaps[i].high)
			return &vm->heaps[i];
	return NULL;
}

static int find_blob(
	const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t addr, uint64_t *ret)
{
	const struct hotspot_heap *h = heap_of(vm, addr);
	uint64_t segment;

	if (!h)
		return -ENOENT;
	segment = (addr - h->low) >> vm->segment_shift;
	for (unsigned i = 0; i < MAX_HOPS; i++) {
		uint8_t back;
		int e = m->read(m->arg, h->segmap + segment, &back, sizeof(back));

		if (e < 0)
			return e;
		if (!back) {
			*ret = h->low + (segment << vm->segment_shift) + vm->block_bytes;
			return 0;
		}
		if (back == FREE_SEGMENT || back > segment)
			return -ENOENT;
		segment -= back;
	}
	return -ENOENT;
}

/* ---- the blob ---- */

/* What of it is read at once. */
struct head {
	uint64_t addr;
	size_t n;
	uint8_t bytes[HEAD_BYTES];
};

static size_t head_bytes(const struct hotspot_vm *vm)
{
	const uint16_t fields[] = {vm->blob_name, vm->blob_size, vm->blob_kind, vm->blob_code.field,
		vm->nm_method, vm->nm_compile_id, vm->nm_immutable, vm->nm_mutable,
		vm->nm_immutable_bytes, vm->nm_scopes_data.field, vm->nm_scopes_pcs.field,
		vm->nm_scopes_pcs_end.field, vm->nm_metadata.field};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i] != HOTSPOT_NONE)
			n = MAX(n, fields[i] + sizeof(uint64_t));
	return MIN(n, (size_t)HEAD_BYTES);
}

/* A stub may be shorter than an nmethod's head: what lies behind is other code then. */
static int read_head(
	const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t addr, struct head *ret)
{
	ret->addr = addr;
	ret->n = head_bytes(vm);
	memset(ret->bytes, 0, sizeof(ret->bytes));
	return m->read(m->arg, addr, ret->bytes, ret->n);
}

static uint64_t word(const struct head *h, uint16_t at)
{
	uint64_t ret = 0;

	if (at + sizeof(ret) <= sizeof(h->bytes))
		memcpy(&ret, h->bytes + at, sizeof(ret));
	return ret;
}

static int32_t number(const struct head *h, uint16_t at)
{
	return (int32_t)(uint32_t)word(h, at);
}

/* The address of one of its parts; 0: it has none. */
static uint64_t part_of(const struct hotspot_vm *vm, const struct head *h, struct hotspot_part p)
{
	uint64_t base = h->addr;

	switch ((enum hotspot_part_by)p.by) {
	case HOTSPOT_PART_POINTER: return word(h, p.field);
	case HOTSPOT_PART_OFFSET: break;
	case HOTSPOT_PART_IMMUTABLE: base = word(h, vm->nm_immutable); break;
	case HOTSPOT_PART_MUTABLE: base = word(h, vm->nm_mutable); break;
	case HOTSPOT_PART_NONE: return 0;
	}
	return base ? base + (uint64_t)(int64_t)number(h, p.field) : 0;
}

static int read_name(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, char ret[NAME_BYTES])
{
	uint64_t at = word(h, vm->blob_name);
	size_t n = 0;
	int e = 0;

	/* Names are short and lie together: one byte more is read where a page may end. */
	for (; e == 0 && n < NAME_BYTES - 1; n++) {
		e = at >= MAX_ADDRESS || at < 4096 ? -ENOENT : m->read(m->arg, at + n, &ret[n], 1);
		if (e == 0 && !ret[n])
			break;
		if (e == 0 && (ret[n] < 0x20 || ret[n] > 0x7e))
			e = -ENOENT;
	}
	ret[n] = '\0';
	return e;
}

/* As profiles have it; "" of compiled code. */
static int name_stub(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, struct hotspot_code *c)
{
	char name[NAME_BYTES];
	int e;

	if (c->blob <= vm->interpreter && c->end > vm->interpreter) {
		snprintf(c->stub, sizeof(c->stub), "%s", INTERP_OWN_FRAME);
		return 0;
	}
	if (vm->blob_kind != HOTSPOT_NONE && (uint8_t)word(h, vm->blob_kind) == vm->kind_nmethod)
		return 0;
	e = read_name(m, vm, h, name);
	if (e < 0)
		return e;
	if (vm->blob_kind == HOTSPOT_NONE &&
		(strcmp(name, "nmethod") == 0 || strcmp(name, "native nmethod") == 0))
		return 0;
	if (strncmp(name, "vtable", 6) == 0)
		snprintf(name, sizeof(name), "vtable stub");
	else if (strncmp(name, "I2C", 3) == 0)
		snprintf(name, sizeof(name), "adapter");
	else if (strncmp(name, "RuntimeStub - ", 14) == 0)
		memmove(name, name + 14, strlen(name + 14) + 1);
	snprintf(c->stub, sizeof(c->stub), "[%s]", name[0] ? name : "stub");
	return 0;
}

/* Bounds of the blob and its code. */
static int place(
	const struct hotspot_vm *vm, const struct head *h, uint64_t pc, struct hotspot_code *c)
{
	int32_t bytes = number(h, vm->blob_size);
	const struct hotspot_heap *heap = heap_of(vm, h->addr);

	c->blob = h->addr;
	c->start = part_of(vm, h, vm->blob_code);
	c->end = c->blob + (uint64_t)(int64_t)bytes;
	if (!heap || bytes <= 0 || bytes > HOTSPOT_MAX_CODE_BYTES || c->end > heap->high ||
		c->start < c->blob || c->start > c->end)
		return -EBADMSG;
	return pc >= c->blob && pc <= c->end ? 0 : -ENOENT;
}

/* ---- compiled code ---- */

static int read_pcs(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, struct hotspot_code *c)
{
	uint64_t from = part_of(vm, h, vm->nm_scopes_pcs),
		 to = part_of(vm, h, vm->nm_scopes_pcs_end), n;
	_cleanup_free_ uint8_t *table = NULL;
	int e;

	if (!from || from >= MAX_ADDRESS || to < from || (to - from) / PC_BYTES > HOTSPOT_MAX_PCS)
		return -EBADMSG;
	n = (to - from) / PC_BYTES;
	table = try_malloc(n * PC_BYTES + 1);
	c->pcs = try_calloc(n + 1, sizeof(*c->pcs));
	if (!table || !c->pcs)
		return -ENOMEM;
	e = n ? m->read(m->arg, from, table, n * PC_BYTES) : 0;
	for (size_t i = 0; e == 0 && i < n; i++) {
		struct hotspot_pc *p = &c->pcs[c->n_pcs];

		memcpy(p, table + i * PC_BYTES, sizeof(*p));
		/* The first lies before all code and the last behind it. */
		if (c->n_pcs && p->code < c->pcs[c->n_pcs - 1].code)
			return -EBADMSG;
		c->n_pcs++;
	}
	return e;
}

static int read_scopes(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, struct hotspot_code *c)
{
	uint64_t from = part_of(vm, h, vm->nm_scopes_data), to;

	if (vm->nm_immutable != HOTSPOT_NONE)
		to = word(h, vm->nm_immutable) +
		     (uint64_t)(int64_t)number(h, vm->nm_immutable_bytes);
	else
		to = part_of(vm, h, vm->nm_scopes_pcs);
	if (!from || from >= MAX_ADDRESS || to < from)
		return -EBADMSG;
	if (to - from > HOTSPOT_MAX_SCOPES_BYTES)
		return -EFBIG;
	c->numbers = hotspot_numbers_of(vm);
	c->scopes_bytes = to - from;
	c->scopes = try_malloc(c->scopes_bytes + 1);
	if (!c->scopes)
		return -ENOMEM;
	return c->scopes_bytes ? m->read(m->arg, from, c->scopes, c->scopes_bytes) : 0;
}

struct scope {
	int32_t sender; /* 0: none */
	uint32_t method, position;
};

static bool scope_at(const struct hotspot_code *c, int32_t at, struct scope *ret)
{
	struct hotspot_stream s = {.bias = (uint8_t)c->numbers};

	if (at <= 0 || (size_t)at >= c->scopes_bytes)
		return false;
	s.pos = c->scopes + at;
	s.end = c->scopes + c->scopes_bytes;
	ret->sender = (int32_t)hotspot_number(&s);
	ret->method = hotspot_number(&s);
	ret->position = hotspot_number(&s);
	/* 0 is the entry, before the first bytecode; others are one more than the bytecode. */
	ret->position = ret->position ? ret->position - 1 : ABI_INTERP_AT_START;
	if (ret->position > ABI_INTERP_AT_START)
		ret->position = ABI_INTERP_BEYOND;
	/* Senders were written before. */
	return !s.is_over && ret->method && ret->sender >= 0 && ret->sender < at;
}

static const struct hotspot_method *method_of(const struct hotspot_code *c, uint32_t index)
{
	for (size_t i = 0; i < c->n_methods; i++)
		if (c->methods[i].index == index)
			return &c->methods[i];
	return NULL;
}

static int add_method(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t list,
	uint32_t index, struct hotspot_code *c)
{
	struct hotspot_method *added;
	uint64_t object;
	int e;

	if (c->n_methods == HOTSPOT_MAX_METHODS)
		return -EFBIG;
	e = alloc_grow(&c->methods, &c->cap_methods, c->n_methods + 1, sizeof(*c->methods));
	if (e == 0)
		e = m->read(m->arg, list + 8 * (uint64_t)(index - 1), &object, sizeof(object));
	if (e < 0)
		return e;
	added = &c->methods[c->n_methods];
	*added = (struct hotspot_method) {.index = index};
	e = hotspot_read_method(m, vm, object, &added->code);
	c->n_methods += e == 0;
	return e;
}

static bool has_bit(uint8_t *bits, uint32_t i)
{
	bool had = bits[i / 8] >> i % 8 & 1;

	bits[i / 8] |= (uint8_t)(1 << i % 8);
	return had;
}

/* All that its scopes name. Many places share a sender, and many scopes a method: each of both is looked at once. */
static int read_methods(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, struct hotspot_code *c)
{
	_cleanup_free_ uint8_t *scopes = try_calloc(c->scopes_bytes / 8 + 1, 1);
	_cleanup_free_ uint8_t *methods = try_calloc(HOTSPOT_MAX_INDEX / 8 + 1, 1);
	uint64_t list = part_of(vm, h, vm->nm_metadata);
	struct scope s;
	int e = 0;

	if (!scopes || !methods)
		return -ENOMEM;
	if (!list || list >= MAX_ADDRESS)
		return -EBADMSG;
	for (size_t i = 0; e == 0 && i < c->n_pcs; i++)
		for (int32_t at = c->pcs[i].scope;
			e == 0 && scope_at(c, at, &s) && !has_bit(scopes, (uint32_t)at);
			at = s.sender) {
			if (s.method > HOTSPOT_MAX_INDEX)
				return -EFBIG;
			if (!has_bit(methods, s.method))
				e = add_method(m, vm, list, s.method, c);
		}
	return e;
}

static int read_compiled(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct head *h, uint64_t check, struct hotspot_code *c)
{
	struct head after;
	int e;

	c->method = word(h, vm->nm_method);
	c->compile_id = (uint32_t)number(h, vm->nm_compile_id);
	if (hotspot_check(c->method, c->compile_id) != check)
		return -EAGAIN;
	e = hotspot_read_method(m, vm, c->method, &c->own);
	if (e == 0)
		e = read_pcs(m, vm, h, c);
	if (e == 0)
		e = read_scopes(m, vm, h, c);
	if (e == 0)
		e = read_methods(m, vm, h, c);
	if (e == 0)
		e = read_head(m, vm, h->addr, &after);
	if (e < 0)
		return e;
	return word(&after, vm->nm_method) == c->method &&
			       (uint32_t)number(&after, vm->nm_compile_id) == c->compile_id
		       ? 0
		       : -EAGAIN;
}

int hotspot_code_read(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t pc,
	uint64_t check, struct hotspot_code *ret)
{
	_cleanup_hotspot_code_ struct hotspot_code c = {0};
	struct head h;
	uint64_t blob;
	int e = find_blob(m, vm, pc, &blob);

	if (e == 0)
		e = read_head(m, vm, blob, &h);
	if (e == 0)
		e = place(vm, &h, pc, &c);
	if (e == 0)
		e = name_stub(m, vm, &h, &c);
	if (e == 0 && !c.stub[0])
		e = read_compiled(m, vm, &h, check, &c);
	if (e < 0)
		return e;
	*ret = c;
	c = (struct hotspot_code) {0};
	return 0;
}

int hotspot_code_is_still(
	const struct interp_memory *m, const struct hotspot_vm *vm, const struct hotspot_code *c)
{
	struct hotspot_code now = {0};
	struct head h;
	uint64_t blob;
	int e = find_blob(m, vm, c->blob, &blob);

	if (e == 0)
		e = blob == c->blob ? read_head(m, vm, blob, &h) : -EAGAIN;
	if (e == 0)
		e = place(vm, &h, c->start, &now);
	if (e == 0)
		e = name_stub(m, vm, &h, &now);
	if (e < 0)
		return e == -ENOENT ? -EAGAIN : e;
	if (strcmp(now.stub, c->stub) != 0 || now.end != c->end)
		return -EAGAIN;
	if (c->stub[0])
		return 0;
	return word(&h, vm->nm_method) == c->method &&
			       (uint32_t)number(&h, vm->nm_compile_id) == c->compile_id
		       ? 0
		       : -EAGAIN;
}

/* ---- the methods of an address ---- */

/*
 * What a call returns to has an entry of its own, unless it is one of a stub that never looks at the stack. Other instructions have none: those
 * up to the next entry belong to it, as HotSpot's own profiler takes it (nmethod::pc_desc_near). Behind the last one there is only the end.
 */
static const struct hotspot_pc *pc_near(const struct hotspot_code *c, uint64_t pc)
{
	int64_t off = (int64_t)(pc - c->start);
	size_t lo = 0, hi = c->n_pcs;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c->pcs[mid].code < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == c->n_pcs || (c->pcs[lo].scope <= 0 && lo))
		lo--;
	return c->n_pcs ? &c->pcs[lo] : NULL;
}

size_t hotspot_code_scopes(
	const struct hotspot_code *c, uint64_t pc, struct hotspot_scope *ret, size_t max)
{
	const struct hotspot_pc *at = pc_near(c, pc);
	struct scope s;
	size_t n = 0;

	for (int32_t scope = at ? at->scope : 0; n < HOTSPOT_MAX_DEPTH && scope_at(c, scope, &s);
		scope = s.sender, n++) {
		const struct hotspot_method *method = method_of(c, s.method);

		if (!method)
			break;
		ret[MIN(n, max - 1)] = (struct hotspot_scope) {&method->code, s.position};
	}
	if (!n) { /* a native method's, or no place of a bytecode */
		ret[0] = (struct hotspot_scope) {&c->own, ABI_INTERP_BEYOND};
		n = 1;
	}
	return n;
}
