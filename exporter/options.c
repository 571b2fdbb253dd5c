/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of flags and the checks across them.
 */
#include "exporter/options.h"
#include "exporter/event/event.h"
#include "exporter/profile/labels.h"
#include "exporter/proc/pod_table.h"
#include "exporter/symfile/runtime.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/net/kubernetes/kubernetes.h"
#include "lib/net/url/url.h"
#include <ctype.h>
#include <limits.h>
#include <string.h>

#define AT(field) offsetof(struct exporter_options, field)

static const struct option_spec specs[] = {
	OPTION_HEADING("Web"),
	{"web.listen-address", OPTION_STRINGS, AT(listen), .value = "ADDRESS",
		.fallback = "127.0.0.1:7273",
		.help = "Where to listen: HOST:PORT, :PORT for all interfaces, [V6]:PORT, or "
			"unix:/PATH (mode 0660). May be repeated. A "
			"loopback listener refuses requests with a foreign Host header."},
	{"web.cors.origin", OPTION_STRING, AT(cors_origin), .value = "ORIGIN",
		.help = "Origin that browsers may read answers from, or * for any. Without it no "
			"CORS headers are sent."},
	{"web.config.file", OPTION_STRING, AT(web_config_file), .value = "FILE",
		.help = "TLS, users, headers and rate limit, in the format of Prometheus's "
			"exporters. Read again within a second of a change. The user of --user "
			"must be able to read it and the files that it names."},
	{"web.max-bytes", OPTION_BYTES, AT(web_bytes), .fallback = "64MB", .min = 1 << 20,
		.max = 1LL << 40,
		.help = "Memory of all answers in the making together; above it a request gets "
			"503."},

	OPTION_HEADING("Profiles"),
	{"profile.types", OPTION_STRING, AT(types), .value = "NAME,NAME", .fallback = "cpu",
		.help = "Profile types that are on. The page /debug/pprof/ lists all that there "
			"are. A type that is off loads no program."},
	{"profile.frequency", OPTION_U64, AT(frequency_hz), .value = "HZ", .fallback = "19",
		.min = 1, .max = 10000,
		.help = "Samples per second and CPU. Primes do not run in step with timers."},
	{"profile.max-frequency", OPTION_U64, AT(max_frequency_hz), .value = "HZ",
		.fallback = "999", .min = 1, .max = 10000,
		.help = "Highest rate that a request may ask for with hz=."},
	{"profile.max-overhead", OPTION_DOUBLE, AT(max_overhead), .value = "SHARE",
		.fallback = "0.005", .min = 0, .max = 1,
		.help = "CPU time that the sampling rate may cost, as a share of all online CPU "
			"time. Above it the rate is lowered in steps. The cost of new processes, "
			"symbol files and answers does not count: a lower rate would not save it. "
			"0: no limit."},
	{"profile.window", OPTION_DURATION, AT(window_ms), .fallback = "10s", .min = 1000,
		.max = 3600000,
		.help = "How much time since= gives without span=, and the span into which old "
			"seconds are merged. Whole seconds."},
	{"profile.retention", OPTION_DURATION, AT(retention_ms), .fallback = "5m", .min = 10000,
		.max = 86400000,
		.help = "How long samples are kept for cursors, and the longest seconds= of a "
			"request. Whole seconds."},
	{"profile.retention-bytes", OPTION_BYTES, AT(retention_bytes), .fallback = "16MB",
		.min = 1 << 20, .max = 1LL << 40,
		.help = "Size of the sample log of each profile type, above which its oldest "
			"seconds are merged per "
			"window, then dropped."},
	{"profile.cpu-label", OPTION_BOOL, AT(cpu_label),
		.help = "Give each sample the label cpu. Profiles get larger."},
	{"profile.build-id-label", OPTION_BOOL, AT(build_id_label),
		.help = "Give each sample the label build_id: that of the program."},
	{"profile.max-processes", OPTION_U64, AT(max_processes), .fallback = "32768", .min = 64,
		.max = 4194304,
		.help = "Processes tracked. Samples of all others are counted under one common "
			"process."},
	{"profile.max-tasks", OPTION_U64, AT(max_tasks), .fallback = "131072", .min = 64,
		.max = 16777216,
		.help = "Threads that samples can refer to. Samples of all others are counted "
			"under their process."},

	OPTION_HEADING("Labels"),
	{"node.name", OPTION_STRING, AT(node_name), .value = "NAME",
		.help = "Value of the label node. Default: the host's name."},
	{"external-label", OPTION_LABELS, AT(external_labels),
		.help = "A label of every sample. May be repeated."},

	OPTION_HEADING("Kubernetes"),
	{"kubernetes", OPTION_BOOL, AT(kubernetes),
		.help = "Label samples with pod, namespace, container name and image from the "
			"cluster. Starts a role of its own that has the network and nothing else."},
	{"kubernetes.server", OPTION_STRING, AT(kubernetes_server), .value = "URL", .fallback = "",
		.help = "The API server on which to watch the pods of this node. Default: the "
			"server of the cluster in which the exporter is a pod, with the service "
			"account's token and CA."},
	{"kubernetes.kubelet", OPTION_STRING, AT(kubernetes_kubelet), .value = "URL",
		.fallback = "",
		.help = "The kubelet of this node. The exporter asks its /pods instead of the API "
			"server."},
	{"kubernetes.interval", OPTION_DURATION, AT(kubernetes_interval_ms), .fallback = "10s",
		.min = 1000, .max = 3600000, .help = "Time between two requests to the kubelet."},
	{"kubernetes.node-name", OPTION_STRING, AT(kubernetes_node), .value = "NAME",
		.help = "The node's name in the cluster. Default: --node.name."},
	{"kubernetes.token-file", OPTION_STRING, AT(kubernetes_token_file), .value = "FILE",
		.fallback = KUBERNETES_ACCOUNT "token",
		.help = "Bearer token for servers over https, read for each request. Without the "
			"file no token is sent."},
	{"kubernetes.ca-file", OPTION_STRING, AT(kubernetes_ca_file), .value = "FILE",
		.fallback = KUBERNETES_ACCOUNT "ca.crt",
		.help = "Certificates that the server's certificate is checked against. Without "
			"the file the system's count."},
	{"kubernetes.insecure-skip-verify", OPTION_BOOL, AT(kubernetes_skip_verify),
		.help = "Do not check the certificate of --kubernetes.server or "
			"--kubernetes.kubelet."},
	{"kubernetes.pod-label", OPTION_STRINGS, AT(pod_labels), .value = "NAME",
		.help = "A label of pods that becomes the label pod_label_NAME of samples, with _ "
			"for characters that a label name may not have. May be repeated."},
	{"kubernetes.pod-annotation", OPTION_STRINGS, AT(pod_annotations), .value = "NAME",
		.help = "An annotation of pods that becomes the label pod_annotation_NAME of "
			"samples. May be repeated."},
	{"kubernetes.max-bytes", OPTION_BYTES, AT(kubernetes_bytes), .fallback = "16MB",
		.min = 64 << 10, .max = 1LL << 30,
		.help = "Size of an answer, and of all pods in memory. Above it the exporter keeps "
			"the pods that it knew before."},

	OPTION_HEADING("Names"),
	{"symbols.cache-path", OPTION_STRING, AT(symbols_cache_path), .value = "DIR",
		.fallback = "/var/cache/sonde/symbols",
		.help = "Directory that keeps symbol files across restarts. Made when missing. "
			"Empty: in memory only."},
	{"symbols.cache-bytes", OPTION_BYTES, AT(symbols_cache_bytes), .fallback = "512MB",
		.min = 1 << 20, .max = 1LL << 40,
		.help = "Size of that directory; the least recently used files go."},
	{"symbols.max-cpu", OPTION_DOUBLE, AT(symbols_max_cpu), .value = "SHARE", .fallback = "0.1",
		.min = 0.001, .max = 64,
		.help = "CPU time for making symbol files, as a share of one CPU, beyond a short "
			"burst per new binary."},

	{"symbols.debuginfod", OPTION_STRINGS, AT(debuginfod), .value = "URL",
		.help = "A debuginfod server that may have the debug information of stripped "
			"binaries, by build id. May be repeated: asked in this order. Starts a "
			"role of its own that has the network and nothing else."},
	{"symbols.debuginfod-timeout", OPTION_DURATION, AT(debuginfod_timeout_ms),
		.fallback = "60s", .min = 100, .max = 3600000,
		.help = "How long one server may take for one file."},
	{"symbols.debuginfod-max-bytes", OPTION_BYTES, AT(debuginfod_bytes), .fallback = "1GB",
		.min = 1 << 10, .max = 1LL << 40, .help = "Largest file to fetch."},
	{"jit.max-bytes", OPTION_BYTES, AT(jit_bytes), .fallback = "16MB", .min = 1 << 20,
		.max = 1LL << 40,
		.help = "Memory for the addresses of JIT code from perf maps and jitdumps. The "
			"least recently used are forgotten, and read again when needed."},
	{"interp.max-bytes", OPTION_BYTES, AT(interp_bytes), .fallback = "16MB", .min = 1 << 20,
		.max = 1LL << 40,
		.help = "Memory for the names and tables of lines of language runtimes' functions. "
			"When it is full, functions whose names are read from then on have "
			"none. Once samples with other functions have gone, they are read again "
			"when sampled."},
	{"jit.java-perfmap", OPTION_BOOL, AT(java_perfmap),
		.help = "Ask JVMs (JDK 17 and later) for their perf maps when their code has no "
			"names, as jcmd PID Compiler.perfmap does. Starts a role of its own that "
			"can become any user."},
	{"interp.frames", OPTION_CHOICE, AT(interp_frames), .value = "fold|keep|only",
		.fallback = "fold",
		.help = "What profiles have of an interpreter around the frames of its language. "
			"fold: one frame for each run of its own native frames. keep: all. only: "
			"the language's frames alone. A request overrides it with interp=."},

	OPTION_HEADING("Unwinding"),
	{"unwind.table-bytes", OPTION_BYTES, AT(table_bytes), .fallback = "20MB", .min = 1 << 20,
		.max = 128 << 20,
		.help = "Kernel memory for unwind tables; the least recently used tables go."},
	{"unwind.shadow", OPTION_U64, AT(shadow), .value = "N", .fallback = "0", .max = UINT32_MAX,
		.help = "Have elfutils walk one user stack of N a second time, and compare. "
			"/unwind and sonde_shadow_total have the results. 0: none."},

	{"unwind.kernel", OPTION_CHOICE, AT(kernel_walk), .value = "orc|kernel", .fallback = "orc",
		.help = "Who walks kernel stacks. orc: the sampler, by the kernel's unwind table; "
			"the kernel checks it and walks the rest. kernel: the kernel alone, at a "
			"higher cost."},

	{"interp", OPTION_STRING, AT(interp), .value = "NAME,NAME|none",
		.fallback = "python,ruby,v8,hotspot",
		.help = "Language runtimes whose own frames stand in stacks: functions, files and "
			"lines of the language in place of those of its interpreter. Known ones: "
			"python, ruby, v8, hotspot. none: native frames only."},

	OPTION_HEADING("System"),
	{"path.procfs", OPTION_STRING, AT(procfs), .value = "DIR", .fallback = "/proc",
		.help = "The host's procfs."},
	{"path.sysfs", OPTION_STRING, AT(sysfs), .value = "DIR", .fallback = "/sys",
		.help = "The host's sysfs."},
	{"user", OPTION_STRING, AT(user), .value = "NAME",
		.help = "User of all roles. Default: sonde if there is one, else nobody. Ignored "
			"when not started as root."},
	{"priority", OPTION_U64, AT(priority), .value = "STEPS", .fallback = "15", .min = 0,
		.max = 20,
		.help = "Steps below 0 of the nice value of the roles that sample and answer, so "
			"that these go before other processes on an overloaded machine. A lower "
			"value that the exporter was started with stays. Needs CAP_SYS_NICE, "
			"which root has. 0: as started."},
	{"debug.capture", OPTION_STRING, AT(capture), .value = "FILE",
		.help = "Write all input of the exporter to FILE, for replay in tests. It holds "
			"names and file contents of this machine."},
	OPTIONS_LOG(struct exporter_options),
};

