/* SPDX-License-Identifier: Apache-2.0
 *
 * A request: its URL, its deadline, its life.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/net/url/url.h"
#include <string.h>

struct scrape_request *scrape_request_new(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape_target *t = type->target;
	struct scrape *s = t->stage;
	struct scrape_request *r = xcalloc(1, sizeof(*r));

	ASSERT(!type->request && !type->is_gone && !t->is_gone);
	r->type = type;
	r->cfg = config_get(t->pool->cfg);
	r->job = t->pool->job;
	r->limit = scrape_limit_get(t->pool->limit);
	r->is_main = type == t->types[0];
	r->preset = t->preset;
	r->labels_header = t->labels_header ? xstrdup(t->labels_header) : NULL;
	r->slot_real_ns = slot_real_ns;
	r->start_mono_ns = r->end_mono_ns = clock_monotonic_ns(s->o.clock);
	r->start_real_ns = clock_realtime_ns(s->o.clock);
	r->cursor_sent = type->spec.has_cursor ? xstrdup(type->cursor ? type->cursor : "") : NULL;
	bytes_init(&r->inflated, s->o.budget, 0);
	arena_init(&r->arena, s->o.budget);
	profile_init(&r->profile, s->o.budget);
	t->n_in_flight++;
	s->n_in_flight++;
	type->request = r;
	metric_set(s->m.in_flight, (double)s->n_in_flight);
	return r;
}

struct scrape_request *scrape_request_last(struct scrape_type *type)
{
	struct scrape_target *t = type->target;
	struct scrape *s = t->stage;
	struct scrape_request *r = xcalloc(1, sizeof(*r));

	ASSERT(!type->request && type->is_gone);
	r->type = type;
	r->is_last = true;
	r->start_mono_ns = r->end_mono_ns = clock_monotonic_ns(s->o.clock);
	r->start_real_ns = clock_realtime_ns(s->o.clock);
	bytes_init(&r->inflated, s->o.budget, 0);
	arena_init(&r->arena, s->o.budget);
	profile_init(&r->profile, s->o.budget);
	t->n_in_flight++;
	s->n_in_flight++;
	type->request = r;
	return r;
}

/* What must be there before the next answer may be asked for. Small ones are decoded a few at a time, so of them only the body waits. */
static uint64_t size_of(const struct scrape_request *r)
{
	uint64_t decoded = r->inflated.len + r->arena.total_bytes + r->profile.arena.total_bytes;

	return r->response.body.len + (decoded > SCRAPE_LARGE_BYTES ? decoded : 0);
}

void scrape_request_shed(struct scrape *s, struct scrape_request *r)
{
	if (r->response.body.len)
		r->size_bytes = size_of(r);
	r->n_samples = r->series.n_samples;
	r->n_series = r->series.n_streams;
	scrape_series_done(&r->series);
	/* the body stays: its memory is the loop's, which must not wait for another thread's free() */
	bytes_done(&r->inflated);
	profile_done(&r->profile);
	arena_done(&r->arena);
	r->out = (struct store_scrape) {0};
	scrape_room_leave(s, r);
}

void scrape_request_free(struct scrape *s, struct scrape_request *r)
{
	http_response_done(&r->response);
	bytes_done(&r->inflated);
	scrape_series_done(&r->series);
	for (size_t i = 0; i < SCRAPE_REPORT_GAUGES; i++)
		labels_done(&r->report_labels[i]);
	labels_done(&r->coverage_labels);
	for (size_t i = 0; i < r->n_ended; i++)
		labels_done(&r->ended[i]);
	free(r->ended);
	free(r->ends);
	profile_done(&r->profile);
	arena_done(&r->arena);
	scrape_room_leave(s, r);
	free(r->labels_header);
	free(r->cursor_sent);
	free(r->answer_types);
	free(r->answer_labels);
	free(r->cursor_next);
	free(r->cursor_key);
	free(r->cursor_stored);
	if (!r->is_last) {
		scrape_limit_put(r->limit);
		config_put(r->cfg);
	}
	free(r);
}

static const char *symbolize_text(enum config_symbolize s)
{
	return s == CONFIG_SYMBOLIZE_NONE	 ? "none"
	       : s == CONFIG_SYMBOLIZE_FUNCTIONS ? "functions"
						 : "lines";
}

int scrape_request_url(const struct scrape_request *r, struct bytes *out)
{
	const struct scrape_type *type = r->type;

	bytes_put_str(out, type->url);
	if (type->spec.has_cursor) {
		bytes_printf(out, "%csince=", type->has_query ? '&' : '?');
		url_escape_query(out, r->cursor_sent, strlen(r->cursor_sent));
		bytes_printf(out, "&span=%lld&symbolize=%s",
			(long long)MAX(type->target->t.interval_ms / 1000, 1),
			symbolize_text(r->job->profiling.symbolize));
	}
	bytes_put_u8(out, 0);
	return bytes_error(out);
}

/* An exporter with a cursor answers at once; everything else that is windowed takes its seconds first. */
int64_t scrape_request_timeout_ms(const struct scrape_request *r)
{
	const struct scrape_type *type = r->type;
	int64_t ms = type->target->t.timeout_ms;

	if (type->spec.is_windowed && !(type->spec.has_cursor && r->preset == SCRAPE_PRESET_NODE))
		ms += type->spec.seconds * 1000;
	return ms;
}
