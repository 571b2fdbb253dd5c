/* SPDX-License-Identifier: Apache-2.0
 *
 * docs/configuration.md beside the tables of keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/cleanup.h"
#include "lib/base/fs.h"
#include "scraper/config/keys.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One row of docs/configuration.md: "| `key` | type | default | example | meaning |"; cells without
 * blanks and backquotes. */
struct row {
	char key[64], type[64], standard[64], example[128];
};

static void copy_cell(const char **line, char *ret, size_t size)
{
	size_t len = strcspn(*line, "|"), end = len, start = 0;

	while (start < end && strchr(" `", (*line)[start]))
		start++;
	while (end > start && strchr(" `", (*line)[end - 1]))
		end--;
	snprintf(ret, size, "%.*s", (int)(end - start), *line + start);
	*line += len + ((*line)[len] == '|');
}

static bool parse_row(const char *line, struct row *ret)
{
	if (strncmp(line, "| `", 3) != 0)
		return false;
	line++;
	copy_cell(&line, ret->key, sizeof(ret->key));
	copy_cell(&line, ret->type, sizeof(ret->type));
	copy_cell(&line, ret->standard, sizeof(ret->standard));
	copy_cell(&line, ret->example, sizeof(ret->example));
	return true;
}

static const struct config_section *section_of(const char *title, size_t len)
{
	for (unsigned i = 0; i < CONFIG_KEYS_N; i++) {
		if (strlen(config_keys(i)->title) == len &&
			!memcmp(config_keys(i)->title, title, len))
			return config_keys(i);
	}
	return NULL;
}

/* In a list of the job's. */
#define IN_LIST(name)                                                 \
	{                                                             \
		"scrape_configs: [{job_name: j, " name ": [{", "}]}]" \
	}

/* Puts the example where its key belongs and loads it. */
static void check_example(const struct config_section *s, const struct row *row)
{
	static const char *const around[CONFIG_KEYS_N][2] = {
		[CONFIG_KEYS_TOP] = {"{", "}"},
		[CONFIG_KEYS_GLOBAL] = {"global: {", "}"},
		[CONFIG_KEYS_INCLUDE] = {"{", "}"},
		[CONFIG_KEYS_STORAGE] = {"storage: {", "}"},
		[CONFIG_KEYS_TSDB] = {"storage: {tsdb: {", "}}"},
		[CONFIG_KEYS_RETENTION] = {"storage: {tsdb: {retention: {", "}}}"},
		[CONFIG_KEYS_JOB] = {"scrape_configs: [{", "}]"},
		[CONFIG_KEYS_STATIC] = IN_LIST("static_configs"),
		[CONFIG_KEYS_FILE_SD] = IN_LIST("file_sd_configs"),
		[CONFIG_KEYS_RELABEL] = IN_LIST("relabel_configs"),
		[CONFIG_KEYS_PROFILING] = {"scrape_configs: [{job_name: j, profiling_config: {",
			"}}]"},
		[CONFIG_KEYS_PROFILE] =
			{"scrape_configs: [{job_name: j, profiling_config: {pprof_config: {x: {",
				"}}}}]"},
		[CONFIG_KEYS_VALUE_TYPE] =
			{"scrape_configs: [{job_name: j, profiling_config: {pprof_config: {memory: "
			 "{keep_sample_type: [{",
				"}]}}}}]"},
		[CONFIG_KEYS_BASIC_AUTH] = {"scrape_configs: [{job_name: j, basic_auth: {", "}}]"},
		[CONFIG_KEYS_AUTHORIZATION] = {"scrape_configs: [{job_name: j, authorization: {",
			"}}]"},
		[CONFIG_KEYS_OAUTH2] = {"scrape_configs: [{job_name: j, oauth2: {", "}}]"},
		[CONFIG_KEYS_TLS] = {"scrape_configs: [{job_name: j, tls_config: {", "}}]"},
		[CONFIG_KEYS_HTTP_SD] = IN_LIST("http_sd_configs"),
		[CONFIG_KEYS_DNS_SD] = IN_LIST("dns_sd_configs"),
		[CONFIG_KEYS_DOCKER_SD] = IN_LIST("docker_sd_configs"),
		[CONFIG_KEYS_DOCKERSWARM_SD] = IN_LIST("dockerswarm_sd_configs"),
		[CONFIG_KEYS_CONSUL_SD] = IN_LIST("consul_sd_configs"),
		[CONFIG_KEYS_NOMAD_SD] = IN_LIST("nomad_sd_configs"),
		[CONFIG_KEYS_EC2_SD] = IN_LIST("ec2_sd_configs"),
		[CONFIG_KEYS_FILTER] = {"scrape_configs: [{job_name: j, docker_sd_configs: [{host: "
					"'unix:///s', filters: [{",
			"}]}]}]"},
#define KUBERNETES "scrape_configs: [{job_name: j, kubernetes_sd_configs: [{"
		[CONFIG_KEYS_KUBERNETES_SD] = IN_LIST("kubernetes_sd_configs"),
		[CONFIG_KEYS_KUBERNETES_NAMESPACES] = {KUBERNETES "role: pod, namespaces: {",
			"}}]}]"},
		[CONFIG_KEYS_KUBERNETES_SELECTOR] = {KUBERNETES "role: pod, selectors: [{",
			"}]}]}]"},
		[CONFIG_KEYS_KUBERNETES_ATTACH] = {KUBERNETES "role: pod, attach_metadata: {",
			"}}]}]"},
		[CONFIG_KEYS_HTTP_HEADER] = {"scrape_configs: [{job_name: j, http_headers: {X-A: {",
			"}}}]"},
	};
	/* What the section cannot do without; the example of such a key has the others. */
	static const char *const needed[CONFIG_KEYS_N][2] = {
		[CONFIG_KEYS_JOB] = {"job_name", "j"},
		[CONFIG_KEYS_FILE_SD] = {"files", "[a.yml]"},
		[CONFIG_KEYS_RELABEL] = {"target_label", "t"},
		[CONFIG_KEYS_PROFILE] = {"path", "/x"},
		[CONFIG_KEYS_VALUE_TYPE] = {"type", "x"},
		[CONFIG_KEYS_HTTP_SD] = {"url", "'http://h/sd'"},
		[CONFIG_KEYS_DNS_SD] = {"names", "[a.example]"},
		[CONFIG_KEYS_DOCKER_SD] = {"host", "'unix:///s'"},
		[CONFIG_KEYS_DOCKERSWARM_SD] = {"host: 'unix:///s', role", "nodes"},
		[CONFIG_KEYS_FILTER] = {"name: n, values", "[v]"},
		[CONFIG_KEYS_KUBERNETES_SD] = {"role: pod, api_server", "'http://h'"},
		[CONFIG_KEYS_KUBERNETES_SELECTOR] = {"role", "pod"},
		[CONFIG_KEYS_OAUTH2] = {"client_id: i, token_url", "'http://h'"},
	};
	char text[512], more[64] = "";
	struct config *c = NULL;
	struct errbuf eb = {0};
	unsigned id = 0;

	while (config_keys(id) != s)
		id++;
	/* a kubeconfig file stands instead of api_server */
	if (needed[id][0] && !strstr(needed[id][0], row->key) &&
		strcmp(row->key, "kubeconfig_file") != 0)
		snprintf(more, sizeof(more), ", %s: %s", needed[id][0], needed[id][1]);
	snprintf(text, sizeof(text), "%s%s: %s%s%s", around[id][0], row->key, row->example, more,
		around[id][1]);
	if (config_parse(NULL, "dir/f.yml", text, strlen(text), NULL, &c, &eb) < 0)
		fail_msg("%s: %s", text, eb.text);
	config_put(c);
}

