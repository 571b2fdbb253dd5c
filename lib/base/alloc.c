/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocation seam.
 */
#include "lib/base/alloc.h"
#include "lib/base/budget.h"
#include "lib/base/err.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { KEPT_BYTES = 8 << 20, MAPPED_BYTES = 1 << 20 };

static _Atomic unsigned fail_after;

static bool must_fail(void)
{
	unsigned n = fail_after;

	while (n && !atomic_compare_exchange_weak(&fail_after, &n, n - 1))
		;
	return n == 1;
}

unsigned alloc_fail_after(unsigned n)
{
	unsigned left = fail_after;

	fail_after = n;
	return left;
}

/* A mapping of its own is always given back, so only what is large gets one. */
void alloc_keep_freed(void)
{
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

void *xmalloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p)
		err_panic("out of memory allocating %zu bytes", bytes);
	return p;
}

void *xcalloc(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes ? bytes : 1);

	if (!p)
		err_panic("out of memory allocating %zu × %zu bytes", n, bytes);
	return p;
}

void *xrealloc(void *p, size_t bytes)
{
	p = realloc(p, bytes ? bytes : 1);
	if (!p)
		err_panic("out of memory allocating %zu bytes", bytes);
	return p;
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = xmalloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

char *xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		err_panic("out of memory formatting text");
	return s;
}

void *try_malloc(size_t bytes)
{
	return must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *try_calloc(size_t n, size_t bytes)
{
	return must_fail() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *try_realloc(void *p, size_t n, size_t bytes)
{
	size_t total;

	if (__builtin_mul_overflow(n, bytes, &total) || must_fail())
		return NULL;
	return realloc(p, total ? total : 1);
}

void *try_malloc_huge(size_t bytes)
{
	void *p = NULL;

	if (must_fail() || posix_memalign(&p, ALLOC_HUGE_PAGE_BYTES, bytes ? bytes : 1) != 0)
		return NULL;
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

int alloc_grow_in(
	struct budget *b, void *p, size_t *cap, size_t need, size_t elem, struct errbuf *eb)
{
	size_t want = *cap ? *cap : 16, more;
	void *grown;
	int r;

	if (need <= *cap)
		return 0;
	while (want < need)
		if (__builtin_mul_overflow(want, 2, &want))
			return -ENOMEM;
	if (__builtin_mul_overflow(want - *cap, elem, &more))
		return -ENOMEM;
	r = b ? budget_charge(b, more, eb) : 0;
	if (r < 0)
		return r;
	grown = try_realloc(*(void **)p, want, elem);
	if (!grown) {
		budget_release(b, more);
		return -ENOMEM;
	}
	*(void **)p = grown;
	*cap = want;
	return 0;
}

void alloc_free_in(struct budget *b, void *p, size_t *cap, size_t elem)
{
	budget_release(b, *cap * elem);
	free(*(void **)p);
	*(void **)p = NULL;
	*cap = 0;
}
