/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter's HTTP side: /debug/pprof, /targets, /metrics, health and the index page. docs/http-api-exporter.md is what clients
 * may rely on. Handlers validate on the http thread; profiles are made on workers; a seconds= request waits as a timer.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/keeper/keeper.h"
#include "exporter/profile/source.h"
#include "exporter/sample/drain.h"
#include "lib/base/options.h"
#include "lib/base/threads.h"
#include "lib/net/server/server.h"

struct serve_options {
	const struct profile_source *source;
	struct drain *drain;
	struct binary_registry *binaries;
	const struct keeper_setup *setup;
	struct clock *clock;
	const struct threads *threads; /* of the pipeline */
	struct budget *budget;	       /* of responses */
	struct budget *const *budgets; /* shown on /metrics */
	size_t n_budgets;
	const char *const *listen;
	size_t n_listen;
	const char *cors_origin, *web_config_file;
	uint32_t max_frequency_hz;
	const struct option_program *program; /* for /flags */
	const void *option_values;
	char *const *argv; /* for cmdline, NULL-terminated */
};

struct serve;

/* Binds the listeners; no thread yet. The text names the address that could not be bound. */
int serve_open(const struct serve_options *o, struct serve **ret, struct errbuf *eb) _must_check_;
int serve_start(struct serve *s, struct errbuf *eb) _must_check_;
/* "127.0.0.1:7273" of listener i, NULL past the last. */
const char *serve_address(const struct serve *s, size_t i);
/* No new connections; waiting requests end with 503, running ones have a moment to finish. */
void serve_stop(struct serve *s);
void serve_freep(struct serve **s);
