/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording: closed seconds after a cursor, again and again, added up.
 */
#include "cli/recorder.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/merge.h"
#include <ctype.h>
#include <string.h>
#include <time.h>

/* A second closes when the drain comes round after it. */
#define CLOSE_TIMEOUT_NS (30 * NS_PER_S)
#define CLOSE_STEP_NS (100 * NS_PER_MS)
enum { SPAN_S = 60, GZIP_LEVEL = 1, MAX_CURSOR = 64 };

struct recorder {
	struct cli_server_options server;
	const struct event_source *type;
	char *filter;
	char cursor[MAX_CURSOR];
	bool is_paused;
	int64_t skew_ns;    /* of the server's clock against ours */
	int64_t begin_ns;   /* of the window; wall time of the server, as the next one is */
	int64_t covered_ns; /* up to which samples were taken */
	uint64_t behind_s;
	uint64_t dropped_before;
	struct prof_merge *sum;
	bool has_profile;
	struct recorder_stats stats;
	char rate[128]; /* of the last answer */
};

static uint64_t header_number(const struct http_response *answer, const char *name)
{
	const char *text = http_response_header(answer, name);
	uint64_t v;

	return text && str_parse_u64(text, &v, NULL) == 0 ? v : 0;
}

static int take_cursor(struct recorder *r, const struct http_response *answer, struct errbuf *eb)
{
	const char *cursor = http_response_header(answer, "sonde-cursor");

	if (!cursor || strlen(cursor) >= sizeof(r->cursor) ||
		cursor[strspn(cursor, "0123456789abcdef.")])
		return err_set(eb, -EPROTO, "%s is no sonde-exporter: its answer has no cursor",
			r->server.url);
	if (r->cursor[0] && http_response_header(answer, "sonde-restarted"))
		return err_set(eb, -ECONNRESET, "%s was restarted: what was recorded is lost",
			r->server.url);
	memcpy(r->cursor, cursor, strlen(cursor) + 1);
	return 0;
}

/* Seconds from before the window come one by one, since each answer is taken or left as a whole. */
static int ask(struct recorder *r, bool from_now, struct http_response *ret, struct errbuf *eb)
{
	bool is_before = r->covered_ns < r->begin_ns;
	_cleanup_free_ char *path =
		xasprintf("/debug/pprof/%s?since=%s&span=%d%s", r->type->endpoint,
			from_now ? "" : r->cursor, from_now || is_before ? 1 : SPAN_S, r->filter);
	int e = cli_server_ask(&r->server, &(struct cli_request) {.path = path}, ret, eb);

	if (e == 0 && from_now)
		r->cursor[0] = '\0';
	return e == 0 ? take_cursor(r, ret, eb) : e;
}

/* Samples of this type that the kernel or the exporter dropped since its start; 0 when it does not say. */
static uint64_t count_dropped(struct recorder *r)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_free_ char *name =
		xasprintf("\nsonde_samples_dropped_total{event=\"%s\"", r->type->name);
	_cleanup_bytes_ struct bytes text = {0};
	uint64_t sum = 0;

	if (cli_server_ask(&r->server, &(struct cli_request) {.path = "/metrics"}, &answer, NULL) <
		0)
		return 0;
	bytes_put(&text, answer.body.data, answer.body.len);
	bytes_put_u8(&text, '\0');
	for (char *at = (char *)text.data; (at = strstr(at, name));) {
		char *end = strchr(++at, '\n'), *blank;
		double value = 0;

		if (!end)
			break;
		*end = '\0';
		blank = strrchr(at, ' ');
		if (blank && !strstr(at, "reason=\"idle\"") &&
			str_parse_double(blank + 1, &value, NULL) == 0)
			sum += (uint64_t)value;
		*end = '\n';
		at = end;
	}
	return sum;
}

static bool is_truncated(const struct profile *p, size_t sample)
{
	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++) {
		struct prof_str v = profile_str(p, p->labels[i].str);

		if (profile_str_is(p, p->labels[i].key, "stack"))
			return v.len > 10 && !memcmp(v.p, "truncated:", 10);
	}
	return false;
}

