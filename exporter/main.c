/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-exporter: flags, roles, then the pipeline with the HTTP server as its sink.
 */
#include "exporter/fetcher/fetcher.h"
#include "exporter/interp/rows.h"
#include "exporter/keeper/roles.h"
#include "exporter/parser/parser.h"
#include "exporter/pipeline.h"
#include "exporter/serve/serve.h"
#include "lib/base/log.h"
#include "lib/base/version.h"
#include <malloc.h>
#include <signal.h>
#include <string.h>

struct daemon {
	const struct exporter_options *o;
	char *const *argv;
	struct serve *serve;
};

static int daemon_open(void *ctx, const struct exporter_stages *s, struct errbuf *eb)
{
	struct daemon *d = ctx;
	int r = serve_open(
		&(struct serve_options) {
			.source = s->source,
			.drain = s->drain,
			.binaries = s->binaries,
			.setup = s->setup,
			.clock = s->clock,
			.threads = s->threads,
			.budget = s->web_budget,
			.budgets = s->budgets,
			.n_budgets = s->n_budgets,
			.listen = d->o->listen.items,
			.n_listen = d->o->listen.n,
			.cors_origin = d->o->cors_origin,
			.web_config_file = d->o->web_config_file,
			.max_frequency_hz = (uint32_t)d->o->max_frequency_hz,
			.program = &exporter_program,
			.option_values = d->o,
			.argv = d->argv,
		},
		&d->serve, eb);

	if (r < 0)
		return r;
	r = serve_start(d->serve, eb);
	for (size_t i = 0; r >= 0 && serve_address(d->serve, i); i++)
		log_write(LOG_INFO, "listening", "address", serve_address(d->serve, i), NULL);
	return r;
}

static void signals_to_wait_for(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

static int daemon_run(void *ctx)
{
	struct daemon *d = ctx;
	sigset_t set;
	int number;

	signals_to_wait_for(&set);
	do {
		if (sigwait(&set, &number))
			return 1;
	} while (number == SIGHUP); /* there is nothing to read again */
	log_printf(LOG_INFO, "ending on %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
	serve_stop(d->serve);
	return 0;
}

static void daemon_close(void *ctx)
{
	struct daemon *d = ctx;

	serve_freep(&d->serve);
}

static int run_fetcher(const void *ctx, int fd)
{
	return fetcher_run(ctx, fd);
}

static int start_roles(
	const struct exporter_options *o, struct keeper_setup *ret, struct errbuf *eb)
{
	char node[EXPORTER_NODE_BYTES] = "";
	uint32_t types = 0, interp = 0;
	int r = exporter_options_types(o, &types, eb);
	const bool has_interp = exporter_options_interp(o, &interp, NULL) == 0 && interp;
	const struct fetcher_pods_options pods = {
		.server = o->kubernetes_server,
		.kubelet = o->kubernetes_kubelet,
		.node = o->kubernetes_node ? o->kubernetes_node : node,
		.token_file = o->kubernetes_token_file,
		.ca_file = o->kubernetes_ca_file,
		.insecure_skip_verify = o->kubernetes_skip_verify,
		.labels = (const char *const *)o->pod_labels.items,
		.n_labels = o->pod_labels.n,
		.annotations = (const char *const *)o->pod_annotations.items,
		.n_annotations = o->pod_annotations.n,
		.interval_ms = (uint32_t)o->kubernetes_interval_ms,
		.max_bytes = o->kubernetes_bytes,
	};
	const struct fetcher_options fetch = {
		.debuginfod = (const char *const *)o->debuginfod.items,
		.n_debuginfod = o->debuginfod.n,
		.timeout_ms = (uint32_t)o->debuginfod_timeout_ms,
		.max_bytes = o->debuginfod_bytes,
		.pods = o->kubernetes ? &pods : NULL,
	};
	const struct role_options roles = {
		.user = o->user,
		.procfs = o->procfs,
		.sysfs = o->sysfs,
		.events = types,
		.frequency_hz = (uint32_t)o->frequency_hz,
		.max_frequency_hz = (uint32_t)o->max_frequency_hz,
		.table_bytes = o->table_bytes,
		.shadow = (uint32_t)o->shadow,
		.priority = (uint32_t)o->priority,
		.ask_kernel = strcmp(o->kernel_walk, "kernel") == 0,
		.by_frame_pointer = o->capture && *o->capture,
		.state_dirs = {*o->symbols_cache_path ? o->symbols_cache_path : NULL},
		.interp = has_interp ? interp_walks(interp) : 0,
		.copies = has_interp,
		.attacher = o->java_perfmap,
		.parser = parser_zygote_run,
		.fetcher = fetch.n_debuginfod || fetch.pods ? run_fetcher : NULL,
		.fetcher_ctx = &fetch,
	};

	if (r == 0)
		r = exporter_options_node(o, node, sizeof(node), eb);
	return r < 0 ? r : role_start(&roles, ret, eb);
}

/*
 * Of main, which has some ten threads that rarely allocate at once, and buffers that come and go with requests. By itself glibc
 * gives each thread an arena and, once a large block was freed, takes blocks up to that size from the heap, where they leave holes.
 */
static void set_up_malloc(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
	(void)mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

static int run(const struct exporter_options *o, char *const *argv, struct errbuf *eb)
{
	struct daemon d = {.o = o, .argv = argv};
	const struct exporter_sink sink = {
		.ctx = &d, .open = daemon_open, .run = daemon_run, .close = daemon_close};
	struct keeper_setup setup;
	sigset_t set;
	int r = start_roles(o, &setup, eb);

	if (r < 0)
		return r;
	set_up_malloc();
	for (uint32_t i = 0; i < setup.n_missing; i++)
		log_write(LOG_WARN, "capability missing", "cap", setup.missing[i].cap, "effect",
			setup.missing[i].effect, NULL);
	/* Blocked here, before any thread, so that only daemon_run receives them. */
	signals_to_wait_for(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return exporter_pipeline_run(o, &setup, &sink, eb);
}

int main(int argc, char **argv)
{
	struct exporter_options o = {.cpu_label = false};
	struct errbuf eb = {.text = ""};
	int r = options_parse_or_exit(&exporter_program, argc, argv, &o, NULL);

	if (r < 0 && (exporter_options_check(&o, &eb) < 0 || log_set_level(o.log_level, &eb) < 0 ||
			     log_set_format(o.log_format, &eb) < 0)) {
		fprintf(stderr, "%s: %s\n", exporter_program.name, eb.text);
		r = OPTIONS_EXIT_USAGE;
	}
	if (r < 0) {
		r = run(&o, argv, &eb);
		if (r < 0)
			log_write(LOG_ERROR, "cannot start", "reason", err_text(&eb, r), NULL);
		r = r < 0 ? 1 : r;
	}
	options_done(&exporter_program, &o);
	return r;
}
