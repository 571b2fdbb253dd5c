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

static void read_kernel_locked(struct symbolizer *s, struct errbuf *eb)
{
	struct keeper *k = s->o.keeper;
	_cleanup_close_ int fd = k->open(k, 0, 0, KEEPER_KALLSYMS, 0, 0);
	struct kernel_symbols fresh;
	int r;

	ASSERT_HELD(&s->lock);
	s->stats.kernel_reads++;
	r = fd < 0 ? err_set(eb, fd, "/proc/kallsyms: %s", strerror(-fd))
		   : kernel_symbols_read(fd, &fresh, eb);
	if (r < 0)
		return;
	kernel_symbols_done(&s->kernel);
	s->kernel = fresh;
	s->stats.kallsyms_available = 1;
	s->stats.kernel_symbols = fresh.n;
	s->stats.kernel_bytes = kernel_symbols_bytes(&fresh);
}

static uint64_t hash_modules(struct symbolizer *s)
{
	struct keeper *k = s->o.keeper;
	_cleanup_close_ int fd = k->open(k, 0, 0, KEEPER_MODULES, 0, 0);
	_cleanup_bytes_ struct bytes b;
	uint64_t hash = 0;
	ssize_t n;

	bytes_init(&b, NULL, 0);
	if (fd < 0 || !bytes_reserve(&b, 16384))
		return 0;
	/* Name and address only: use counts change all the time. */
	while ((n = read(fd, b.data + b.len, b.cap - b.len - 1)) > 0) {
		b.len += (size_t)n;
		if (b.cap - b.len < 4096 && !bytes_reserve(&b, b.cap))
			return 0;
	}
	b.data[b.len] = '\0';
	for (const char *line = (const char *)b.data; *line;) {
		hash = hash_xxh3_seed(line, strcspn(line, " \n"), hash + 1);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return hash;
}

/* Modules that were loaded since have symbols too. */
void symbolizer_refresh_kernel_locked(struct symbolizer *s)
{
	int64_t now = clock_monotonic_ns(s->o.clock);
	uint64_t hash;
	bool lost;

	ASSERT_HELD(&s->lock);
	if (now - s->checked_ns < KERNEL_CHECK_NS)
		return;
	s->checked_ns = now;
	hash = hash_modules(s);
	lost = kernel_code_take_incomplete(&s->kernel_code);
	if (hash == s->modules_hash && s->stats.kallsyms_available && !lost)
		return;
	s->modules_hash = hash;
	read_kernel_locked(s, NULL);
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
	lock_init(&s->lock);
	lock_init(&s->published_lock);
	kernel_code_init(&s->kernel_code);
	names_init(&s->names, o->parser_fd, NAMES_MAX_BYTES);
	read_build_id(s, notes, s->kernel_build_id);
	s->checked_ns = clock_monotonic_ns(o->clock);
	s->modules_hash = hash_modules(s);
	lock_take(&s->lock);
	read_kernel_locked(s, eb);
	symbolizer_publish_locked(s);
	lock_release(&s->lock);
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
