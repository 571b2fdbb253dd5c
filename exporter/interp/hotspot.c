/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods: Method → ConstMethod → ConstantPool → Symbols. Nothing of these changes while the method lives but by a debugger's or an agent's
 * wish, which makes another ConstMethod. So nothing is read twice: who compares the check knows whose names these are.
 */
#include "exporter/interp/hotspot.h"
#include "bpf/interp/rows.h"
#include "exporter/interp/text.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <string.h>

enum {
	MAX_CONST_BYTES = HOTSPOT_MAX_STRUCT,
	MAX_SYMBOL_BYTES = 4096, /* of a signature, which may be long; the rest is left out */
	LINES_CHUNK = 256,
	PAGE_BYTES = 4096,
};
#define MIN_ADDRESS 4096
#define MAX_ADDRESS (1ULL << 47)

int hotspot_vm_of(const struct interp_memory *m, const struct runtime_record *r,
	struct hotspot_vm *own, const struct hotspot_vm **ret)
{
	struct hotspot_vm *vm = m->hotspot ? m->hotspot : own;

	*ret = vm;
	if (m->hotspot && vm->major && vm->bias == m->bias)
		return 0;
	return hotspot_vm_read(m, r, vm);
}

uint16_t hotspot_check_bytes(const struct hotspot_vm *vm)
{
	return (uint16_t)((vm->const_signature / 8 + 1) * 8 - HOTSPOT_CHECK_FROM);
}

/* ---- numbers ---- */

enum hotspot_numbers hotspot_numbers_of(const struct hotspot_vm *vm)
{
	return vm->major >= 20 ? HOTSPOT_NUMBERS_BIASED : HOTSPOT_NUMBERS;
}

uint32_t hotspot_number(struct hotspot_stream *s)
{
	enum { ENDS_BELOW = 192, MAX_DIGITS = 5, DIGIT_BITS = 6 };
	uint32_t sum = 0;

	for (unsigned i = 0; i < MAX_DIGITS; i++) {
		if (s->pos >= s->end || *s->pos < s->bias)
			break;
		sum += (uint32_t)(*s->pos - s->bias) << i * DIGIT_BITS;
		if (*s->pos++ < ENDS_BELOW || i + 1 == MAX_DIGITS)
			return sum;
	}
	s->is_over = true;
	return 0;
}

/* ---- lines ---- */

/* The table's entries one after the other: false at its end. */
struct line_entries {
	struct hotspot_stream s;
	int64_t bci, line;
};

static int32_t signed_number(struct hotspot_stream *s)
{
	uint32_t n = hotspot_number(s);

	return (int32_t)(n >> 1 ^ (0 - (n & 1)));
}

/* A byte has both steps, 5 bits of bci and 3 of lines; 255: numbers follow that have them. */
static bool next_line(struct line_entries *e)
{
	uint8_t byte;

	if (e->s.is_over || e->s.pos >= e->s.end || !*e->s.pos)
		return false;
	byte = *e->s.pos++;
	if (byte == 0xff) {
		e->bci += signed_number(&e->s);
		e->line += signed_number(&e->s);
	} else {
		e->bci += byte >> 3;
		e->line += byte & 7;
	}
	return !e->s.is_over;
}

static struct line_entries lines_of(const struct interp_code *c)
{
	return (struct line_entries) {.s = {.pos = c->lines,
					      .end = c->lines + c->lines_bytes,
					      .bias = (uint8_t)c->lines_format}};
}

static uint32_t valid_line(int64_t line)
{
	return line > 0 && line <= UINT16_MAX ? (uint32_t)line : 0;
}

uint32_t hotspot_line(const struct interp_code *c, uint32_t position)
{
	struct line_entries e = lines_of(c);
	int64_t bci = position == ABI_INTERP_AT_START ? 0 : position, best = -1;
	uint32_t ret = 0;

	if (position == ABI_INTERP_BEYOND || !c->lines)
		return 0;
	while (next_line(&e)) {
		if (e.bci == bci)
			return valid_line(e.line);
		if (e.bci < bci && e.bci >= best) {
			best = e.bci;
			ret = valid_line(e.line);
		}
	}
	return ret;
}

