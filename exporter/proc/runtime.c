/* SPDX-License-Identifier: Apache-2.0
 *
 * Which runtime makes the JIT code of a process, by the files it maps.
 */
#include "exporter/proc/table.h"
#include "lib/base/str.h"
#include <string.h>

/* Files by the beginning of their names. The first is that of no file. */
static const struct {
	const char *file, *name;
} runtimes[] = {
	{NULL, "other"},
	{"libjvm.so", "hotspot"},
	{"libj9jit", "openj9"},
	{"node", "v8"},
	{"libnode.so", "v8"},
	{"libv8.so", "v8"},
	{"electron", "v8"},
	{"chrome", "v8"},
	{"deno", "v8"},
	{"beam.smp", "beam"},
	{"beam.jit", "beam"},
	{"libclrjit.so", "coreclr"},
	{"libcoreclr.so", "coreclr"},
	{"libmonosgen-2.0.so", "mono"},
	{"libjulia", "julia"},
	{"luajit", "luajit"},
	{"libluajit", "luajit"},
	{"pypy", "pypy"},
	{"libpypy", "pypy"},
	{"ruby", "yjit"},
	{"libruby", "yjit"},
	{"libmozjs", "spidermonkey"},
	{"libjavascriptcoregtk", "javascriptcore"},
	{"libwasmtime", "wasmtime"},
	{"wasmtime", "wasmtime"},
};

static bool is_name_end(char c)
{
	return !c || c == '-' || c == '.' || (c >= '0' && c <= '9');
}

/* `node`, `node18` and `libnode.so.108`, but not `nodelist`. */
static bool fits(const char *base, const char *file)
{
	return str_starts_with(base, file) &&
	       (str_starts_with(file, "lib") || is_name_end(base[strlen(file)]));
}

void proc_note_runtime(struct process *p, const struct mapping *m, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	/* A stack or heap that may be executed is old code's way, not a JIT's. */
	if (m->kind == MAPPING_JIT) {
		p->has_jit_code |= path[0] != '[';
		return;
	}
	for (size_t i = 1; m->kind == MAPPING_FILE && !p->runtime && i < ARRAY_SIZE(runtimes); i++)
		if (fits(base, runtimes[i].file))
			p->runtime = (uint8_t)i;
}

const char *proc_jit_name(const struct process *p)
{
	return p->has_jit_code ? runtimes[p->runtime].name : "";
}
