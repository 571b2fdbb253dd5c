/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks double from 4 KiB to 1 MiB; a larger request gets a chunk of its own.
 */
#include "lib/base/arena.h"
#include "lib/base/alloc.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, FIRST_CHUNK = 4096, MAX_CHUNK = 1 << 20, MAX_KEPT = 16 << 20 };

struct arena_chunk {
	struct arena_chunk *older;
	size_t bytes;
	_Alignas(ALIGN) char data[];
};

struct arena_adopted {
	struct arena_adopted *older;
	void *p;
	size_t bytes;
};

void arena_init(struct arena *a, struct budget *budget)
{
	*a = (struct arena) {.budget = budget};
}

static void free_chunk(struct arena *a, struct arena_chunk *c)
{
	a->total_bytes -= c->bytes;
	if (a->budget)
		budget_release(a->budget, c->bytes);
	free(c);
}

/* Their list lies in the chunks, so they go first. */
static void free_adopted(struct arena *a)
{
	for (struct arena_adopted *x = a->adopted; x; x = x->older) {
		a->total_bytes -= x->bytes;
		if (a->budget)
			budget_release(a->budget, x->bytes);
		free(x->p);
	}
	a->adopted = NULL;
}

void arena_done(struct arena *a)
{
	free_adopted(a);
	while (a->chunks) {
		struct arena_chunk *c = a->chunks;

		a->chunks = c->older;
		free_chunk(a, c);
	}
	a->next = a->end = NULL;
	a->error = 0;
	a->errbuf.text[0] = 0;
}

void arena_reset(struct arena *a)
{
	struct arena_chunk *keep = NULL;

	free_adopted(a);
	for (struct arena_chunk *c = a->chunks; c; c = c->older)
		if (c->bytes <= MAX_KEPT && (!keep || c->bytes > keep->bytes))
			keep = c;
	for (struct arena_chunk *c = a->chunks, *older; c; c = older) {
		older = c->older;
		if (c != keep)
			free_chunk(a, c);
	}
	if (keep)
		keep->older = NULL;
	a->chunks = keep;
	a->next = keep ? keep->data : NULL;
	a->end = keep ? (char *)keep + keep->bytes : NULL;
	a->error = 0;
	a->errbuf.text[0] = 0;
}

static int add_chunk(struct arena *a, size_t bytes)
{
	size_t want = a->total_bytes ? MIN(a->total_bytes, (size_t)MAX_CHUNK) : FIRST_CHUNK;
	struct arena_chunk *c;

	if (__builtin_add_overflow(bytes, sizeof(*c) + ALIGN, &bytes))
		return err_set(&a->errbuf, -ENOMEM, "allocation size overflows");
	want = MAX(want, bytes);
	if (a->budget && budget_charge(a->budget, want, &a->errbuf) < 0)
		return -ENOMEM;
	c = try_malloc(want);
	if (!c) {
		if (a->budget)
			budget_release(a->budget, want);
		return err_set(&a->errbuf, -ENOMEM, "out of memory allocating %zu bytes", want);
	}
	c->older = a->chunks;
	c->bytes = want;
	a->chunks = c;
	a->total_bytes += want;
	a->next = c->data;
	a->end = (char *)c + want;
	return 0;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	size_t rounded;
	void *p;

	if (a->error)
		return NULL;
	if (__builtin_add_overflow(bytes, ALIGN - 1, &rounded)) {
		a->error = err_set(&a->errbuf, -ENOMEM, "allocation size overflows");
		return NULL;
	}
	rounded &= ~(size_t)(ALIGN - 1);
	if ((size_t)(a->end - a->next) < rounded) {
		a->error = add_chunk(a, rounded);
		if (a->error)
			return NULL;
	}
	p = a->next;
	a->next += rounded;
	return p;
}

bool arena_adopt(struct arena *a, void *p, size_t bytes)
{
	struct arena_adopted *x = arena_alloc(a, sizeof(*x));

	if (!x)
		return false;
	*x = (struct arena_adopted) {.older = a->adopted, .p = p, .bytes = bytes};
	a->adopted = x;
	a->total_bytes += bytes;
	return true;
}

void *arena_alloc_array(struct arena *a, size_t n, size_t bytes)
{
	size_t total;

	if (__builtin_mul_overflow(n, bytes, &total))
		total = SIZE_MAX;
	return arena_alloc(a, total);
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
	void *p = arena_alloc(a, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *copy = n == SIZE_MAX ? NULL : arena_alloc(a, n + 1);

	if (!copy)
		return NULL;
	memcpy(copy, s, n);
	copy[n] = 0;
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	char small[256];
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	if ((size_t)n < sizeof(small))
		return arena_strndup(a, small, (size_t)n);
	s = arena_alloc(a, (size_t)n + 1);
	if (!s)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(s, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return s;
}

int arena_error(const struct arena *a, struct errbuf *eb)
{
	if (!a->error)
		return 0;
	return err_set(eb, a->error, "%s", err_text(&a->errbuf, a->error));
}
