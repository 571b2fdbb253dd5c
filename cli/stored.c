/* SPDX-License-Identifier: Apache-2.0
 *
 * A stretch of time is one request, grouped by the labels that distinguish replicates; the answer is split by them. The watched time of
 * each stands in its comments (docs/http-api.md, /api/v1/profile), by the labels of series among them.
 */
#include "cli/stored.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/instant.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "lib/prof/merge.h"
#include "lib/prof/number.h"
#include <math.h>
#include <string.h>

/* As the scraper has them for /api/v1/diff. */
enum { MAX_LABELS = 8, MAX_STRETCHES = 64 };
#define DEFAULT_RANGE_NS (3600 * NS_PER_S)

struct selection {
	const struct cli_stored *from;
	char *selector, *replicate;
	const char *labels[MAX_LABELS]; /* in `replicate`, sorted */
	size_t n_labels;
	int64_t start_ns, end_ns, stretch_ns;
	int64_t lost; /* in groups beyond those that the server keeps apart */
};

static void selection_done(struct selection *s)
{
	free(s->selector);
	free(s->replicate);
}

/* ---- arguments ---- */

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static int parse_replicate(struct selection *s, const char *text, struct errbuf *eb)
{
	char *at, *comma;
	int64_t ms = 0;

	s->replicate = xstrdup(text);
	for (at = s->replicate; (comma = strchr(at, ',')); at = comma + 1) {
		*comma = '\0';
		if (!*at || s->n_labels == MAX_LABELS)
			break;
		s->labels[s->n_labels++] = at;
	}
	if (comma || str_parse_duration_ms(at, &ms, NULL) < 0 || ms < 1000)
		return err_set(eb, -EINVAL,
			"--replicate=%s: expected at most %d labels, then a duration of a second "
			"or more, as in instance,5m",
			text, MAX_LABELS);
	if (s->from->of_service)
		s->n_labels = 0;
	qsort(s->labels, s->n_labels, sizeof(*s->labels), compare_names);
	s->stretch_ns = ms * NS_PER_MS;
	return 0;
}

static int parse_range(
	struct selection *s, const char *const *args, size_t n_args, struct errbuf *eb)
{
	const char *at = n_args > 1 ? args[1] : "@now";
	_cleanup_free_ char *text = xasprintf("%s%s", at[1] == '-' ? "now" : "", at + 1);
	int64_t range_ns = DEFAULT_RANGE_NS, ms;
	int r;

	if (*at != '@' || n_args > 3)
		return err_set(eb, -EINVAL,
			"\"%s\": expected SELECTOR [@TIME [DURATION]] on each side of --, as in "
			"'process_cpu:cpu:nanoseconds:cpu:nanoseconds{}' @-1d 30m",
			*at != '@' ? at : args[3]);
	r = instant_parse(text, clock_realtime_ns(&clock_system), &s->end_ns, eb);
	if (r < 0)
		return r;
	if (n_args > 2) {
		if (str_parse_duration_ms(args[2], &ms, NULL) < 0 || ms < 1000)
			return err_set(eb, -EINVAL,
				"\"%s\": expected how long the range is that ends at %s, a second "
				"or more, as in 30m",
				args[2], at);
		range_ns = ms * NS_PER_MS;
	}
	if (__builtin_sub_overflow(s->end_ns, range_ns, &s->start_ns))
		return err_set(eb, -EINVAL, "%s: out of range", at);
	s->stretch_ns = MAX(s->stretch_ns, range_ns / MAX_STRETCHES + 1);
	return 0;
}

/* ---- one stretch ---- */

static void put(struct bytes *path, const char *name, const char *value)
{
	bytes_printf(path, "&%s=", name);
	url_escape_query(path, value, strlen(value));
}

