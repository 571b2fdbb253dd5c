/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: defaults and inheritance, every way to get it wrong with the exact text,
 * comparison of jobs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include "lib/base/regex.h"
#include "scraper/config/keys.h"
#include <string.h>

static const char *env(const char *name, void *ctx)
{
	(void)ctx;
	return !strcmp(name, "REGION") ? "eu" : NULL;
}

static const struct config_load_opts opts = {.getenv = env};

static struct config *parse_ok(const char *text)
{
	struct config *c = NULL;
	struct errbuf eb = {0};

	if (config_parse(NULL, "dir/f.yml", text, strlen(text), &opts, &c, &eb) < 0)
		fail_msg("%s", eb.text);
	return c;
}

static void test_defaults(void **state)
{
	struct config *c = parse_ok("scrape_configs: [{job_name: a}]");
	const struct config_job *job = config_job_named(c, "a");

	(void)state;
	assert_non_null(job);
	assert_int_equal(job->scrape_interval_ms, 15000);
	assert_int_equal(job->scrape_timeout_ms, 10000);
	assert_string_equal(job->scheme, "http");
	assert_true(job->honor_timestamps && job->enable_compression && !job->honor_labels);
	assert_int_equal(job->profiling.preset, CONFIG_PRESET_AUTO);
	assert_int_equal(job->profiling.symbolize, CONFIG_SYMBOLIZE_LINES);
	assert_int_equal(job->profiling.max_series, 500);
	assert_int_equal(job->profiling.label_set_limit, 50000);
	assert_false(job->profiling.has_sample_labels);
	assert_string_equal(job->profiling.path_prefix, "");
	assert_null(config_job_named(c, "b"));
	assert_int_equal(c->n_warnings, 0);
	config_put(c);
	c = parse_ok("");
	assert_int_equal(c->n_jobs, 0);
	assert_int_equal(c->global.scrape_interval_ms, 15000);
	config_put(c);
}

#define JOB "scrape_configs:\n- job_name: a\n  "

/* As yaml.v2 reads them for Prometheus. */
static void test_whole_numbers(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = {{"0", 0}, {"+5", 5}, {"1_000", 1000}, {"0x10", 16}, {"010", 8}, {"0o10", 8},
		{"0b11", 3}, {"1e3", 1000}, {"1.0", 1}, {"08", 8}, {"1e+2", 100},
		{"9223372036854775807", INT64_MAX}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[80];
		struct config *c;

		snprintf(text, sizeof(text), "global: {sample_limit: %s}", cases[i].text);
		c = parse_ok(text);
		assert_int_equal(c->global.limits.samples, cases[i].value);
		config_put(c);
	}
}

