/* SPDX-License-Identifier: Apache-2.0
 *
 * Which runtime makes the JIT code of a process, by the files it maps.
 */
#include "bpf/process/heads.h"
#include "exporter/proc/table.h"
#include "lib/base/str.h"
#include <string.h>

/*
 * Files by the beginning of their names. The first is that of no file. `fp`: the option with which the compiler keeps frame
 * pointers, NEVER where it has none: such code uses the register for other things, or saves it in some functions only (mono),
 * so that callers are left out. NULL: it keeps them, or what it leads to is looked at (bpf/unwind/code.h).
 */
#define NEVER ""
static const struct {
	const char *file, *name, *fp;
} runtimes[] = {
	{NULL, "other", NULL},
	{"libjvm.so", "hotspot", "-XX:+PreserveFramePointer"},
	{"libj9jit", "openj9", NEVER},
	{"node", "v8", NULL},
	{"libnode.so", "v8", NULL},
	{"libv8.so", "v8", NULL},
	{"electron", "v8", NULL},
	{"chrome", "v8", NULL},
	{"deno", "v8", NULL},
	{"beam.smp", "beam", NULL},
	{"beam.jit", "beam", NULL},
	{"libclrjit.so", "coreclr", NULL},
	{"libcoreclr.so", "coreclr", NULL},
	{"mono-sgen", "mono", NEVER},
	{"libmonosgen-2.0.so", "mono", NEVER},
	{"libjulia", "julia", NULL},
	{"luajit", "luajit", NEVER},
	{"libluajit", "luajit", NEVER},
	{"pypy", "pypy", NEVER},
	{"libpypy", "pypy", NEVER},
	{"ruby", "yjit", "--yjit-perf"},
	{"libruby", "yjit", "--yjit-perf"},
	{"libmozjs", "spidermonkey", NULL},
	{"libjavascriptcoregtk", "javascriptcore", NULL},
	{"libwasmtime", "wasmtime", NULL},
	{"wasmtime", "wasmtime", NULL},
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

/* An option given in another way (JAVA_TOOL_OPTIONS, RUBYOPT, argument files) cannot be seen from here. */
static bool keeps_fp(const struct process *p, const char *option)
{
	return !option || (*option && strstr(proc_text_str(p->cmdline), option));
}

/*
 * BEAM's emulator (erl(1)): the options of +JPperf add up, the launcher passes them on with a minus, those of
 * ERL_FLAGS too. Without one of them, before OTP 25 (erts 13) and on arm64 the register has another use.
 */
static uint32_t beam_flags(const char *cmdline)
{
	static const char option[] = "-JPperf";
	bool keeps = false;

	for (const char *s = cmdline; (s = strstr(s, option));) {
		s += sizeof(option) - 1;
		s += *s == ' ';
		if (str_starts_with(s, "true") || str_starts_with(s, "map") ||
			str_starts_with(s, "fp"))
			keeps = true;
		else if (str_starts_with(s, "false") || str_starts_with(s, "no_fp"))
			keeps = false;
	}
	if (strstr(cmdline, "/erts-12."))
		keeps = false;
#if !defined(__x86_64__)
	keeps = false;
#endif
	return keeps ? PROCESS_JIT_CHAIN : PROCESS_JIT_NO_FP;
}

/*
 * A walk by frame pointer through code that does not keep it skips frames, which is worse than none. HotSpot's interpreter
 * pushes return addresses that follow no call: started with frame pointers enabled, we trust them.
 */
uint32_t proc_flags(const struct process *p)
{
	if (p->has_jvm)
		return keeps_fp(p, "-XX:+PreserveFramePointer") ? PROCESS_JIT_FP
								: PROCESS_JIT_NO_FP;
	if (strcmp(runtimes[p->runtime].name, "beam") == 0)
		return beam_flags(proc_text_str(p->cmdline));
	return keeps_fp(p, runtimes[p->runtime].fp) ? 0 : PROCESS_JIT_NO_FP;
}

const char *proc_jit_name(const struct process *p)
{
	return p->has_jit_code ? runtimes[p->runtime].name : "";
}
