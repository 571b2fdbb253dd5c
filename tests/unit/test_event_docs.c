/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written of a profile type beside its row: the table of docs/exporter.md, and the list of types that a scraper's configuration may
 * name without a path, with its sentence in docs/configuration.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "exporter/event/event.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include "scraper/config/config.h"
#include <stdio.h>
#include <string.h>

/* A page as text; the caller's `page`. */
static const char *read_page(const char *path, struct bytes *page)
{
	struct errbuf eb = {.text = ""};

	if (fs_read_file(&fs_system, path, 1 << 20, page, &eb) < 0)
		fail_msg("%s: %s (run from the top of the tree)", path, eb.text);
	bytes_put_u8(page, 0);
	return (const char *)page->data;
}

/* "| `cpu` | `profile` | `process_cpu` | samples/count, cpu/nanoseconds | 8 | " */
static void print_row(const struct event_source *s, char *ret, size_t cap)
{
	int n = snprintf(
		ret, cap, "\n| `%s` | `%s` | `%s` | ", s->name, s->endpoint, s->store_name);

	for (size_t i = 0; i < s->n_values; i++)
		n += snprintf(ret + n, cap - (size_t)n, "%s%s/%s", i ? ", " : "", s->values[i].type,
			s->values[i].unit);
	if (s->cost_share)
		snprintf(ret + n, cap - (size_t)n, " | %u | ", s->cost_share);
	else
		snprintf(ret + n, cap - (size_t)n, " | | ");
}

static void the_table_of_profile_types(void **state)
{
	_cleanup_bytes_ struct bytes page = {0};
	const char *text = read_page("docs/exporter.md", &page);

	(void)state;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		char row[512];

		print_row(event_source(i), row, sizeof(row));
		if (!strstr(text, row))
			fail_msg("docs/exporter.md, \"Profile types\" has no row%s…", row);
	}
}

/* A user who names the type in a configuration need not know its path. */
static void scrapers_know_the_names(void **state)
{
	_cleanup_bytes_ struct bytes page = {0};
	const char *text = read_page("docs/configuration.md", &page);
	const char *sentence = strstr(text, "Presets know `"), *end;

	(void)state;
	assert_non_null(sentence);
	end = strchr(sentence, '\n');
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		const char *name = event_source(i)->store_name, *at = strstr(sentence, name);
		struct errbuf eb = {.text = ""};
		struct config *c = NULL;
		char yaml[256];

		snprintf(yaml, sizeof(yaml),
			"scrape_configs: [{job_name: j, profiling_config: {pprof_config: {%s: "
			"{enabled: true}}}}]",
			name);
		if (config_parse(NULL, "f.yml", yaml, strlen(yaml), NULL, &c, &eb) < 0)
			fail_msg("known_profiles of scraper/config/checks.c has no %s: %s", name,
				eb.text);
		config_put(c);
		if (!at || at > end)
			fail_msg("docs/configuration.md, \"Presets know\" has no %s", name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_of_profile_types),
		cmocka_unit_test(scrapers_know_the_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
