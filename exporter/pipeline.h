/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter's stages put together. A sink consumes what they make: the HTTP server in the daemon, a file in a recording tool.
 *
 * Threads of the main role: "main" (waits for signals in the sink's run), "drain" (rings and side-band buffers → process
 * table, stacks, log), "symbols" (four of them: ask the parser for symbol files), "reader" (four: read what the process table
 * asks for), "jit" (names JIT code once a second), "shadow" (has stacks walked a second time), and the sink's own ("http",
 * "net", two "http-worker").
 * At the end main waits 8 s for those that are its own. A thread that is stuck by then is named and ends with the process.
 *
 * Locks, outermost first; no two of one line are held together:
 *  0. a round of JIT names
 *  1. pipeline   stacks, log, process table; the drain takes it per record, a response while it aggregates
 *  2. binary registry, symbolizer, governor, drain statistics, shadow queue: each a mutex of its own folder
 *  3. keeper client, budgets (atomic), metrics cells (atomic)
 * The HTTP server's lock is never held while a handler runs.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "exporter/options.h"
#include "exporter/profile/source.h"
#include "exporter/sample/drain.h"
#include "lib/base/threads.h"

/* What a sink may use between its open and its close. */
struct exporter_stages {
	const struct profile_source *source;
	struct drain *drain;
	struct binary_registry *binaries;
	const struct keeper_setup *setup;
	struct clock *clock;
	const struct threads *threads; /* those beside the sink's own */
	struct budget *web_budget;
	struct budget *const *budgets;
	size_t n_budgets;
};

struct exporter_sink {
	void *ctx;
	/* Before the first drain; the text says what to do. */
	int (*open)(void *ctx, const struct exporter_stages *s, struct errbuf *eb);
	/* Samples flow. Blocks until it is time to stop; returns the exit status. */
	int (*run)(void *ctx);
	void (*close)(void *ctx);
};

/* Builds the stages, runs them until the sink's run returns, takes them down. Returns the exit status, or -errno with a text
 * when it could not start. Signals that the sink waits for must be blocked by the caller. */
int exporter_pipeline_run(const struct exporter_options *o, const struct keeper_setup *setup,
	const struct exporter_sink *sink, struct errbuf *eb) _must_check_;

/* The same stages fed from a bundle (docs/formats/bundle.md), all of it, on this thread and by the bundle's clock; then the
 * sink's run with the symbol threads beside it. `drain` of the stages is NULL. parser_fd: the socket of a parser zygote. Needs no privilege. */
int exporter_pipeline_replay(const struct exporter_options *o, const char *bundle, int parser_fd,
	const struct exporter_sink *sink, struct errbuf *eb) _must_check_;
