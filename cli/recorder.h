/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of an exporter, taken with a cursor and added up: of one that runs, or of one that is started for this.
 */
#pragma once
#include "cli/server.h"
#include "exporter/event/event.h"
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/prof/profile.h"
#include <stdbool.h>
#include <sys/types.h>

/* An exporter of our own, which ends when this process does, however that is. */
struct own_exporter {
	pid_t guard; /* 0: none */
	int life_fd; /* closing it ends them */
	int log_fd;  /* its log */
	char url[64];
	struct bytes line; /* of the log, unfinished */
};
#define OWN_EXPORTER_NONE ((struct own_exporter) {.life_fd = -1, .log_fd = -1})
/* Starts `sonde-exporter`, beside this program or in PATH, on a free port of the loopback interface and waits until it
 * listens. What it warns of goes to stderr. Before any thread is started. -EINTR when meanwhile a signal came that ends us and is
 * blocked (command_ending_signal). After a failure too, own_exporter_stop. */
int own_exporter_start(struct own_exporter *x, const struct event_source *type,
	uint64_t frequency_hz, struct errbuf *eb) _must_check_;
/* Passes on what it has logged since. -EPIPE with a text: it has ended. 0 where there is none. */
int own_exporter_poll(struct own_exporter *x, struct errbuf *eb) _must_check_;
void own_exporter_stop(struct own_exporter *x);

struct recorder;
/* `filter`: parameters of the request, each with a & before it. Asks the server once, and fails as cli_server_ask does, here and below. Begins
 * paused. What `server` points to must outlive it. */
int recorder_new(const struct cli_server_options *server, const struct event_source *type,
	const char *filter, struct recorder **ret, struct errbuf *eb) _must_check_;
void recorder_freep(struct recorder **r);
/* The second that runs and those after it belong to the recording. */
void recorder_resume(struct recorder *r);
/* Takes what has closed since, or forgets it while there is no window. Now and then, before an exporter forgets it. */
int recorder_take(struct recorder *r, struct errbuf *eb) _must_check_;
/* Takes all up to now, waiting for the second to close; then nothing more until resumed. -ETIMEDOUT after 30 s. */
int recorder_pause(struct recorder *r, struct errbuf *eb) _must_check_;
bool recorder_is_paused(const struct recorder *r);
/* Adds the comment "marker NAME at 1.234 s" to the profile. */
int recorder_mark(
	struct recorder *r, const char *name, double at_s, struct errbuf *eb) _must_check_;

struct recorder_stats {
	uint64_t samples, truncated, lost, lost_seconds;
	/* Rates in force and why, in their order: "99 Hz (--profile.frequency), then 49 Hz (…)"; "" for an exporter that does
	 * not say. */
	char rates[256];
};
void recorder_stats(const struct recorder *r, struct recorder_stats *ret);
/* The sum, gzipped pprof. -ENODATA: nothing was recorded. */
int recorder_finish(struct recorder *r, struct bytes *out, struct errbuf *eb) _must_check_;
