/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of all configuration keys: what exists, its type and default. docs/configuration.md is compared with them.
 */
#pragma once
#include "scraper/config/read.h"

extern const struct config_section config_keys_top, config_keys_global, config_keys_job,
	config_keys_static, config_keys_file_sd, config_keys_relabel, config_keys_profiling,
	config_keys_profile, config_keys_value_type;
/* All of them, ended by NULL. */
extern const struct config_section *const config_keys_all[];

/* What the top level reads into. */
struct config_top {
	struct config_global global;
	struct config_job *jobs;
	size_t n_jobs;
};

/* Kinds of service discovery that exist elsewhere: "known" (will come), "foreign" (not built in), NULL (no kind at all). */
enum config_sd_kind { CONFIG_SD_UNKNOWN, CONFIG_SD_LATER, CONFIG_SD_FOREIGN };
enum config_sd_kind config_keys_sd_kind(const char *key);

/* Checks of the sections, scraper/config/checks.c. */
config_check_fn config_check_global, config_check_job, config_check_file_sd, config_check_static,
	config_check_relabel, config_check_profiling, config_check_profile;
