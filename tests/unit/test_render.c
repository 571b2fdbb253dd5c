/* SPDX-License-Identifier: Apache-2.0
 *
 * Renderers against golden text (UPDATE_GOLDEN=1 rewrites it), names that attack the format, values for people.
 */
#include "lib/render/render.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include "lib/prof/profile.h"
#include "proto/flamegraph.pb-c.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t function(struct prof_builder *b, const char *name, const char *file)
{
	struct prof_function f = {.name = prof_builder_string(b, name, strlen(name)),
		.filename = prof_builder_string(b, file, strlen(file))};

	f.system_name = f.name;
	return prof_builder_function(b, &f);
}

static uint32_t location(
	struct prof_builder *b, const char *mapping, const char *name, int64_t line)
{
	struct prof_mapping m = {.filename = prof_builder_string(b, mapping, strlen(mapping))};
	struct prof_line l = {.function = function(b, name, "/src/app.c"), .line = line};

	return prof_builder_location(b, (uint64_t)line, prof_builder_mapping(b, &m), &l, 1);
}

static void sample(struct prof_builder *b, const uint32_t *leaf_first, size_t n, int64_t count)
{
	int64_t values[] = {count, count * 10000000};

	prof_builder_sample(b, leaf_first, n, values, NULL, 0, 1);
}

/* main → handle → {parse, write → [kernel] vfs_write}, recursion in parse, a bare address, hostile names. */
static void build(struct profile *p)
{
	struct prof_builder *b;
	uint32_t main_, handle, parse, write_, vfs, evil, jit, bare;
	struct prof_mapping lib;

	profile_init(p, NULL);
	b = prof_builder_new(p);
	lib = (struct prof_mapping) {.filename = prof_builder_string(b, "/usr/lib/libz.so.1", 18)};
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	main_ = location(b, "/usr/bin/app", "main", 10);
	handle = location(b, "/usr/bin/app", "handle_request(int, std::vector<char> const&)", 20);
	parse = location(b, "/usr/bin/app", "parse", 30);
	write_ = location(b, "/lib/libc.so.6", "write", 0);
	vfs = location(b, "[kernel.kallsyms]", "vfs_write", 0);
	evil = location(b, "/tmp/<b>&\"'.so", "</title><script>alert(1)</script>;\"x\"\n\\", 1);
	jit = location(b, "[jit]", "LazyCompile:*render", 5);
	bare = prof_builder_location(b, 0x4321, prof_builder_mapping(b, &lib), NULL, 0);
	sample(b, (uint32_t[]) {parse, handle, main_}, 3, 40);
	sample(b, (uint32_t[]) {parse, parse, handle, main_}, 4, 15);
	sample(b, (uint32_t[]) {vfs, write_, handle, main_}, 4, 20);
	sample(b, (uint32_t[]) {evil, main_}, 2, 12);
	sample(b, (uint32_t[]) {jit, main_}, 2, 8);
	sample(b, (uint32_t[]) {bare, main_}, 2, 5);
	p->time_ns = 1767225600000000000;
	p->duration_ns = 10000000000;
	p->period = 10000000;
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	prof_builder_freep(&b);
}

static void assert_golden(const struct bytes *out, const char *name)
{
	char path[256];
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *want = calloc(1, out->len + 2);
	size_t n;

	assert_non_null(want);
	snprintf(path, sizeof(path), "tests/golden/%s", name);
	if (getenv("UPDATE_GOLDEN") && *getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "we");
		assert_non_null(f);
		assert_int_equal(fwrite(out->data, 1, out->len, f), out->len);
		return;
	}
	f = fopen(path, "re");
	if (!f)
		fail_msg("%s is missing; run from the top of the tree", path);
	n = fread(want, 1, out->len + 1, f);
	assert_int_equal(n, out->len);
	assert_memory_equal(want, out->data, n);
}

struct fixture {
	struct profile profile;
	struct tree_symbols symbols;
	struct tree tree;
	struct render_input in;
	struct bytes out;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct tree locations;

