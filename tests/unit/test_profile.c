/* SPDX-License-Identifier: Apache-2.0
 *
 * From log to profile: sums per (stack, task), distinct frames, repeats, cut stacks, labels, mapping 0, header; the result obeys
 * pprof's own rules. Task table and symbolizer are stand-ins; the real ones have tests of their own.
 */
#include "exporter/proc/code_objects.h"
#include "exporter/profile/build.h"
#include "exporter/symfile/v8.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define BOOT0 (1000LL * NS_PER_S)
#define NATIVE(binary, off) ABI_NATIVE(binary, off)
#define REPEAT(period, count) ABI_FRAME(ABI_FRAME_REPEAT, (uint64_t)(period) << 32 | (count))

/* ---- stand-ins ---- */

static const struct proc_task_info tasks[] = {
	{.pid = 10,
		.tid = 10,
		.comm = "app",
		.thread_name = "main",
		.executable = "/bin/app",
		.systemd_unit = "app.service"},
	{.pid = 10,
		.tid = 11,
		.comm = "app",
		.thread_name = "io",
		.executable = "/bin/app",
		.systemd_unit = "app.service"},
	{.pid = 20,
		.tid = 20,
		.comm = "b\xff"
			"d",
		.thread_name = "bd",
		.executable = "/bin/bd",
		.container_id = "c1"},
};

#include "tests/unit/task_standins.h"

bool proc_is_descendant(const struct proc_table *t, uint32_t task, uint32_t ancestor_pid)
{
	(void)t;
	(void)task;
	(void)ancestor_pid;
	return false;
}

/* Ids from that on are of objects whose names are known, then of machine code; even and odd ones share theirs. */
enum { NAMED_OBJECT = 0x900, MACHINE_OBJECT = 0xa00 };

struct proc_object proc_object_of(const struct proc_table *t, uint64_t id)
{
	static const struct proc_code_text texts[] = {
		{.name = "even",
			.raw = "even",
			.file = "e.py",
			.lines = (const uint8_t *)"even lines",
			.lines_bytes = 10},
		{.name = "odd", .raw = "odd", .file = "o.py"},
	};
	static const struct interp_frame frames[] = {
		{"inner", "raw", "i.js", 7, 5}, {"outer", "outer", "o.js", 9, 1}};
	static const struct proc_code_text machine[] = {
		{.name = "", .raw = "", .file = "", .frames = frames, .n_frames = 2},
		{.name = "", .raw = "", .file = "", .frames = frames + 1, .n_frames = 1},
	};

	(void)t;
	if (id < NAMED_OBJECT)
		return (struct proc_object) {0};
	return (struct proc_object) {.process = (void *)(uintptr_t)8, /* NOLINT: never read */
		.text = id < MACHINE_OBJECT ? &texts[id % 2] : &machine[id % 2],
		.kind = id < MACHINE_OBJECT ? RUNTIME_PYTHON : RUNTIME_V8,
		.version = (uint32_t)id};
}

struct proc_address proc_interned_address(const struct proc_table *t, uint64_t payload)
{
	(void)t;
	return (struct proc_address) {.addr = 0x7f0000000000 + payload};
}

const char *proc_comm(const struct proc_table *t, const struct process *p)
{
	(void)t;
	(void)p;
	return "";
}

static struct symbol_mapping stand_in_mappings[] = {
	{.filename = "[kernel.kallsyms]", .build_id = ""},
	{.filename = "/lib/libc.so.6", .build_id = "aa"},
	{.filename = "/bin/bd",
		.build_id = "bb",
		.start = 0x1000,
		.limit = 0x2000,
		.file_off = 0x1000},
	{.filename = "/bin/app", .build_id = "cc"},
	/* where there are frames of a language */
	{.filename = "[python3.13]", .build_id = ""},
	{.filename = "/lib/libpython3.13.so.1.0", .build_id = "dd"},
	/* stripped, with builtins */
	{.filename = "/usr/bin/node", .build_id = "ee"},
};
enum { N_NATIVE_MAPPINGS = 4, PYTHON_MAPPING = 4, LIBPYTHON = 5, NODE = 6 };