/* The table with its end, in what was read so far; 0: it goes on. Within a number a byte of 0 is no end. */
static size_t table_bytes(const struct interp_code *c)
{
	struct line_entries e = lines_of(c);

	while (next_line(&e))
		;
	return !e.s.is_over && e.s.pos < e.s.end ? (size_t)(e.s.pos - c->lines) + 1 : 0;
}

/* Behind the bytecode; its size is not written anywhere. */
static int read_lines(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t at,
	struct interp_code *c)
{
	c->lines_format = (uint16_t)hotspot_numbers_of(vm);
	while (c->lines_bytes < INTERP_MAX_LINES_BYTES) {
		/* Twice as much each time, and nothing of the next page before it is needed: it may not be there. */
		size_t had = c->lines_bytes, chunk = MAX(had, (size_t)LINES_CHUNK), n;
		uint8_t *grown;
		int e;

		chunk = MIN(chunk, PAGE_BYTES - (at + had) % PAGE_BYTES);
		grown = try_realloc(c->lines, had + chunk, 1);
		if (!grown)
			return -ENOMEM;
		c->lines = grown;
		e = m->read(m->arg, at + had, grown + had, chunk);
		if (e < 0)
			return e;
		c->lines_bytes = had + chunk;
		n = table_bytes(c);
		if (n) {
			c->lines_bytes = n;
			return 0;
		}
	}
	free(c->lines); /* a table without an end */
	c->lines = NULL;
	c->lines_bytes = 0;
	return 0;
}

static uint32_t first_line_of(const struct interp_code *c)
{
	struct line_entries e = lines_of(c);
	uint32_t ret = 0;

	while (c->lines && next_line(&e)) {
		uint32_t line = valid_line(e.line);

		if (line && (!ret || line < ret))
			ret = line;
	}
	return ret;
}

/* ---- symbols ---- */

struct symbol {
	size_t n;
	uint8_t bytes[MAX_SYMBOL_BYTES]; /* modified UTF-8 */
};

static int read_word(const struct interp_memory *m, uint64_t addr, uint64_t *ret)
{
	if (addr < MIN_ADDRESS || addr >= MAX_ADDRESS || addr % 8)
		return -ENOENT;
	return m->read(m->arg, addr, ret, sizeof(*ret));
}

static int read_symbol(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t addr,
	struct symbol *ret)
{
	uint16_t n;
	int e;

	if (addr < MIN_ADDRESS || addr >= MAX_ADDRESS || addr % 8)
		return -ENOENT;
	e = m->read(m->arg, addr + vm->symbol_length, &n, sizeof(n));
	if (e < 0)
		return e;
	if (!n)
		return -ENOENT;
	ret->n = MIN((size_t)n, sizeof(ret->bytes));
	e = m->read(m->arg, addr + vm->symbol_body, ret->bytes, ret->n);
	/* No name has a control character, and no UTF-8 of Java's a zero. */
	for (size_t i = 0; e == 0 && i < ret->n; i++)
		if (ret->bytes[i] < 0x20 || ret->bytes[i] == 0x7f || ret->bytes[i] >= 0xf0)
			return -ENOENT;
	return e;
}

/* The symbol at an index of a constant pool; of names bit 0 says something else. */
static int read_pool_symbol(const struct interp_memory *m, const struct hotspot_vm *vm,
	uint64_t pool, uint16_t index, struct symbol *ret)
{
	uint64_t addr;
	int e = read_word(m, pool + vm->pool_bytes + 8 * (uint64_t)index, &addr);

	return e < 0 ? e : read_symbol(m, vm, addr & ~1ULL, ret);
}

