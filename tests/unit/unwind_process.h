/* SPDX-License-Identifier: Apache-2.0
 *
 * The executable mappings of a stopped child with their unwind tables, for tests that walk it. What includes this defines
 * unwind_read_user: the child's memory (read_child) or a copy.
 */
#pragma once
#include "exporter/parser/parser.h"
#include "tests/unit/unwind_host.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_MAPPINGS = 512 };

struct mapping {
	uint64_t start, end, off;
	uint32_t binary; /* 0: no file */
	unsigned n_leaves;
	char path[256];
};
static struct mapping mappings[MAX_MAPPINGS];
static unsigned n_mappings;
static pid_t child_pid;

static int read_child(void *to, size_t len, uint64_t from)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};

	return process_vm_readv(child_pid, &local, 1, &remote, 1, 0) == (ssize_t)len ? 0 : -1;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	for (unsigned i = 0; i < n_mappings; i++) {
		const struct mapping *m = &mappings[i];

		if (addr < m->start || addr >= m->end)
			continue;
		w->binary = m->binary;
		w->off = addr - m->start + m->off;
		return m->binary ? UNWIND_IN_FILE : UNWIND_IN_JIT;
	}
	return UNWIND_IN_DATA;
}

/* The vdso has no file. */
static int open_mapping(const struct mapping *m)
{
	_cleanup_free_ uint8_t *copy = xcalloc(1, m->end - m->start);
	int fd;

	if (strcmp(m->path, "[vdso]") != 0)
		return open(m->path, O_RDONLY | O_CLOEXEC);
	fd = memfd_create("vdso", 0);
	if (read_child(copy, m->end - m->start, m->start) < 0 ||
		write(fd, copy, m->end - m->start) != (ssize_t)(m->end - m->start))
		fail_msg("cannot read the vdso");
	return fd;
}

static void load_table(struct unwind_tables *t, struct mapping *m)
{
	int in = open_mapping(m), out = memfd_create("symbols", 0);
	struct symbol_file file;
	struct symbol_unwind u;
	struct errbuf eb = {{0}};

	if (in < 0 ||
		parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out, &eb) < 0 ||
		symbol_file_map(out, &file, &eb) < 0)
		fail_msg("%s: %s", m->path, eb.text);
	assert_true(symbol_unwind_of(&file, &u));
	for (unsigned i = 1; i < m->binary; i++)
		if (strcmp(mappings[i - 1].path, m->path) == 0)
			m->binary = mappings[i - 1].binary;
	assert_int_equal(unwind_tables_load(t, m->binary, file.identity.content_id, &u, 1), 0);
	symbol_file_unmap(&file);
	close(in);
	close(out);
}

static void read_mappings(struct unwind_tables *t)
{
	char path[64], line[512];
	FILE *f;

	n_mappings = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", child_pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		struct mapping *m = &mappings[n_mappings];
		char perms[8];

		*m = (struct mapping) {0};
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255s", &m->start, &m->end, perms,
			    &m->off, m->path) < 4 ||
			perms[2] != 'x')
			continue;
		assert_true(n_mappings < MAX_MAPPINGS - 1);
		n_mappings++;
		if (m->path[0] == '/' || strcmp(m->path, "[vdso]") == 0) {
			m->binary = n_mappings;
			load_table(t, m);
		}
	}
	fclose(f);
}