static void test_consul_server(void **state)
{
	static const struct {
		const char *written, *scheme, *server, *prefix;
	} cases[] = {{"h:1", "http", "h:1", NULL}, {"http://h:1", "http", "h:1", NULL},
		{"https://h", "https", "h", NULL}, {"http://h:1/", "http", "h:1", NULL},
		{"https://h:1/a/b", "https", "h:1", "/a/b"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct config_consul_sd *sd;
		char text[160];
		struct config *c;

		snprintf(text, sizeof(text), JOB "consul_sd_configs: [{server: '%s'}]",
			cases[i].written);
		c = parse_ok(text);
		sd = &c->jobs[0].consul_sds[0];
		assert_string_equal(sd->scheme, cases[i].scheme);
		assert_string_equal(sd->server, cases[i].server);
		assert_true(!sd->path_prefix == !cases[i].prefix);
		if (sd->path_prefix)
			assert_string_equal(sd->path_prefix, cases[i].prefix);
		config_put(c);
	}
}

static void test_everything(void **state)
{
	struct config *c = parse_ok(
		"global:\n"
		"  scrape_interval: 1m\n"
		"  scrape_timeout: 20s\n"
		"  external_labels: {region: '${REGION}-$REGION', price: 5$$, lone: 'a$ b'}\n"
		"  sample_limit: 7\n"
		"  body_size_limit: 4MB\n"
		"scrape_configs:\n"
		"- job_name: a\n"
		"  sample_limit: 9\n"
		"  scrape_interval: 0s\n"
		"  params: {debug: [1, 2], none: }\n"
		"  static_configs:\n"
		"  - targets: [h:1]\n"
		"    labels: {x: 'y', n: 5, empty: ''}\n"
		"  file_sd_configs:\n"
		"  - files: [t/*.json, /abs.yml]\n"
		"    refresh_interval: 1m30s\n"
		"  relabel_configs:\n"
		"  - regex:\n"
		"    source_labels: [a]\n"
		"    replacement: ''\n"
		"    separator: ''\n"
		"    target_label: t\n"
		"  - {action: HashMod, modulus: 4, source_labels: [x], target_label: m}\n"
		"  profiling_config:\n"
		"    preset: node\n"
		"    path_prefix: p/\n"
		"    sample_labels: [comm]\n"
		"    drop_labels: []\n"
		"    addresses: yes\n"
		"    symbolize: none\n"
		"    pprof_config:\n"
		"      process_cpu: {seconds: 60, delta: true}\n"
		"      memory: {enabled: false, keep_sample_type: [{type: inuse_space, unit: "
		"bytes}]}\n"
		"      own: {path: debug/own}\n"
		"- job_name: b\n"
		"  scrape_interval: 5s\n");
	const struct config_job *a = config_job_named(c, "a"), *b = config_job_named(c, "b");
	const struct config_profiling *p = &a->profiling;

	(void)state;
	assert_string_equal(labels_get(&c->global.external_labels, "region"), "eu-eu");
	assert_string_equal(labels_get(&c->global.external_labels, "price"), "5$");
	assert_string_equal(labels_get(&c->global.external_labels, "lone"), "a$ b");
	assert_int_equal(a->scrape_interval_ms, 60000);
	assert_int_equal(a->scrape_timeout_ms, 20000);
	assert_int_equal(b->scrape_timeout_ms, 5000); /* min(global timeout, own interval) */
	assert_int_equal(a->limits.samples, 9);
	assert_int_equal(b->limits.samples, 7);
	assert_int_equal(b->limits.body_size_bytes, 4 << 20);
	assert_int_equal(a->n_params, 2);
	assert_string_equal(a->params[0].values.items[1], "2");
	assert_int_equal(a->params[1].values.n, 0);
	assert_string_equal(a->statics[0].targets.items[0], "h:1");
	assert_int_equal(a->statics[0].labels.n, 2);
	assert_string_equal(labels_get(&a->statics[0].labels, "n"), "5");
	assert_string_equal(a->file_sds[0].files.items[0], "dir/t/*.json");
	assert_string_equal(a->file_sds[0].files.items[1], "/abs.yml");
	assert_int_equal(a->file_sds[0].refresh_interval_ms, 90000);
	assert_string_equal(regex_text(a->relabel[0].regex), "");
	assert_string_equal(a->relabel[0].replacement, "");
	assert_string_equal(a->relabel[0].separator, "");
	assert_int_equal(a->relabel[1].action, RELABEL_HASHMOD);
	assert_int_equal(a->relabel[1].modulus, 4);
	assert_true(a->relabel[1].regex_is_default);
	assert_int_equal(p->preset, CONFIG_PRESET_NODE);
	assert_string_equal(p->path_prefix, "/p");
	assert_true(p->has_sample_labels && p->sample_labels.n == 1 && p->has_drop_labels &&
		    p->drop_labels.n == 0);
	assert_true(p->addresses);
	assert_int_equal(p->n_profiles, 3);
	assert_string_equal(p->profiles[0].name, "process_cpu");
	assert_int_equal(p->profiles[0].seconds, 60);
	assert_int_equal(p->profiles[0].delta, CONFIG_TRUE);
	assert_int_equal(p->profiles[0].enabled, CONFIG_UNSET);
	assert_int_equal(p->profiles[1].enabled, CONFIG_FALSE);
	assert_string_equal(p->profiles[1].keep_sample_types[0].unit, "bytes");
	assert_string_equal(p->profiles[2].path, "/debug/own");
	config_put(c);
}

static const struct {
	const char *text, *error;
} refused[] = {
	{"scrape_config: []",
		"dir/f.yml:1:1: scrape_config: unknown key; did you mean scrape_configs?"},
	{"[]", "dir/f.yml:1:1: expected a mapping, got a list"},
	{"global: {scrape_intervall: 1s}", "dir/f.yml:1:10: global.scrape_intervall: "
					   "unknown key; did you mean scrape_interval?"},
	{"global: {xyzzy_plugh: 1s}", "dir/f.yml:1:10: global.xyzzy_plugh: unknown key; "
				      "see docs/configuration.md, global"},
	{"global: {scrape_interval: 15}",
		"dir/f.yml:1:27: global.scrape_interval: expected a duration such as 15s "
		"or 1h30m, got \"15\""},
	{"global: {scrape_interval: -5s}",
		"dir/f.yml:1:27: global.scrape_interval: \"-5s\" is negative, expected a "
		"duration such as 15s or 1h30m"},
	{"global: {scrape_interval: [1s]}",
		"dir/f.yml:1:27: global.scrape_interval: expected a duration such as 15s "
		"or 1h30m, got a list"},
	{"global: {sample_limit: -1}", "dir/f.yml:1:24: global.sample_limit: expected a "
				       "whole number, zero or more, got \"-1\""},
	{"global: {sample_limit: 0 1}", "dir/f.yml:1:24: global.sample_limit: expected a "
					"whole number, zero or more, got \"0 1\""},
	{"global: {sample_limit: 1.5}", "dir/f.yml:1:24: global.sample_limit: expected a "
					"whole number, zero or more, got \"1.5\""},
	{"global: {sample_limit: 0x}", "dir/f.yml:1:24: global.sample_limit: expected a "
				       "whole number, zero or more, got \"0x\""},
	{JOB "consul_sd_configs: [{token: t, authorization: {credentials: c}}]",
		"dir/f.yml:3:31: scrape_configs[0].consul_sd_configs[0].token: stands beside "
		"authorization or oauth2, expected one of them"},
	{JOB "consul_sd_configs: [{server: 'ftp://h:1'}]",
		"dir/f.yml:3:32: scrape_configs[0].consul_sd_configs[0].server: expected HOST:PORT "
		"or http://HOST:PORT"},
	{"global: {sample_limit: '1'}", "dir/f.yml:1:24: global.sample_limit: expected a "
					"whole number, zero or more, got \"1\""},
	{"global: {body_size_limit: 100}", "dir/f.yml:1:27: global.body_size_limit: "
					   "expected a size with a unit such as "
					   "32MB (32 × 1024 × 1024 bytes), got \"100\""},
	{"global: {external_labels: [a]}",
		"dir/f.yml:1:27: global.external_labels: expected a mapping of label names "
		"to values, got a list"},
	{"global: {external_labels: {a: '${B'}}",
		"dir/f.yml:1:31: global.external_labels.a: ${ without a name and }, "
		"expected ${VAR}, $VAR or $$"},
	{"global: {metric_name_validation_scheme: strict}",
		"dir/f.yml:1:41: global.metric_name_validation_scheme: expected one of utf8, "
		"legacy, got \"strict\""},
	{"global: {metric_name_validation_scheme: legacy, external_labels: {a.b: c}}",
		"dir/f.yml:1:66: global.external_labels: \"a.b\" is not a label name of the legacy "
		"scheme, expected letters, digits and _"},
	{"global: {metric_name_validation_scheme: legacy}\nscrape_configs:\n- job_name: a\n"
	 "  relabel_configs: [{target_label: 'a${1}'}, {target_label: 'a.${1}'}]\n",
		"dir/f.yml:4:46: scrape_configs[0].relabel_configs[1]: target_label \"a.${1}\" is "
		"not a label name of the legacy scheme, expected letters, digits, _ and "
		"references"},
	{"scrape_configs:\n- job_name: a\n  metric_name_validation_scheme: legacy\n"
	 "  metric_relabel_configs: [{action: labelmap, regex: (.*), replacement: '1$1'}]\n",
		"dir/f.yml:4:28: scrape_configs[0].metric_relabel_configs[0]: replacement \"1$1\" "
		"is not a label name of the legacy scheme, expected letters, digits, _ and "
		"references"},
	{"storage: {tsdb: {retention: {percentage: 101}}}",
		"dir/f.yml:1:42: storage.tsdb.retention.percentage: 101 is more than 100"},
	{"storage: {tsdb: {retention: {percentage: 100.5}}}",
		"dir/f.yml:1:42: storage.tsdb.retention.percentage: 100.5 is more than 100"},
	{"storage: {tsdb: {retention: {percentage: -1.5}}}",
		"dir/f.yml:1:42: storage.tsdb.retention.percentage: expected a number, zero or "
		"more, got \"-1.5\""},
	{"storage: {tsdb: {retention: {percentage: nan}}}",
		"dir/f.yml:1:42: storage.tsdb.retention.percentage: expected a number, zero or "
		"more, got \"nan\""},
	{"storage: {tsdb: {retention: {size: 5}}}",
		"dir/f.yml:1:36: storage.tsdb.retention.size: expected a size with a unit such as "
		"32MB (32 × 1024 × 1024 bytes), got \"5\""},
	{"scrape_configs:\n- job_name: a\n  ec2_sd_configs: [{external_id: x}]\n",
		"dir/f.yml:3:34: scrape_configs[0].ec2_sd_configs[0].external_id: has no effect "
		"without role_arn"},
	{"scrape_config_files: [a, 'x*/y']", "dir/f.yml:1:26: scrape_config_files[1]: \"dir/x*/y\" "
					     "is not valid, expected a path with "
					     "* in its last component only"},
	{"scrape_configs:\n- job_name: a\n-\n", "dir/f.yml:3:2: scrape_configs[1]: empty "
						"or null entry, expected a mapping"},
	{"scrape_configs: [{}]", "dir/f.yml:1:18: scrape_configs[0].job_name: job_name is "
				 "empty, expected a name for the job"},
	{"scrape_configs:\n- job_name: a\n- job_name: b\n- job_name: a\n",
		"dir/f.yml:4:13: scrape_configs[2].job_name: \"a\" is listed twice, first "
		"as scrape_configs[0] in line 2"},
	{"scrape_configs: 5", "dir/f.yml:1:17: scrape_configs: expected a list, got text"},
	{JOB "job_name: b", "dir/f.yml:3:3: duplicate key \"job_name\", already given in line 2"},
	{JOB "scheme: ftp", "dir/f.yml:3:11: scrape_configs[0].scheme: \"ftp\" is not a "
			    "scheme, expected http or https"},
	{JOB "honor_labels: 'true'", "dir/f.yml:3:17: scrape_configs[0].honor_labels: "
				     "expected true or false, got \"true\""},
	{JOB "params: {a: b}", "dir/f.yml:3:15: scrape_configs[0].params.a: expected a "
			       "list of texts, got \"b\""},
	{JOB "basic_auth: {password: a, password_file: b}",
		"dir/f.yml:3:44: scrape_configs[0].basic_auth.password_file: stands beside "
		"password, "
		"expected at most one of them"},
	{JOB "basic_auth: {password: [hunter2]}",
		"dir/f.yml:3:26: scrape_configs[0].basic_auth.password: expected text, got a list"},
	{JOB "authorization: {type: ' BASIC '}",
		"dir/f.yml:3:25: scrape_configs[0].authorization.type: "
		"cannot be \"BASIC\": use basic_auth for a user's "
		"name and password"},
	{JOB "authorization: {credentials: x}\n  bearer_token: y",
		"dir/f.yml:4:17: scrape_configs[0].bearer_token: stands beside authorization, "
		"expected "
		"at most one of basic_auth, authorization, bearer_token, bearer_token_file and "
		"oauth2"},
	{JOB "tls_config: {cert_file: c}", "dir/f.yml:3:15: scrape_configs[0].tls_config.key_file: "
					   "is missing beside the certificate"},
	{JOB "tls_config: {min_version: TLS13, max_version: TLS12}",
		"dir/f.yml:3:29: scrape_configs[0].tls_config.min_version: TLS13 is above "
		"max_version TLS12"},
	{JOB "tls_config: {min_version: TLS9}",
		"dir/f.yml:3:29: scrape_configs[0].tls_config.min_version: expected one of TLS10, "
		"TLS11, "
		"TLS12, TLS13, got \"TLS9\""},
	{JOB "no_proxy: a",
		"dir/f.yml:3:13: scrape_configs[0].no_proxy: has no effect without proxy_url"},
	{JOB "proxy_url: 'http://h'\n  proxy_from_environment: true",
		"dir/f.yml:3:14: scrape_configs[0].proxy_url: stands beside "
		"proxy_from_environment, "
		"expected one of them"},
	{JOB "oauth2: {client_id: a, token_url: 'http://h', grant_type: 'x:jwt-bearer'}",
		"dir/f.yml:3:61: scrape_configs[0].oauth2.grant_type: \"x:jwt-bearer\" is not "
		"built in, expected client_credentials"},
	{JOB "oauth2: {client_id: a}",
		"dir/f.yml:3:11: scrape_configs[0].oauth2.token_url: is missing"},
	{JOB "http_headers: {Host: {values: [a]}}",
		"dir/f.yml:3:24: scrape_configs[0].http_headers.Host: this header cannot be set: "
		"requests "
		"set it themselves"},
	{JOB "http_headers: {X-A: {values: [\"a\\nb\"]}}",
		"dir/f.yml:3:23: scrape_configs[0].http_headers.X-A: a header's value cannot have "
		"line ends"},
	{JOB "azure_sd_configs: []", "dir/f.yml:3:3: scrape_configs[0].azure_sd_configs: "
				     "this kind of service discovery is "
				     "not built in; use file_sd_configs"},
	{JOB "relabel_configs: [{regex: '('}]",
		"dir/f.yml:3:29: scrape_configs[0].relabel_configs[0].regex: \"(\" is not "
		"a regular expression of RE2: "
		"position 1: missing ) of this group"},
	{JOB "relabel_configs: [~]",
		"dir/f.yml:3:21: scrape_configs[0].relabel_configs[0]: empty or null "
		"entry, expected a mapping"},
	{JOB "relabel_configs: [{action: }]",
		"dir/f.yml:3:30: scrape_configs[0].relabel_configs[0].action: relabel "
		"action cannot be empty, expected one "
		"of replace, keep, drop, keepequal, dropequal, hashmod, labelmap, "
		"labeldrop, labelkeep, lowercase, uppercase"},
	{JOB "relabel_configs: [{action: keep}, {regex: a}]",
		"dir/f.yml:3:37: scrape_configs[0].relabel_configs[1]: action replace "
		"requires target_label"},
	{JOB "relabel_configs: [{action: hashmod, target_label: x}]",
		"dir/f.yml:3:21: scrape_configs[0].relabel_configs[0]: action hashmod "
		"requires a non-zero modulus"},
	{JOB "relabel_configs: [{action: labeldrop, source_labels: [a]}]",
		"dir/f.yml:3:56: scrape_configs[0].relabel_configs[0].source_labels: "
		"source_labels can not be set for action "
		"labeldrop"},
	{JOB "relabel_configs: [{action: lowercase, target_label: a, replacement: b}]",
		"dir/f.yml:3:71: scrape_configs[0].relabel_configs[0].replacement: "
		"replacement can not be set for action "
		"lowercase"},
	{JOB "relabel_configs: [{source_labels: ['']}]",
		"dir/f.yml:3:38: scrape_configs[0].relabel_configs[0].source_labels[0]: a "
		"label name cannot be empty"},
	{JOB "static_configs: [{targets: [a/b]}]",
		"dir/f.yml:3:31: scrape_configs[0].static_configs[0].targets[0]: "
		"\"a/b\" is not a valid address, expected host:port"},
	{JOB "static_configs: [{targets: [a, ~]}]",
		"dir/f.yml:3:34: scrape_configs[0].static_configs[0].targets[1]: expected "
		"text, got null"},
	{JOB "static_configs: [{targets: a}]",
		"dir/f.yml:3:30: scrape_configs[0].static_configs[0].targets: expected a "
		"list of texts, got \"a\""},
	{JOB "file_sd_configs: [{files: [a.txt]}]",
		"dir/f.yml:3:30: scrape_configs[0].file_sd_configs[0].files[0]: \"a.txt\" "
		"is not valid, expected a path that "
		"ends in .json, .yml or .yaml with * in its last component only"},
	{JOB "file_sd_configs: [{files: ['*/a.yml']}]",
		"dir/f.yml:3:30: scrape_configs[0].file_sd_configs[0].files[0]: "
		"\"*/a.yml\" is not valid, expected a path "
		"that ends in .json, .yml or .yaml with * in its last component only"},
	{JOB "file_sd_configs: [{}]",
		"dir/f.yml:3:21: scrape_configs[0].file_sd_configs[0].files: expected at "
		"least one file"},
	{JOB "profiling_config: {preset: gopher}",
		"dir/f.yml:3:30: scrape_configs[0].profiling_config.preset: expected "
		"one of auto, node, go, got \"gopher\""},
	{JOB "profiling_config: {pprof_config: {heep: {}}}",
		"dir/f.yml:3:43: "
		"scrape_configs[0].profiling_config.pprof_config.heep.path: no preset "
		"knows this profile "
		"type, expected its path, such as /debug/pprof/custom"},
	{JOB "params: {seconds: [6s]}",
		"dir/f.yml:3:21: scrape_configs[0].params.seconds: \"6s\" is no window, "
		"expected whole seconds from 1 to 86400"},
	{JOB "params: {seconds: ['86401', '1']}",
		"dir/f.yml:3:21: scrape_configs[0].params.seconds: \"86401\" is no window, "
		"expected whole seconds from 1 to 86400"},
	{JOB "profiling_config: {pprof_config: {process_cpu: {seconds: 16}}}",
		"dir/f.yml:3:60: "
		"scrape_configs[0].profiling_config.pprof_config.process_cpu.seconds: 16 "
		"is longer than the "
		"scrape_interval of 15000 ms, expected at most that"},
	{JOB "profiling_config: {pprof_config: {process_cpu: {seconds: 0}}}",
		"dir/f.yml:3:60: "
		"scrape_configs[0].profiling_config.pprof_config.process_cpu.seconds: must "
		"be at least 1"},
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct config *c = NULL;
		struct errbuf eb = {0};
		int r = config_parse(NULL, "dir/f.yml", refused[i].text, strlen(refused[i].text),
			&opts, &c, &eb);

		if (r != -EINVAL)
			fail_msg("accepted: %s", refused[i].text);
		assert_string_equal(eb.text, refused[i].error);
	}
}

