/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporter's own tables say of addresses, printed as llvm-symbolizer prints it:
 * `lines FILE [DEBUG_FILE] <ADDRESSES`, one hexadecimal ELF address a line. Makes the symbol file
 * first, so that its CPU time is that of the whole job; `lines -s FILE` prints figures of the
 * symbol file instead. Files that these name are opened as they are named, packages as FILE.dwp.
 */
#include "exporter/parser/parser.h"
#include "exporter/symfile/symbol_lines.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static char *put_number(char *end, uint32_t v)
{
	do
		*--end = (char)('0' + v % 10);
	while (v /= 10);
	return end;
}

/* As much as a pipe takes at once. Not stdio's: its time, and strtoull's, would be a tenth of all. */
static struct {
	char bytes[64 << 10];
	size_t n;
} out;

static void flush_out(void)
{
	for (size_t done = 0; done < out.n;) {
		ssize_t n = write(STDOUT_FILENO, out.bytes + done, out.n - done);

		if (n < 0 && errno != EINTR)
			exit(1);
		done += n > 0 ? (size_t)n : 0;
	}
	out.n = 0;
}

static void put_text(const char *s, size_t n)
{
	if (n > sizeof(out.bytes) - out.n)
		flush_out();
	n = MIN(n, sizeof(out.bytes));
	memcpy(out.bytes + out.n, s, n);
	out.n += n;
}

static void print_place(const struct symbol_place *p, const char *function)
{
	const char *name = function && *function ? function : "??",
		   *file = *p->file ? p->file : "??";
	char place[32], *end = place + sizeof(place), *at = end;

	*--at = '\n';
	at = put_number(at, p->column);
	*--at = ':';
	at = put_number(at, p->line);
	*--at = ':';
	put_text(name, strlen(name));
	put_text("\n", 1);
	put_text(file, strlen(file));
	put_text(at, (size_t)(end - at));
}

static void print_address(const struct symbol_file *s, uint64_t vaddr)
{
	struct symbol_place places[SYMBOL_MAX_PLACES];
	size_t n = symbol_file_places(s, vaddr, places);
	struct symbol_function f = {.name = NULL};
	bool named = symbol_file_find(s, vaddr, &f);

	if (!n) {
		places[0] = (struct symbol_place) {.file = "", .function = ""};
		n = 1;
	}
	for (size_t i = 0; i < n; i++) {
		bool table = i + 1 == n && named && !places[i].name_wins;

		print_place(&places[i], table ? f.name : places[i].function);
	}
	put_text("\n", 1);
}

/* Hexadecimal numbers, with or without 0x, one a line. */
static void print_addresses(const struct symbol_file *s)
{
	char bytes[64 << 10];
	uint64_t addr = 0;
	ssize_t n;

	while ((n = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			char c = bytes[i];

			if (c == '\n') {
				print_address(s, addr);
				addr = 0;
			} else if (c == 'x') {
				addr = 0;
			} else {
				addr = addr << 4 |
				       (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
			}
		}
	flush_out();
}

static void print_figures(const struct symbol_file *s)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("bytes %zu\nfunctions %u\nline_index %zu\nlines %zu\nscope_index %zu\n"
	       "scope_ranges %zu\nscopes %zu\ndebug_functions %zu\ndebug_strings %zu\nfiles %zu\n"
	       "left_out %u\nlacking %u\nfailed %d\ncpu_ms %" PRId64 "\npeak_kb %ld\n",
		s->bytes, s->n_functions, s->line_index.bytes, s->lines.bytes, s->scope_index.bytes,
		s->scope_ranges.bytes, s->scopes.bytes, s->debug_functions.bytes,
		s->debug_strings.bytes, s->files.bytes, s->n_debug_left_out, s->n_debug_lacking,
		!!(s->flags & SYMBOL_DEBUG_FAILED),
		(int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
			(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000,
		usage.ru_maxrss);
}

static int find(void *ctx, const struct parser_link *link, uint32_t *ret_next)
{
	const char *path = ctx;
	char package[4096];

	*ret_next = link->candidate + 1;
	if (link->candidate)
		return -1;
	snprintf(package, sizeof(package), "%s.dwp", path);
	return open(link->kind == PARSER_LINK_PACKAGE ? package : link->path, O_RDONLY | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	bool figures = argc > 1 && !strcmp(argv[1], "-s");
	const char *path = argv[1 + figures], *debug_path = path ? argv[2 + figures] : NULL;
	_cleanup_close_ int in = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, debug = -1,
			    made = memfd_create("symbols", MFD_CLOEXEC);
	const struct parser_finder finder = {.find = find, .ctx = argv[1 + figures]};
	struct parser_inputs inputs = {.fd = in, .finder = &finder};
	struct errbuf eb = {{0}};
	struct symbol_file s;

	if (debug_path)
		debug = open(debug_path, O_RDONLY | O_CLOEXEC);
	inputs.debug_fd = debug;
	if (in < 0 || parser_compile(&inputs, made, &eb) < 0 ||
		symbol_file_map(made, &s, &eb) < 0) {
		fprintf(stderr, "lines: %s: %s\n", path ? path : "no file", eb.text);
		return 1;
	}
	if (figures)
		print_figures(&s);
	else
		print_addresses(&s);
	symbol_file_unmap(&s);
	return 0;
}
