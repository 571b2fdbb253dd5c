/* SPDX-License-Identifier: Apache-2.0
 *
 * The one allocation seam. Small fixed allocations abort when memory is out (the panic names the
 * work in hand); what input can size uses the try_ forms, or an arena with a budget. Tests make the
 * n-th allocation fail. Any thread, but for what is set at start and by tests.
 */
#pragma once
#include "lib/base/cleanup.h"
#include <stddef.h>

struct budget;
struct errbuf;

/* Never NULL: memory that is out is a panic. Freed with free(). */
void *xmalloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t bytes) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t bytes) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) _printf_(1, 2);

/* NULL when memory is out or n × bytes overflows; try_realloc then leaves `p` as it was. Freed with free(). */
void *try_malloc(size_t bytes) _must_check_;
void *try_calloc(size_t n, size_t bytes) _must_check_;
void *try_realloc(void *p, size_t n, size_t bytes) _must_check_;
/*
 * For some MiB that will all be written: aligned to pages of 2 MiB, and the kernel is asked for such. Filling 8 MiB costs it a third
 * of what it does in pages of 4 KiB. NULL when memory is out. Freed with free().
 */
void *try_malloc_huge(size_t bytes) _must_check_;
enum { ALLOC_HUGE_PAGE_BYTES = 2 << 20 };

/*
 * For a program that answers requests: what one frees at the end of a heap serves the next, up to some MiB; otherwise glibc gives
 * it back to the kernel above 128 KiB, each time. At start.
 */
void alloc_keep_freed(void);

/* Tests: the n-th try_ allocation from now fails (1 = the next); 0 turns it off. Returns what was left of the count before; 0: it failed. */
unsigned alloc_fail_after(unsigned n);

/* Grows the array `*p` of items of `elem` bytes so that it holds `need` of them; `*cap`, in items, is updated. Doubles.
 * -ENOMEM: nothing has changed. */
_must_check_ static inline int alloc_grow(void *p, size_t *cap, size_t need, size_t elem);
/* The same, charged to a budget (NULL: none), whose text goes to `eb` when it refuses. Freed with alloc_free_in(), which sets `*p`
 * to NULL and `*cap` to 0, or with budget_free(). */
int alloc_grow_in(struct budget *b, void *p, size_t *cap, size_t need, size_t elem,
	struct errbuf *eb) _must_check_;
void alloc_free_in(struct budget *b, void *p, size_t *cap, size_t elem);

static inline int alloc_grow(void *p, size_t *cap, size_t need, size_t elem)
{
	return need <= *cap ? 0 : alloc_grow_in(NULL, p, cap, need, elem, NULL);
}