void binary_labels(
	struct binary_registry *r, uint32_t binary, bool with_build_id, struct binary_labels *ret)
{
	(void)r;
	(void)binary;
	(void)with_build_id;
	*ret = (struct binary_labels) {.compiler = "", .language = ""};
}

bool binary_runtime(struct binary_registry *r, uint32_t binary, struct runtime_record *ret)
{
	(void)r;
	*ret = (struct runtime_record) {.kind = binary == NODE ? RUNTIME_V8 : RUNTIME_PYTHON};
	if (binary == NODE) {
		ret->addresses[V8_BUILTINS] = 0x10;
		ret->addresses[V8_BUILTINS_END] = 0x18;
	}
	return binary == LIBPYTHON || binary == NODE;
}

int symbolize(struct symbolizer *s, const struct symbol_frame *frames, uint32_t n,
	enum symbolize_mode mode, int64_t deadline_ns, struct arena *arena, struct symbol *ret,
	struct symbol_mapping **ret_mappings, uint32_t *ret_n_mappings)
{
	bool any_interp = false;

	(void)s;
	(void)deadline_ns;
	for (uint32_t i = 0; i < n; i++) {
		bool kernel = ABI_FRAME_KIND(frames[i].frame) == ABI_FRAME_KERNEL,
		     interp = ABI_FRAME_KIND(frames[i].frame) == ABI_FRAME_INTERP;
		uint64_t off = ABI_NATIVE_OFF(frames[i].frame);
		struct symbol_line *l = arena_zalloc(arena, 2 * sizeof(*l));

		ret[i] = (struct symbol) {.lines = l,
			.n_lines = interp || mode != SYMBOLIZE_NONE,
			.address = kernel ? ABI_FRAME_VALUE(frames[i].frame) : off,
			.named = kernel || interp || ABI_NATIVE_BINARY(frames[i].frame) != NODE};
		ret[i].mapping = kernel	  ? 0
				 : interp ? PYTHON_MAPPING
					  : ABI_NATIVE_BINARY(frames[i].frame);
		any_interp |= interp;
		l[0].function = arena_printf(arena, interp ? "py%llx" : "f%llx",
			(unsigned long long)(interp ? ABI_INTERP_OBJECT(frames[i].frame) : off));
		l[0].system_name = l[0].function;
		l[0].file = mode == SYMBOLIZE_LINES ? "x.c" : "";
		l[0].line = mode == SYMBOLIZE_LINES ? 7 : 0;
		if (off == 0x1a && ret[i].n_lines) { /* two inlined levels */
			ret[i].n_lines = 2;
			l[1] = l[0];
			l[0].function = "inlined";
		}
	}
	*ret_mappings = stand_in_mappings;
	*ret_n_mappings = any_interp ? ARRAY_SIZE(stand_in_mappings) : (uint32_t)N_NATIVE_MAPPINGS;
	return 0;
}

/* ---- fixture ---- */

struct fixture {
	struct clock_virtual clock;
	struct profile_tables tables;
	struct arena arena;
	struct profile profile;
	struct profile_snapshot snapshot;
};

static const struct label constant_items[] = {{"node", "n1"}};
static const struct labels constants = {.items = (struct label *)(uintptr_t)constant_items, .n = 1};

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct sample_log_options o = {
		.retention_s = 300, .window_s = 10, .retention_bytes = 1 << 20, .with_cpu = true};

	clock_virtual_init(&f->clock, 1700000000 * NS_PER_S);
	f->clock.boot_ns = f->clock.mono_ns = BOOT0;
	o.clock = &f->clock.clock;
	o.stacks = f->tables.stacks = stacks_new(NULL);
	f->tables.logs[ABI_EVENT_CPU] = sample_log_new(&o);
	arena_init(&f->arena, NULL);
	profile_init(&f->profile, NULL);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	sample_log_freep(&f->tables.logs[ABI_EVENT_CPU]);
	stacks_freep(&f->tables.stacks);
	arena_done(&f->arena);
	profile_done(&f->profile);
	free(f);
	return 0;
}

/* Frames root first. */
static void put(struct fixture *f, const uint64_t *frames, uint32_t n, uint32_t task,
	uint64_t weight, uint16_t cpu)
{
	struct sample_row row = {
		.time_ns = (uint64_t)f->clock.mono_ns, .task = task, .weight = weight, .cpu = cpu};

	assert_int_equal(stacks_add(f->tables.stacks, frames, n, &row.stack), 0);
	assert_int_equal(sample_log_append(f->tables.logs[ABI_EVENT_CPU], &row), 0);
}