const struct option_program exporter_program = {
	.name = "sonde-exporter",
	.summary = "continuous CPU profiles of this machine over HTTP",
	.description = "Samples all CPUs with eBPF and serves pprof: symbolized kernel and user "
		       "stacks of every process, with nothing installed in any of them. Ask with "
		       "curl, go tool pprof or sonde-scraper.\n"
		       "\n"
		       "  GET /debug/pprof/profile?seconds=N   the N seconds that begin now\n"
		       "  GET /debug/pprof/profile?since=      the last window; then pass the "
		       "Sonde-Cursor header\n"
		       "  GET /targets, /metrics, /-/healthy, /-/ready, /\n"
		       "\n"
		       "Start it as root: it splits into a keeper with a handful of capabilities, "
		       "a main process and a parser with none, all under an unprivileged user. The "
		       "log at start, the index page and sonde_capability_missing name what the "
		       "kernel refuses, and what that costs.\n"
		       "\n"
		       "SIGTERM and SIGINT end it: listeners close, requests being answered have "
		       "three seconds, waiting ones get 503.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      it could not start, or a role died; stderr says what to do",
	.examples = "sonde-exporter --web.listen-address=:7273 --external-label dc=ams\n"
		    "curl -o cpu.pb.gz "
		    "'http://127.0.0.1:7273/debug/pprof/profile?seconds=10&comm=postgres'\n"
		    "go tool pprof -top http://127.0.0.1:7273\n"
		    "curl 'http://127.0.0.1:7273/debug/pprof/profile?seconds=5&hz=199&format=html' "
		    ">flames.html",
};

