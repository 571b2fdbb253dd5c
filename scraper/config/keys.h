/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of all configuration keys: what exists, its type and default. docs/configuration.md is
 * compared with them.
 */
#pragma once
#include "scraper/config/read.h"

enum config_keys_id {
	CONFIG_KEYS_TOP,
	CONFIG_KEYS_GLOBAL,
	CONFIG_KEYS_JOB,
	CONFIG_KEYS_STATIC, /* also the items of a file_sd file */
	CONFIG_KEYS_FILE_SD,
	CONFIG_KEYS_RELABEL,
	CONFIG_KEYS_PROFILING,
	CONFIG_KEYS_PROFILE,
	CONFIG_KEYS_VALUE_TYPE,
	CONFIG_KEYS_N,
};
const struct config_section *config_keys(enum config_keys_id id);

/* What the top level reads into. */
struct config_top {
	struct config_global global;
	struct config_job *jobs;
	size_t n_jobs;
};

/* Kinds of service discovery that exist elsewhere: those that will come, those that are not built
 * in; unknown is no kind at all. */
enum config_sd_kind { CONFIG_SD_UNKNOWN, CONFIG_SD_LATER, CONFIG_SD_FOREIGN };
enum config_sd_kind config_keys_sd_kind(const char *key);

/* Checks of the sections, scraper/config/checks.c. */
config_check_fn config_check_global, config_check_job, config_check_file_sd, config_check_static,
	config_check_relabel, config_check_profiling, config_check_profile;
