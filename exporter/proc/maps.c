/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapping arrays, copied on write.
 */
#include "exporter/proc/maps.h"
#include "exporter/proc/runs.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <errno.h>
#include <string.h>

struct maps {
	uint32_t n_refs, n, cap;
	struct runs *runs; /* where `run` is, NULL when it has none */
	uint64_t run;
	struct mapping items[];
};

struct maps *maps_ref(struct maps *m)
{
	if (m)
		m->n_refs++;
	return m;
}

static void drop_run(struct maps *m)
{
	if (m->runs)
		runs_release(m->runs, m->run);
	m->runs = NULL;
	m->run = 0;
}

void maps_put(struct maps **m)
{
	if (*m && --(*m)->n_refs == 0) {
		drop_run(*m);
		free(*m);
	}
	*m = NULL;
}

uint32_t maps_count(const struct maps *m)
{
	return m ? m->n : 0;
}

const struct mapping *maps_at(const struct maps *m, uint32_t i)
{
	return &m->items[i];
}

uint64_t maps_newest_ns(const struct maps *m)
{
	uint64_t newest_ns = 0;

	for (uint32_t i = 0; i < maps_count(m); i++)
		newest_ns = MAX(newest_ns, m->items[i].since_ns);
	return newest_ns;
}

/* Index of the first mapping that ends above addr. */
static uint32_t first_above(const struct maps *m, uint64_t addr)
{
	uint32_t low = 0, high = m->n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (m->items[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

struct mapping *maps_find(struct maps *m, uint64_t addr)
{
	uint32_t i = m ? first_above(m, addr) : 0;

	return m && i < m->n && m->items[i].start <= addr ? &m->items[i] : NULL;
}

static struct maps *with_room(const struct maps *m, uint32_t cap)
{
	struct maps *copy = try_malloc(sizeof(*copy) + (size_t)cap * sizeof(copy->items[0]));

	if (!copy)
		return NULL;
	*copy = (struct maps) {.n_refs = 1, .cap = cap};
	if (m) {
		copy->n = m->n;
		memcpy(copy->items, m->items, m->n * sizeof(m->items[0]));
	}
	return copy;
}

/* Makes *m private with room for two more. */
static int make_private(struct maps **m)
{
	struct maps *old = *m, *copy;

	if (old && old->n_refs == 1 && old->n + 2 <= old->cap)
		return 0;
	if (old && old->n + 2 > MAPS_MAX)
		return -ENOSPC;
	copy = with_room(old, old ? old->n + old->n / 2 + 8 : 8);
	if (!copy)
		return -ENOMEM;
	maps_put(m);
	*m = copy;
	return 0;
}

static void insert(struct maps *m, uint32_t at, const struct mapping *mapping)
{
	memmove(&m->items[at + 1], &m->items[at], (m->n - at) * sizeof(m->items[0]));
	m->items[at] = *mapping;
	m->n++;
}

static void erase(struct maps *m, uint32_t at, uint32_t n)
{
	memmove(&m->items[at], &m->items[at + n], (m->n - at - n) * sizeof(m->items[0]));
	m->n -= n;
}

/* `addr` must lie inside: what is below it goes. */
static void cut_front(struct mapping *p, uint64_t addr)
{
	p->file_off += addr - p->start;
	p->start = addr;
}

int maps_add(struct maps **mp, const struct mapping *mapping)
{
	struct maps *m;
	uint32_t at, last;
	int r;

	if (mapping->start >= mapping->end)
		return 0;
	r = make_private(mp);
	if (r < 0)
		return r;
	m = *mp;
	drop_run(m);
	at = first_above(m, mapping->start);
	if (at < m->n && m->items[at].start < mapping->start) {
		struct mapping rest = m->items[at];

		m->items[at++].end = mapping->start;
		if (rest.end > mapping->end) {
			cut_front(&rest, mapping->end);
			insert(m, at, &rest);
		}
	}
	for (last = at; last < m->n && m->items[last].end <= mapping->end; last++)
		;
	if (last < m->n && m->items[last].start < mapping->end)
		cut_front(&m->items[last], mapping->end);
	erase(m, at, last - at);
	insert(m, at, mapping);
	return 0;
}

uint64_t maps_word(const struct mapping *m, uint64_t addr)
{
	if (m->kind == MAPPING_FILE && m->binary)
		return ABI_NATIVE(m->binary, addr - m->start + m->file_off);
	return ABI_FRAME(m->kind == MAPPING_JIT ? ABI_FRAME_JIT : ABI_FRAME_RAW, addr);
}

uint64_t maps_run(struct maps *m, struct runs *r)
{
	uint64_t *words;

	if (!m || !m->n || m->runs)
		return m ? m->run : 0;
	m->run = runs_alloc(r, m->n, &words);
	if (!m->run)
		return 0;
	m->runs = r;
	for (uint32_t i = 0; i < m->n; i++) {
		words[i] = m->items[i].start;
		words[m->n + 2 * i] = m->items[i].end;
		words[m->n + 2 * i + 1] = maps_word(&m->items[i], m->items[i].start);
	}
	return m->run;
}

static bool take_hex(char **s, char stop, uint64_t *ret)
{
	uint64_t v = 0;
	char *p = *s;

	for (; *p && *p != stop; p++) {
		int digit = *p >= '0' && *p <= '9'   ? *p - '0'
			    : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
						     : -1;

		if (digit < 0 || v >> 60)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	if (p == *s || *p != stop)
		return false;
	*s = p + 1;
	*ret = v;
	return true;
}

static bool take_decimal(char **s, uint64_t *ret)
{
	uint64_t v = 0;
	char *p = *s;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (p == *s)
		return false;
	*s = p;
	*ret = v;
	return true;
}

bool maps_parse_line(char *line, struct maps_line *ret)
{
	uint64_t major, minor;
	char *s = line;

	if (!take_hex(&s, '-', &ret->start) || !take_hex(&s, ' ', &ret->end) || strnlen(s, 5) < 5 ||
		s[4] != ' ')
		return false;
	ret->writable = s[1] == 'w';
	ret->executable = s[2] == 'x';
	s += 5;
	if (!take_hex(&s, ' ', &ret->file_off) || !take_hex(&s, ':', &major) ||
		!take_hex(&s, ' ', &minor) || !take_decimal(&s, &ret->ino))
		return false;
	ret->dev_major = (uint32_t)major;
	ret->dev_minor = (uint32_t)minor;
	s += strspn(s, " ");
	ret->path = s;
	return ret->start < ret->end;
}

bool maps_is_dump(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t digits;

	if (!name || !str_starts_with(name + 1, "jit-"))
		return false;
	name += strlen("/jit-");
	digits = strspn(name, "0123456789");
	return digits && strcmp(name + digits, ".dump") == 0;
}

enum mapping_kind maps_kind(const char *path)
{
	static const char *const jit[] = {"/dev/zero", "/SYSV", "anon_inode:", "/anon_hugepage",
		"/memfd:doublemapper", "/memfd:vmem", "/memfd:JITCode", "/memfd:sljit", "[heap]",
		"[stack", "[anon"};

	if (strcmp(path, "[vdso]") == 0)
		return MAPPING_FILE;
	if (!path[0] || strncmp(path, "//", 2) == 0)
		return MAPPING_JIT;
	for (size_t i = 0; i < ARRAY_SIZE(jit); i++)
		if (str_starts_with(path, jit[i]))
			return MAPPING_JIT;
	return path[0] == '/' && !maps_is_dump(path) ? MAPPING_FILE : MAPPING_OTHER;
}
