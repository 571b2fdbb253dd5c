/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of container runtimes say, and what damaged ones do not.
 */
#include "exporter/proc/container.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_names_that_are_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
