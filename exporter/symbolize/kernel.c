/* SPDX-License-Identifier: Apache-2.0
 *
 * kallsyms reader. A line is `ADDRESS TYPE NAME[\t[MODULE]]`; only text symbols are kept.
 */
#include "exporter/symbolize/kernel.h"
#include "lib/base/alloc.h"
#include "lib/base/radix.h"
#include "lib/base/str.h"
#include <string.h>

enum {
	READ_BYTES = 64 << 10,
	MAX_SYMBOLS = 4 << 20,
	MAX_MODULES = 4096,
	/* kallsyms has no sizes: a function reaches to the next symbol, but no further than
	 * this. */
	MAX_FUNCTION_BYTES = 1 << 20,
};

struct raw {
	uint64_t addr;
	uint32_t name;
	uint16_t module;
	uint8_t rank;
};

struct reader {
	struct raw *items;
	size_t n, cap;
	char *blob;
	size_t blob_len, blob_cap;
	char **modules;
	size_t n_modules, cap_modules;
	bool any_nonzero, any;
};

static void reader_done(struct reader *r)
{
	free(r->items);
	free(r->blob);
	for (size_t i = 0; i < r->n_modules; i++)
		free(r->modules[i]);
	free(r->modules);
}

/* Among names of one address: marks of sections last, global before weak before local, fewer
 * underscores first. */
static uint8_t rank_of(char type, const char *name)
{
	static const char *const marks[] = {"_text", "_stext", "_etext", "__init_begin",
		"_sinittext", "_einittext", "__entry_text_start", "__noinstr_text_start",
		"__sched_text_start", "__irqentry_text_start", "__softirqentry_text_start",
		"__cpuidle_text_start", "__lock_text_start"};
	size_t underscores = strspn(name, "_");

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (strcmp(name, marks[i]) == 0)
			return 255;
	return (uint8_t)((type == 'T' ? 0 : type == 't' ? 32 : 16) + MIN(underscores, 15U));
}

static int module_of(struct reader *r, const char *name, size_t n, uint16_t *ret)
{
	/* kallsyms lists a module's symbols together. */
	for (size_t i = r->n_modules; i-- > 0;)
		if (strlen(r->modules[i]) == n && memcmp(r->modules[i], name, n) == 0) {
			*ret = (uint16_t)i;
			return 0;
		}
	if (r->n_modules == MAX_MODULES)
		return -EFBIG;
	if (alloc_grow(&r->modules, &r->cap_modules, r->n_modules + 1, sizeof(*r->modules)) < 0)
		return -ENOMEM;
	r->modules[r->n_modules] = xstrndup(name, n);
	*ret = (uint16_t)r->n_modules++;
	return 0;
}

static int add_symbol(
	struct reader *r, uint64_t addr, char type, const char *name, size_t n, uint16_t module)
{
	if (r->n == MAX_SYMBOLS)
		return -EFBIG;
	if (alloc_grow(&r->items, &r->cap, r->n + 1, sizeof(*r->items)) < 0 ||
		alloc_grow(&r->blob, &r->blob_cap, r->blob_len + n + 1, 1) < 0)
		return -ENOMEM;
	memcpy(r->blob + r->blob_len, name, n);
	r->blob[r->blob_len + n] = '\0';
	r->items[r->n++] = (struct raw) {
		.addr = addr,
		.name = (uint32_t)r->blob_len,
		.module = module,
		.rank = rank_of(type, r->blob + r->blob_len),
	};
	r->blob_len += n + 1;
	return 0;
}

static bool take_address(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; *p && *p != ' '; p++) {
		int digit = *p >= '0' && *p <= '9'   ? *p - '0'
			    : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
						     : -1;

		if (digit < 0 || p - *s == 16)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	if (p == *s || !p[0] || !p[1] || p[2] != ' ')
		return false;
	*s = p + 1;
	*ret = v;
	return true;
}

static int take_line(struct reader *r, const char *line)
{
	const char *s = line, *name, *module;
	uint16_t module_index = 0;
	uint64_t addr;
	size_t n;

	if (!take_address(&s, &addr))
		return -EBADMSG;
	r->any = true;
	r->any_nonzero |= addr != 0;
	if (!strchr("tTwW", s[0]) || !addr)
		return 0;
	name = s + 2;
	n = strcspn(name, "\t");
	module = name[n] ? name + n + 1 : "";
	if (module[0] == '[') {
		int e = module_of(r, module + 1, strcspn(module + 1, "]"), &module_index);

		if (e < 0)
			return e;
	}
	return add_symbol(r, addr, s[0], name, n, module_index);
}