static int fetch(const struct selection *s, int64_t start_ns, int64_t end_ns, struct profile *ret,
	struct bytes *text, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_bytes_ struct bytes path = {0};
	const char *url = s->from->server->url;
	int r;

	bytes_printf(&path, "/api/v1/profile?start=%lld&end=%lld", (long long)start_ns,
		(long long)end_ns);
	put(&path, "query", s->selector);
	put(&path, "group_by", ""); /* without a label too */
	for (size_t i = 0; i < s->n_labels; i++)
		put(&path, "group_by", s->labels[i]);
	if (s->from->by)
		put(&path, "group_by", s->from->by);
	bytes_put_u8(&path, '\0');
	r = cli_server_ask(s->from->server, &(struct cli_request) {.path = (const char *)path.data},
		&answer, eb);
	return r < 0 ? r
		     : cli_profile_decode(answer.body.data, answer.body.len, url, text, ret, eb);
}

static const struct prof_label *find_label(const struct profile *p, size_t sample, const char *name)
{
	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++)
		if (profile_str_is(p, p->labels[i].key, name))
			return &p->labels[i];
	return NULL;
}

/* The labels of a sample that distinguish replicates, as JSON. */
static void put_key(
	const struct selection *s, const struct profile *p, size_t sample, struct bytes *ret)
{
	struct json j = {.out = ret};

	bytes_reset(ret);
	json_object_begin(&j);
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct prof_label *l = find_label(p, sample, s->labels[i]);
		struct prof_str value = profile_str(p, l ? l->str : 0);

		if (!value.len)
			continue;
		json_key(&j, s->labels[i]);
		json_string_n(&j, value.p, value.len);
	}
	json_object_end(&j);
	bytes_put_u8(ret, '\0');
}

/* Of the comment "WHAT KEY SECONDS s"; 0 without one. */
static double find_seconds(const struct profile *p, const char *what, const char *key)
{
	_cleanup_free_ char *head = xasprintf("%s %s ", what, key);
	size_t n = strlen(head);

	for (size_t i = 0; i < p->n_comments; i++) {
		struct prof_str c = profile_str(p, p->comments[i]);
		_cleanup_free_ char *number = NULL;
		double seconds;

		if (c.len < n + 2 || memcmp(c.p, head, n) != 0)
			continue;
		number = xstrndup(c.p + n, c.len - n - 2);
		if (str_parse_double(number, &seconds, NULL) == 0 && isfinite(seconds) &&
			seconds > 0)
			return seconds;
	}
	return 0;
}

/* The samples that are marked, with nothing that only others use. */
static int encode_part(const struct profile *p, const uint32_t *group, uint32_t which,
	struct bytes *ret, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_free_ int64_t *values = xcalloc(p->n_samples * p->n_types + 1, sizeof(*values));
	struct profile part = *p, sum;
	int r;

	/* What is 0 vanishes in a merge. */
	for (size_t i = 0; i < p->n_samples * p->n_types; i++)
		values[i] = group[i / p->n_types] == which ? p->values[i] : 0;
	part.values = values;
	part.n_comments = 0;
	r = prof_merge_add(m, &part, "the server's profile", eb);
	if (r < 0)
		return r;
	r = prof_merge_finish(m, &sum, eb);
	if (r < 0)
		return r;
	r = prof_encode(&sum, ret);
	profile_done(&sum);
	return r < 0 ? err_set(eb, r, "out of memory for a run") : 0;
}

struct keys {
	char **items;
	size_t n, cap;
};

static void keys_done(struct keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i]);
	free(k->items);
}

static uint32_t key_index(struct keys *keys, const char *key)
{
	for (size_t i = keys->n; i--;)
		if (!strcmp(keys->items[i], key))
			return (uint32_t)i;
	if (keys->n == keys->cap) {
		keys->cap = keys->cap ? 2 * keys->cap : 16;
		keys->items = xrealloc(keys->items, keys->cap * sizeof(*keys->items));
	}
	keys->items[keys->n++] = xstrdup(key);
	return (uint32_t)(keys->n - 1);
}

