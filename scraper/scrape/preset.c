/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of presets and the rules that combine them with the job's configuration.
 */
#include "scraper/scrape/preset.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <string.h>

#define PPROF_ROOT "/debug/pprof/"
enum { MAX_TYPES = 64 };

/* What net/http/pprof serves, under the names the store uses. */
static const struct {
	const char *name, *endpoint;
	bool is_windowed, is_cumulative;
} go_types[] = {
	{"process_cpu", "profile", true, false},
	{"memory", "allocs", false, true},
	{"mutex", "mutex", false, true},
	{"block", "block", false, true},
	{"goroutine", "goroutine", false, false},
};

/* Profiles of Go programs that are asked for where pprof_config names them: the first says little, few programs have the second. */
static const char *const optional_go_types[] = {"threadcreate", "goroutineleak"};

static const char *const node_series_labels[] = {
	"comm", "container_name", "namespace", "pod", "systemd_unit", NULL};
static const char *const node_dropped_labels[] = {"pid", "tid", "cpu", NULL};

const char *scrape_preset_name(enum scrape_preset p)
{
	static const char *const names[] = {"auto", "node", "go"};

	return names[p];
}

void scrape_specs_done(struct scrape_specs *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->items[i].name);
		free(s->items[i].path);
	}
	free(s->items);
	*s = (struct scrape_specs) {0};
}

/* Of a windowed request. */
static int64_t default_seconds(int64_t interval_ms)
{
	return MAX(interval_ms / 1000 - 1, 1);
}

const struct config_profile *scrape_spec_override(
	const struct config_profiling *profiling, const char *name)
{
	for (size_t i = 0; i < profiling->n_profiles; i++)
		if (!strcmp(profiling->profiles[i].name, name))
			return &profiling->profiles[i];
	return NULL;
}

static bool has_type(const struct scrape_specs *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->items[i].name, name))
			return true;
	return false;
}

/* Takes name and path. */
static struct scrape_spec *add(struct scrape_specs *s, char *name, char *path)
{
	s->items = xrealloc(s->items, (s->n + 1) * sizeof(*s->items));
	s->items[s->n] = (struct scrape_spec) {.name = name, .path = path};
	return &s->items[s->n++];
}

static void add_go(struct scrape_specs *s, size_t i)
{
	struct scrape_spec *spec =
		add(s, xstrdup(go_types[i].name), xasprintf(PPROF_ROOT "%s", go_types[i].endpoint));

	spec->is_windowed = go_types[i].is_windowed;
	spec->is_cumulative = go_types[i].is_cumulative;
}