static int read_lines(struct reader *r, int fd)
{
	_cleanup_free_ char *buffer = xmalloc(READ_BYTES);
	size_t held = 0;
	ssize_t n;
	int e = 0;

	while (e == 0 && (n = read(fd, buffer + held, READ_BYTES - held)) > 0) {
		char *line = buffer, *end = buffer + held + n, *newline;

		while (e == 0 && (newline = memchr(line, '\n', (size_t)(end - line)))) {
			*newline = '\0';
			e = take_line(r, line);
			line = newline + 1;
		}
		held = (size_t)(end - line);
		if (held == READ_BYTES)
			return -EBADMSG;
		memmove(buffer, line, held);
	}
	return e;
}

/* The table, one symbol for each address. */
static int pack(struct reader *r, struct kernel_symbols *k)
{
	_cleanup_free_ struct radix_item *order = try_realloc(NULL, r->n + 1, 2 * sizeof(*order));
	size_t n = 0;

	k->base = UINT64_MAX;
	for (size_t i = 0; i < r->n; i++)
		k->base = MIN(k->base, r->items[i].addr);
	k->starts = try_realloc(NULL, r->n + 1, sizeof(*k->starts));
	k->names = try_realloc(NULL, r->n + 1, sizeof(*k->names));
	k->modules = try_realloc(NULL, r->n + 1, sizeof(*k->modules));
	if (!order || !k->starts || !k->names || !k->modules)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++)
		if (r->items[i].addr - k->base <= UINT32_MAX)
			order[n++] =
				(struct radix_item) {.key = (uint32_t)(r->items[i].addr - k->base),
					.value = (uint32_t)i};
	radix_sort(order, order + r->n + 1, n);
	for (size_t i = 0; i < n;) {
		uint32_t best = order[i].value, start = order[i].key;

		for (i++; i < n && order[i].key == start; i++)
			if (r->items[order[i].value].rank < r->items[best].rank)
				best = order[i].value;
		k->starts[k->n] = start;
		k->names[k->n] = r->items[best].name;
		k->modules[k->n++] = r->items[best].module;
	}
	return 0;
}

int kernel_symbols_read(int fd, struct kernel_symbols *ret, struct errbuf *eb)
{
	_cleanup_(reader_done)
	struct reader r = {0};
	_cleanup_(kernel_symbols_done)
	struct kernel_symbols k = {0};
	int e = module_of(&r, "", 0, &(uint16_t) {0});

	if (e == 0)
		e = read_lines(&r, fd);
	if (e == 0 && !r.any)
		e = -EBADMSG;
	if (e == 0 && !r.any_nonzero)
		return err_set(eb, -EPERM,
			"/proc/kallsyms shows no addresses: CAP_SYSLOG or kernel.kptr_restrict=0 "
			"is needed");
	if (e == 0)
		e = pack(&r, &k);
	if (e < 0)
		return err_set(eb, e, "/proc/kallsyms: %s", strerror(-e));
	k.blob = TAKE(r.blob);
	k.blob_bytes = r.blob_len;
	k.module_names = TAKE(r.modules);
	k.n_modules = (uint32_t)r.n_modules;
	r.n_modules = 0;
	*ret = k;
	k = (struct kernel_symbols) {0};
	return 0;
}

void kernel_symbols_done(struct kernel_symbols *k)
{
	free(k->starts);
	free(k->names);
	free(k->modules);
	free(k->blob);
	for (uint32_t i = 0; i < k->n_modules; i++)
		free(k->module_names[i]);
	free(k->module_names);
	*k = (struct kernel_symbols) {0};
}

bool kernel_symbols_find(const struct kernel_symbols *k, uint64_t addr, struct kernel_symbol *ret)
{
	uint64_t rel = addr - k->base;
	uint32_t low = 0, n = k->n;
	const char *name;

	if (!n || addr < k->base || rel > UINT32_MAX)
		return false;
	while (n > 1) {
		uint32_t half = n / 2;

		low += k->starts[low + half] <= rel ? half : 0;
		n -= half;
	}
	name = k->blob + k->names[low];
	if (rel - k->starts[low] >= MAX_FUNCTION_BYTES || strcmp(name, "_etext") == 0)
		return false;
	*ret = (struct kernel_symbol) {
		.name = name,
		.module = k->module_names[k->modules[low]],
		.start = k->base + k->starts[low],
	};
	return true;
}

size_t kernel_symbols_bytes(const struct kernel_symbols *k)
{
	return (size_t)k->n * 10 + k->blob_bytes;
}