static void test_warnings(void **state)
{
	struct config *c =
		parse_ok("remote_write: [{url: x}]\n"
			 "global: {evaluation_interval: 1m, external_labels: {a: $UNSET}}\n" JOB
			 "scrape_timeout: 1m\n  scrape_protocols: [x]\n"
			 "  params: {seconds: ['16']}\n"
			 "  static_configs: [{targets: ['']}]\n");
	static const char *const expected[] = {
		"dir/f.yml:1:1: remote_write: has no effect on profiles and is ignored",
		"dir/f.yml:2:10: global.evaluation_interval: has no effect on profiles and is "
		"ignored",
		"dir/f.yml:2:56: global.external_labels.a: environment variable UNSET is not set, "
		"taken as empty",
		"dir/f.yml:6:3: scrape_configs[0].scrape_protocols: has no effect on profiles and "
		"is ignored",
		"dir/f.yml:5:19: scrape_configs[0].scrape_timeout: longer than scrape_interval: a "
		"slow scrape delays the next "
		"one of its target",
		"dir/f.yml:7:21: scrape_configs[0].params.seconds: longer than scrape_interval: "
		"each profile takes the time of several",
		"dir/f.yml:7:21: scrape_configs[0].params.seconds: is the window of every profile "
		"type of this job, of those too that are totals or states otherwise, such as "
		"memory; profiling_config.pprof_config.process_cpu.seconds sets the window of the "
		"CPU profile alone",
		"dir/f.yml:8:31: scrape_configs[0].static_configs[0].targets[0]: is empty, "
		"expected "
		"host:port: nothing is scraped for it",
	};

	(void)state;
	assert_int_equal(c->n_warnings, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_string_equal(c->warnings[i].text, expected[i]);
	assert_int_equal(c->jobs[0].scrape_timeout_ms, 60000);
	config_put(c);
}

/* Jobs still inherit from a global section that earned a warning. */
static void test_global_warning(void **state)
{
	struct config *c = parse_ok("global: {scrape_interval: 5s, scrape_timeout: 30s}\n"
				    "scrape_configs: [{job_name: a}]\n");

	(void)state;
	assert_int_equal(c->n_warnings, 1);
	assert_string_equal(c->warnings[0].text, "dir/f.yml:1:47: global.scrape_timeout: longer "
						 "than scrape_interval: a slow scrape delays "
						 "the next one of its target");
	assert_int_equal(c->jobs[0].scrape_interval_ms, 5000);
	assert_int_equal(c->jobs[0].scrape_timeout_ms, 5000);
	config_put(c);
}

/* Parca's own file loads: its timeout rule is the opposite of Prometheus's. */
static void test_parca_file(void **state)
{
	struct config *c = parse_ok(
		"object_storage:\n  bucket: {type: FILESYSTEM, config: {directory: ./data}}\n"
		"scrape_configs:\n- job_name: default\n  scrape_interval: 3s\n  scrape_timeout: "
		"6s\n"
		"  static_configs: [{targets: ['127.0.0.1:7070']}]\n"
		"  profiling_config:\n    pprof_config:\n      fgprof: {enabled: true, path: "
		"/debug/pprof/fgprof}\n");

	(void)state;
	assert_int_equal(c->n_warnings, 2);
	config_put(c);
	/* what object_storage was called before */
	c = parse_ok("debug_info:\n  bucket: {type: FILESYSTEM, config: {directory: ./tmp}}\n"
		     "  cache: {type: FILESYSTEM, config: {directory: ./tmp}}\n"
		     "scrape_configs:\n- job_name: default\n  scrape_interval: 3s\n");
	assert_int_equal(c->n_warnings, 1);
	assert_string_equal(c->warnings[0].text,
		"dir/f.yml:1:1: debug_info: has no effect on profiles and is ignored; names are "
		"stored with the profiles");
	config_put(c);
}

/* What jobs take over from global, and what they set themselves. */
static void test_inherited(void **state)
{
	struct config *c = parse_ok(
		"global: {metric_name_validation_scheme: legacy, extra_scrape_metrics: true, "
		"scrape_failure_log_file: all.log}\n"
		"storage: {tsdb: {retention: {time: 30d, size: 2GB, percentage: 2.5}, "
		"out_of_order_time_window: 2h}}\n"
		"scrape_configs:\n- job_name: a\n  relabel_configs: [{target_label: b}]\n"
		"- job_name: b\n  metric_name_validation_scheme: utf8\n  extra_scrape_metrics: "
		"false\n"
		"  scrape_failure_log_file: /own.log\n  relabel_configs: [{target_label: b.c}]\n");

	(void)state;
	assert_int_equal(c->n_warnings, 0);
	assert_int_equal(c->jobs[0].name_scheme, CONFIG_NAMES_LEGACY);
	assert_true(c->jobs[0].relabel[0].legacy_names);
	assert_int_equal(c->jobs[0].extra_scrape_metrics, CONFIG_TRUE);
	assert_string_equal(c->jobs[0].scrape_failure_log_file, "dir/all.log");
	assert_int_equal(c->jobs[1].name_scheme, CONFIG_NAMES_UTF8);
	assert_false(c->jobs[1].relabel[0].legacy_names);
	assert_int_equal(c->jobs[1].extra_scrape_metrics, CONFIG_FALSE);
	assert_string_equal(c->jobs[1].scrape_failure_log_file, "/own.log");
	assert_int_equal(c->storage.tsdb.retention.time_ms, 30 * 86400000LL);
	assert_int_equal(c->storage.tsdb.retention.size_bytes, 2LL << 30);
	assert_true(c->storage.tsdb.retention.percentage == 2.5);
	assert_int_equal(c->storage.tsdb.out_of_order_ms, 7200000);
	config_put(c);
}

static void test_equality(void **state)
{
	static const char base[] = JOB "static_configs: [{targets: [h:1]}]";
	static const struct {
		const char *text;
		bool equal;
	} cases[] = {
		{JOB "static_configs:\n  - targets: ['h:1']\n  scrape_interval: 15s", true},
		{"global: {external_labels: {x: y}}\n" JOB "static_configs: [{targets: [h:1]}]",
			true},
		{JOB "static_configs: [{targets: [h:2]}]", false},
		{JOB "static_configs: [{targets: [h:1]}]\n  honor_labels: true", false},
		{"global: {scrape_interval: 20s}\n" JOB "static_configs: [{targets: [h:1]}]",
			false},
		{JOB "static_configs: [{targets: [h:1]}]\n  relabel_configs: [{action: keep}]",
			false},
		{JOB "static_configs: [{targets: [h:1]}]\n  profiling_config: {pprof_config: "
		     "{memory: {delta: false}}}",
			false},
	};
	struct config *c = parse_ok(base);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config *other = parse_ok(cases[i].text);

		if (config_job_equal(&c->jobs[0], &other->jobs[0]) != cases[i].equal)
			fail_msg("%s", cases[i].text);
		config_put(other);
	}
	config_put(c);
}

