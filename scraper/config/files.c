/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a job's settings name, from the same tables that read them.
 */
#include "scraper/config/keys.h"
#include <string.h>

enum { KEY_TEXT_MAX = 256 };

struct walk {
	config_file_fn *fn;
	void *ctx;
};

static void walk_section(const struct walk *w, const struct config_section *section,
	const void *object, const char *prefix);

static void walk_items(
	const struct walk *w, const struct config_key *key, const void *object, const char *path)
{
	const char *items =
		*(const char *const *)(const void *)((const char *)object + key->offset);
	size_t n = *(const size_t *)(const void *)((const char *)object + key->n_offset);
	char text[KEY_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		const char *item = items + i * key->section->size;

		if (key->type == CONFIG_TYPE_MAP)
			snprintf(text, sizeof(text), "%.150s.%.80s.", path,
				*(const char *const *)(const void *)item);
		else
			snprintf(text, sizeof(text), "%.150s[%zu].", path, i);
		walk_section(w, key->section, item, text);
	}
}

static void walk_key(
	const struct walk *w, const struct config_key *key, const void *object, const char *prefix)
{
	const char *at = (const char *)object + key->offset;
	const struct config_strings *paths = (const void *)at;
	char path[KEY_TEXT_MAX];

	snprintf(path, sizeof(path), "%.150s%.80s", prefix, key->name);
	switch (key->type) {
	case CONFIG_TYPE_SECTION:
		if (key->is_optional && !*(const bool *)((const char *)object + key->n_offset))
			return;
		snprintf(path, sizeof(path), "%.150s%.80s.", prefix, key->name);
		walk_section(w, key->section, at, path);
		return;
	case CONFIG_TYPE_LIST:
	case CONFIG_TYPE_MAP: walk_items(w, key, object, path); return;
	case CONFIG_TYPE_PATH:
		if (*(const char *const *)(const void *)at)
			w->fn(w->ctx, path, *(const char *const *)(const void *)at);
		return;
	case CONFIG_TYPE_PATHS:
		for (size_t i = 0; i < paths->n; i++)
			w->fn(w->ctx, path, paths->items[i]);
		return;
	default: return;
	}
}

static void walk_section(const struct walk *w, const struct config_section *section,
	const void *object, const char *prefix)
{
	for (size_t i = 0; i < section->n_keys; i++)
		if (section->keys[i].support == CONFIG_READ)
			walk_key(w, &section->keys[i], object, prefix);
}

/* The log of failures is written, not read. */
struct reading {
	config_file_fn *fn;
	void *ctx;
};

static void pass_read(void *ctx, const char *key, const char *path)
{
	const struct reading *r = ctx;

	if (strcmp(key, "scrape_failure_log_file") != 0)
		r->fn(r->ctx, key, path);
}

void config_job_files(const struct config_job *job, config_file_fn *fn, void *ctx)
{
	struct reading r = {fn, ctx};
	const struct walk w = {pass_read, &r};

	walk_section(&w, config_keys(CONFIG_KEYS_JOB), job, "");
}
