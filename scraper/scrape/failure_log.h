/* SPDX-License-Identifier: Apache-2.0
 *
 * scrape_failure_log_file: failed scrapes as lines of JSON, the keys of which are Prometheus's and two more. Jobs that name the same file
 * share it. Loop thread.
 */
#pragma once
#include "lib/base/fs.h"

struct config;
struct config_job;

struct scrape_failure_file {
	struct scrape_failure_file *next;
	char *path;
	int fd; /* -1: it could not be opened */
};
struct scrape_failure_log {
	struct fs *fs;
	struct scrape_failure_file *files;
};

/* Opens the files that the configuration names, those already open too: they may have been moved away. Returns how many could not be
 * opened; each is logged. */
unsigned scrape_failure_log_open(struct scrape_failure_log *l, const struct config *cfg);
void scrape_failure_log_close(struct scrape_failure_log *l);
struct scrape_failure {
	int64_t time_ns;
	const char *job, *url, *type, *reason, *error;
};
/* Adds a line to the job's file; 0 also without one. -EBADF: it could not be opened; -ENOMEM; -EIO: a part was written; or the errno of
 * write(2), -EAGAIN for a full pipe. */
int scrape_failure_log_write(struct scrape_failure_log *l, const char *path,
	const struct scrape_failure *f) _must_check_;