/* What is printed reads back to the same. */
static void test_print(void **state)
{
	struct config *c = parse_ok(
		"global: {scrape_interval: 20s, external_labels: {a: 'x y', b: 'true'}}\n" JOB
		"params: {a: ['', '1', \"q\\\"\\n\"]}\n  body_size_limit: 3MB\n"
		"  oauth2: {client_id: a, token_url: 'http://h', scopes: [s], endpoint_params: {a: "
		"b}}\n"
		"  tls_config: {min_version: TLS13}\n  proxy_url: "
		"'socks5://p:1'\n"
		"  http_headers: {X-A: {values: [v], files: [f]}}\n"
		"  relabel_configs: [{target_label: \"\xc3\xa9\", replacement: '', regex: "
		"'a\\.b'}, {action: keep}, {action: keepequal, target_label: a}, "
		"{action: dropequal, target_label: a}]\n"
		"  static_configs: [{targets: [h:1], labels: {x: y}}, {}]\n"
		"  profiling_config: {sample_labels: [], pprof_config: {memory: , block: {enabled: "
		"false}}}\n");
	_cleanup_bytes_ struct bytes first = {.data = NULL}, second = {.data = NULL};
	struct config *again = NULL;
	struct errbuf eb = {0};

	(void)state;
	config_print(c, &first);
	if (config_parse(NULL, "again", first.data, first.len, NULL, &again, &eb) < 0)
		fail_msg("%s\n%.*s", eb.text, (int)first.len, (char *)first.data);
	config_print(again, &second);
	assert_int_equal(first.len, second.len);
	assert_memory_equal(first.data, second.data, first.len);
	assert_true(config_job_equal(&c->jobs[0], &again->jobs[0]));
	config_put(c);
	config_put(again);
}

