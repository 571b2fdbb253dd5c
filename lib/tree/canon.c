/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions without the parts that a compiler numbers anew in each build.
 */
#include "lib/tree/canon.h"
#include "lib/base/str.h"
#include <ctype.h>
#include <string.h>

static bool starts(const char *p, const char *end, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(end - p) >= n && !memcmp(p, with, n);
}

static const char *skip_digits(const char *p, const char *end)
{
	while (p < end && isdigit((unsigned char)*p))
		p++;
	return p;
}

/* The end of a clone suffix that begins at p, or NULL: ".cold", ".constprop.0", " [clone .isra.0]". */
static const char *skip_clone(const char *p, const char *end)
{
	static const char *const words[] = {".constprop", ".isra", ".part", ".cold", ".lto_priv",
		".llvm", ".localalias", ".clone"};

	if (starts(p, end, " [clone ")) {
		const char *close = memchr(p, ']', (size_t)(end - p));

		return close ? close + 1 : NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const char *q = p + strlen(words[i]);

		if (!starts(p, end, words[i]) || (q < end && isalnum((unsigned char)*q)) ||
			(q < end && *q == '_'))
			continue;
		while (q < end && *q == '.' && q + 1 < end && isdigit((unsigned char)q[1]))
			q = skip_digits(q + 1, end);
		return q;
	}
	return NULL;
}

/* Rust's "::h0123456789abcdef" at the end. */
static bool is_rust_hash(const char *p, const char *end)
{
	if (end - p != 19 || !starts(p, end, "::h"))
		return false;
	for (p += 3; p < end; p++)
		if (!isxdigit((unsigned char)*p))
			return false;
	return true;
}

/* "Module.name_123" of OCaml, where the number is a stamp. */
static bool is_ocaml_stamp(const char *name, const char *p, const char *end)
{
	const char *dot = memchr(name, '.', (size_t)(p - name));

	return isupper((unsigned char)*name) && dot && p + 1 < end && *p == '_' &&
	       skip_digits(p + 1, end) == end && !memchr(name, '(', (size_t)(p - name)) &&
	       !memchr(name, ':', (size_t)(p - name));
}

/* Does the rest of the name from p on go? */
static bool ends_here(const char *name, const char *p, const char *end, unsigned what)
{
	if ((what & TREE_CANON_CLONES) && is_rust_hash(p, end))
		return true;
	if ((what & TREE_CANON_NUMBERS) && is_ocaml_stamp(name, p, end))
		return true;
	return (what & TREE_CANON_OFFSETS) && starts(p, end, "+0x") && p > name;
}

size_t tree_canonical_name(
	const char *name, size_t len, unsigned what, char ret[static TREE_CANON_MAX])
{
	const char *p = name, *end = name + len;
	size_t n = 0;

	if (len > TREE_CANON_MAX)
		return 0;
	while (p < end) {
		const char *clone = what & TREE_CANON_CLONES ? skip_clone(p, end) : NULL;

		if (clone) {
			p = clone;
			continue;
		}
		if (ends_here(name, p, end, what))
			break;
		ret[n++] = *p++;
		if (ret[n - 1] == '#' && (what & TREE_CANON_NUMBERS))
			p = skip_digits(p, end); /* lambda()#3 */
	}
	return n;
}

bool tree_name_is(const char *name, size_t len, const char *wanted)
{
	char shown[TREE_CANON_MAX];
	size_t n = strlen(wanted);

	if (len == n && !memcmp(name, wanted, n))
		return true;
	return n && tree_canonical_name(name, len, TREE_CANON_CLONES, shown) == n &&
	       !memcmp(shown, wanted, n);
}
