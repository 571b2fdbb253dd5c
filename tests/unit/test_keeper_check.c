/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said when the exporter cannot start: on made-up /proc and /sys directories and made-up capabilities.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include "exporter/keeper/check.h"
#include "lib/base/fs.h"

static uint64_t caps;

static bool has_cap(int cap)
{
	return caps >> cap & 1;
}

#define BIT(cap) (1ULL << (cap))
#define ALL_CAPS                                                                            \
	(BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | \
		BIT(CAP_SYSLOG) | BIT(CAP_CHECKPOINT_RESTORE))

static char top[64];

static void put(const char *name, const char *text)
{
	char path[256], *slash;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	slash = strrchr(path, '/');
	*slash = 0;
	assert_int_equal(fs_make_dirs(&fs_system, path, 0755), 0);
	*slash = '/';
	assert_int_equal(fs_write_file(&fs_system, path, text, strlen(text), 0644, NULL), 0);
}

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test_check.XXXXXX");
	if (!mkdtemp(top))
		return -1;
	caps = ALL_CAPS | BIT(CAP_SYS_ADMIN);
	put("proc/sys/kernel/perf_event_paranoid", "2\n");
	put("proc/sys/kernel/perf_event_max_sample_rate", "1000\n");
	put("sys/kernel/btf/vmlinux", "btf");
	put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return fs_remove_all(&fs_system, top);
}

static int check(uint32_t hz, struct check_result *c, struct errbuf *eb)
{
	char procfs[80], sysfs[80];
	struct role_options o = {
		.procfs = procfs, .sysfs = sysfs, .frequency_hz = hz, .max_frequency_hz = 999};
	int r;

	snprintf(procfs, sizeof(procfs), "%s/proc", top);
	snprintf(sysfs, sizeof(sysfs), "%s/sys", top);
	memset(c, 0, sizeof(*c));
	r = check_start(&o, has_cap, c, eb);
	if (r == 0)
		check_final(&o, c);
	return r;
}

static void refused_with(int r, const struct errbuf *eb, int want, const char *const *parts)
{
	assert_int_equal(r, want);
	for (; *parts; parts++)
		if (!strstr(eb->text, *parts))
			fail_msg("\"%s\" does not say \"%s\"", eb->text, *parts);
}
#define REFUSED(hz, code, ...)                                                           \
	do {                                                                             \
		struct check_result c_;                                                  \
		struct errbuf eb_ = {0};                                                 \
		int r_ = check(hz, &c_, &eb_);                                           \
		refused_with(r_, &eb_, code, (const char *const[]) {__VA_ARGS__, NULL}); \
	} while (0)

static void all_is_well(void **state)
{
	struct check_result c;
	struct errbuf eb = {0};

	(void)state;
	put("proc/kallsyms", "0000000000000000 A cpu\nffffffff81000000 T _text\n");
	assert_int_equal(check(19, &c, &eb), 0);
	assert_int_equal(c.n_missing, 0);
	assert_int_equal(c.n_caps, 6); /* and not CAP_SYS_ADMIN */
	assert_null(c.admin_why);
}

static void capabilities(void **state)
{
	struct check_result c;
	struct errbuf eb = {0};

	(void)state;
	put("proc/kallsyms", "ffffffff81000000 T _text\n");
	caps = 0;
	REFUSED(19, -EPERM, "CAP_BPF and CAP_PERFMON", "root", "setcap");
	caps = ALL_CAPS & ~BIT(CAP_BPF);
	REFUSED(19, -EPERM, "missing CAP_BPF,", "no BPF program");
	caps = ALL_CAPS & ~BIT(CAP_PERFMON);
	REFUSED(19, -EPERM, "missing CAP_PERFMON,", "no CPU can be sampled");
	caps = BIT(CAP_BPF) | BIT(CAP_PERFMON);
	assert_int_equal(check(19, &c, &eb), 0);
	assert_int_equal(c.n_missing, 4);
	assert_string_equal(c.missing[0].cap, "CAP_SYS_PTRACE");
	assert_string_equal(c.missing[3].cap, "CAP_CHECKPOINT_RESTORE");
	assert_int_equal(c.n_caps, 2);
}

static void paranoid(void **state)
{
	struct check_result c;
	struct errbuf eb = {0};

	(void)state;
	put("proc/kallsyms", "ffffffff81000000 T _text\n");
	put("proc/sys/kernel/perf_event_paranoid", "3\n");
	assert_int_equal(check(19, &c, &eb), 0);
	assert_int_equal(c.n_caps, 7);
	assert_int_equal(c.caps[6], CAP_SYS_ADMIN);
	assert_non_null(strstr(c.admin_why, "perf_event_paranoid"));
	caps = ALL_CAPS;
	REFUSED(19, -EPERM, "kernel.perf_event_paranoid is 3", "CAP_SYS_ADMIN",
		"sysctl kernel.perf_event_paranoid=2");
	put("proc/sys/kernel/perf_event_paranoid", "-1\n");
	assert_int_equal(check(19, &c, &eb), 0);
}

