/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of container runtimes say, and what damaged ones do not.
 */
#include "exporter/proc/reader/container.h"
#include "tests/unit/names_fixture.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CRI "io.kubernetes.cri."

static const struct container_case {
	enum container_format format;
	const char *text, *name, *image, *pod, *namespace_; /* name NULL: nothing is said */
} cases[] = {
	{CONTAINER_DOCKER,
		"{\"Name\":\"/web\",\"Config\":{\"Image\":\"nginx:1.25\",\"Labels\":{}}}", "web",
		"nginx:1.25", "", ""},
	{CONTAINER_DOCKER,
		"{\"Name\":\"/"
		"k8s_x\",\"Config\":{\"Image\":\"sha256:1\",\"Labels\":{\"io.kubernetes.container."
		"name\":"
		"\"x\",\"io.kubernetes.pod.name\":\"p\",\"io.kubernetes.pod.namespace\":\"n\"}}}",
		"x", "sha256:1", "p", "n"},
	{CONTAINER_DOCKER, "{\"Name\":7,\"Config\":[]}", NULL, "", "", ""},
	{CONTAINER_OCI,
		"{\"annotations\":{\"" CRI "container-name\":\"c\",\"" CRI
		"image-name\":\"i\",\"" CRI "sandbox-name\":\"p\",\"" CRI
		"sandbox-namespace\":\"n\"}}",
		"c", "i", "p", "n"},
	{CONTAINER_OCI, "{\"annotations\":{\"nerdctl/name\":\"alone\"}}", "alone", "", "", ""},
	{CONTAINER_OCI, "{\"annotations\":{\"" CRI "container-name\":7}}", NULL, "", "", ""},
	{CONTAINER_OCI, "{}", NULL, "", "", ""},
	{CONTAINER_PODMAN,
		"[{\"id\":\"other\",\"names\":[\"o\"]},{\"id\":\"" ID
		"\",\"names\":[\"box\",\"b\"],\"metadata\":\"{\\\"image-name\\\":\\\"img\\\"}\"}]",
		"box", "img", "", ""},
	{CONTAINER_PODMAN, "[{\"id\":\"" ID "\",\"names\":[\"box\"],\"metadata\":\"{broken\"}]",
		"box", "", "", ""},
	{CONTAINER_PODMAN, "[{\"id\":\"other\",\"names\":[\"o\"]}]", NULL, "", "", ""},
	{CONTAINER_PODMAN, "{}", NULL, "", "", ""},
	{CONTAINER_DOCKER, "{\"Name\":\"/cut", NULL, "", "", ""},
	{CONTAINER_DOCKER, "", NULL, "", "", ""},
	{CONTAINER_DOCKER, "[[[[", NULL, "", "", ""},
};

static void test_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct container_case *c = &cases[i];
		struct container_info got;

		if (container_parse(c->format, ID, c->text, strlen(c->text), &got) !=
			(c->name != NULL))
			fail_msg("%s: %s", c->text, c->name ? "said nothing" : "said something");
		if (!c->name)
			continue;
		assert_string_equal(got.name, c->name);
		assert_string_equal(got.image, c->image);
		assert_string_equal(got.pod, c->pod);
		assert_string_equal(got.namespace_, c->namespace_);
	}
}

static void test_names_that_are_too_long(void **state)
{
	char text[2048], name[400];
	struct container_info got;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(text, sizeof(text), "{\"Name\":\"/%s\",\"Config\":{\"Image\":\"i\"}}", name);
	assert_true(container_parse(CONTAINER_DOCKER, ID, text, strlen(text), &got));
	assert_string_equal(got.name, "");
	assert_string_equal(got.image, "i");
}

/* A host's root: a directory that every process has. */
struct host {
	struct fake_keeper fake;
	const char *root;
};

static int open_host(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	(void)pid;
	(void)start_ns;
	(void)start;
	(void)end;
	assert_int_equal(what, KEEPER_ROOT);
	return open(((struct host *)k)->root, O_PATH | O_CLOEXEC);
}

#define DOCKER_TEXT "{\"Name\":\"/box\",\"Config\":{\"Image\":\"img\"}}"
#define OCI_TEXT "{\"annotations\":{\"" CRI "container-name\":\"box\"}}"
#define PODMAN_TEXT "[{\"id\":\"" ID "\",\"names\":[\"box\"]}]"
#define TASKS "/containerd/io.containerd.runtime.v2.task/"

