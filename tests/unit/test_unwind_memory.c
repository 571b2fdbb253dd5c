/* SPDX-License-Identifier: Apache-2.0
 *
 * What compiling unwind tables holds at once, by counting every allocation: streamed, so bounded however large the file is. The
 * subject is the largest library there is.
 */
#include "exporter/parser/unwind/unwind.h"
#include "lib/base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0 /* the sanitizer's allocator has these names */
#else
#define COUNTS 1
#endif

static size_t held, peak;

#if COUNTS
/* glibc's own, under the names that it exports for whoever replaces them. */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);

static void *counted(void *p)
{
	held += p ? malloc_usable_size(p) : 0;
	peak = MAX(peak, held);
	return p;
}

static void uncount(void *p)
{
	size_t n = p ? malloc_usable_size(p) : 0;

	held -= MIN(n, held);
}

void *malloc(size_t n)
{
	return counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
	return counted(__libc_calloc(n, size));
}

/* Both blocks are there while one is copied to the other. */
void *realloc(void *p, size_t n)
{
	size_t had = p ? malloc_usable_size(p) : 0;
	void *q = __libc_realloc(p, n);

	if (q) {
		counted(q);
		held -= MIN(had, held);
	}
	return q;
}

void *memalign(size_t align, size_t n)
{
	return counted(__libc_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int posix_memalign(void **ret, size_t align, size_t n)
{
	*ret = memalign(align, n);
	return *ret ? 0 : ENOMEM;
}

void free(void *p)
{
	uncount(p);
	__libc_free(p);
}
#endif

/* The largest file among them. */
static bool find_largest(const char *pattern, char *ret, size_t cap, off_t *ret_bytes)
{
	glob_t g;

	if (glob(pattern, 0, NULL, &g) != 0)
		return false;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		struct stat st;

		if (stat(g.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode) &&
			st.st_size > *ret_bytes) {
			*ret_bytes = st.st_size;
			snprintf(ret, cap, "%s", g.gl_pathv[i]);
		}
	}
	globfree(&g);
	return *ret_bytes > 0;
}

/* Returns the peak above what was held before. */
static size_t compile(const char *path, uint32_t *ret_rows)
{
	_cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = memfd_create("out", MFD_CLOEXEC);
	_cleanup_elf_file_ struct elf_file f = {.fd = -1};
	struct unwind_sections sections;
	struct errbuf eb = {{0}};
	size_t before;

	if (elf_file_open(in, &f, &eb) < 0)
		fail_msg("%s: %s", path, eb.text);
	before = peak = held;
	assert_int_equal(unwind_compile(&f, NULL, NULL, out, 0, &sections), 0);
	*ret_rows = sections.n_rows;
	return peak - before;
}

static void the_largest_library_fits(void **state)
{
	static const char *const patterns[] = {"/usr/lib/x86_64-linux-gnu/libLLVM*.so*",
		"/usr/lib/x86_64-linux-gnu/*.so*", "/lib64/libc.so.6"};
	char path[512];
	off_t bytes = 0;
	uint32_t rows;
	size_t most;

	(void)state;
	for (size_t i = 0; !bytes && i < ARRAY_SIZE(patterns); i++)
		find_largest(patterns[i], path, sizeof(path), &bytes);
	if (!bytes || !COUNTS)
		skip();
	most = compile(path, &rows);
	print_message("%s: %u rows, %zu bytes held at most\n", path, rows, most);
	assert_true(rows > 0);
	assert_true(most > 0);
	assert_true(most <= UNWIND_TRANSIENT_BYTES);
	/* The counting sees what it is to see: a second time costs the same, and more than nothing for each function. */
	assert_int_equal(compile(path, &rows), most);
}

static void counting_counts(void **state)
{
	size_t before;
	void *volatile p;

	(void)state;
	if (!COUNTS)
		skip();
	before = peak = held;
	p = malloc(1 << 20);
	p = realloc(p, 3 << 20);
	free(p);
	assert_true(peak - before >= 4 << 20);
	assert_int_equal(held, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counting_counts),
		cmocka_unit_test(the_largest_library_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
