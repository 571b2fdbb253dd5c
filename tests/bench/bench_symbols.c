/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbol tables: CPU time until the table of functions is ready, until the whole symbol file is (names,
 * lines, unwind rows), of the unwind rows alone, and of a look-up. Beside them in the same run, as limits: the bytes of the same
 * symbols read once, and a binary search over as many bare numbers.
 */
#include "exporter/symfile/symbol_unwind.h"
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 15, LOOK_UPS = 1 << 20 };

/* Of this thread: other work on the machine does not count. */
static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int by_value(const void *pa, const void *pb)
{
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

	return a < b ? -1 : a > b;
}

static double median_ms(int64_t *ns)
{
	qsort(ns, ROUNDS, sizeof(*ns), by_value);
	return (double)ns[ROUNDS / 2] / 1e6;
}

/* Bytes of the symbol tables and their strings, read once; their number in *ret_bytes. */
static uint64_t read_tables(int fd, uint64_t *ret_bytes)
{
	struct stat st;
	uint8_t *file;
	uint64_t hash = 0;
	Elf64_Ehdr e;

	*ret_bytes = 0;
	if (fstat(fd, &st) < 0)
		return 0;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return 0;
	memcpy(&e, file, sizeof(e));
	for (unsigned i = 0; i < e.e_shnum; i++) {
		Elf64_Shdr s;

		memcpy(&s, file + e.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM && s.sh_type != SHT_STRTAB)
			continue;
		hash += hash_xxh3(file + s.sh_offset, s.sh_size);
		*ret_bytes += s.sh_size;
	}
	munmap(file, (size_t)st.st_size);
	return hash;
}

/* What naming needs: the functions, sorted and without overlap. */
static void make_table(int fd)
{
	_cleanup_elf_file_ struct elf_file f = {.fd = -1};
	_cleanup_elf_symbols_ struct elf_symbols symbols = {0};
	_cleanup_elf_rows_ struct elf_rows rows = {0};

	if (elf_file_open(fd, &f, NULL) < 0 || elf_read_symbols(&f, &f, &symbols) < 0 ||
		elf_make_rows(&f, &symbols, &rows) < 0)
		exit(1);
}

static struct symbol_file compile(
	const char *path, double *ret_table_ms, double *ret_ms, double *ret_limit_ms)
{
	int64_t ours[ROUNDS], table[ROUNDS], limit[ROUNDS];
	struct symbol_file s = {0};
	uint64_t bytes, sink = 0;

	for (int i = 0; i < ROUNDS; i++) {
		int in = open(path, O_RDONLY | O_CLOEXEC), out = memfd_create("out", 0);
		int64_t began = now_ns();

		sink += read_tables(in, &bytes);
		limit[i] = now_ns() - began;
		symbol_file_unmap(&s);
		began = now_ns();
		make_table(in);
		table[i] = now_ns() - began;
		began = now_ns();
		if (parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out, NULL) <
				0 ||
			symbol_file_map(out, &s, NULL) < 0)
			exit(1);
		ours[i] = now_ns() - began;
		close(in);
		close(out);
	}
	*ret_ms = median_ms(ours);
	*ret_table_ms = median_ms(table);
	*ret_limit_ms = sink ? median_ms(limit) : 0;
	return s;
}

/* A file of nothing but the rows, as stacks wait for it: opening, reading and checking included. */
static void measure_rows(const char *path)
{
	int64_t ns[ROUNDS];
	struct symbol_unwind u = {.info = {0}};
	uint32_t n_rows = 0;
	double bytes = 0, ms;

	for (int i = 0; i < ROUNDS; i++) {
		int in = open(path, O_RDONLY | O_CLOEXEC), out = memfd_create("rows", 0);
		struct symbol_file s = {0};
		int64_t began = now_ns();

		if (parser_compile_rows(in, -1, out, NULL) < 0)
			exit(1);
		ns[i] = now_ns() - began;
		if (symbol_file_map(out, &s, NULL) < 0)
			exit(1);
		if (symbol_unwind_of(&s, &u)) {
			n_rows = u.info[SYMBOL_UNWIND_N_ROWS];
			bytes = (double)(s.unwind_words.bytes + s.unwind_rules.bytes);
		}
		symbol_file_unmap(&s);
		close(in);
		close(out);
	}
	ms = median_ms(ns);
	printf("\t%u unwind rows alone in %.1f ms, %.1f million rows/s, %.2f bytes a row\n", n_rows,
		ms, n_rows / ms / 1e3, n_rows ? bytes / n_rows : 0);
}

static uint64_t next_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return hash_mix(*state);
}

/* ns a look-up: ours, and the search alone over the same starts as 8-byte numbers. */
static void look_up(const struct symbol_file *s, double *ret_ns, double *ret_limit_ns)
{
	uint64_t *starts = xcalloc(s->n_functions, sizeof(*starts)), state = 1, sink = 0;
	uint64_t *at = xcalloc(LOOK_UPS, sizeof(*at));
	struct symbol_function f;
	int64_t began;

	for (uint32_t i = 0; i < s->n_functions; i++) {
		uint32_t start;

		memcpy(&start, s->starts.data + (size_t)i * 4, 4);
		starts[i] = s->text_base + start;
	}
	for (size_t i = 0; i < LOOK_UPS; i++)
		at[i] = starts[next_random(&state) % s->n_functions];
	began = now_ns();
	for (size_t i = 0; i < LOOK_UPS; i++)
		sink += symbol_file_find(s, at[i], &f) ? f.start : 0;
	*ret_ns = (double)(now_ns() - began) / LOOK_UPS;
	began = now_ns();
	for (size_t i = 0; i < LOOK_UPS; i++) {
		size_t low = 0;

		for (size_t n = s->n_functions; n > 1; n -= n / 2)
			low += starts[low + n / 2] <= at[i] ? n / 2 : 0;
		sink += low;
	}
	*ret_limit_ns = (double)(now_ns() - began) / LOOK_UPS;
	if (!sink)
		puts("");
	free(starts);
	free(at);
}

int main(int argc, char **argv)
{
	const char *files[] = {argc > 1 ? argv[1] : "/usr/bin/node",
		"/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/proc/self/exe"};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		double table_ms, ms, limit_ms, ns, limit_ns;
		struct symbol_file s;

		if (access(files[i], R_OK) < 0)
			continue;
		s = compile(files[i], &table_ms, &ms, &limit_ms);
		look_up(&s, &ns, &limit_ns);
		printf("%s: %u functions, table ready in %.2f ms (its symbols read once: %.2f ms), "
		       "whole symbol file in %.1f ms; look-up %.0f ns (binary search alone: %.0f "
		       "ns)\n",
			files[i], s.n_functions, table_ms, limit_ms, ms, ns, limit_ns);
		symbol_file_unmap(&s);
		measure_rows(files[i]);
	}
	return 0;
}