static void build_folded(struct fixture *f, const uint64_t *filter, int with_cpu,
	enum symbolize_mode mode, enum fold_frames fold)
{
	const struct profile_build_options o = {.type = event_source(ABI_EVENT_CPU),
		.constants = &constants,
		.binaries = (void *)(uintptr_t)8, /* NOLINT: for the stand-in only */
		.mode = mode,
		.fold = fold,
		.period = 5};
	struct sample_range range;
	struct errbuf eb = {.text = ""};

	clock_virtual_advance(&f->clock, 2 * NS_PER_S);
	sample_log_drained(f->tables.logs[ABI_EVENT_CPU], f->clock.mono_ns, 0);
	assert_int_equal(sample_log_since(f->tables.logs[ABI_EVENT_CPU], "", 2, &range, NULL), 0);
	assert_int_equal(profile_snapshot_take(&f->tables, f->tables.logs[ABI_EVENT_CPU], &range,
				 filter, with_cpu, &f->arena, &f->snapshot, &eb),
		0);
	if (profile_build(&f->snapshot, &o, &f->arena, &f->profile, &eb) < 0)
		fail_msg("%s", eb.text);
}

static void build(struct fixture *f, const uint64_t *filter, int with_cpu, enum symbolize_mode mode)
{
	build_folded(f, filter, with_cpu, mode, FOLD_INTERNALS);
}

static const char *text_of(const struct profile *p, uint32_t string)
{
	static char buf[4][128];
	static unsigned next;
	struct prof_str s = profile_str(p, string);
	char *out = buf[next++ % 4];

	snprintf(out, 128, "%.*s", (int)s.len, s.p);
	return out;
}

/* "leaf;…;root" of sample i, by function names, inlined ones included. */
static const char *stack_of(const struct profile *p, size_t i)
{
	static char buf[65536];
	size_t n = 0;

	buf[0] = 0;
	for (uint64_t k = p->stack_first[i]; k < p->stack_first[i + 1]; k++) {
		const struct prof_location *l = &p->locations[p->stacks[k]];

		for (uint32_t j = 0; j < l->n_lines; j++)
			n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s%s", n ? ";" : "",
				text_of(p,
					p->functions[p->lines[l->first_line + j].function].name));
	}
	return buf;
}

static const char *label_of(const struct profile *p, size_t i, const char *key)
{
	for (uint64_t k = p->label_first[i]; k < p->label_first[i + 1]; k++)
		if (profile_str_is(p, p->labels[k].key, key))
			return text_of(p, p->labels[k].str);
	return "(none)";
}

/* Encodes and decodes: pprof's CheckValid rules. */
static void check_valid(const struct profile *p)
{
	_cleanup_bytes_ struct bytes out;
	_cleanup_profile_ struct profile back;
	struct errbuf eb = {.text = ""};

	bytes_init(&out, NULL, 0);
	profile_init(&back, NULL);
	assert_int_equal(prof_encode(p, &out), 0);
	if (prof_decode(out.data, out.len, &back, &eb) < 0)
		fail_msg("%s", eb.text);
	assert_int_equal(back.n_samples, p->n_samples);
	assert_int_equal(back.time_ns, p->time_ns);
}

/* ---- tests ---- */