static int whole_seconds(const char *flag, int64_t ms, struct errbuf *eb)
{
	if (ms % 1000)
		return err_set(eb, -EINVAL, "--%s: expected whole seconds", flag);
	return 0;
}

static char *pod_label_name(const char *prefix, const char *key)
{
	char *name = xasprintf("%s%s", prefix, key);

	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
	return name;
}

int exporter_options_pod_labels(const struct exporter_options *o, char **ret, struct errbuf *eb)
{
	size_t n = 0;

	for (size_t i = 0; i < o->pod_labels.n; i++)
		ret[n++] = pod_label_name("pod_label_", o->pod_labels.items[i]);
	for (size_t i = 0; i < o->pod_annotations.n; i++)
		ret[n++] = pod_label_name("pod_annotation_", o->pod_annotations.items[i]);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(ret[i], ret[k]))
				return err_set(eb, -EINVAL,
					"--kubernetes.pod-label, --kubernetes.pod-annotation: two "
					"of "
					"them give the label %s",
					ret[i]);
	return 0;
}

static int check_url(const char *flag, const char *text, struct errbuf *eb)
{
	_cleanup_url_ struct url url = {.scheme = NULL};
	int r = url_parse(text, &url, eb);

	return r < 0 ? err_prefix(eb, r, "--%s=%s", flag, text) : 0;
}