	assert_non_null(f);
	build(&f->profile);
	tree_symbols_init(&f->symbols, NULL);
	tree_init(&locations, NULL);
	tree_init(&f->tree, NULL);
	bytes_init(&f->out, NULL, 0);
	assert_int_equal(tree_from_profile(&f->profile, 1, &f->symbols, &locations, NULL), 0);
	assert_int_equal(tree_project(&locations, NULL, &f->symbols, &f->tree, NULL), 0);
	tree_done(&locations);
	f->in = (struct render_input) {.tree = &f->tree,
		.symbols = &f->symbols,
		.type = "cpu",
		.unit = "nanoseconds",
		.title = "app <1>",
		.subtitle = "{job=\"x\"}, last hour",
		.time_ns = f->profile.time_ns,
		.duration_ns = f->profile.duration_ns};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	bytes_done(&f->out);
	tree_done(&f->tree);
	tree_symbols_done(&f->symbols);
	profile_done(&f->profile);
	free(f);
	return 0;
}

static void test_folded(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_folded(&f->in, &f->out), 0);
	assert_golden(&f->out, "render.folded");
}

static void test_text(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_text(&f->in, 5, &f->out), 0);
	assert_golden(&f->out, "render_top.txt");
}

static bool contains(const struct bytes *b, const char *text)
{
	return memmem(b->data, b->len, text, strlen(text)) != NULL;
}

/* Functions of one name are distinguished by their sources and builds. */
static void test_twins(void **state)
{
	struct fixture *f = *state;
	struct tree_builder b;
	struct tree t;
	static const char *const files[] = {"/src/a.c", "/src/b.c", "/src/b.c"};
	static const char *const builds[] = {"", "", "0123456789abcdef"};

	tree_builder_init(&b, NULL);
	tree_init(&t, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct tree_mapping m = {.file = tree_symbols_string(&f->symbols, "/bin/app", 8),
			.build_id = tree_symbols_string(&f->symbols, builds[i], strlen(builds[i]))};
		struct tree_frame frame = {.name = tree_symbols_string(&f->symbols, "init", 4),
			.file = tree_symbols_string(&f->symbols, files[i], strlen(files[i])),
			.mapping = tree_symbols_mapping(&f->symbols, &m),
			.kind = TREE_NATIVE};
		uint32_t stack = tree_symbols_frame(&f->symbols, &frame);

		tree_builder_stack(&b, &stack, 1, 1000 - (int64_t)i);
	}
	assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
	f->in.tree = &t;
	assert_int_equal(render_text(&f->in, 0, &f->out), 0);
	assert_true(contains(&f->out, "init a.c [app]\n"));
	assert_true(contains(&f->out, "init b.c [app]\n"));
	assert_true(contains(&f->out, "init b.c [app] 0123456789ab\n"));
	bytes_reset(&f->out);
	assert_int_equal(render_text(&f->in, 1, &f->out), 0);
	assert_true(contains(&f->out, "init [app]\n"));
	tree_builder_done(&b);
	tree_done(&t);
}

/* Short ones are shown, and tooltips have them whole. */
static void test_short_names(void **state)
{
	struct fixture *f = *state;

	f->in.names = RENDER_NAMES_SHORT;
	assert_int_equal(render_text(&f->in, 0, &f->out), 0);
	assert_true(contains(&f->out, "  handle_request [app]\n"));
	bytes_reset(&f->out);
	assert_int_equal(render_svg(&f->in, NULL, &f->out), 0);
	assert_true(contains(&f->out, ">handle_request</text>"));
	assert_true(contains(
		&f->out, "<title>handle_request(int, std::vector&lt;char&gt; const&amp;) [app]"));
	bytes_reset(&f->out);
	assert_int_equal(render_html(&f->in, &f->out), 0);
	assert_false(contains(&f->out, "\"names\":\"full\""));
	f->in.names = RENDER_NAMES_FULL;
	bytes_reset(&f->out);
	assert_int_equal(render_html(&f->in, &f->out), 0);
	assert_true(contains(&f->out, "\"names\":\"full\""));
}

static void test_csv(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_csv(&f->in, 0, &f->out), 0);
	assert_golden(&f->out, "render_top.csv");
}

static void test_speedscope(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_speedscope(&f->in, &f->out), 0);
	assert_golden(&f->out, "render_speedscope.json");
}

static void test_dot(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_dot(&f->in, 5, &f->out), 0);
	assert_golden(&f->out, "render.dot");
}

static void test_svg(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(render_svg(&f->in, NULL, &f->out), 0);
	assert_golden(&f->out, "render.svg");
}

/* What stands between the two texts, at most one of which occurs. */
static struct bytes between(const struct bytes *b, const char *from, const char *to)
{
	const uint8_t *p = memmem(b->data, b->len, from, strlen(from)), *end;