static void count_samples(struct recorder *r, const struct profile *p)
{
	const char *name = r->type->values[event_count_value(r->type)].type;
	size_t column;

	if (profile_find_type(p, name, &column, NULL) < 0)
		return;
	for (size_t i = 0; i < p->n_samples; i++) {
		uint64_t n = (uint64_t)p->values[i * p->n_types + column];

		r->stats.samples += n;
		r->stats.truncated += is_truncated(p, i) ? n : 0;
	}
}

static void note_rate(struct recorder *r, const char *rate)
{
	size_t n = strlen(r->stats.rates);

	if (!rate || !strcmp(rate, r->rate))
		return;
	snprintf(r->rate, sizeof(r->rate), "%s", rate);
	snprintf(r->stats.rates + n, sizeof(r->stats.rates) - n, "%s%s", n ? ", then " : "",
		r->rate);
}

static int take_once(struct recorder *r, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_bytes_ struct bytes text = {0};
	_cleanup_profile_ struct profile p;
	int e;

	profile_init(&p, NULL);
	e = ask(r, false, &answer, eb);
	if (e == 0)
		e = cli_profile_decode(
			answer.body.data, answer.body.len, r->server.url, &text, &p, eb);
	if (e < 0)
		return e;
	r->behind_s = header_number(&answer, "sonde-behind-seconds");
	if (p.duration_ns)
		r->covered_ns = MAX(r->covered_ns, p.time_ns + p.duration_ns);
	if (p.duration_ns && p.time_ns + p.duration_ns <= r->begin_ns)
		return 0;
	e = prof_merge_add(r->sum, &p, r->server.url, eb);
	if (e < 0)
		return e;
	r->has_profile = true;
	note_rate(r, http_response_header(&answer, "sonde-rate"));
	count_samples(r, &p);
	r->stats.lost_seconds += header_number(&answer, "sonde-lost-seconds");
	return 0;
}

static int64_t server_now_ns(const struct recorder *r)
{
	return clock_realtime_ns(&clock_system) + r->skew_ns;
}

/* By the answer's Date, which is a whole second and was written between the two times: 0 when that fits. */
static void find_skew(struct recorder *r, const struct http_response *answer, int64_t asked_ns,
	int64_t answered_ns)
{
	const char *date = http_response_header(answer, "date");
	struct tm tm = {0};
	int64_t said_ns;

	if (!date || !strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &tm))
		return;
	said_ns = timegm(&tm) * NS_PER_S;
	r->skew_ns = MAX(said_ns - answered_ns, MIN(said_ns + NS_PER_S - asked_ns, 0));
}

/* The newest second, so that a window need not go through all that was before it. */
static int catch_up(struct recorder *r, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	int64_t asked_ns = clock_realtime_ns(&clock_system);
	int e = ask(r, true, &answer, eb);

	if (e == 0)
		find_skew(r, &answer, asked_ns, clock_realtime_ns(&clock_system));
	return e;
}

int recorder_new(const struct cli_server_options *server, const struct event_source *type,
	const char *filter, struct recorder **ret, struct errbuf *eb)
{
	_cleanup_(recorder_freep)
	struct recorder *r = xcalloc(1, sizeof(*r));
	int e;

	r->server = *server;
	r->type = type;
	r->filter = xstrdup(filter);
	r->sum = prof_merge_new(NULL);
	r->is_paused = true;
	e = catch_up(r, eb);
	if (e < 0)
		return e;
	r->dropped_before = count_dropped(r);
	*ret = TAKE(r);
	return 0;
}

void recorder_freep(struct recorder **rp)
{
	struct recorder *r = *rp;

	if (!r)
		return;
	prof_merge_freep(&r->sum);
	free(r->filter);
	free(r);
	*rp = NULL;
}

/* From the second in which it is called, however long the server takes to answer, or had to close the seconds before. */
void recorder_resume(struct recorder *r)
{
	if (r->is_paused)
		r->begin_ns = server_now_ns(r);
	r->is_paused = false;
}

