/* SPDX-License-Identifier: Apache-2.0
 *
 * Which profile types a target is asked for: presets, what an exporter's headers say, and what pprof_config overrides. Pure.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/prof/profile.h"
#include "scraper/config/config.h"
#include <stdbool.h>
#include <stdint.h>

enum scrape_preset { SCRAPE_PRESET_AUTO, SCRAPE_PRESET_NODE, SCRAPE_PRESET_GO };
const char *scrape_preset_name(enum scrape_preset p);

/* How one type is requested and what its value columns mean. */
struct scrape_spec {
	char *name; /* as stored: "process_cpu" */
	char *path; /* "/debug/pprof/profile" */
	bool is_windowed; /* the answer covers a time window that the request names (seconds) or continues (since) */
	bool is_cumulative; /* totals since the process began: subtracted from the previous scrape */
	bool has_cursor;    /* since= and span= are sent */
	int64_t seconds;    /* of a windowed request without cursor */
};
struct scrape_specs {
	struct scrape_spec *items;
	size_t n;
};
void scrape_specs_done(struct scrape_specs *s);
#define _cleanup_scrape_specs_ _cleanup_(scrape_specs_done)

/*
 * The types to ask for, process_cpu first when it is on. `types_header` is the exporter's Sonde-Types ("process_cpu=profile, …"), needed for
 * SCRAPE_PRESET_NODE once it is known (NULL: process_cpu alone). -EPROTO with a text: the header is malformed.
 */
int scrape_specs_build(const struct config_profiling *profiling, enum scrape_preset preset,
	const char *types_header, int64_t interval_ms, struct scrape_specs *ret,
	struct errbuf *eb) _must_check_;

/* The request names its window. */
void scrape_spec_set_window(struct scrape_spec *spec, int64_t seconds);
/* The job's override for this type, or NULL. */
const struct config_profile *scrape_spec_override(
	const struct config_profiling *profiling, const char *name);

/*
 * True when the column of the answer holds a state at an instant (inuse_*, goroutine …, objects and space without a duration) rather
 * than an amount over the window.
 */
bool scrape_column_is_instant(
	const struct scrape_spec *spec, const struct profile *p, size_t column);

enum scrape_tier { SCRAPE_TIER_ROW, SCRAPE_TIER_SERIES, SCRAPE_TIER_DROP };
/* The tier of a sample label: the job's lists, else the preset's; `node` and those in the exporter's Sonde-Labels are always series labels. */
enum scrape_tier scrape_label_tier(const struct config_profiling *profiling,
	enum scrape_preset preset, const char *labels_header, const char *name, size_t n);
