/* SPDX-License-Identifier: Apache-2.0
 *
 * kubernetes_sd_configs: what excludes what, and selectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "scraper/config/config.h"
#include <string.h>

#define JOB "scrape_configs:\n- job_name: a\n  "
static const struct {
	const char *text, *error;
} cases[] = {
	{JOB "kubernetes_sd_configs: [{}]",
		"dir/f.yml:3:27: scrape_configs[0].kubernetes_sd_configs[0].role: is missing, "
		"expected node, pod, service, endpoints, endpointslice or ingress"},
	{JOB "kubernetes_sd_configs: [{role: pod, api_server: 'socks5://h'}]",
		"dir/f.yml:3:51: scrape_configs[0].kubernetes_sd_configs[0].api_server: expected a "
		"URL that starts with http:// or https://, or host:port"},
	{JOB "kubernetes_sd_configs: [{role: pod, api_server: 'http://h', kubeconfig_file: f}]",
		"dir/f.yml:3:80: scrape_configs[0].kubernetes_sd_configs[0].kubeconfig_file: "
		"stands beside api_server, expected at most one of them"},
	{JOB "kubernetes_sd_configs: [{role: pod, bearer_token: x}]",
		"dir/f.yml:3:53: scrape_configs[0].kubernetes_sd_configs[0].bearer_token: needs "
		"api_server: the cluster says how the server is asked"},
	{JOB "kubernetes_sd_configs: [{role: pod, kubeconfig_file: f, tls_config: "
	     "{insecure_skip_verify: true}}]",
		"dir/f.yml:3:71: scrape_configs[0].kubernetes_sd_configs[0].tls_config: needs "
		"api_server: the kubeconfig file says how the server is asked"},
	{JOB "kubernetes_sd_configs: [{role: pod, kubeconfig_file: f, namespaces: {own_namespace: "
	     "true}}]",
		"dir/f.yml:3:71: "
		"scrape_configs[0].kubernetes_sd_configs[0].namespaces.own_namespace: is only "
		"known inside a cluster, expected neither api_server nor kubeconfig_file"},
	{JOB "kubernetes_sd_configs: [{role: pod, namespaces: {names: [a/b]}}]",
		"dir/f.yml:3:59: scrape_configs[0].kubernetes_sd_configs[0].namespaces.names[0]: "
		"\"a/b\" is not the name of a namespace"},
	{JOB "kubernetes_sd_configs: [{role: node, selectors: [{role: pod}]}]",
		"dir/f.yml:3:52: scrape_configs[0].kubernetes_sd_configs[0].selectors[0].role: pod "
		"selectors have no effect on role node"},
	{JOB "kubernetes_sd_configs: [{role: pod, selectors: [{role: pod}, {role: pod}]}]",
		"dir/f.yml:3:64: scrape_configs[0].kubernetes_sd_configs[0].selectors[1].role: a "
		"second selector for pod, expected one for each role"},
	{JOB "kubernetes_sd_configs: [{role: pod, selectors: [{label: a}]}]",
		"dir/f.yml:3:51: scrape_configs[0].kubernetes_sd_configs[0].selectors[0].role: is "
		"missing"},
	{JOB "kubernetes_sd_configs: [{role: pod, selectors: [{role: pod, label: a in b}]}]",
		"dir/f.yml:3:70: scrape_configs[0].kubernetes_sd_configs[0].selectors[0].label: "
		"\"a in b\" is not a label selector, expected for example \"app=web,tier in "
		"(a,b),!canary\""},
	{JOB "kubernetes_sd_configs: [{role: pod, selectors: [{role: pod, field: spec}]}]",
		"dir/f.yml:3:70: scrape_configs[0].kubernetes_sd_configs[0].selectors[0].field: "
		"\"spec\" is not a field selector, expected for example \"spec.nodeName=n1\""},
	{JOB "kubernetes_sd_configs: [{role: pod, kubeconfig_file: '', follow_redirects: false}]",
		"dir/f.yml:3:78: scrape_configs[0].kubernetes_sd_configs[0].follow_redirects: "
		"needs "
		"api_server: the cluster says how the server is asked"},
	/* as Prometheus prints a configuration that has the role alone */
	{JOB "kubernetes_sd_configs: [{role: pod, kubeconfig_file: '', follow_redirects: true, "
	     "enable_http2: true, namespaces: {own_namespace: true}}]",
		NULL},
};

static void check(const char *text, const char *error)
{
	struct config *c = NULL;
	struct errbuf eb = {0};
	int r = config_parse(NULL, "dir/f.yml", text, strlen(text), NULL, &c, &eb);

	if (error && r == 0)
		fail_msg("accepted: %s", text);
	if (!error && r < 0)
		fail_msg("%s: %s", text, eb.text);
	if (error)
		assert_string_equal(eb.text, error);
	if (c)
		config_put(c);
}

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].text, cases[i].error);
}

static void test_selectors(void **state)
{
	static const struct {
		const char *key, *value;
		bool is_valid;
	} selectors[] = {
		{"label", "a", true},
		{"label", "!a", true},
		{"label", "app=web,tier==b , x != y", true},
		{"label", "a.b/c-d in (x, y),e notin (),n>5,m < 7", true},
		{"label", "a=", true},
		{"label", ",a", false},
		{"label", "a,", false},
		{"label", "a b", false},
		{"label", "a in x", false},
		{"label", "a in (x", false},
		{"label", "a>", false},
		{"label", "a=b&watch=1", false},
		{"field", "spec.nodeName=n1", true},
		{"field", "a!=b,c==d\\\\,e", true},
		{"field", "a", false},
		{"field", "a=b=c", false},
		{"field", "a=b\\\\", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(selectors); i++) {
		_cleanup_free_ char *text = xasprintf(JOB "kubernetes_sd_configs: [{role: pod, "
							  "selectors: [{role: pod, %s: \"%s\"}]}]",
			selectors[i].key, selectors[i].value);
		struct config *c = NULL;
		int r = config_parse(NULL, "f.yml", text, strlen(text), NULL, &c, NULL);

		if ((r == 0) != selectors[i].is_valid)
			fail_msg("%s: %d", text, r);
		if (c)
			config_put(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_selectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