/* One character of modified UTF-8: of at most three bytes, others as two surrogates. */
static uint32_t next_char(const struct symbol *s, size_t *at)
{
	const uint8_t *p = s->bytes + *at;
	size_t left = s->n - *at;
	uint32_t c;

	if (p[0] < 0x80 || left < 2 || (p[1] & 0xc0) != 0x80) {
		*at += 1;
		return p[0] < 0x80 ? p[0] : 0;
	}
	if ((p[0] & 0xe0) == 0xc0) {
		*at += 2;
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	}
	if (left < 3 || (p[0] & 0xf0) != 0xe0 || (p[2] & 0xc0) != 0x80) {
		*at += 1;
		return 0;
	}
	*at += 3;
	c = (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	/* The second half follows. */
	if (c >= 0xd800 && c < 0xdc00 && left >= 6 && p[3] == 0xed && (p[4] & 0xf0) == 0xb0) {
		*at += 3;
		c = 0x10000 + ((c & 0x3ff) << 10) + ((uint32_t)(p[4] & 0xf) << 6 | (p[5] & 0x3f));
	}
	return c;
}

/* Its first n bytes, with slashes as `slash`. */
static void put_symbol(struct interp_text *t, const struct symbol *s, size_t n, char slash)
{
	for (size_t i = 0; i < n;) {
		uint32_t c = next_char(s, &i);

		if (!interp_text_put(t, c == '/' ? (uint32_t)slash : c))
			return;
	}
}

static void put_char(struct interp_text *t, char c)
{
	interp_text_put(t, (uint32_t)c);
}

/* A hidden class has an address behind its name, which says nothing: its length without "/0x…" or "+0x…". */
static size_t without_address(const struct symbol *s)
{
	size_t n = s->n;

	while (n && ((s->bytes[n - 1] >= '0' && s->bytes[n - 1] <= '9') ||
			    (s->bytes[n - 1] >= 'a' && s->bytes[n - 1] <= 'f')))
		n--;
	if (n < 4 || n == s->n || s->bytes[n - 1] != 'x' || s->bytes[n - 2] != '0')
		return s->n;
	return s->bytes[n - 3] == '/' || s->bytes[n - 3] == '+' ? n - 3 : s->n;
}

/* The folder of a class, with its slash, as far as that is the package: what stands before the last slash. */
static size_t package_bytes(const struct symbol *s, size_t n)
{
	while (n && s->bytes[n - 1] != '/')
		n--;
	return n;
}

/* ---- a method ---- */

struct method {
	uint64_t const_method, pool, holder;
	uint64_t check;
	uint16_t code_size, name, signature, source;
	uint32_t flags;
};

static uint32_t field(const uint8_t *bytes, uint16_t at, size_t n)
{
	uint32_t ret = 0;

	memcpy(&ret, bytes + at, n);
	return ret;
}

/* The first of these words from the object, the others from its ConstMethod, as the kernel half does it (bpf/interp/check.h). */
static uint64_t check_of(const struct hotspot_vm *vm, uint64_t const_method, const uint8_t *bytes)
{
	uint64_t check = interp_check_add(0, const_method), word;

	for (uint16_t i = 0; i < hotspot_check_bytes(vm); i += sizeof(word)) {
		memcpy(&word, bytes + HOTSPOT_CHECK_FROM + i, sizeof(word));
		check = interp_check_add(check, word);
	}
	return check;
}

static int read_source(const struct interp_memory *m, const struct hotspot_vm *vm, struct method *d)
{
	uint64_t at = vm->pool_source == HOTSPOT_NONE ? d->holder + vm->klass_source
						      : d->pool + vm->pool_source;

	d->source = 0;
	if (vm->pool_source == HOTSPOT_NONE && vm->klass_source == HOTSPOT_NONE)
		return 0;
	/*
	 * What method handles end in (linkToStatic, invokeBasic, …) has a pool of these two alone, made by the VM, where the index is nevertheless that
	 * of its class's pool: it leads behind the end (Method::make_method_handle_intrinsic).
	 */
	if (!d->code_size && d->name == 1 && d->signature == 2)
		return 0;
	return m->read(m->arg, at, &d->source, sizeof(d->source));
}

static int read_method(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t object,
	struct method *ret)
{
	uint8_t bytes[MAX_CONST_BYTES + 8];
	/* Where the fields that are needed end. */
	size_t n = MAX(vm->const_bytes, HOTSPOT_CHECK_FROM + hotspot_check_bytes(vm));
	int e;

	if (n > sizeof(bytes) || vm->const_signature + 2U > n || vm->const_name + 2U > n ||
		vm->const_code_size + 2U > n || vm->const_flags + vm->const_flags_bytes + 0U > n ||
		vm->const_constants + 8U > n)
		return -EBADMSG;
	e = read_word(m, object + vm->method_const, &ret->const_method);
	if (e == 0 && (ret->const_method % 8 || ret->const_method < MIN_ADDRESS ||
			      ret->const_method >= MAX_ADDRESS))
		e = -ENOENT;
	if (e == 0)
		e = m->read(m->arg, ret->const_method, bytes, n);
	if (e < 0)
		return e;
	memcpy(&ret->pool, bytes + vm->const_constants, sizeof(ret->pool));
	ret->check = check_of(vm, ret->const_method, bytes);
	ret->code_size = (uint16_t)field(bytes, vm->const_code_size, 2);
	ret->name = (uint16_t)field(bytes, vm->const_name, 2);
	ret->signature = (uint16_t)field(bytes, vm->const_signature, 2);
	ret->flags = field(bytes, vm->const_flags, vm->const_flags_bytes);
	e = read_word(m, ret->pool + vm->pool_holder, &ret->holder);
	return e < 0 ? e : read_source(m, vm, ret);
}

struct names {
	struct symbol class, method, signature, source;
};

static int read_names(const struct interp_memory *m, const struct hotspot_vm *vm,
	const struct method *d, struct names *ret)
{
	uint64_t class;
	int e = read_word(m, d->holder + vm->klass_name, &class);

	if (e == 0)
		e = read_symbol(m, vm, class, &ret->class);
	if (e == 0)
		e = read_pool_symbol(m, vm, d->pool, d->name, &ret->method);
	if (e == 0)
		e = read_pool_symbol(m, vm, d->pool, d->signature, &ret->signature);
	if (e == 0 && ret->signature.bytes[0] != '(')
		e = -ENOENT;
	ret->source.n = 0;
	if (e < 0 || !d->source)
		return e;
	e = read_pool_symbol(m, vm, d->pool, d->source, &ret->source);
	/* Whoever obfuscates names may leave an empty one. */
	if (e == -ENOENT) {
		ret->source.n = 0;
		e = 0;
	}
	return e;
}

static void put_names(const struct names *n, struct interp_code *c)
{
	struct interp_text t = {.n = 0};
	size_t class_bytes = without_address(&n->class);

	put_symbol(&t, &n->class, class_bytes, '.');
	put_char(&t, '.');
	put_symbol(&t, &n->method, n->method.n, '/');
	c->name = interp_text_take(&t);
	t = (struct interp_text) {.n = 0};
	put_symbol(&t, &n->class, n->class.n, '/');
	put_char(&t, '.');
	put_symbol(&t, &n->method, n->method.n, '/');
	put_symbol(&t, &n->signature, n->signature.n, '/');
	c->raw = interp_text_take(&t);
	t = (struct interp_text) {.n = 0};
	if (n->source.n) {
		put_symbol(&t, &n->class, package_bytes(&n->class, class_bytes), '/');
		put_symbol(&t, &n->source, n->source.n, '/');
	}
	c->file = interp_text_take(&t);
}

int hotspot_read_method(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t object,
	struct interp_code *ret)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	_cleanup_free_ struct names *names = try_malloc(sizeof(*names));
	struct method d;
	int e = names ? read_method(m, vm, object, &d) : -ENOMEM;

	if (e == 0)
		e = read_names(m, vm, &d, names);
	if (e == 0 && d.flags & vm->const_has_lines && d.code_size)
		e = read_lines(m, vm, d.const_method + vm->const_bytes + d.code_size, &c);
	if (e < 0)
		return e;
	put_names(names, &c);
	c.first_line = first_line_of(&c);
	c.check = c.kernel_check = d.check;
	*ret = c;
	c = (struct interp_code) {0};
	return 0;
}

int hotspot_read_code(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t object, _unused_ uint64_t context, struct interp_code *ret)
{
	const struct hotspot_vm *vm;
	struct hotspot_vm own;
	int e = hotspot_vm_of(m, r, &own, &vm);

	return e < 0 ? e : hotspot_read_method(m, vm, object, ret);
}
