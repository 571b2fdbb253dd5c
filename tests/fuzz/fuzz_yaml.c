/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration files. What loads must print, and what was printed must load again to the same
 * jobs.
 */
#include "lib/base/bytes.h"
#include "scraper/config/config.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *env(const char *name, void *ctx)
{
	(void)ctx;
	return name[0] == 'A' ? "value" : NULL;
}

static void check_print(const struct config *c)
{
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	_cleanup_(config_putp)
	struct config *again = NULL;
	struct errbuf eb = {0};

	config_print(c, &text);
	if (config_parse(NULL, "/again", text.data, text.len, NULL, &again, &eb) < 0)
		err_panic("printed configuration does not load: %s\n%.*s", eb.text, (int)text.len,
			(char *)text.data);
	ASSERT(again->n_jobs == c->n_jobs);
	for (size_t i = 0; i < c->n_jobs; i++)
		ASSERT(config_job_equal(&c->jobs[i], &again->jobs[i]));
}

/* The first byte chooses what the rest is read as. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct config_load_opts opts = {.getenv = env};
	_cleanup_(config_putp)
	struct config *c = NULL;
	struct config_groups groups;
	struct config_rules rules;
	struct errbuf eb = {0};
	int r;

	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 0:
		r = config_parse(NULL, "/f.yml", data + 1, size - 1, &opts, &c, &eb);
		if (r == 0)
			check_print(c);
		break;
	case 1:
		r = config_parse_rules("r.yml", data + 1, size - 1, &rules, &eb);
		config_rules_free(&rules);
		break;
	default:
		r = config_parse_groups(
			data[0] % 4 == 2 ? "g.yml" : "g.json", data + 1, size - 1, &groups, &eb);
		config_groups_free(&groups);
	}
	ASSERT(r == 0 || eb.text[0]);
	return 0;
}