static int add_run(struct selection *s, const struct profile *p, const uint32_t *group,
	uint32_t which, const char *key, struct cli_sources *ret, struct errbuf *eb)
{
	_cleanup_free_ char *name =
		xasprintf("%s %s from %lld", s->selector, key, (long long)(p->time_ns / NS_PER_S));
	struct cli_source *run;
	int r;

	if (s->n_labels && strstr(key, "\"__other__\"")) {
		for (size_t i = 0; i < p->n_samples; i++)
			s->lost += group[i] == which;
		return 0;
	}
	r = cli_sources_add(ret, name, &run, eb);
	if (r < 0)
		return r;
	run->seconds = find_seconds(p, s->from->of_service ? "watched" : "covered", key);
	run->cpu_seconds = find_seconds(p, "covered-cpus", key);
	if (!run->seconds)
		run->seconds = (double)p->duration_ns / 1e9;
	return encode_part(p, group, which, &run->raw, eb);
}

static int add_stretch(struct selection *s, int64_t start_ns, int64_t end_ns,
	struct cli_sources *ret, struct errbuf *eb)
{
	_cleanup_(keys_done)
	struct keys keys = {};
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes text = {0}, key = {0};
	_cleanup_free_ uint32_t *group = NULL;
	int r;

	profile_init(&p, NULL);
	r = fetch(s, start_ns, end_ns, &p, &text, eb);
	if (r >= 0)
		r = prof_number_labels(&p, eb);
	if (r < 0 || !p.n_samples)
		return r;
	group = xcalloc(p.n_samples, sizeof(*group));
	for (size_t i = 0; i < p.n_samples; i++) {
		put_key(s, &p, i, &key);
		group[i] = key_index(&keys, (const char *)key.data);
	}
	for (size_t i = 0; r >= 0 && i < keys.n; i++)
		r = add_run(s, &p, group, (uint32_t)i, keys.items[i], ret, eb);
	return r;
}

/* ---- all of them ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What came or went within a stretch says less than the others. */
static void drop_short(struct cli_sources *s, size_t from)
{
	size_t n = s->n - from, kept = from;
	_cleanup_free_ double *seconds = xcalloc(n + 1, sizeof(*seconds));
	double median;

	for (size_t i = 0; i < n; i++)
		seconds[i] = s->items[from + i].seconds;
	qsort(seconds, n, sizeof(*seconds), compare_doubles);
	median = seconds[n / 2];
	for (size_t i = from; i < s->n; i++) {
		if (s->items[i].seconds < median / 2) {
			free(s->items[i].name);
			bytes_done(&s->items[i].raw);
			continue;
		}
		s->items[kept++] = s->items[i];
	}
	s->n = kept;
}

static int add_all(struct selection *s, struct cli_sources *ret, struct errbuf *eb)
{
	size_t before = ret->n;
	int r = 0;

	for (int64_t at = s->start_ns; r >= 0 && s->end_ns - at >= s->stretch_ns / 2;
		at += s->stretch_ns) {
		r = add_stretch(s, at, MIN(at + s->stretch_ns - 1, s->end_ns), ret, eb);
		if (s->end_ns - at < s->stretch_ns) /* the last one */
			break;
	}
	if (r < 0)
		return r;
	if (ret->n == before)
		return err_set(eb, -ENODATA, "%s: %s has nothing of it in the %lld s before %lld",
			s->selector, s->from->server->url,
			(long long)((s->end_ns - s->start_ns) / NS_PER_S),
			(long long)(s->end_ns / NS_PER_S));
	if (s->lost)
		fprintf(stderr,
			"sonde: %s: %lld stacks are left out, beyond the groups that the server "
			"tells apart; select less\n",
			s->selector, (long long)s->lost);
	drop_short(ret, before);
	return 0;
}

int cli_stored_add(const struct cli_stored *from, const char *const *args, size_t n_args,
	const char *type, struct cli_sources *ret, struct errbuf *eb)
{
	_cleanup_(selection_done)
	struct selection s = {.from = from};
	const char *selector = n_args ? args[0] : "";
	int r = parse_replicate(&s, from->replicate, eb);

	if (!r)
		r = parse_range(&s, args, n_args, eb);
	if (r < 0)
		return r;
	s.selector = xasprintf("%.*s%s", type && *selector == '{' ? (int)strcspn(type, "{") : 0,
		type ? type : "", selector);
	return add_all(&s, ret, eb);
}
