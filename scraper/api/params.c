/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of query endpoints.
 */
#include "scraper/api/params.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/instant.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "lib/tree/canon.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const struct {
	const char *name, *type, *suffix;
} formats[API_N_FORMATS] = {
	[API_JSON] = {"json", "application/json", "json"},
	[API_PPROF] = {"pprof", "application/octet-stream", "pb.gz"},
	[API_FOLDED] = {"folded", "text/plain; charset=utf-8", "folded"},
	[API_SPEEDSCOPE] = {"speedscope", "application/json", "speedscope.json"},
	[API_SVG] = {"svg", "image/svg+xml", "svg"},
	[API_HTML] = {"html", "text/html; charset=utf-8", "html"},
	[API_DOT] = {"dot", "text/vnd.graphviz", "dot"},
	[API_CSV] = {"csv", "text/csv; charset=utf-8", "csv"},
	[API_TEXT] = {"text", "text/plain; charset=utf-8", "txt"},
	[API_PROTOBUF] = {"protobuf", "application/x-protobuf", "pb"},
};

static int find_format(const char *name)
{
	for (int i = 0; i < API_N_FORMATS; i++)
		if (!strcmp(name, formats[i].name))
			return i;
	return -EINVAL;
}

enum api_format api_format_of(const struct url_params *params, enum api_format fallback)
{
	const char *name = url_params_get(params, "format");
	int f = name && *name ? find_format(name) : (int)fallback;

	return f < 0 ? fallback : (enum api_format)f;
}

const char *api_format_type(enum api_format f)
{
	return formats[f].type;
}

const char *api_format_suffix(enum api_format f)
{
	return formats[f].suffix;
}

/* ---- times ---- */

int api_parse_step(const char *text, int64_t *ret_ns, struct errbuf *eb)
{
	double seconds;
	int64_t ms;

	if (str_parse_double(text, &seconds, NULL) == 0 && isfinite(seconds) && seconds >= 0.001 &&
		seconds <= 1e9) {
		*ret_ns = llround(seconds * 1e9);
		return 0;
	}
	if (str_parse_duration_ms(text, &ms, NULL) == 0 && ms >= 1 && ms <= 1000000000000) {
		*ret_ns = ms * NS_PER_MS;
		return 0;
	}
	return err_set(eb, -EINVAL,
		"cannot parse \"%.40s\" as a step: seconds or a duration of at least 1ms", text);
}

void api_format_time(int64_t ns, char ret[40])
{
	int64_t fraction_ns = (ns % NS_PER_S + NS_PER_S) % NS_PER_S;
	time_t s = (time_t)((ns - fraction_ns) / NS_PER_S);
	struct tm tm;
	size_t n;

	if (!ns) {
		snprintf(ret, 40, "0001-01-01T00:00:00Z");
		return;
	}
	gmtime_r(&s, &tm);
	n = strftime(ret, 40, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + n, 40 - n, ".%03dZ", (int)(fraction_ns / NS_PER_MS));
}

/* ---- all of them ---- */

static int parse_range(
	const struct url_params *u, int64_t now, struct api_params *p, struct errbuf *eb)
{
	const char *start = url_params_get(u, "start"), *end = url_params_get(u, "end");
	const char *seconds = url_params_get(u, "seconds");
	int64_t range = 3600 * NS_PER_S, n;
	int r = 0;

	p->end_ns = now;
	if (end && *end)
		r = instant_parse(end, now, &p->end_ns, eb);
	if (r)
		return err_prefix(eb, r, "end");
	if (seconds && *seconds) {
		r = str_parse_i64(seconds, &n, NULL);
		if (r || n < 1 || n > 10 * 365 * 86400LL)
			return err_set(eb, -EINVAL,
				"seconds: \"%.40s\" is no number of seconds above 0", seconds);
		range = n * NS_PER_S;
	}
	p->start_ns = p->end_ns - range;
	if (start && *start && !(seconds && *seconds))
		r = instant_parse(start, now, &p->start_ns, eb);
	if (r)
		return err_prefix(eb, r, "start");
	p->start_ns = instant_clamp(p->start_ns);
	if (p->start_ns > p->end_ns)
		return err_set(eb, -EINVAL, "end: is before start");
	return 0;
}

