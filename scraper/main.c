/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-scraper.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "scraper/options.h"
#include "scraper/pipeline.h"
#include <signal.h>

static int run(const struct scraper_options *o)
{
	_cleanup_(scraper_pipeline_freep)
	struct scraper_pipeline *p = NULL;
	struct errbuf eb = {0};
	int r = log_set_level(o->log_level, &eb);

	if (r == 0)
		r = log_set_format(o->log_format, &eb);
	if (r == 0)
		r = scraper_pipeline_start(o, &p, &eb);
	if (r < 0) {
		log_write(LOG_ERROR, "cannot start", "error", err_text(&eb, r), NULL);
		return 1;
	}
	r = scraper_pipeline_run(p);
	scraper_pipeline_stop(p);
	return r < 0;
}

int main(int argc, char **argv)
{
	struct scraper_options o = {0};
	sigset_t set;
	int status;

	alloc_keep_freed();
	/* before any thread exists, so that all inherit it and run() alone receives them */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	status = options_parse_or_exit(&scraper_program, argc, argv, &o, NULL);
	if (status < 0)
		status = run(&o);
	options_done(&scraper_program, &o);
	return status;
}
