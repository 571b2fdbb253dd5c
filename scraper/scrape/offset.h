/* SPDX-License-Identifier: Apache-2.0
 *
 * When a target is asked: slots of its interval, spread by hash and pinned to absolute time, so that restarts and reloads keep the phase
 * and two scrapers with different names interleave. Source: prometheus scrape/target.go offset().
 */
#pragma once
#include "lib/prof/labels.h"
#include <stdint.h>

/* FNV-64a of the host name and the external labels: the seed of one scraper. */
uint64_t scrape_offset_seed(const char *host_name, const struct labels *external_labels);
/* The first slot after `now_ns` (unix): now < slot ≤ now + interval. interval > 0. */
int64_t scrape_next_slot(int64_t now_ns, int64_t interval_ns, uint64_t target_hash, uint64_t seed);
/* The slot after `slot_ns`, which has come, and after `now_ns`: never the same one again because a timer was early, and never more than two
 * intervals from now, whatever the clock was when `slot_ns` was chosen. */
int64_t scrape_slot_after(
	int64_t slot_ns, int64_t now_ns, int64_t interval_ns, uint64_t target_hash, uint64_t seed);