int recorder_take(struct recorder *r, struct errbuf *eb)
{
	int e = 0;

	if (r->is_paused)
		return catch_up(r, eb);
	do
		e = take_once(r, eb);
	while (e == 0 && r->behind_s);
	return e;
}

int recorder_pause(struct recorder *r, struct errbuf *eb)
{
	int64_t until = server_now_ns(r),
		give_up = clock_monotonic_ns(&clock_system) + CLOSE_TIMEOUT_NS;
	int e = 0;

	while (e == 0 && !r->is_paused) {
		e = recorder_take(r, eb);
		if (e < 0 || r->covered_ns >= until)
			break;
		if (clock_monotonic_ns(&clock_system) >= give_up) {
			e = err_set(eb, -ETIMEDOUT,
				"%s has not closed the last second of the recording after 30 s",
				r->server.url);
			break;
		}
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + CLOSE_STEP_NS);
	}
	r->is_paused = true;
	return e;
}

bool recorder_is_paused(const struct recorder *r)
{
	return r->is_paused;
}

/* `comment` has to stay as long as the profile. */
static int add_comment(struct profile *p, const char *comment, struct errbuf *eb)
{
	struct prof_str *strings = arena_alloc_array(&p->arena, p->n_strings + 1, sizeof(*strings));
	uint32_t *comments = arena_alloc_array(&p->arena, p->n_comments + 1, sizeof(*comments));

	if (!strings || !comments)
		return arena_error(&p->arena, eb);
	memcpy(strings, p->strings, p->n_strings * sizeof(*strings));
	if (p->n_comments)
		memcpy(comments, p->comments, p->n_comments * sizeof(*comments));
	strings[p->n_strings] = (struct prof_str) {comment, (uint32_t)strlen(comment)};
	comments[p->n_comments++] = (uint32_t)p->n_strings++;
	p->strings = strings;
	p->comments = comments;
	return 0;
}

/* Comments of all profiles are kept by a merge: a mark is an empty profile with one. */
int recorder_mark(struct recorder *r, const char *name, double at_s, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_free_ char *comment = xasprintf("marker %s at %.3f s", name, at_s);
	_cleanup_free_ char *path =
		xasprintf("/debug/pprof/%s?since=&span=1&pid=2147483647", r->type->endpoint);
	_cleanup_bytes_ struct bytes text = {0};
	_cleanup_profile_ struct profile p;
	int e;

	for (char *c = comment; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	profile_init(&p, NULL);
	e = cli_server_ask(&r->server, &(struct cli_request) {.path = path}, &answer, eb);
	if (e == 0)
		e = cli_profile_decode(
			answer.body.data, answer.body.len, r->server.url, &text, &p, eb);
	if (e == 0)
		e = add_comment(&p, comment, eb);
	p.duration_ns = 0;
	return e == 0 ? prof_merge_add(r->sum, &p, "marker", eb) : e;
}

void recorder_stats(const struct recorder *r, struct recorder_stats *ret)
{
	*ret = r->stats;
}

int recorder_finish(struct recorder *r, struct bytes *out, struct errbuf *eb)
{
	uint64_t dropped = count_dropped(r);
	_cleanup_free_ char *comment = NULL;
	_cleanup_bytes_ struct bytes raw = {0};
	_cleanup_profile_ struct profile sum;
	int e;

	profile_init(&sum, NULL);
	r->stats.lost = dropped > r->dropped_before ? dropped - r->dropped_before : 0;
	if (!r->has_profile)
		return err_set(eb, -ENODATA, "nothing was recorded: no window was open");
	e = prof_merge_finish(r->sum, &sum, eb);
	if (e == 0 && r->stats.lost) {
		comment = xasprintf("lost %llu samples since %lld",
			(unsigned long long)r->stats.lost, (long long)(sum.time_ns / NS_PER_S));
		e = add_comment(&sum, comment, eb);
	}
	if (e == 0)
		e = prof_encode(&sum, &raw);
	return e == 0 ? gzip_deflate(raw.data, raw.len, GZIP_LEVEL, out, eb) : e;
}
