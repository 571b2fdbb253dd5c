/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporter's own tables say of addresses, printed as llvm-symbolizer prints it:
 * `lines FILE [DEBUG_FILE] <ADDRESSES`, one hexadecimal ELF address a line. Makes the symbol file
 * first, so that its CPU time is that of the whole job; `lines -s FILE` prints figures of the
 * symbol file instead. Files that these name are opened as they are named, packages as FILE.dwp.
 */
#include "exporter/binary/symbol_lines.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static char *put_number(char *end, uint32_t v)
{
	do
		*--end = (char)('0' + v % 10);
	while (v /= 10);
	return end;
}

/* Without printf, whose time would be a tenth of all. */
static void print_place(const struct symbol_place *p, const char *function)
{
	char place[32] = {0}, *at = &place[sizeof(place) - 1];

	*--at = '\n';
	at = put_number(at, p->column);
	*--at = ':';
	at = put_number(at, p->line);
	*--at = ':';
	fputs_unlocked(function && *function ? function : "??", stdout);
	putchar_unlocked('\n');
	fputs_unlocked(*p->file ? p->file : "??", stdout);
	fputs_unlocked(at, stdout);
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
	putchar('\n');
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

static char out_buffer[64 << 10]; /* as much as a pipe takes at once */

int main(int argc, char **argv)
{
	bool figures = argc > 1 && !strcmp(argv[1], "-s");
	const char *path = argv[1 + figures], *debug_path = path ? argv[2 + figures] : NULL;
	_cleanup_close_ int in = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, debug = -1,
			    out = memfd_create("symbols", MFD_CLOEXEC);
	const struct parser_finder finder = {.find = find, .ctx = argv[1 + figures]};
	struct parser_inputs inputs = {.fd = in, .finder = &finder};
	struct errbuf eb = {{0}};
	struct symbol_file s;
	char line[64];

	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	if (debug_path)
		debug = open(debug_path, O_RDONLY | O_CLOEXEC);
	inputs.debug_fd = debug;
	if (in < 0 || parser_compile_linked(&inputs, out, &eb) < 0 ||
		symbol_file_map(out, &s, &eb) < 0) {
		fprintf(stderr, "lines: %s: %s\n", path ? path : "no file", eb.text);
		return 1;
	}
	if (figures)
		print_figures(&s);
	else
		while (fgets_unlocked(line, sizeof(line), stdin))
			print_address(&s, strtoull(line, NULL, 16));
	symbol_file_unmap(&s);
	return 0;
}