/* The page calls them so. */
static const char *const type_names[] = {
	[CONFIG_TYPE_STRING] = "string",
	[CONFIG_TYPE_SECRET] = "secret",
	[CONFIG_TYPE_PATH] = "path",
	[CONFIG_TYPE_URL] = "URL",
	[CONFIG_TYPE_SERVER] = "URL",
	[CONFIG_TYPE_BOOL] = "boolean",
	[CONFIG_TYPE_TRISTATE] = "boolean",
	[CONFIG_TYPE_UINT] = "number",
	[CONFIG_TYPE_DOUBLE] = "number",
	[CONFIG_TYPE_SECONDS] = "seconds",
	[CONFIG_TYPE_DURATION] = "duration",
	[CONFIG_TYPE_BYTES] = "size",
	[CONFIG_TYPE_ENUM] = "word",
	[CONFIG_TYPE_ACTION] = "action",
	[CONFIG_TYPE_REGEX] = "regex",
	[CONFIG_TYPE_STRINGS] = "strings",
	[CONFIG_TYPE_SECRETS] = "secrets",
	[CONFIG_TYPE_PATHS] = "paths",
	[CONFIG_TYPE_NAMES] = "label names",
	[CONFIG_TYPE_SOURCES] = "label names",
	[CONFIG_TYPE_LABELS] = "labels",
	[CONFIG_TYPE_ENV_LABELS] = "labels",
	[CONFIG_TYPE_PARAMS] = "parameters",
	[CONFIG_TYPE_SECRET_PARAMS] = "parameters",
	[CONFIG_TYPE_SECTION] = "section",
	[CONFIG_TYPE_LIST] = "list",
	[CONFIG_TYPE_MAP] = "map",
};

static void check_row(const struct config_section *s, const struct row *row)
{
	for (size_t i = 0; i < s->n_keys; i++) {
		const struct config_key *k = &s->keys[i];
		const char *standard = !k->default_text	  ? ""
				       : *k->default_text ? k->default_text
							  : "\"\"";

		if (strcmp(k->name, row->key) != 0)
			continue;
		if (k->support != CONFIG_READ) {
			assert_string_equal(row->type, "ignored");
			return;
		}
		if (strcmp(row->type, type_names[k->type]) != 0 ||
			strcmp(row->standard, standard) != 0)
			fail_msg("%s.%s: the page says \"%s\" \"%s\", the table \"%s\" \"%s\"",
				s->title, row->key, row->type, row->standard, type_names[k->type],
				standard);
		check_example(s, row);
		return;
	}
	fail_msg("docs/configuration.md: %s has no key %s", s->title, row->key);
}

/* The page and the tables name the same keys, with the same types and defaults; every example
 * loads. */
static void test_docs(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("docs/configuration.md", "r");
	const struct config_section *section = NULL;
	size_t n_rows = 0, n_keys = 0;
	char line[2048];
	struct row row;

	(void)state;
	if (!f)
		fail_msg("docs/configuration.md: %s (run from the top of the tree)",
			strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#') {
			const char *title = strchr(line, '`');

			section = title ? section_of(title + 1, strcspn(title + 1, "`")) : NULL;
		} else if (section && parse_row(line, &row)) {
			check_row(section, &row);
			n_rows++;
		}
	}
	for (unsigned i = 0; i < CONFIG_KEYS_N; i++)
		n_keys += config_keys(i)->n_keys;
	assert_int_equal(n_rows, n_keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_docs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