/* Profiles say when they were, whatever range is given. */
static int parse_profiles(const struct url_params *u, struct api_params *p, struct errbuf *eb)
{
	int r = 0;

	p->profiles = xcalloc(u->n + 1, sizeof(*p->profiles));
	for (size_t i = 0; !r && i < u->n; i++) {
		struct query_profile_id *id = &p->profiles[p->n_profiles];

		if (strcmp(u->items[i].name, "profile_id") != 0)
			continue;
		r = query_profile_id_parse(u->items[i].value, id, eb);
		if (r)
			return err_prefix(eb, r, "profile_id");
		p->start_ns = p->n_profiles ? MIN(p->start_ns, id->time_ns) : id->time_ns;
		p->end_ns = p->n_profiles ? MAX(p->end_ns, id->time_ns) : id->time_ns;
		p->n_profiles++;
	}
	/* A time that cannot be stored is one where nothing is found. */
	p->start_ns = instant_clamp(p->start_ns);
	p->end_ns = instant_clamp(p->end_ns);
	return p->n_profiles > API_MAX_PROFILES
		       ? err_set(eb, -EINVAL, "profile_id: more than %d", API_MAX_PROFILES)
		       : 0;
}

static int parse_selectors(const struct url_params *u, struct api_params *p, struct errbuf *eb)
{
	struct errbuf reason = {};
	int r;

	p->query = url_params_get(u, "query");
	p->terms = p->query ? QUERY_PROFILE_TERMS : QUERY_PROMETHEUS_TERMS;
	p->selectors = xcalloc(u->n + 1, sizeof(*p->selectors));
	for (size_t i = 0; i < u->n; i++) {
		const char *name = u->items[i].name;

		if (strcmp(name, p->query ? "query" : "match[]") != 0)
			continue;
		r = query_selector_parse(u->items[i].value, &p->selectors[p->n_selectors], &reason);
		if (r)
			return err_set(eb, r, "%s: %s", name, err_text(&reason, r));
		p->n_selectors++;
		if (p->query)
			break;
	}
	return 0;
}

static int parse_regex(
	const struct url_params *u, const char *name, struct regex **ret, struct errbuf *eb)
{
	const char *text = url_params_get(u, name);
	struct errbuf reason = {};
	int r;

	if (!text || !*text)
		return 0;
	if (!str_is_utf8(text, strlen(text)))
		return err_set(eb, -EINVAL, "%s: not valid UTF-8", name);
	r = regex_compile(text, REGEX_SEARCH, ret, &reason);
	return r ? err_set(eb, r, "%s: %s", name, err_text(&reason, r)) : 0;
}

static int parse_count(
	const struct url_params *u, const char *name, uint64_t max, size_t *ret, struct errbuf *eb)
{
	const char *text = url_params_get(u, name);
	uint64_t v;

	if (!text || !*text)
		return 0;
	if (str_parse_u64(text, &v, NULL) < 0)
		return err_set(eb, -EINVAL, "%s: \"%.40s\" is no whole number", name, text);
	if (v > max)
		return err_set(eb, -EINVAL, "%s: %" PRIu64 " is above the limit of %" PRIu64, name,
			v, max);
	*ret = (size_t)v;
	return 0;
}

static int parse_flag(const struct url_params *u, const char *name, bool *ret, struct errbuf *eb)
{
	const char *text = url_params_get(u, name);

	if (!text || !*text)
		return 0;
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return err_set(eb, -EINVAL, "%s: \"%.40s\" is neither 0 nor 1", name, text);
	*ret = *text == '1';
	return 0;
}

static int parse_names(const struct url_params *u, enum render_names *ret, struct errbuf *eb)
{
	const char *text = url_params_get(u, "names");

	if (!text || !*text)
		return 0;
	if (strcmp(text, "short") != 0 && strcmp(text, "full") != 0)
		return err_set(eb, -EINVAL, "names: \"%.40s\" is neither short nor full", text);
	*ret = *text == 's' ? RENDER_NAMES_SHORT : RENDER_NAMES_FULL;
	return 0;
}

static int parse_lists(const struct url_params *u, struct api_params *p, struct errbuf *eb)
{
	p->group_by = xcalloc(u->n + 1, sizeof(*p->group_by));
	p->at = xcalloc(u->n + 1, sizeof(*p->at));
	for (size_t i = 0; i < u->n; i++) {
		const struct url_param *q = &u->items[i];

		if (!strcmp(q->name, "at"))
			p->at[p->n_at++] = q->value;
		if (strcmp(q->name, "group_by") != 0)
			continue;
		p->group = true;
		if (*q->value)
			p->group_by[p->n_group_by++] = q->value;
	}
	if (p->n_group_by > 8)
		return err_set(eb, -EINVAL, "group_by: more than 8 labels");
	if (p->n_at > API_MAX_AT)
		return err_set(eb, -EINVAL, "at: more than %d functions", API_MAX_AT);
	return 0;
}