static int check_urls(const struct exporter_options *o, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->debuginfod.n; i++)
		r = check_url("symbols.debuginfod", o->debuginfod.items[i], eb);
	if (r == 0 && *o->kubernetes_server)
		r = check_url("kubernetes.server", o->kubernetes_server, eb);
	if (r == 0 && *o->kubernetes_kubelet)
		r = check_url("kubernetes.kubelet", o->kubernetes_kubelet, eb);
	return r;
}

static int check_kubernetes(const struct exporter_options *o, struct errbuf *eb)
{
	char *names[POD_MAX_VALUES] = {NULL};
	size_t n = o->pod_labels.n + o->pod_annotations.n;
	int r;

	if (*o->kubernetes_server && *o->kubernetes_kubelet)
		return err_set(eb, -EINVAL,
			"--kubernetes.server and --kubernetes.kubelet: expected one of them");
	if (!o->kubernetes && (*o->kubernetes_server || *o->kubernetes_kubelet || n))
		return err_set(eb, -EINVAL, "--kubernetes.* without --kubernetes");
	if (n > POD_MAX_VALUES)
		return err_set(eb, -EINVAL,
			"--kubernetes.pod-label, --kubernetes.pod-annotation: more than %d",
			POD_MAX_VALUES);
	r = exporter_options_pod_labels(o, names, eb);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; r == 0 && k < o->external_labels.n; k++) {
			const char *text = o->external_labels.items[k];

			if (strlen(names[i]) == strcspn(text, "=") &&
				str_starts_with(text, names[i]))
				r = err_set(eb, -EINVAL,
					"--external-label=%s: samples have a label of this name by "
					"themselves",
					text);
		}
		free(names[i]);
	}
	return r;
}