	assert_non_null(p);
	p += strlen(from);
	end = memmem(p, (size_t)(b->data + b->len - p), to, strlen(to));
	assert_non_null(end);
	return (struct bytes) {.data = (uint8_t *)(uintptr_t)p, .len = (size_t)(end - p)};
}

static size_t count_of(const struct bytes *b, const char *text)
{
	size_t n = 0;

	for (const uint8_t *p = b->data;
		(p = memmem(p, (size_t)(b->data + b->len - p), text, strlen(text))); p++)
		n++;
	return n;
}

/* What is seen without script is golden; the viewer is given what the server's answer would be. */
static void test_html(void **state)
{
	struct fixture *f = *state;
	struct bytes plain, tree, decoded = {}, message = {};

	assert_int_equal(render_html(&f->in, &f->out), 0);
	plain = between(&f->out, "</script>\n<div id=\"plain\">\n", "</div></body></html>\n");
	assert_golden(&plain, "render.html");
	tree = between(&f->out, "id=\"tree\">", "</script>");
	assert_int_equal(str_decode_base64((const char *)tree.data, tree.len, &decoded), 0);
	assert_int_equal(render_protobuf(&f->in, &message), 0);
	assert_int_equal(decoded.len, message.len);
	assert_memory_equal(decoded.data, message.data, message.len);
	bytes_done(&decoded);
	bytes_done(&message);
}

static void test_json(void **state)
{
	struct fixture *f = *state;
	struct tree limited;
	struct json j = json_to(&f->out);

	tree_init(&limited, NULL);
	assert_int_equal(tree_limit(&f->tree, 4, &limited, NULL), 0);
	f->in.tree = &limited;
	json_object_begin(&j);
	assert_int_equal(render_json_members(&f->in, &j), 0);
	json_object_end(&j);
	bytes_put_u8(&f->out, '\n');
	tree_done(&limited);
	assert_golden(&f->out, "render_flamegraph.json");
}

/* Read back by protobuf-c from the .proto file. */
static void test_protobuf(void **state)
{
	struct fixture *f = *state;
	struct tree limited;
	Sonde__FlameGraph *g;

	tree_init(&limited, NULL);
	assert_int_equal(tree_limit(&f->tree, 4, &limited, NULL), 0);
	f->in.tree = &limited;
	assert_int_equal(render_protobuf(&f->in, &f->out), 0);
	g = sonde__flame_graph__unpack(NULL, f->out.len, f->out.data);
	assert_non_null(g);
	assert_string_equal(g->profile_type, "app <1>");
	assert_string_equal(g->unit, "nanoseconds");
	assert_int_equal(g->total, f->tree.total[0]);
	assert_int_equal(g->n_name, g->n_file);
	assert_int_equal(g->n_name, g->n_mapping);
	assert_int_equal(g->n_function, limited.n);
	assert_int_equal(g->n_line, limited.n);
	assert_int_equal(g->n_kind, limited.n);
	assert_memory_equal(g->parent, limited.parent, limited.n * sizeof(*limited.parent));
	assert_memory_equal(g->self, limited.self, limited.n * sizeof(*limited.self));
	assert_memory_equal(g->total_by_node, limited.total, limited.n * sizeof(*limited.total));
	assert_int_equal(g->n_cut_node, 3);
	for (size_t i = 0; i < g->n_cut_node; i++) {
		assert_int_equal(g->cut_count[i], limited.n_cut[g->cut_node[i]]);
		assert_string_equal(g->name[g->function[g->cut_node[i]]], "(cut)");
		assert_string_equal(g->kinds[g->kind[g->cut_node[i]]], "cut");
	}
	assert_string_equal(g->name[g->function[1]], "main");
	sonde__flame_graph__free_unpacked(g, NULL);
	tree_done(&limited);
}

/* No name may end a string, an element or a line of the format it is in. */
static void test_hostile(void **state)
{
	struct fixture *f = *state;

	f->in.subtitle = "</script><!--<script>\xe2\x80\xa8";
	assert_int_equal(render_html(&f->in, &f->out), 0);
	assert_int_equal(count_of(&f->out, "<script"), 3);
	assert_int_equal(count_of(&f->out, "</script"), 3);
	assert_true(contains(&f->out, "\\u003c/script>\\u003c!--\\u003cscript>"));
	assert_false(contains(&f->out, "<!--"));
	assert_false(contains(&f->out, "<b>"));
	f->in.subtitle = NULL;
	bytes_reset(&f->out);
	assert_int_equal(render_svg(&f->in, NULL, &f->out), 0);
	assert_false(contains(&f->out, "<script"));
	bytes_reset(&f->out);
	assert_int_equal(render_folded(&f->in, &f->out), 0);
	assert_true(
		contains(&f->out, "main;</title><script>alert(1)</script>:\"x\" \\ 120000000\n"));
}