static void test_sums_and_header(void **state)
{
	const uint64_t ab[] = {NATIVE(3, 0xa), NATIVE(1, 0xb)},
		       k[] = {NATIVE(2, 0xc), ABI_FRAME(ABI_FRAME_KERNEL, 0xd)};
	struct fixture *f = *state;
	struct profile *p = &f->profile;

	for (int i = 0; i < 5; i++)
		put(f, ab, 2, 0, 100, 0);
	put(f, ab, 2, 1, 100, 0);
	put(f, ab, 2, 0, 30, 1);
	put(f, k, 2, 2, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	check_valid(p);
	assert_int_equal(p->n_samples, 3);
	assert_string_equal(stack_of(p, 0), "fb;fa");
	assert_int_equal(p->values[0], 6);
	assert_int_equal(p->values[1], 530);
	assert_int_equal(p->values[2], 1);
	assert_int_equal(p->values[3], 100);
	assert_string_equal(stack_of(p, 2), "fd;fc");
	assert_int_equal(f->snapshot.count, 8);
	assert_int_equal(f->snapshot.weight, 730);

	assert_int_equal(p->n_types, 2);
	assert_string_equal(text_of(p, p->types[0].type), "samples");
	assert_string_equal(text_of(p, p->types[0].unit), "count");
	assert_string_equal(text_of(p, p->types[1].type), "cpu");
	assert_string_equal(text_of(p, p->types[1].unit), "nanoseconds");
	assert_string_equal(text_of(p, p->default_sample_type), "cpu");
	assert_string_equal(text_of(p, p->period_type.type), "cpu");
	assert_int_equal(p->period, 100); /* the commonest */
	assert_int_equal(p->time_ns, 1700000000 * NS_PER_S);
	assert_int_equal(p->duration_ns, 2 * NS_PER_S);

	/* Most weight is in /bin/app, which symbolize names last. */
	assert_string_equal(text_of(p, p->mappings[0].filename), "/bin/app");
	assert_string_equal(text_of(p, p->mappings[0].build_id), "cc");
	assert_int_equal(p->mappings[0].has_functions, 1);
	assert_int_equal(p->n_mappings, 4);
}

static void test_labels(void **state)
{
	const uint64_t a[] = {NATIVE(3, 0xa)};
	struct fixture *f = *state;
	struct profile *p = &f->profile;

	put(f, a, 1, 1, 100, 3);
	put(f, a, 1, 2, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	assert_string_equal(label_of(p, 0, "comm"), "app");
	assert_string_equal(label_of(p, 0, "thread_name"), "io");
	assert_string_equal(label_of(p, 0, "pid"), "10");
	assert_string_equal(label_of(p, 0, "tid"), "11");
	assert_string_equal(label_of(p, 0, "executable"), "/bin/app");
	assert_string_equal(label_of(p, 0, "systemd_unit"), "app.service");
	assert_string_equal(label_of(p, 0, "container_id"), "(none)");
	assert_string_equal(label_of(p, 0, "stack"), "complete");
	assert_string_equal(label_of(p, 0, "node"), "n1");
	assert_string_equal(label_of(p, 0, "cpu"), "(none)");
	assert_string_equal(label_of(p, 1, "comm"), "b\xef\xbf\xbd"
						    "d");
	assert_string_equal(label_of(p, 1, "container_id"), "c1");
}

static void test_cpu_label_parts_samples(void **state)
{
	const uint64_t a[] = {NATIVE(3, 0xa)};
	struct fixture *f = *state;

	put(f, a, 1, 1, 100, 3);
	put(f, a, 1, 1, 100, 3);
	put(f, a, 1, 1, 100, 0);
	build(f, NULL, 1, SYMBOLIZE_FUNCTIONS);
	assert_int_equal(f->profile.n_samples, 2);
	assert_string_equal(label_of(&f->profile, 0, "cpu"), "3");
	assert_int_equal(f->profile.values[0], 2);
	assert_string_equal(label_of(&f->profile, 1, "cpu"), "0");
}

static void test_cut_stack_is_visible(void **state)
{
	const uint64_t cut[] = {ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_READ_FAULT), NATIVE(3, 0xa)};
	const uint64_t elided[] = {
		NATIVE(3, 0xa), ABI_FRAME(ABI_FRAME_ELIDED, 500), NATIVE(3, 0xb)};
	struct fixture *f = *state;

	put(f, cut, 2, 0, 100, 0);
	put(f, elided, 3, 0, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	check_valid(&f->profile);
	assert_string_equal(stack_of(&f->profile, 0), "fa;[truncated: read_fault]");
	assert_string_equal(label_of(&f->profile, 0, "stack"), "truncated:read_fault");
	assert_string_equal(stack_of(&f->profile, 1), "fb;[elided: 500 frames];fa");
	assert_string_equal(label_of(&f->profile, 1, "stack"), "complete");
}

static void test_repeats_are_expanded(void **state)
{
	/* Leaf first: c b a ×2 more of (b a), root. */
	const uint64_t pair[] = {
		NATIVE(3, 0xf), REPEAT(2, 2), NATIVE(3, 0xa), NATIVE(3, 0xb), NATIVE(3, 0xc)};
	const uint64_t deep[] = {NATIVE(3, 0xf), REPEAT(1, 1000000), NATIVE(3, 0xa)};
	const uint64_t bad[] = {NATIVE(3, 0xf), REPEAT(9, 1), REPEAT(0, 5), NATIVE(3, 0xa)};
	struct fixture *f = *state;
	struct profile *p = &f->profile;

	put(f, pair, 5, 0, 100, 0);
	put(f, deep, 3, 0, 100, 0);
	put(f, bad, 4, 0, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	check_valid(p);
	assert_string_equal(stack_of(p, 0), "fc;fb;fa;fb;fa;fb;fa;ff");
	assert_int_equal(p->stack_first[2] - p->stack_first[1], PROFILE_MAX_FRAMES + 2);
	assert_non_null(strstr(stack_of(p, 1), ";fa;[elided: 995905 frames];ff"));
	assert_string_equal(stack_of(p, 2), "fa;ff");
}

/* Stacks have most of their frames in common; each is what it would be alone. */
static void test_rest_of_another_stack(void **state)
{
	const uint64_t f = NATIVE(3, 0xf), a = NATIVE(3, 0xa), b = NATIVE(3, 0xb),
		       c = NATIVE(3, 0xc), d = NATIVE(3, 0xd), twice = REPEAT(2, 1),
		       cut = ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_READ_FAULT);
	const struct {
		uint64_t words[5];
		uint32_t n;
		const char *want, *label;
	} cases[] = {
		{{f, a, b}, 3, "fb;fa;ff", "complete"},
		{{f, a, b, c}, 4, "fc;fb;fa;ff", "complete"},
		{{f, a, d}, 3, "fd;fa;ff", "complete"},
		{{f, a}, 2, "fa;ff", "complete"},
		/* What a repeat repeats is on the leaf's side. */
		{{f, twice, a, b}, 4, "fb;fa;fb;fa;ff", "complete"},
		{{f, twice, c, d}, 4, "fd;fc;fd;fc;ff", "complete"},
		{{f, twice, a, b, d}, 5, "fd;fb;fa;fb;fa;ff", "complete"},
		{{cut, a, b}, 3, "fb;fa;[truncated: read_fault]", "truncated:read_fault"},
		{{cut, a, c}, 3, "fc;fa;[truncated: read_fault]", "truncated:read_fault"},
		{{f, cut, a}, 3, "fa;[truncated: read_fault];ff", "truncated:read_fault"},
		{{f, cut, d}, 3, "fd;[truncated: read_fault];ff", "truncated:read_fault"},
		{{f, d}, 2, "fd;ff", "complete"},
	};
	struct fixture *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		put(x, cases[i].words, cases[i].n, 0, 100, 0);
	build(x, NULL, 0, SYMBOLIZE_FUNCTIONS);
	check_valid(&x->profile);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_string_equal(stack_of(&x->profile, i), cases[i].want);
		assert_string_equal(label_of(&x->profile, i, "stack"), cases[i].label);
	}
}

static void test_filter_and_empty(void **state)
{
	const uint64_t a[] = {NATIVE(3, 0xa)};
	const uint64_t only_two = 1 << 2, nobody = 0;
	struct fixture *f = *state;

	put(f, a, 1, 0, 100, 0);
	put(f, a, 1, 2, 40, 0);
	build(f, &only_two, 0, SYMBOLIZE_FUNCTIONS);
	assert_int_equal(f->profile.n_samples, 1);
	assert_int_equal(f->profile.values[1], 40);
	assert_int_equal(f->profile.period, 40);
	profile_done(&f->profile);
	profile_init(&f->profile, NULL);
	build(f, &nobody, 0, SYMBOLIZE_FUNCTIONS);
	check_valid(&f->profile);
	assert_int_equal(f->profile.n_samples, 0);
	assert_int_equal(f->profile.period, 5);
	assert_int_equal(f->profile.n_types, 2);
}

static void test_modes(void **state)
{
	const uint64_t inlined[] = {NATIVE(3, 0x1a)}, jit[] = {ABI_FRAME(ABI_FRAME_JIT, 5)};
	struct fixture *f = *state;
	struct profile *p = &f->profile;

	put(f, inlined, 1, 0, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_LINES);
	assert_string_equal(stack_of(p, 0), "inlined;f1a");
	assert_int_equal(p->lines[0].line, 7);
	profile_done(p);
	profile_init(p, NULL);
	put(f, jit, 1, 0, 100, 0);
	build(f, NULL, 0, SYMBOLIZE_NONE);
	check_valid(p);
	assert_int_equal(p->n_functions, 0);
	assert_int_equal(p->mappings[0].has_functions, 0);
	assert_int_equal(f->snapshot.frames[0].jit_addr, 0x7f0000000005);
}

static void test_memory_is_capped(void **state)
{
	struct fixture *f = *state;
	struct sample_range range;
	struct errbuf eb = {.text = ""};
	struct budget budget;
	struct arena arena;

	for (uint64_t i = 1; i < 5000; i++)
		put(f, &i, 1, 0, 100, 0);
	clock_virtual_advance(&f->clock, 2 * NS_PER_S);
	sample_log_drained(f->tables.logs[ABI_EVENT_CPU], f->clock.mono_ns, 0);
	assert_int_equal(sample_log_since(f->tables.logs[ABI_EVENT_CPU], "", 2, &range, NULL), 0);
	budget_init(&budget, NULL, "responses", "--web.max-memory", 100 << 10);
	arena_init(&arena, &budget);
	assert_int_equal(profile_snapshot_take(&f->tables, f->tables.logs[ABI_EVENT_CPU], &range,
				 NULL, 0, &arena, &f->snapshot, &eb),
		-ENOMEM);
	assert_true(eb.text[0]);
	arena_done(&arena);
	assert_int_equal(budget.used_bytes, 0);
}

/* A callback from libpython, libc below it, main() at the root; a stack of the program's own that is as before. */
static void put_python(struct fixture *f)
{
	const uint64_t deep[] = {NATIVE(3, 0x5), NATIVE(LIBPYTHON, 0x4), REPEAT(1, 2),
		ABI_INTERP(2, 0), ABI_INTERP(2, 0), NATIVE(LIBPYTHON, 0x3), NATIVE(LIBPYTHON, 0x2),
		ABI_INTERP(1, 0), NATIVE(1, 0x1)};
	const uint64_t plain[] = {NATIVE(3, 0x5), NATIVE(LIBPYTHON, 0x2)};

	put(f, deep, ARRAY_SIZE(deep), 0, 100, 0);
	put(f, plain, ARRAY_SIZE(plain), 0, 7, 0);
}

static bool has_function(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_functions; i++)
		if (!strcmp(text_of(p, p->functions[i].name), name))
			return true;
	return false;
}

