/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw symbol names → readable ones. Their prefixes distinguish the languages; libiberty
 * knows C++, Rust, D and Ada, OCaml's three schemes are undone here (facts: ocaml #11430, #13050).
 */
#include "exporter/parser/parser.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/str.h"
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A longer raw name stays as it is, a longer readable one is cut. */
enum { MAX_RAW_BYTES = 32 << 10, MAX_READABLE_BYTES = 8 << 10 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `_345` at the end: a stamp that changes with every build. Returns the length without it. */
static size_t without_stamp(const char *s, size_t n)
{
	size_t i = n;

	while (i && is_digit(s[i - 1]))
		i--;
	return i && i < n && s[i - 1] == '_' ? i - 1 : n;
}

/* `__`, `.` and (since 5.4, where `$$` escapes) `$` separate modules; `$xx` or `$$xx` is a byte. */
static size_t put_ocaml(struct bytes *out, const char *s, size_t n, size_t i)
{
	size_t escape = s[i] == '$' && i + 1 < n && s[i + 1] == '$' ? 2 : 1;

	if (s[i] == '_' && i + 2 < n && s[i + 1] == '_') {
		bytes_put_u8(out, '.');
		return i + 2;
	}
	if (s[i] == '$' && i + escape + 1 < n && hex_digit(s[i + escape]) >= 0 &&
		hex_digit(s[i + escape + 1]) >= 0) {
		bytes_put_u8(out,
			(uint8_t)(hex_digit(s[i + escape]) << 4 | hex_digit(s[i + escape + 1])));
		return i + escape + 2;
	}
	bytes_put_u8(out, (uint8_t)(s[i] == '$' ? '.' : s[i]));
	return i + 1;
}

static char *demangle_ocaml(const char *raw)
{
	const char *s = raw + strlen("caml"), *last;
	_cleanup_bytes_ struct bytes out;
	size_t n;

	if (str_starts_with(s, "Dune__exe__"))
		s += strlen("Dune__exe__");
	n = without_stamp(s, strlen(s));
	bytes_init(&out, NULL, 0);
	for (size_t i = 0; i < n;)
		i = put_ocaml(&out, s, n, i);
	bytes_put_u8(&out, '\0');
	if (bytes_error(&out) < 0)
		return NULL;
	last = strrchr((const char *)out.data, '.');
	if (!last)
		return xstrdup((const char *)out.data);
	n = (size_t)(last - (const char *)out.data);
	if (strcmp(last, ".entry") == 0)
		return xasprintf("%.*s (init)", (int)n, (const char *)out.data);
	if (strcmp(last, ".fun") == 0)
		return xasprintf("%.*s.(fun)", (int)n, (const char *)out.data);
	return xstrdup((const char *)out.data);
}

/* The main procedure and the units of the runtime. Those of the program itself look like any name in C that has two
 * underscores in it. */
static bool is_ada(const char *raw)
{
	static const char *const units[] = {"ada__", "system__", "gnat__", "interfaces__"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_starts_with(raw, units[i]))
			return true;
	return str_starts_with(raw, "_ada_");
}

/* `<name>` is libiberty's way to say that it could not. */
static char *demangle_ada(const char *raw)
{
	_cleanup_free_ char *readable = ada_demangle(raw, 0);

	return readable && readable[0] != '<' && strcmp(readable, raw) != 0 ? TAKE(readable) : NULL;
}

static char *demangle_one(const char *raw)
{
	char *readable = NULL;

	if (str_starts_with(raw, "_R") || str_starts_with(raw, "_ZN") ||
		str_starts_with(raw, "__ZN") || str_starts_with(raw, "__R"))
		readable = rust_demangle(raw[1] == '_' ? raw + 1 : raw, 0);
	if (readable)
		return readable;
	if (str_starts_with(raw, "_Z") || str_starts_with(raw, "_GLOBAL__"))
		return cplus_demangle_v3(raw, DMGL_PARAMS | DMGL_ANSI);
	if (str_starts_with(raw, "_D") && (is_digit(raw[2]) || strcmp(raw, "_Dmain") == 0))
		return dlang_demangle(raw, DMGL_PARAMS);
	if (str_starts_with(raw, "caml") && is_upper(raw[4]))
		return demangle_ocaml(raw);
	if (is_ada(raw))
		return demangle_ada(raw);
	return NULL;
}

char *demangle_name(const char *raw)
{
	size_t n = strnlen(raw, MAX_RAW_BYTES);
	_cleanup_free_ char *readable = NULL;

	if (n == MAX_RAW_BYTES)
		return NULL;
	if (str_ends_with(raw, "@plt")) {
		_cleanup_free_ char *base = xstrndup(raw, n - strlen("@plt"));
		_cleanup_free_ char *inner = demangle_one(base);

		readable = inner ? xasprintf("%s@plt", inner) : NULL;
	} else {
		readable = demangle_one(raw);
	}
	if (readable && strlen(readable) > MAX_READABLE_BYTES)
		memcpy(readable + MAX_READABLE_BYTES - 3, "...", 4);
	return readable && readable[0] ? TAKE(readable) : NULL;
}

/* One write a name: when a name kills the child, what was written tells which one it was. */
static int put_answer(int out_fd, const char *readable)
{
	uint32_t n = readable ? (uint32_t)strlen(readable) : 0;
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	bytes_put_u32(&b, n);
	bytes_put(&b, readable, n);
	if (bytes_error(&b) < 0)
		return -ENOMEM;
	return write(out_fd, b.data, b.len) == (ssize_t)b.len ? 0 : -EFBIG;
}

int parser_demangle(int in_fd, int out_fd, struct errbuf *eb)
{
	struct stat st;
	const char *names, *end;
	void *map;
	int r = 0;

	if (fstat(in_fd, &st) < 0 || st.st_size <= 0)
		return err_set(eb, -EBADMSG, "no names");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, in_fd, 0);
	if (map == MAP_FAILED)
		return err_set(eb, -ENOMEM, "names: cannot map");
	names = map;
	end = names + st.st_size;
	if (end[-1])
		r = err_set(eb, -EBADMSG, "names: the last has no end");
	for (const char *name = names; r == 0 && name < end; name += strlen(name) + 1) {
		_cleanup_free_ char *readable = demangle_name(name);

		r = put_answer(out_fd, readable);
	}
	munmap(map, (size_t)st.st_size);
	return r;
}
