/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exporter reports of itself with each answer (header Sonde-Health): own cost, rate, samples taken and lost. Decode threads.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "scraper/scrape/reason.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scrape_request;

enum { SCRAPE_VITALS = 11 };

/* The numbers of that header, and the time that the answer is of: values by the table in vitals.c. */
struct scrape_vitals {
	double value[SCRAPE_VITALS];
	uint32_t known; /* 1 << place in the table */
	bool is_taken;
};

/* Reads the header into the request. SCRAPE_FAIL_PROTOCOL with r->error: it is malformed. */
enum scrape_reason scrape_vitals_read(struct scrape_request *r) _must_check_;
/* Counts the time that an answer is of. While an exporter is behind several come before one is reported. */
void scrape_vitals_watch(struct scrape_request *r);
/* Makes differences of what are totals, once for each request; returns which values there are now. */
uint32_t scrape_vitals_take(struct scrape_request *r);
/* How many CPUs the exporter's machine has; 0 unknown. */
uint32_t scrape_vitals_cpus(const struct scrape_vitals *v);
/* The series' name of a value, and its label `reason` or NULL. */
const char *scrape_vitals_name(size_t i, const char **ret_reason);