int exporter_options_types(const struct exporter_options *o, uint32_t *ret, struct errbuf *eb)
{
	int r = 0;

	if (o->types)
		r = event_parse_set(o->types, ret, eb);
	else
		*ret = event_default_set();
	return r < 0 ? err_prefix(eb, r, "--profile.types") : 0;
}

static int unknown_runtime(const char *name, size_t n, struct errbuf *eb)
{
	char known[128] = "";

	for (uint32_t i = 1; i < N_RUNTIMES; i++) {
		size_t at = strlen(known);

		snprintf(known + at, sizeof(known) - at, "%s, ", runtime_name(i));
	}
	return err_set(eb, -EINVAL,
		"--interp=%.*s: unknown or repeated; expected none, or some of %.*s",
		(int)MIN(n, (size_t)64), name, (int)strlen(known) - 2, known);
}

static int parse_interp(const char *s, uint32_t *ret, struct errbuf *eb)
{
	for (;; s++) {
		size_t n = strcspn(s, ",");
		uint32_t kind = 1;

		while (kind < N_RUNTIMES &&
			(strncmp(runtime_name(kind), s, n) != 0 || runtime_name(kind)[n]))
			kind++;
		if (kind == N_RUNTIMES || *ret & 1U << kind)
			return unknown_runtime(s, n, eb);
		*ret |= 1U << kind;
		s += n;
		if (!*s)
			return 0;
	}
}

int exporter_options_interp(const struct exporter_options *o, uint32_t *ret, struct errbuf *eb)
{
	uint32_t set = 0;
	int r = strcmp(o->interp, "none") ? parse_interp(o->interp, &set, eb) : 0;

	*ret = o->capture && *o->capture ? 0 : set;
	return r;
}

int exporter_options_check(const struct exporter_options *o, struct errbuf *eb)
{
	uint32_t set;

	if (exporter_options_types(o, &set, eb) < 0 || exporter_options_interp(o, &set, eb) < 0)
		return -EINVAL;
	if (whole_seconds("profile.window", o->window_ms, eb) < 0 ||
		whole_seconds("profile.retention", o->retention_ms, eb) < 0)
		return -EINVAL;
	if (o->frequency_hz > o->max_frequency_hz)
		return err_set(eb, -EINVAL,
			"--profile.frequency=%llu is above --profile.max-frequency=%llu",
			(unsigned long long)o->frequency_hz,
			(unsigned long long)o->max_frequency_hz);
	if (o->window_ms > o->retention_ms)
		return err_set(eb, -EINVAL, "--profile.window is longer than --profile.retention");
	for (size_t i = 0; i < o->external_labels.n; i++) {
		const char *text = o->external_labels.items[i];
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
		if (profile_label_is_reserved(name))
			return err_set(eb, -EINVAL,
				"--external-label=%s: samples have a label of this name by "
				"themselves%s",
				text, strcmp(name, PROFILE_LABEL_NODE) ? "" : ": use --node.name");
	}
	return check_urls(o, eb) < 0 ? -EINVAL : check_kubernetes(o, eb);
}

int exporter_options_node(
	const struct exporter_options *o, char *ret, size_t cap, struct errbuf *eb)
{
	if (o->node_name)
		snprintf(ret, cap, "%s", o->node_name);
	else if (gethostname(ret, cap - 1) < 0)
		return err_set(eb, -errno, "the host's name cannot be read: give --node.name");
	return 0;
}

int exporter_options_labels(const struct exporter_options *o, struct labels *ret, struct errbuf *eb)
{
	_cleanup_labels_builder_ struct labels_builder b;
	char node[EXPORTER_NODE_BYTES] = "";
	int r = exporter_options_node(o, node, sizeof(node), eb);

	labels_builder_init(&b);
	if (r < 0)
		return r;
	labels_builder_set(&b, PROFILE_LABEL_NODE, node);
	for (size_t i = 0; i < o->external_labels.n; i++) {
		const char *text = o->external_labels.items[i];
		size_t n = strcspn(text, "=");

		labels_builder_set_n(&b, text, n, text + n + 1, strlen(text + n + 1));
	}
	return labels_builder_finish(&b, ret);
}
