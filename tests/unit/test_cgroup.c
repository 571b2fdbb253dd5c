/* SPDX-License-Identifier: Apache-2.0
 *
 * Control group paths of every runtime and driver, and which of the hierarchies' paths is taken.
 */
#include "exporter/proc/cgroup.h"
#include "lib/base/cleanup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "1f2e3d4c-5b6a-4798-8a9b-acbdcedfe0f1"
#define UID_ "1f2e3d4c_5b6a_4798_8a9b_acbdcedfe0f1"

static const struct path_case {
	const char *path, *id, *name, *unit, *pod;
} cases[] = {
	{"/", "", "", "", ""},
	{"", "", "", "", ""},
	/* docker */
	{"/docker/" ID, ID, "", "", ""},
	{"/system.slice/docker-" ID ".scope", ID, "", "docker-" ID ".scope", ""},
	{"/docker/" ID "/docker/" ID2, ID2, "", "", ""},
	{"/docker/" ID "/system.slice/nginx.service", ID, "", "nginx.service", ""},
	{"/docker/buildkit/" ID, ID, "", "", ""},
	{"/system.slice/docker.service", "", "", "docker.service", ""},
	/* containerd, by the kubelet and by nerdctl */
	{"/kubepods/burstable/pod" UID "/" ID, ID, "", "", UID},
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
		ID, "", "cri-containerd-" ID ".scope", UID},
	{"/system.slice/containerd.service/kubepods-besteffort-pod" UID_
	 ".slice:cri-containerd:" ID,
		ID, "", "containerd.service", UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID, "",
		"cri-containerd-" ID ".scope", UID},
	{"/kubepods/pod0123456789abcdef0123456789abcdef/" ID, ID, "", "",
		"0123456789abcdef0123456789abcdef"},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-" ID ".scope", ID, "",
		"nerdctl-" ID ".scope", ""},
	{"/default/" ID, ID, "", "", ""},
	/* CRI-O */
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID
	 ".scope",
		ID, "", "crio-" ID ".scope", UID},
	{"/kubepods/besteffort/pod" UID "/crio-" ID, ID, "", "", UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope", "", "",
		"crio-conmon-" ID ".scope", UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container", ID, "",
		"crio-" ID ".scope", UID},
	/* podman */
	{"/machine.slice/libpod-" ID ".scope", ID, "", "libpod-" ID ".scope", ""},
	{"/machine.slice/libpod-" ID ".scope/container", ID, "", "libpod-" ID ".scope", ""},
	{"/machine.slice/libpod-conmon-" ID ".scope", "", "", "libpod-conmon-" ID ".scope", ""},
	{"/libpod_parent/libpod-" ID, ID, "", "", ""},
	{"/libpod_parent/" ID, ID, "", "", ""},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
		ID, "", "libpod-" ID ".scope", ""},
	/* systemd */
	{"/system.slice/nginx.service", "", "", "nginx.service", ""},
	{"/system.slice/system-getty.slice/getty@tty1.service", "", "", "getty@tty1.service", ""},
	{"/init.scope", "", "", "init.scope", ""},
	{"/user.slice/user-1000.slice/session-3.scope", "", "", "session-3.scope", ""},
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-1234.scope", "",
		"", "app-gnome-firefox-1234.scope", ""},
	{"/user.slice/user-1000.slice/user@1000.service/init.scope", "", "", "init.scope", ""},
	{"/user.slice/user-1000.slice", "", "", "user-1000.slice", ""},
	{"/system.slice/postgres.service/worker", "", "", "postgres.service", ""},
	{"/system.slice/run-r0123456789abcdef0123456789abcdef.scope", "", "",
		"run-r0123456789abcdef0123456789abcdef.scope", ""},
	/* machines: LXC, nspawn, machined */
	{"/lxc/web1", "", "web1", "", ""},
	{"/lxc.payload.web1/system.slice/cron.service", "", "web1", "cron.service", ""},
	{"/lxc.payload/web1", "", "web1", "", ""},
	{"/lxc.monitor.web1", "", "", "", ""},
	{"/machine.slice/systemd-nspawn@debian.service/payload", "", "debian",
		"systemd-nspawn@debian.service", ""},
	{"/machine.slice/machine-my\\x2dbox.scope", "", "my-box", "machine-my\\x2dbox.scope", ""},
	/* ECS */
	{"/ecs/0123456789abcdef0123456789abcdef/" ID, ID, "", "", ""},
	{"/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890",
		"0123456789abcdef0123456789abcdef-1234567890", "", "", ""},
	/* What looks like one and is none */
	{"/docker/0123456789abcdef", "", "", "", ""},
	{"/process_api/0123456789abcdef0123456789abcdef", "", "", "", ""},
	{"/" ID "0", "", "", "", ""},
	{"/a-0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef.scope", "", "",
		"a-0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef.scope", ""},
	{"//..//.service/", "", "", "", ""},
};