/* Tables of lines are large, and many processes have the same. */
static void test_texts_are_copied_once(void **state)
{
	struct fixture *f = *state;
	const struct interp_code *codes[4];
	uint64_t frames[ARRAY_SIZE(codes)];

	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++)
		frames[i] = ABI_INTERP(NAMED_OBJECT + i, 1);
	put(f, frames, ARRAY_SIZE(frames), 0, 5, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	memset(codes, 0, sizeof(codes));
	for (size_t i = 0; i < f->snapshot.n_frames; i++) {
		const struct symbol_frame *at = &f->snapshot.frames[i];
		uint64_t id = ABI_INTERP_OBJECT(at->frame);

		assert_int_equal(at->code->version, id);
		codes[id - NAMED_OBJECT] = &at->code->code;
	}
	assert_string_equal(codes[0]->name, "even");
	assert_string_equal(codes[1]->file, "o.py");
	assert_int_equal(codes[0]->lines_bytes, 10);
	assert_memory_equal(codes[0]->lines, "even lines", 10);
	for (unsigned i = 0; i < 2; i++) {
		assert_ptr_equal(codes[i]->name, codes[i + 2]->name);
		assert_ptr_equal(codes[i]->raw, codes[i + 2]->raw);
		assert_ptr_equal(codes[i]->file, codes[i + 2]->file);
		assert_ptr_equal(codes[i]->lines, codes[i + 2]->lines);
	}
}

