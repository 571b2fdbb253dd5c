/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter's flags: one table for parsing, --help, /flags and the documentation check.
 */
#pragma once
#include "lib/base/options.h"
#include "lib/prof/labels.h"

enum { EXPORTER_NODE_BYTES = 1024 }; /* of a node's name */

struct exporter_options {
	struct option_list listen;
	const char *cors_origin; /* NULL: none */
	const char *web_config_file;
	uint64_t web_bytes;

	const char *types; /* NULL: those that are on by default */
	uint64_t frequency_hz, max_frequency_hz;
	int64_t window_ms, retention_ms;
	uint64_t retention_bytes;
	double max_overhead;
	bool cpu_label, build_id_label;
	uint64_t max_processes, max_tasks;

	bool kubernetes;
	const char *kubernetes_server, *kubernetes_kubelet;
	const char *kubernetes_node; /* NULL: node_name */
	const char *kubernetes_token_file, *kubernetes_ca_file;
	bool kubernetes_skip_verify;
	struct option_list pod_labels, pod_annotations;
	int64_t kubernetes_interval_ms;
	uint64_t kubernetes_bytes;

	const char *node_name; /* NULL: the host's name */
	struct option_list external_labels;

	const char *symbols_cache_path;
	uint64_t symbols_cache_bytes;
	double symbols_max_cpu;
	struct option_list debuginfod;
	uint64_t debuginfod_bytes;
	int64_t debuginfod_timeout_ms;
	uint64_t jit_bytes, interp_bytes;
	bool java_perfmap;
	const char *interp_frames;

	uint64_t table_bytes, shadow;
	uint64_t priority;
	const char *kernel_walk;
	const char *interp;

	const char *procfs, *sysfs;
	const char *user;    /* NULL: sonde, else nobody */
	const char *capture; /* NULL: off */
	const char *log_level, *log_format;
};

extern const struct option_program exporter_program;

/* What the table cannot say: flags that contradict each other. -EINVAL with a text. */
int exporter_options_check(const struct exporter_options *o, struct errbuf *eb) _must_check_;
/* Names of the sample labels that --kubernetes.pod-label and then --kubernetes.pod-annotation stand for, into `ret` (room for
 * both lists; each is the caller's to free). -EINVAL: two are the same. */
int exporter_options_pod_labels(
	const struct exporter_options *o, char **ret, struct errbuf *eb) _must_check_;
/* The node's name: as given, else the host's. */
int exporter_options_node(
	const struct exporter_options *o, char *ret, size_t cap, struct errbuf *eb) _must_check_;
/* The set of profile types (EVENT_BITs) that are on. -EINVAL: a name is unknown or repeated. */
int exporter_options_types(
	const struct exporter_options *o, uint32_t *ret, struct errbuf *eb) _must_check_;
/* The runtimes whose frames are walked: 1 << enum runtime_kind (exporter/symfile/runtime.h); none with --debug.capture, since a bundle must
 * replay anywhere, where their objects mean nothing. -EINVAL: a name is unknown or repeated. */
int exporter_options_interp(
	const struct exporter_options *o, uint32_t *ret, struct errbuf *eb) _must_check_;
/* The labels that every sample has: node and the external ones. */
int exporter_options_labels(
	const struct exporter_options *o, struct labels *ret, struct errbuf *eb) _must_check_;
