/* SPDX-License-Identifier: Apache-2.0
 *
 * The scraper as a whole: the only file of the program that sees all its stages, in the order of the picture: configuration → discovery →
 * scrape → relabel → store → query → API.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "scraper/options.h"

struct scraper_pipeline;

/*
 * Reads the configuration, binds the listeners, serves health pages, replays the store, starts scraping. Signals must be blocked in all threads
 * (scraper_pipeline_run waits for them). *ret is freed with scraper_pipeline_freep; `o` must outlive it. Negative errno of the stage that
 * failed, with text that says what to do.
 */
int scraper_pipeline_start(const struct scraper_options *o, struct scraper_pipeline **ret,
	struct errbuf *eb) _must_check_;
/* Serves until SIGTERM, SIGINT or /-/quit; SIGHUP reloads. Returns 0. */
int scraper_pipeline_run(struct scraper_pipeline *p) _must_check_;
/* Ends everything in reverse order: running requests get a moment, decoded answers are stored. A second call does nothing. */
void scraper_pipeline_stop(struct scraper_pipeline *p);
void scraper_pipeline_freep(struct scraper_pipeline **p);
