/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions without the parts that a compiler numbers anew in each build.
 */
#include "lib/tree/canon.h"
#include "lib/base/str.h"
#include <ctype.h>
#include <string.h>

enum { RUST_HASH_BYTES = 19 }; /* "::h0123456789abcdef" */

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

const char *tree_skip_clone(const char *p, const char *end)
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

static bool is_rust_hash(const char *p)
{
	if (memcmp(p, "::h", 3) != 0)
		return false;
	for (size_t i = 3; i < RUST_HASH_BYTES; i++)
		if (!isxdigit((unsigned char)p[i]))
			return false;
	return true;
}

size_t tree_without_rust_hash(const char *name, size_t len)
{
	while (len > RUST_HASH_BYTES && is_rust_hash(name + len - RUST_HASH_BYTES))
		len -= RUST_HASH_BYTES;
	return len;
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
		const char *clone = what & TREE_CANON_CLONES ? tree_skip_clone(p, end) : NULL;

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
	/* Last: suffixes of clones stand behind it. */
	return what & TREE_CANON_CLONES ? tree_without_rust_hash(ret, n) : n;
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