static bool is_word(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= 64 &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

/* "process_cpu=profile, offcpu=offcpu" */
static int add_node(struct scrape_specs *s, const char *header, struct errbuf *eb)
{
	_cleanup_free_ char *copy = xstrdup(header);
	char *save = NULL;

	for (char *item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
		char *eq = strchr(item, '=');
		struct scrape_spec *spec;

		if (eq)
			*eq = '\0';
		if (!eq || !is_word(item) || !is_word(eq + 1))
			return err_set(eb, -EPROTO,
				"malformed header Sonde-Types near \"%.64s\", expected "
				"NAME=ENDPOINT",
				item);
		if (has_type(s, item))
			continue;
		if (s->n >= MAX_TYPES)
			return err_set(eb, -EPROTO, "header Sonde-Types lists more than %d types",
				MAX_TYPES);
		spec = add(s, xstrdup(item), xasprintf(PPROF_ROOT "%s", eq + 1));
		spec->is_windowed = true;
		spec->has_cursor = true;
	}
	return 0;
}

/* The types that users know to be totals since the process began. */
static bool is_cumulative_name(const char *name)
{
	static const char *const names[] = {"memory", "allocs", "heap", "mutex", "block"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

void scrape_spec_set_window(struct scrape_spec *spec, int64_t seconds)
{
	/* the server makes the difference over the window */
	spec->is_windowed = true;
	spec->is_cumulative = false;
	spec->seconds = seconds;
}

static void override(struct scrape_spec *spec, const struct config_profile *p)
{
	if (p->path) {
		free(spec->path);
		spec->path = xstrdup(p->path);
	}
	if (p->seconds) {
		scrape_spec_set_window(spec, p->seconds);
	} else if (p->delta == CONFIG_FALSE) {
		spec->is_cumulative = false;
	} else if (p->delta == CONFIG_TRUE && !spec->is_windowed) {
		spec->is_cumulative = is_cumulative_name(spec->name);
		spec->is_windowed = !spec->is_cumulative;
	}
}

static void remove_at(struct scrape_specs *s, size_t i)
{
	free(s->items[i].name);
	free(s->items[i].path);
	memmove(&s->items[i], &s->items[i + 1], (s->n - i - 1) * sizeof(*s->items));
	s->n--;
}

static bool is_optional_go(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(optional_go_types); i++)
		if (!strcmp(name, optional_go_types[i]))
			return true;
	return false;
}

/* A type that the preset does not ask for by itself. */
static void add_configured(
	struct scrape_specs *s, const struct config_profile *p, enum scrape_preset preset)
{
	if (p->path)
		add(s, xstrdup(p->name), xstrdup(p->path));
	else if (preset == SCRAPE_PRESET_GO && is_optional_go(p->name))
		add(s, xstrdup(p->name), xasprintf(PPROF_ROOT "%s", p->name));
}

static void apply_config(
	struct scrape_specs *s, const struct config_profiling *profiling, enum scrape_preset preset)
{
	for (size_t i = 0; i < profiling->n_profiles; i++) {
		const struct config_profile *p = &profiling->profiles[i];

		if (!has_type(s, p->name) && p->enabled != CONFIG_FALSE)
			add_configured(s, p, preset);
	}
	for (size_t i = s->n; i-- > 0;) {
		const struct config_profile *p = scrape_spec_override(profiling, s->items[i].name);

		if (p && p->enabled == CONFIG_FALSE)
			remove_at(s, i);
		else if (p)
			override(&s->items[i], p);
	}
}

/* `up` follows the first type: the CPU profile where there is one. */
static void cpu_first(struct scrape_specs *s)
{
	for (size_t i = 1; i < s->n; i++) {
		struct scrape_spec spec = s->items[i];

		if (strcmp(spec.name, "process_cpu"))
			continue;
		memmove(&s->items[1], &s->items[0], i * sizeof(*s->items));
		s->items[0] = spec;
	}
}

int scrape_specs_build(const struct config_profiling *profiling, enum scrape_preset preset,
	const char *types_header, int64_t interval_ms, struct scrape_specs *ret, struct errbuf *eb)
{
	_cleanup_scrape_specs_ struct scrape_specs s = {0};
	int r = 0;

	if (preset == SCRAPE_PRESET_GO) {
		for (size_t i = 0; i < ARRAY_SIZE(go_types); i++)
			add_go(&s, i);
	} else if (preset == SCRAPE_PRESET_NODE && types_header) {
		r = add_node(&s, types_header, eb);
	} else {
		add_go(&s, 0);
		s.items[0].has_cursor = true;
	}
	if (r < 0)
		return r;
	apply_config(&s, profiling, preset);
	cpu_first(&s);
	for (size_t i = 0; i < s.n; i++)
		if (s.items[i].is_windowed && !s.items[i].seconds)
			s.items[i].seconds = default_seconds(interval_ms);
	*ret = s;
	s = (struct scrape_specs) {0};
	return 0;
}

static bool text_is(const char *s, size_t n, const char *want)
{
	return strlen(want) == n && !memcmp(s, want, n);
}

static bool text_starts(const char *s, size_t n, const char *prefix)
{
	return n >= strlen(prefix) && !memcmp(s, prefix, strlen(prefix));
}

static bool is_negative(const struct profile *p, size_t column)
{
	for (size_t i = 0; i < p->n_samples; i++)
		if (p->values[i * p->n_types + column] < 0)
			return true;
	return false;
}

/*
 * Whether a column that is named as a state holds differences of it: the target made them over the `seconds` asked for, as Go's
 * heap?seconds=N, and says a duration, which a state has none of. A pushed one shows by a negative value.
 */
static bool is_difference(const struct scrape_spec *spec, const struct profile *p, size_t column)
{
	if (spec->is_windowed && spec->seconds)
		return p->duration_ns > 0;
	return spec->is_windowed && is_negative(p, column);
}

bool scrape_column_is_instant(
	const struct scrape_spec *spec, const struct profile *p, size_t column)
{
	struct prof_str type = profile_str(p, p->types[column].type);

	if (text_starts(type.p, type.len, "inuse_") || text_is(type.p, type.len, "goroutine") ||
		text_is(type.p, type.len, "goroutines") ||
		text_is(type.p, type.len, "goroutineleak") ||
		text_is(type.p, type.len, "threadcreate"))
		return !is_difference(spec, p, column);
	/* Node.js and tcmalloc: a heap now; with a duration what was allocated over it. */
	if (text_is(type.p, type.len, "objects") || text_is(type.p, type.len, "space"))
		return !p->duration_ns && !is_negative(p, column);
	return !spec->is_windowed && !spec->is_cumulative;
}

static bool in_strings(const struct config_strings *list, const char *name, size_t n)
{
	for (size_t i = 0; i < list->n; i++)
		if (text_is(name, n, list->items[i]))
			return true;
	return false;
}

static bool in_table(const char *const *list, const char *name, size_t n)
{
	for (; *list; list++)
		if (text_is(name, n, *list))
			return true;
	return false;
}

/* A comma-separated header lists the name. */
static bool in_header(const char *header, const char *name, size_t n)
{
	while (header && *header) {
		size_t len;

		header += strspn(header, ", ");
		len = strcspn(header, ", ");
		if (len && len == n && !memcmp(header, name, n))
			return true;
		header += len;
	}
	return false;
}

enum scrape_tier scrape_label_tier(const struct config_profiling *profiling,
	enum scrape_preset preset, const char *labels_header, const char *name, size_t n)
{
	bool is_node = preset == SCRAPE_PRESET_NODE;

	if (text_is(name, n, "node") || in_header(labels_header, name, n))
		return SCRAPE_TIER_SERIES;
	if (profiling->has_sample_labels ? in_strings(&profiling->sample_labels, name, n)
					 : is_node && in_table(node_series_labels, name, n))
		return SCRAPE_TIER_SERIES;
	if (profiling->has_drop_labels ? in_strings(&profiling->drop_labels, name, n)
				       : is_node && in_table(node_dropped_labels, name, n))
		return SCRAPE_TIER_DROP;
	return SCRAPE_TIER_ROW;
}
