/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolizer's life, and the kernel's symbols as modules come and go.
 */
#include "exporter/symbolize/symbolizer.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include <string.h>

#define KERNEL_CHECK_NS (30 * NS_PER_S) /* between two looks at whether modules came or went */

/* Blocks. */
static void read_kernel(struct symbolizer *s, struct errbuf *eb)
{
	struct keeper *k = s->o.keeper;
	_cleanup_close_ int fd = k->open(k, 0, 0, KEEPER_KALLSYMS, 0, 0);
	struct kernel_symbols fresh, old;
	int r = fd < 0 ? err_set(eb, fd, "/proc/kallsyms: %s", strerror(-fd))
		       : kernel_symbols_read(fd, &fresh, eb);

	lock_take(&s->lock);
	s->stats.kernel_reads++;
	if (r == 0) {
		old = s->kernel;
		s->kernel = fresh;
		s->stats.kallsyms_available = 1;
		s->stats.kernel_symbols = fresh.n;
		s->stats.kernel_bytes = kernel_symbols_bytes(&fresh);
	}
	symbolizer_publish_locked(s);
	lock_release(&s->lock);
	if (r == 0)
		kernel_symbols_done(&old);
}

/* Of the modules that are loaded: names and addresses only, since use counts change all the time. Blocks; false: not known. */
static bool hash_modules(struct symbolizer *s, uint64_t *ret)
{
	struct keeper *k = s->o.keeper;
	_cleanup_close_ int fd = k->open(k, 0, 0, KEEPER_MODULES, 0, 0);
	_cleanup_bytes_ struct bytes b;
	ssize_t n;

	bytes_init(&b, NULL, 0);
	*ret = 0;
	if (fd < 0 || !bytes_reserve(&b, 16384))
		return false;
	while ((n = read(fd, b.data + b.len, b.cap - b.len - 1)) > 0) {
		b.len += (size_t)n;
		if (b.cap - b.len < 4096 && !bytes_reserve(&b, b.cap))
			return false;
	}
	b.data[b.len] = '\0';
	for (const char *line = (const char *)b.data; *line;) {
		*ret = hash_xxh3_seed(line, strcspn(line, " \n"), *ret + 1);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return true;
}

static void refresh(struct symbolizer *s)
{
	uint64_t hash;
	bool is_available;

	lock_take(&s->lock);
	s->checked_ns = clock_monotonic_ns(s->o.clock);
	is_available = s->stats.kallsyms_available;
	lock_release(&s->lock);
	/* Where modules cannot be listed, as without a keeper, neither can symbols be read. */
	if (!hash_modules(s, &hash))
		return;
	if (!kernel_code_take_incomplete(&s->kernel_code) && hash == s->modules_hash &&
		is_available)
		return;
	s->modules_hash = hash;
	read_kernel(s, NULL);
}

void symbolizer_refresh(struct symbolizer *s)
{
	rounds_begin(&s->refreshes);
	refresh(s);
	rounds_end(&s->refreshes);
}

void symbolizer_await_kernel(struct symbolizer *s, int64_t until_ns)
{
	int64_t age_ns;

	if (!s->o.bell)
		return;
	lock_take(&s->lock);
	age_ns = clock_monotonic_ns(s->o.clock) - s->checked_ns;
	lock_release(&s->lock);
	if (age_ns >= KERNEL_CHECK_NS)
		(void)rounds_ask(&s->refreshes, s->o.bell, until_ns);
}

/* ELF notes, of which one is the build id. */
static void read_build_id(
	struct symbolizer *s, const char *path, char ret[2 * SYMBOL_BUILD_ID_MAX + 1])
{
	_cleanup_bytes_ struct bytes b;
	struct cursor c;

	ret[0] = '\0';
	bytes_init(&b, NULL, 0);
	if (fs_read_file(s->o.fs, path, 1 << 20, &b, NULL) < 0)
		return;
	c = cursor_of(b.data, b.len);
	while (cursor_left(&c) >= 12) {
		uint32_t name_bytes = cursor_u32(&c), desc_bytes = cursor_u32(&c),
			 type = cursor_u32(&c);
		const uint8_t *name = cursor_take(&c, ((size_t)name_bytes + 3) & ~(size_t)3);
		const uint8_t *desc = cursor_take(&c, ((size_t)desc_bytes + 3) & ~(size_t)3);

		if (c.error || type != 3 || name_bytes != 4 || memcmp(name, "GNU", 4) != 0 ||
			desc_bytes > SYMBOL_BUILD_ID_MAX)
			continue;
		for (uint32_t i = 0; i < desc_bytes; i++)
			snprintf(ret + (size_t)i * 2, 3, "%02x", desc[i]);
	}
}

void symbolizer_module_build_id(
	struct symbolizer *s, const char *module, char ret[2 * SYMBOL_BUILD_ID_MAX + 1])
{
	_cleanup_free_ char *path =
		xasprintf("%s/module/%s/notes/.note.gnu.build-id", s->o.sysfs, module);

	read_build_id(s, path, ret);
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *o, struct errbuf *eb)
{
	_cleanup_free_ char *notes = xasprintf("%s/kernel/notes", o->sysfs ? o->sysfs : "/sys");
	struct symbolizer *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	s->o.fs = o->fs ? o->fs : &fs_system;
	s->o.sysfs = o->sysfs ? o->sysfs : "/sys";
	rounds_init(&s->refreshes);
	lock_init(&s->lock);
	lock_init(&s->published_lock);
	kernel_code_init(&s->kernel_code);
	names_init(&s->names, o->parser_fd, NAMES_MAX_BYTES);
	read_build_id(s, notes, s->kernel_build_id);
	s->checked_ns = clock_monotonic_ns(o->clock);
	(void)hash_modules(s, &s->modules_hash);
	read_kernel(s, eb);
	return s;
}

void symbolizer_freep(struct symbolizer **sp)
{
	struct symbolizer *s = *sp;

	if (!s)
		return;
	names_done(&s->names);
	kernel_symbols_done(&s->kernel);
	kernel_code_done(&s->kernel_code);
	rounds_done(&s->refreshes);
	lock_done(&s->lock);
	lock_done(&s->published_lock);
	free(s);
	*sp = NULL;
}

void symbolizer_publish_locked(struct symbolizer *s)
{
	ASSERT_HELD(&s->lock);
	lock_take(&s->published_lock);
	s->published = s->stats;
	s->published.demangled = s->names.demangled;
	s->published.demangle_failed = s->names.failed;
	s->published.demangle_cache_bytes = names_bytes(&s->names);
	lock_release(&s->published_lock);
}

void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret)
{
	lock_take(&s->published_lock);
	*ret = s->published;
	lock_release(&s->published_lock);
	ret->kernel_code_records = kernel_code_records(&s->kernel_code);
}

struct kernel_code *symbolizer_kernel_code(struct symbolizer *s)
{
	return &s->kernel_code;
}