static void test_load(void **state)
{
	struct errbuf eb = {0};
	struct config *c;

	(void)state;
	assert_int_equal(config_load(&fs_system, "/", &opts, &c, &eb), -EISDIR);
	assert_string_equal(eb.text, "/: is a directory, expected a YAML file");
	assert_int_equal(config_load(&fs_system, "/nonexistent.yml", &opts, &c, &eb), -ENOENT);
	assert_string_equal(eb.text, "/nonexistent.yml: No such file or directory");
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(fs_write_file(&fs_system, path, text, strlen(text), 0600, NULL), 0);
}

static void test_files_of_jobs(void **state)
{
	char dir[] = "/tmp/sonde-config-XXXXXX", path[64], want[128];
	struct config *c = NULL, *changed = NULL;
	struct errbuf eb = {0};

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/main.yml", dir);
	write_file(dir, "main.yml",
		"scrape_config_files: ['jobs*.yml', 'none/*.yml']\nscrape_configs: [{job_name: "
		"a}]");
	write_file(dir, "jobs1.yml",
		"scrape_configs: [{job_name: b, file_sd_configs: [{files: [t.yml]}]}]");
	write_file(dir, "jobs2.yml", "scrape_configs:\n- job_name: c\n- job_name: d\n");
	write_file(dir, "other.yml", "]");
	assert_int_equal(config_load(&fs_system, path, &opts, &c, &eb), 0);
	assert_int_equal(c->n_jobs, 4);
	assert_string_equal(c->jobs[3].name, "d");
	assert_int_equal(c->jobs[3].index, 3);
	snprintf(want, sizeof(want), "%s/t.yml", dir);
	assert_string_equal(c->jobs[1].file_sds[0].files.items[0], want);

	write_file(dir, "jobs2.yml", "scrape_configs: [{job_name: a}]");
	assert_int_equal(config_load(&fs_system, path, &opts, &changed, &eb), -EINVAL);
	snprintf(want, sizeof(want),
		"%s/jobs2.yml:1:29: scrape_configs[0].job_name: \"a\" is listed twice", dir);
	assert_memory_equal(eb.text, want, strlen(want));
	write_file(dir, "jobs2.yml", "global: {}");
	eb.text[0] = 0;
	assert_int_equal(config_load(&fs_system, path, &opts, &changed, &eb), -EINVAL);
	snprintf(want, sizeof(want), "%s/jobs2.yml:1:1: global: unknown key", dir);
	assert_memory_equal(eb.text, want, strlen(want));
	write_file(dir, "jobs2.yml", "");
	assert_int_equal(config_load(&fs_system, path, &opts, &changed, &eb), 0);
	assert_int_equal(changed->n_jobs, 2);
	assert_memory_not_equal(changed->sha256, c->sha256, 32);
	config_put(changed);
	config_put(c);
	assert_int_equal(fs_remove_all(&fs_system, dir), 0);
}