/* So are frames of machine code, those inlined first. */
static void test_frames_of_machine_code(void **state)
{
	struct fixture *f = *state;
	const struct symbol_code *codes[4] = {0};
	uint64_t frames[ARRAY_SIZE(codes)];

	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++)
		frames[i] = ABI_INTERP(MACHINE_OBJECT + i, ABI_INTERP_BEYOND);
	put(f, frames, ARRAY_SIZE(frames), 0, 5, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	for (size_t i = 0; i < f->snapshot.n_frames; i++)
		codes[ABI_INTERP_OBJECT(f->snapshot.frames[i].frame) - MACHINE_OBJECT] =
			f->snapshot.frames[i].code;
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		assert_int_equal(codes[i]->kind, RUNTIME_V8);
		assert_true(codes[i]->is_named);
		assert_int_equal(codes[i]->n_frames, 2 - i % 2);
		assert_ptr_equal(codes[i]->frames, codes[i % 2]->frames);
		assert_string_equal(codes[i]->frames[1 - i % 2].name, "outer");
	}
	assert_string_equal(codes[0]->frames[0].name, "inner");
	assert_string_equal(codes[0]->frames[0].raw, "raw");
	assert_string_equal(codes[0]->frames[0].file, "i.js");
	assert_int_equal(codes[0]->frames[0].line, 7);
	assert_int_equal(codes[0]->frames[0].first_line, 5);
}

