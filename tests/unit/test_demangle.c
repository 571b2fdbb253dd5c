/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw names of each language and what a person reads.
 */
#include "exporter/parser/parser.h"
#include "exporter/symbolize/names.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const struct name_case {
	const char *raw, *readable; /* NULL: stays */
} cases[] = {
	{"main", NULL},
	{"", NULL},
	{"_start", NULL},
	{"__libc_start_main", NULL},
	{"main.(*T).Method", NULL},
	{"runtime.mallocgc", NULL},
	/* C++ */
	{"_ZN3foo3barEi", "foo::bar(int)"},
	{"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"std::vector<int, std::allocator<int> >::push_back(int const&)"},
	{"_ZN3foo3barEv.cold", "foo::bar() [clone .cold]"},
	{"_ZN3foo3barEv.isra.0", "foo::bar() [clone .isra.0]"},
	{"_ZZN1AclEvENKUlvE_clEv", "A::operator()()::{lambda()#1}::operator()() const"},
	{"_ZNK3foo3barEv@plt", "foo::bar() const@plt"},
	{"_Znwm", "operator new(unsigned long)"},
	{"_Z", NULL},
	{"_ZN", NULL},
	{"_ZN9999999999foo", NULL},
	/* Rust */
	{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
	{"_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_"
	 "str17h0123456789abcdefE",
		"<alloc::string::String as core::fmt::Write>::write_str"},
	{"_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"},
	{"_RNvMs0_NtCs1234_7mycrate3fooNtB5_3Bar3baz", "<mycrate::foo::Bar>::baz"},
	/* D */
	{"_D3std5stdio8writeln2FNfAyaZv", "std.stdio.writeln2(immutable(char)[])"},
	{"_Dmain", "D main"},
	/* Ada */
	{"_ada_burn", "burn"},
	{"ada__text_io__put_line__2", "ada.text_io.put_line"},
	{"system__img_int__impl__image_integer", "system.img_int.impl.image_integer"},
	{"ada__strings__unbounded__Oconcat__3", "ada.strings.unbounded.\"&\""},
	{"my_driver__init", NULL},
	{"adabas", NULL},
	/* OCaml: up to 5.0, 5.1 to 5.3, the 5.4 betas */
	{"camlStdlib__List__map_345", "Stdlib.List.map"},
	{"camlStdlib__List.map_345", "Stdlib.List.map"},
	{"camlStdlib__List$map_345", "Stdlib.List.map"},
	{"camlDune__exe__Main.run_12", "Main.run"},
	{"camlWork4__$7c$2b$7c_601", "Work4.|+|"},
	{"camlMain__entry", "Main (init)"},
	{"camlMain.entry", "Main (init)"},
	{"camlMain__fun_912", "Main.(fun)"},
	{"caml_alloc_small_dispatch", NULL},
	{"camlinternal", NULL},
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = demangle_name(cases[i].raw);

		if (!cases[i].readable ? got != NULL : !got || strcmp(got, cases[i].readable) != 0)
			fail_msg("%s: got '%s'", cases[i].raw, got ? got : "(unchanged)");
		/* The quick look lets through all that has a readable form. */
		if (cases[i].readable)
			assert_true(names_is_mangled(cases[i].raw));
	}
}

static void test_lengths(void **state)
{
	_cleanup_bytes_ struct bytes b;
	_cleanup_free_ char *huge = xcalloc(1, 200000), *got = NULL;

	(void)state;
	/* A short name that unfolds: each S_ doubles what is printed. */
	bytes_init(&b, NULL, 0);
	bytes_put_str(&b, "_Z1fI1aE");
	for (int i = 0; i < 40; i++)
		bytes_put_str(&b, "1gIS_S_E");
	bytes_put_u8(&b, 0);
	got = demangle_name((const char *)b.data);
	assert_true(!got || strlen(got) <= 8192);
	/* Longer than any compiler's. */
	memset(huge, 'a', 199999);
	memcpy(huge, "_ZN199990", 9);
	assert_null(demangle_name(huge));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