static void test_groups(void **state)
{
	static const struct {
		const char *path, *text, *error; /* NULL: fine */
	} cases[] = {
		{"t.yml", "- targets: [a, b]\n  labels: {x: y}\n", NULL},
		{"t.json", "[{\"targets\":[\"a\"],\"labels\":{\"x\":\"y\"}}]", NULL},
		{"t.json", "\t[]", NULL}, {"t.yml", "", NULL},
		{"t.yml", "- targets: [a]\n  lables: {}\n",
			"t.yml:2:3: [0].lables: unknown key; did you mean labels?"},
		{"t.json", "[{\"target\":[]}]",
			"t.json: [0].target: unknown key; did you mean targets?"},
		{"t.json", "[null]", "t.json: [0]: empty or null entry, expected a mapping"},
		{"t.json", "{}", "t.json: expected a list, got a mapping"},
		{"t.json", "[{\"targets\":[[]]}]",
			"t.json: [0].targets[0]: expected text, got a list"},
		{"t.json", "[{\"targets\":[1]}]",
			"t.json: [0].targets[0]: expected text, got a number or boolean"},
		{"t.json", "[{\"labels\":{\"a\":true}}]",
			"t.json: [0].labels.a: expected text, got a number or boolean"},
		{"t.yml", "- labels: {a: 5, b: true}", NULL},
		{"t.yml", "- labels: {a: \"b\xff\"}", NULL},
		{"t.json", "[{\"labels\":{\"a\":\"\xc3\"}}]", NULL},
		{"t.json", "[{\"labels\":{\"a\":\"\xc3\"}]",
			"t.json: line 1, column 21: '}' expected near ']'"},
		{"t.json", "[{\"targets\":[\"\",\"a:1\"]}]", NULL}, /* costs that target alone */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config_groups g;
		struct errbuf eb = {0};
		int r = config_parse_groups(
			cases[i].path, cases[i].text, strlen(cases[i].text), &g, &eb);

		assert_int_equal(r, cases[i].error ? -EINVAL : 0);
		assert_string_equal(eb.text, cases[i].error ? cases[i].error : "");
		config_groups_free(&g);
	}
}