static void test_empty(void **state)
{
	struct fixture *f = *state;
	struct tree_builder b;
	struct tree t;

	tree_builder_init(&b, NULL);
	tree_init(&t, NULL);
	assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
	f->in.tree = &t;
	assert_int_equal(render_folded(&f->in, &f->out), 0);
	assert_int_equal(f->out.len, 0);
	assert_int_equal(render_svg(&f->in, NULL, &f->out), 0);
	assert_true(contains(&f->out, "No samples in this selection."));
	assert_int_equal(render_text(&f->in, 0, &f->out), 0);
	assert_int_equal(render_dot(&f->in, 0, &f->out), 0);
	assert_int_equal(render_speedscope(&f->in, &f->out), 0);
	tree_builder_done(&b);
	tree_done(&t);
}

static void test_profile(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {};
	struct bytes direct = {};

	assert_int_equal(render_folded(&f->in, &f->out), 0);
	assert_int_equal(render_profile_folded(&f->profile, 1, &direct, &eb), 0);
	assert_int_equal(direct.len, f->out.len);
	assert_memory_equal(direct.data, f->out.data, direct.len);
	assert_int_equal(render_profile_folded(&f->profile, 2, &direct, &eb), -EINVAL);
	assert_string_equal(eb.text, "the profile has 2 sample types, number 2 was asked for");
	bytes_reset(&direct);
	assert_int_equal(
		render_profile_svg(&f->profile, 0, "t", RENDER_NAMES_DEFAULT, NULL, &direct, &eb),
		0);
	assert_true(contains(&direct, "samples in count, total 100<"));
	bytes_reset(&direct);
	assert_int_equal(
		render_profile_html(&f->profile, 0, "t", RENDER_NAMES_FULL, &direct, &eb), 0);
	assert_int_equal(
		render_profile_text(&f->profile, 0, NULL, 3, RENDER_NAMES_SHORT, &direct, &eb), 0);
	bytes_done(&direct);
}

static void test_value(void **state)
{
	static const struct {
		int64_t value;
		const char *unit, *want;
	} cases[] = {
		{0, "nanoseconds", "0"},
		{999, "nanoseconds", "999ns"},
		{1500, "nanoseconds", "1.50us"},
		{1234567890, "nanoseconds", "1.23s"},
		{999999999, "nanoseconds", "1.00s"},
		{90000000000, "nanoseconds", "1.50min"},
		{7200, "seconds", "2.00h"},
		{2500, "milliseconds", "2.50s"},
		{1536, "bytes", "1.50KiB"},
		{1 << 30, "bytes", "1.00GiB"},
		{-2048, "bytes", "-2.00KiB"},
		{12345, "count", "12345"},
		{12345, NULL, "12345"},
		{5, "widgets", "5 widgets"},
		{INT64_MIN, "bytes", "at most -8192PiB"},
		{INT64_MAX, "nanoseconds", "at least 106752d"},
		{INT64_MAX, "count", "at least 9223372T"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		render_value(cases[i].value, cases[i].unit, text);
		assert_string_equal(text, cases[i].want);
	}
}

static void test_escape(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"},
		{"\x01\x7f\n\t", "\xef\xbf\xbd\xef\xbf\xbd\n\t"},
		{"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xef\xbf\xbf\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes out = {};

		render_escape_str(&out, cases[i].in);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].want);
		bytes_done(&out);
	}
}

#define WITH_FIXTURE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(test_folded),
		WITH_FIXTURE(test_text),
		WITH_FIXTURE(test_twins),
		WITH_FIXTURE(test_short_names),
		WITH_FIXTURE(test_csv),
		WITH_FIXTURE(test_speedscope),
		WITH_FIXTURE(test_dot),
		WITH_FIXTURE(test_svg),
		WITH_FIXTURE(test_html),
		WITH_FIXTURE(test_json),
		WITH_FIXTURE(test_protobuf),
		WITH_FIXTURE(test_hostile),
		WITH_FIXTURE(test_empty),
		WITH_FIXTURE(test_profile),
		cmocka_unit_test(test_value),
		cmocka_unit_test(test_escape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