/* "a,b" of one parameter into p->tags. */
static size_t split_tags(struct api_params *p, char *text, size_t at)
{
	size_t n = 0;

	for (char *comma; text && *text; text = comma ? comma + 1 : NULL) {
		comma = strchr(text, ',');
		if (comma)
			*comma = 0;
		if (*text)
			p->tags[at + n++] = text;
	}
	return n;
}

static int parse_tags(const struct url_params *u, struct api_params *p, struct errbuf *eb)
{
	const char *roots = url_params_get(u, "tagroot"), *leaves = url_params_get(u, "tagleaf");
	size_t n_roots = roots ? strlen(roots) : 0, n_leaves = leaves ? strlen(leaves) : 0;

	p->tag_text = xcalloc(n_roots + n_leaves + 2, 1);
	p->tags = xcalloc(n_roots + n_leaves + 2, sizeof(*p->tags));
	if (n_roots)
		memcpy(p->tag_text, roots, n_roots);
	if (n_leaves)
		memcpy(p->tag_text + n_roots + 1, leaves, n_leaves);
	p->n_tag_roots = split_tags(p, p->tag_text, 0);
	p->n_tag_leaves = split_tags(p, p->tag_text + n_roots + 1, p->n_tag_roots);
	return p->n_tag_roots + p->n_tag_leaves > API_MAX_TAGS
		       ? err_set(eb, -EINVAL, "tagroot, tagleaf: more than %d labels", API_MAX_TAGS)
		       : 0;
}

static int parse_all(const struct url_params *u, int64_t now, enum api_format fallback,
	uint32_t max_max_nodes, struct api_params *p, struct errbuf *eb)
{
	const char *format = url_params_get(u, "format"), *step = url_params_get(u, "step");
	const struct {
		const char *name;
		struct regex **re;
	} filters[] = {{"focus", &p->focus}, {"ignore", &p->ignore}, {"hide", &p->hide},
		{"show", &p->show}, {"show_from", &p->show_from}};
	int r = 0;

	p->format = api_format_of(u, fallback);
	if (format && *format && find_format(format) < 0)
		return err_set(eb, -EINVAL,
			"format: \"%.40s\" is none of json pprof folded speedscope svg html dot "
			"csv text",
			format);
	r = parse_range(u, now, p, eb);
	if (!r)
		r = parse_profiles(u, p, eb);
	if (!r)
		r = parse_selectors(u, p, eb);
	for (size_t i = 0; !r && i < ARRAY_SIZE(filters); i++)
		r = parse_regex(u, filters[i].name, filters[i].re, eb);
	if (!r)
		r = parse_lists(u, p, eb);
	if (!r)
		r = parse_tags(u, p, eb);
	if (!r)
		r = parse_flag(u, "by_build", &p->identity.by_build, eb);
	if (!r)
		r = parse_names(u, &p->names, eb);
	p->identity.canon = p->identity.by_build ? 0 : TREE_CANON_CLONES;
	if (!r)
		r = parse_count(u, "max_nodes", max_max_nodes, &p->max_nodes, eb);
	if (!r)
		r = parse_count(u, "limit", UINT32_MAX, &p->limit, eb);
	if (!r)
		p->step_ns = MAX((p->end_ns - p->start_ns) / 250 / NS_PER_S, 15) * NS_PER_S;
	if (!r && step && *step && api_parse_step(step, &p->step_ns, eb) < 0)
		r = err_prefix(eb, -EINVAL, "step");
	return r;
}

int api_params_parse(const struct url_params *params, int64_t now_ns, enum api_format fallback,
	uint32_t max_max_nodes, struct api_params *ret, struct errbuf *eb)
{
	int r;

	*ret = (struct api_params) {};
	r = parse_all(params, now_ns, fallback, max_max_nodes, ret, eb);
	if (r)
		api_params_done(ret);
	return r;
}

void api_params_done(struct api_params *p)
{
	struct regex *const filters[] = {p->focus, p->ignore, p->hide, p->show, p->show_from};

	for (size_t i = 0; i < p->n_selectors; i++)
		query_selector_done(&p->selectors[i]);
	free(p->selectors);
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		if (filters[i])
			regex_free(filters[i]);
	free(p->profiles);
	free(p->group_by);
	free(p->at);
	free(p->tag_text);
	free(p->tags);
	*p = (struct api_params) {};
}