static void test_paths(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct path_case *c = &cases[i];
		struct cgroup_info got;

		cgroup_parse(c->path, &got);
		if (strcmp(got.container_id, c->id) != 0 ||
			strcmp(got.container_name, c->name) != 0 ||
			strcmp(got.systemd_unit, c->unit) != 0 || strcmp(got.pod_uid, c->pod) != 0)
			fail_msg("%s: id '%s' name '%s' unit '%s' pod '%s'", c->path,
				got.container_id, got.container_name, got.systemd_unit,
				got.pod_uid);
	}
}

static void test_user_of_a_slice(void **state)
{
	static const struct {
		const char *path;
		uint32_t user_id;
	} slices[] = {
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope",
			1000},
		{"/user.slice/user-4294967295.slice", UINT32_MAX},
		{"/user.slice/user-4294967296.slice", 0},
		{"/user.slice/user-99999999999.slice", 0},
		{"/user.slice/user-0.slice", 0},
		{"/user.slice/user-.slice", 0},
		{"/user.slice/user-1a.slice", 0},
		{"/machine.slice/libpod-" ID ".scope", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(slices); i++) {
		struct cgroup_info got;

		cgroup_parse(slices[i].path, &got);
		assert_int_equal(got.user_id, slices[i].user_id);
	}
}

static void test_long_components(void **state)
{
	struct cgroup_info got;
	char path[1024];

	(void)state;
	memset(path, 'x', sizeof(path));
	memcpy(path, "/lxc.payload.", 13);
	memcpy(path + sizeof(path) - 9, ".service", 9);
	cgroup_parse(path, &got);
	assert_int_equal(strlen(got.container_name), sizeof(got.container_name) - 1);
	assert_int_equal(strlen(got.systemd_unit), sizeof(got.systemd_unit) - 1);
}

static const struct select_case {
	const char *text, *path;
	bool v2;
} select_cases[] = {
	{"0::/system.slice/a.service\n", "/system.slice/a.service", true},
	/* hybrid: v2 is mounted and empty */
	{"4:memory:/docker/abc\n3:cpuset:/\n1:name=systemd:/docker/abcdef\n0::/\n",
		"/docker/abcdef", false},
	{"0::/\n4:memory:/docker/abc\n", "/docker/abc", false},
	/* v2 wins however long the others are */
	{"4:memory:/very/long/path/of/v1\n0::/x\n", "/x", true},
	{"9:name=systemd:/\n4:memory:/\n0::/\n", "/", false},
	{"1:name=systemd:/user.slice (deleted)\n", "/user.slice", false},
	{"1:cpu,cpuacct:/a:b/c\n", "/a:b/c", false},
	{"0::/no/newline", "/no/newline", true},
	{"", "", false},
	{"garbage\n::\n1:x", "", false},
};

static void test_select(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(select_cases); i++) {
		const struct select_case *c = &select_cases[i];
		const char *path = "";
		bool v2 = false;
		size_t n = cgroup_select(c->text, strlen(c->text), &path, &v2);

		if (n != strlen(c->path) || memcmp(path, c->path, n) != 0)
			fail_msg("case %zu: got '%.*s'", i, (int)n, path);
		if (n > 1)
			assert_int_equal(v2, c->v2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_user_of_a_slice),
		cmocka_unit_test(test_long_components),
		cmocka_unit_test(test_select),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