/* Where runtimes keep them. */
static const struct place_case {
	const char *path, *text, *settings;
} place_cases[] = {
	{"/var/lib/docker/containers/" ID "/config.v2.json", DOCKER_TEXT, NULL},
	{"/var/snap/docker/common/var-lib-docker/containers/" ID "/config.v2.json", DOCKER_TEXT,
		NULL},
	{"/srv/docker/containers/" ID "/config.v2.json", DOCKER_TEXT,
		"{\"data-root\":\"/srv/docker\"}"},
	{"/srv/old/containers/" ID "/config.v2.json", DOCKER_TEXT, "{\"graph\":\"/srv/old\"}"},
	{"/run" TASKS "k8s.io/" ID "/config.json", OCI_TEXT, NULL},
	{"/run/k3s" TASKS "k8s.io/" ID "/config.json", OCI_TEXT, NULL},
	{"/run/k0s" TASKS "k8s.io/" ID "/config.json", OCI_TEXT, NULL},
	{"/var/snap/microk8s/common/run" TASKS "k8s.io/" ID "/config.json", OCI_TEXT, NULL},
	{"/run" TASKS "default/" ID "/config.json", OCI_TEXT, NULL},
	{"/run/containers/storage/overlay-containers/" ID "/userdata/config.json", OCI_TEXT, NULL},
	{"/var/lib/containers/storage/overlay-containers/containers.json", PODMAN_TEXT, NULL},
	{"/var/lib/containers/storage/vfs-containers/containers.json", PODMAN_TEXT, NULL},
	{"/var/lib/containers/storage/btrfs-containers/containers.json", PODMAN_TEXT, NULL},
	{"/var/lib/containers/storage/zfs-containers/containers.json", PODMAN_TEXT, NULL},
	{"/var/lib/containers/storage/overlay-containers/volatile-containers.json", PODMAN_TEXT,
		NULL},
	/* settings that say nothing, and some that are none */
	{NULL, NULL, "{}"},
	{NULL, NULL, "{\"data-root\":7}"},
	{NULL, NULL, "{\"data-root\":\"/%s%s%n\"}"},
	{NULL, NULL, "{\"data-root\""},
};

static void put_file(const char *root, const char *path, const char *text)
{
	_cleanup_free_ char *full = xasprintf("%s%s", root, path), *dir = xasprintf("%s", full);

	*strrchr(dir, '/') = '\0';
	assert_int_equal(fs_make_dirs(&fs_system, dir, 0755), 0);
	assert_int_equal(fs_write_file(&fs_system, full, text, strlen(text), 0644, NULL), 0);
}

static void test_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(place_cases); i++) {
		const struct place_case *c = &place_cases[i];
		char *top = temp_dir();
		struct host host = {.root = top};
		struct container_info got;

		fake_keeper_init(&host.fake);
		host.fake.keeper.open = open_host;
		if (c->settings)
			put_file(top, "/etc/docker/daemon.json", c->settings);
		assert_false(container_read(&host.fake.keeper, ID, 0, &got));
		if (c->path) {
			put_file(top, c->path, c->text);
			if (!container_read(&host.fake.keeper, ID, 0, &got))
				fail_msg("not found in %s", c->path);
			assert_string_equal(got.name, "box");
		}
		temp_dir_done(&top);
	}
}

#define CONF "/etc/containers/storage.conf"
#define EVES_CONF "/home/eve/.config/containers/storage.conf"

/* podman's storage by its settings, and of a user. */
static const struct storage_case {
	const char *dir, *conf, *text; /* the storage; the settings */
	bool is_eves;
} storage_cases[] = {
	{"/srv/pod", CONF,
		"[storage]\n# graphroot = \"/no\"\n driver = \"vfs\"\n\tgraphroot = \"/srv/pod\" # "
		"here\n",
		false},
	{"/srv/pod", "/usr/share/containers/storage.conf", "graphroot='/srv/pod'", false},
	{"/home/eve/.local/share/containers/storage", NULL, NULL, true},
	{"/home/eve/pods", EVES_CONF, "[storage]\ngraphroot = \"$HOME/pods\"\n", true},
	{"/srv/eve/1000", CONF,
		"[storage]\ngraphroot = \"/x\"\nrootless_storage_path = \"/srv/$USER/$UID\"\n",
		true},
	/* settings that say nothing, and some that are none */
	{NULL, CONF, "graphroot = \"\"", false},
	{NULL, CONF, "graphroot = 7\ngraphroot\ngraphroots = \"/x\"", false},
	{NULL, CONF, "graphroot = \"/%s%n", false},
	{NULL, CONF, "graphroot = \"relative\"", false},
	{NULL, CONF, "graphroot =", false},
	{NULL, CONF, "", false},
};

static const char users[] = "root:x:0:0:root:/root:/bin/sh\n\nbad:x\nbob:x:100:0::/home/bob:\n"
			    "eve:x:1000:1000::/home/eve:/bin/sh\n";

/* A user's own is looked for only where that user's slice is. */
static void test_storage(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(storage_cases); i++) {
		const struct storage_case *c = &storage_cases[i];
		static const uint32_t uids[] = {0, 100, 1000, 7};
		char *top = temp_dir();
		struct host host = {.root = top};
		struct container_info got;

		fake_keeper_init(&host.fake);
		host.fake.keeper.open = open_host;
		put_file(top, "/etc/passwd", users);
		if (c->conf)
			put_file(top, c->conf, c->text);
		assert_false(container_read(&host.fake.keeper, ID, 1000, &got));
		if (c->dir) {
			_cleanup_free_ char *path =
				xasprintf("%s/vfs-containers/containers.json", c->dir);

			put_file(top, path, PODMAN_TEXT);
		}
		for (size_t u = 0; u < ARRAY_SIZE(uids); u++)
			if (container_read(&host.fake.keeper, ID, uids[u], &got) !=
				(c->dir && (!c->is_eves || uids[u] == 1000)))
				fail_msg("case %zu, user %u", i, uids[u]);
		temp_dir_done(&top);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_names_that_are_too_long),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
