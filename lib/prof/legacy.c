/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line or words of old formats.
 */
#include "lib/prof/legacy.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CONVERT ": convert it with \"go tool pprof -proto PROGRAM FILE\""
#define GPERFTOOLS(what) "a " what " of gperftools" CONVERT
#define JAVA(what) "a " what " of the Java agent for pprof" CONVERT
#define GO "a profile of Go as text: ask for it without debug=1"

/* ---- CPU: words of 4 or 8 bytes of either order: 0, 3, 0 or (Java) 1, the period, 0 ---- */

enum { HEAD_WORDS = 5 };

static uint64_t word_at(const uint8_t *p, size_t i, size_t width, bool is_big)
{
	uint64_t v = 0;

	for (size_t k = 0; k < width; k++)
		v |= (uint64_t)p[i * width + k] << 8 * (is_big ? width - 1 - k : k);
	return v;
}

static const char *cpu_what(const uint8_t *p, size_t n)
{
	for (size_t width = 4; width <= 8; width += 4)
		for (int is_big = 0; is_big < 2 && n >= HEAD_WORDS * width; is_big++) {
			uint64_t w[HEAD_WORDS];

			for (size_t i = 0; i < HEAD_WORDS; i++)
				w[i] = word_at(p, i, width, is_big);
			if (w[0] || w[1] != 3 || w[2] > 1 || !w[3] || w[4])
				continue;
			return w[2] ? JAVA("CPU profile") : GPERFTOOLS("CPU profile");
		}
	return NULL;
}

/* ---- text ---- */

struct line {
	const char *p;
	size_t n;
};

static bool has(struct line l, const char *text)
{
	return memmem(l.p, l.n, text, strlen(text));
}

static bool begins(struct line l, const char *text)
{
	return l.n >= strlen(text) && !memcmp(l.p, text, strlen(text));
}

/* The next line that is neither empty nor a comment. */
static struct line next_line(struct line *rest)
{
	while (rest->n) {
		const char *end = memchr(rest->p, '\n', rest->n);
		struct line l = {rest->p, end ? (size_t)(end - rest->p) : rest->n};
		size_t skip = l.n + (end != NULL);

		*rest = (struct line) {rest->p + skip, rest->n - skip};
		while (l.n && isspace((unsigned char)*l.p)) {
			l.p++;
			l.n--;
		}
		if (l.n && *l.p != '#')
			return l;
	}
	return *rest;
}

/* "goroutine profile: total 7", and heaps whose rate stands behind "heap/". */
static bool is_go(struct line l)
{
	const char *total = memmem(l.p, l.n, " profile: total ", 16);

	if (begins(l, "heap profile: "))
		return has(l, "] @ heap/");
	return begins(l, "--- mutex:") || begins(l, "--- contention:") ||
	       (total && total > l.p && !memchr(l.p, ' ', (size_t)(total - l.p)) &&
		       isdigit((unsigned char)l.p[l.n - 1]));
}

static const char *heap_what(struct line l)
{
	if (has(l, "] @ growth"))
		return GPERFTOOLS("heap growth profile");
	if (has(l, "] @ fragmentation"))
		return GPERFTOOLS("heap fragmentation profile");
	return has(l, "] @ heap") ? GPERFTOOLS("heap profile") : NULL;
}

static bool is_java(struct line first, struct line rest)
{
	if (begins(first, "--- heapz 1 ---"))
		return true;
	for (struct line l = next_line(&rest); l.n && has(l, "="); l = next_line(&rest))
		if (begins(l, "format") && has(l, "java"))
			return true;
	return false;
}

const char *prof_legacy_what(const void *data, size_t len)
{
	struct line rest = {data, len}, first = next_line(&rest);
	const char *cpu = cpu_what(data, len);

	if (cpu)
		return cpu;
	if (is_go(first))
		return GO;
	if (begins(first, "heap profile:"))
		return heap_what(first);
	if (begins(first, "heap_v2/"))
		return "a heap profile of jemalloc: convert it with \"jeprof --collapsed PROGRAM "
		       "FILE\"";
	if (begins(first, "--- contentionz ") || begins(first, "--- heapz "))
		return is_java(first, rest) ? JAVA("heap or contention profile")
					    : GPERFTOOLS("contention profile");
	if (begins(first, "--- threadz ") || begins(first, "--- Thread "))
		return GPERFTOOLS("thread profile");
	return NULL;
}