/* Known by where they lie, where they have no names. */
static void test_builtins_without_names(void **state)
{
	const uint64_t stack[] = {NATIVE(NODE, 0x5), NATIVE(NODE, 0x10), ABI_INTERP(1, 0),
		NATIVE(NODE, 0x17), NATIVE(NODE, 0x18), NATIVE(NODE, 0xf)};
	struct fixture *f = *state;

	put(f, stack, ARRAY_SIZE(stack), 0, 5, 0);
	build(f, NULL, 0, SYMBOLIZE_FUNCTIONS);
	assert_string_equal(stack_of(&f->profile, 0), "ff;f18;[interpreter];py1;[interpreter];f5");
}

static void test_interpreter_frames(void **state)
{
	static const struct {
		enum fold_frames fold;
		enum symbolize_mode mode;
		const char *deep;
		bool has_f3, has_f1;
	} cases[] = {
		{FOLD_INTERNALS, SYMBOLIZE_FUNCTIONS,
			"f1;py1;[interpreter];py2;py2;py2;py2;[interpreter];f5", false, true},
		{FOLD_NOTHING, SYMBOLIZE_FUNCTIONS, "f1;py1;f2;f3;py2;py2;py2;py2;f4;f5", true,
			true},
		{FOLD_TO_LANGUAGE, SYMBOLIZE_FUNCTIONS, "py1;py2;py2;py2;py2", false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f;
		void *own;

		set_up(&own);
		f = own;
		put_python(f);
		build_folded(f, NULL, 0, cases[i].mode, cases[i].fold);
		check_valid(&f->profile);
		assert_string_equal(stack_of(&f->profile, 0), cases[i].deep);
		assert_string_equal(stack_of(&f->profile, 1), "f2;f5");
		assert_int_equal(f->profile.values[1] + f->profile.values[3], 107);
		/* What no stack has is not in the profile. */
		assert_int_equal(has_function(&f->profile, "f3"), cases[i].has_f3);
		assert_int_equal(has_function(&f->profile, "f1"), cases[i].has_f1);
		for (size_t k = 0; k < f->profile.n_locations; k++) {
			const struct prof_location *l = &f->profile.locations[k];
			const char *name = text_of(&f->profile,
				f->profile.functions[f->profile.lines[l->first_line].function]
					.name);

			if (!strcmp(name, "[interpreter]"))
				assert_string_equal(
					text_of(&f->profile,
						f->profile.mappings[l->mapping].filename),
					"[python3.13]");
		}
		tear_down(&own);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sums_and_header, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_labels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_texts_are_copied_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_frames_of_machine_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_builtins_without_names, set_up, tear_down),
		cmocka_unit_test(test_interpreter_frames),
		cmocka_unit_test_setup_teardown(test_cpu_label_parts_samples, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cut_stack_is_visible, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_repeats_are_expanded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rest_of_another_stack, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_filter_and_empty, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_is_capped, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