static void kernel(void **state)
{
	char path[128];

	(void)state;
	put("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	REFUSED(19, -EPERM, "locked down", "lockdown=integrity");
	snprintf(path, sizeof(path), "%s/sys/kernel/btf/vmlinux", top);
	assert_int_equal(unlink(path), 0);
	REFUSED(19, -ENOTSUP, "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF", "--path.sysfs");
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/perf_event_paranoid", top);
	assert_int_equal(unlink(path), 0);
	REFUSED(19, -ENOTSUP, "perf_event_paranoid", "--path.procfs");
}

static void rates(void **state)
{
	(void)state;
	REFUSED(1001, -EINVAL, "--profile.frequency 1001", "limit of 1000",
		"kernel.perf_event_max_sample_rate");
	REFUSED(0, -EINVAL, "--profile.frequency must be at least 1");
	put("proc/sys/kernel/perf_event_max_sample_rate", "500\n");
	REFUSED(19, -EINVAL, "--profile.max-frequency 999", "limit of 500");
}

static void hidden_kernel_addresses(void **state)
{
	struct check_result c;
	struct errbuf eb = {0};

	(void)state;
	put("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T x\n");
	assert_int_equal(check(19, &c, &eb), 0);
	assert_int_equal(c.n_missing, 1);
	assert_string_equal(c.missing[0].cap, "kallsyms");
	assert_non_null(strstr(c.missing[0].effect, "kptr_restrict"));
	teardown(NULL);
	setup(NULL); /* more than is looked at, whose last line is cut anywhere */
	for (size_t more = 0; more < 40; more++) {
		_cleanup_bytes_ struct bytes b = {0};

		bytes_printf(&b, "0000000000000000 T %0*d\n", (int)more + 1, 0);
		while (b.len < 20000)
			bytes_put_str(&b, "0000000000000000 T a_function_of_the_kernel\n");
		bytes_put_u8(&b, '\0');
		put("proc/kallsyms", (const char *)b.data);
		assert_int_equal(check(19, &c, &eb), 0);
		assert_int_equal(c.n_missing, 1);
	}
	teardown(NULL);
	setup(NULL); /* no kallsyms at all */
	assert_int_equal(check(19, &c, &eb), 0);
	assert_int_equal(c.n_missing, 1);
	assert_non_null(strstr(c.missing[0].effect, "no /proc/kallsyms"));
}

/* By the options of the /proc that is read, of several the last. */
static void hidden_processes(void **state)
{
	static const struct {
		const char *options;
		bool is_hidden;
	} cases[] = {
		{"rw,nosuid", false},
		{"rw,hidepid=invisible", true},
		{"rw,hidepid=2", true},
		{"rw,hidepid=1", true},
		{"rw,hidepid=0", false},
		{"rw,gid=4711,hidepid=2", true},
		{"rw,gid=%u,hidepid=2", false},
		{"rw,hidepid=ptraceable\nproc %s proc rw", false},
	};
	struct check_result c;
	struct errbuf eb = {0};

	(void)state;
	put("proc/kallsyms", "ffffffff81000000 T _text\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b = {0};
		char procfs[80], gid[16], *at;

		snprintf(procfs, sizeof(procfs), "%s/proc", top);
		snprintf(gid, sizeof(gid), "%u", getegid());
		bytes_printf(&b, "proc /elsewhere proc rw,hidepid=2 0 0\nproc %s proc ", procfs);
		at = strchr(cases[i].options, '%');
		bytes_printf(&b, "%.*s%s%s 0 0\n",
			at ? (int)(at - cases[i].options) : (int)strlen(cases[i].options),
			cases[i].options,
			!at	       ? ""
			: at[1] == 'u' ? gid
				       : procfs,
			at ? at + 2 : "");
		bytes_put_u8(&b, 0);
		put("proc/self/mounts", (const char *)b.data);
		assert_int_equal(check(19, &c, &eb), 0);
		if (c.n_missing != cases[i].is_hidden)
			fail_msg("%s", (const char *)b.data);
		if (c.n_missing)
			assert_string_equal(c.missing[0].cap, "hidepid");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_is_well, setup, teardown),
		cmocka_unit_test_setup_teardown(capabilities, setup, teardown),
		cmocka_unit_test_setup_teardown(paranoid, setup, teardown),
		cmocka_unit_test_setup_teardown(kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(rates, setup, teardown),
		cmocka_unit_test_setup_teardown(hidden_kernel_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(hidden_processes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
