/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading of shared libraries by name.
 */
#include "lib/base/library.h"
#include "lib/base/lock.h"
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

static int fail(const struct library *l, const char *why, struct errbuf *eb)
{
	return err_set(eb, -ELIBACC, "%s cannot be used (Debian package %s): %s", l->soname,
		l->package, why ? why : "unknown error");
}

static int load(struct library *l, struct errbuf *eb)
{
	void *library = dlopen(l->soname, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return fail(l, dlerror(), eb);
	for (size_t i = 0; i < l->n_names; i++) {
		void *function = dlsym(library, l->names[i]);

		if (!function)
			return fail(l, dlerror(), eb);
		memcpy((uint8_t *)l->functions + i * sizeof(function), &function, sizeof(function));
	}
	if (l->start && !l->start())
		return fail(l, "it does not start", eb);
	l->is_loaded = true;
	return 0;
}

int library_load(struct library *l, struct errbuf *eb)
{
	static struct lock lock = LOCK_INITIALIZER;
	int r;

	lock_take(&lock);
	r = l->is_loaded ? 0 : load(l, eb);
	lock_release(&lock);
	return r;
}
