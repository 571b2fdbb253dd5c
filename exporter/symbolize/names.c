/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache of demangled names.
 */
#include "exporter/symbolize/names.h"
#include "exporter/parser/parser.h"
#include "lib/base/bytes.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void generation_init(struct name_generation *g)
{
	*g = (struct name_generation) {.readable = NULL};
	interner_init(&g->raw, NULL);
}

static void generation_done(struct name_generation *g)
{
	interner_done(&g->raw);
	free(g->readable);
}

void names_init(struct names *n, int parser_fd, size_t max_bytes)
{
	*n = (struct names) {.parser_fd = parser_fd, .max_bytes = max_bytes};
	generation_init(&n->young);
	generation_init(&n->old);
}

void names_done(struct names *n)
{
	generation_done(&n->young);
	generation_done(&n->old);
}

static size_t generation_bytes(const struct name_generation *g)
{
	return g->raw.arena.total_bytes + g->raw.cap_items * sizeof(*g->raw.items) +
	       g->raw.n_slots * sizeof(*g->raw.slots) + g->cap_readable * sizeof(*g->readable);
}

size_t names_bytes(const struct names *n)
{
	return generation_bytes(&n->young) + generation_bytes(&n->old);
}

bool names_is_mangled(const char *raw)
{
	if (raw[0] == '_' || raw[0] == '?')
		return raw[1] == 'Z' || raw[1] == 'R' || raw[1] == 'D' ||
		       str_starts_with(raw, "__Z") || str_starts_with(raw, "__R") ||
		       str_starts_with(raw, "_GLOBAL__") || str_starts_with(raw, "_ada_");
	if (str_starts_with(raw, "ada__") || str_starts_with(raw, "system__") ||
		str_starts_with(raw, "gnat__") || str_starts_with(raw, "interfaces__"))
		return true;
	return str_starts_with(raw, "caml") && raw[4] >= 'A' && raw[4] <= 'Z';
}

static const char *find_in(const struct name_generation *g, const char *raw, size_t len)
{
	uint32_t id = interner_find(&g->raw, raw, len);

	return id == INTERNER_NONE ? NULL : g->readable[id];
}

/* Room for the name must be there before its id is, so that every id has a readable form. */
static void remember(struct names *n, const char *raw, const char *readable, size_t len)
{
	struct name_generation *g = &n->young;
	char *copy;
	uint32_t id;

	if (alloc_grow(&g->readable, &g->cap_readable, g->raw.n + 1, sizeof(*g->readable)) < 0)
		return;
	copy = arena_strndup(&g->raw.arena, readable, len);
	id = copy ? interner_add(&g->raw, raw, strlen(raw), NULL) : INTERNER_NONE;
	if (id != INTERNER_NONE)
		g->readable[id] = copy;
}

const char *names_find(struct names *n, const char *raw)
{
	const char *readable = find_in(&n->young, raw, strlen(raw));

	return readable ? readable : find_in(&n->old, raw, strlen(raw));
}

/* All names, each with its NUL, in a memfd. */
static int names_memfd(const char *const *raw, size_t count)
{
	_cleanup_close_ int fd = memfd_create("names", MFD_CLOEXEC);
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	for (size_t i = 0; i < count; i++)
		bytes_put(&b, raw[i], strlen(raw[i]) + 1);
	if (fd < 0 || bytes_error(&b) < 0)
		return -ENOMEM;
	for (size_t done = 0; done < b.len;) {
		ssize_t w = write(fd, b.data + done, b.len - done);

		if (w <= 0)
			return -ENOMEM;
		done += (size_t)w;
	}
	return TAKE_FD(fd);
}

/* Takes the answers over; returns how many names they cover. */
static size_t take_answers(struct names *n, int fd, const char *const *raw, size_t count)
{
	struct stat st;
	struct cursor c;
	size_t i = 0;
	void *data;

	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return 0;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return 0;
	c = cursor_of(data, (size_t)st.st_size);
	for (; i < count && cursor_left(&c); i++) {
		uint32_t len = cursor_u32(&c);
		const char *readable = (const char *)cursor_take(&c, len);

		if (c.error)
			break;
		if (len)
			remember(n, raw[i], readable, len);
		else
			remember(n, raw[i], raw[i], strlen(raw[i]));
	}
	munmap(data, (size_t)st.st_size);
	n->demangled += i;
	return i;
}

static size_t demangle_some(struct names *n, const char *const *raw, size_t count, bool *ret_ok)
{
	struct parser_reply reply = {.status = PARSER_FAILED};
	_cleanup_close_ int in = names_memfd(raw, count), out = -1;

	if (in >= 0)
		out = parser_ask(n->parser_fd, PARSER_DEMANGLE, in, NAMES_TIMEOUT_MS, &reply);
	*ret_ok = reply.status == PARSER_OK;
	return out >= 0 ? take_answers(n, out, raw, count) : 0;
}

static void make_room(struct names *n)
{
	if (generation_bytes(&n->young) < n->max_bytes / 2)
		return;
	generation_done(&n->old);
	n->old = n->young;
	generation_init(&n->young);
}

void names_demangle(struct names *n, const char *const *raw, size_t count)
{
	_cleanup_free_ const char **missing = try_realloc(NULL, count + 1, sizeof(*missing));
	size_t n_missing = 0, at = 0;

	if (!missing)
		return;
	make_room(n);
	for (size_t i = 0; i < count; i++) {
		const char *old;

		if (find_in(&n->young, raw[i], strlen(raw[i])))
			continue;
		old = find_in(&n->old, raw[i], strlen(raw[i]));
		if (old)
			remember(n, raw[i], old, strlen(old));
		else
			missing[n_missing++] = raw[i];
	}
	for (int tries = 0; at < n_missing && tries <= NAMES_MAX_RETRIES; tries++) {
		bool ok;

		at += demangle_some(n, missing + at, n_missing - at, &ok);
		if (ok || at >= n_missing)
			break;
		/* The name after the last answer is what the child died of. */
		n->failed++;
		remember(n, missing[at], missing[at], strlen(missing[at]));
		at++;
	}
}