/* Memory may run out at every allocation of a load: an error, nothing leaked, nothing half made. */
static void test_out_of_memory(void **state)
{
	static const char text[] =
		"global: {external_labels: {a: $B}}\n" JOB
		"static_configs: [{targets: [a, b], labels: {x: y}}]\n"
		"  file_sd_configs: [{files: [a.yml]}]\n  params: {p: [q]}\n"
		"  relabel_configs: [{regex: '(a+)b', target_label: x}]\n"
		"  profiling_config: {sample_labels: [c], pprof_config: {memory: {delta: true}}}\n";
	bool done = false;
	unsigned n;

	(void)state;
	for (n = 1; n < 2000 && !done; n++) {
		struct config *c = NULL;
		struct errbuf eb = {0};
		int r;

		alloc_fail_after(n);
		r = config_parse(NULL, "f.yml", text, strlen(text), &opts, &c, &eb);
		alloc_fail_after(0);
		done = r == 0;
		if (!done) {
			assert_int_equal(r, -ENOMEM);
			assert_null(c);
		} else {
			config_put(c);
		}
	}
	assert_true(done && n > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_whole_numbers),
		cmocka_unit_test(test_consul_server),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_global_warning),
		cmocka_unit_test(test_parca_file),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_equality),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_files_of_jobs),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
