/* SPDX-License-Identifier: Apache-2.0
 *
 * After the sink has taken a request: status, cursor, what kind of target it is, and whether to ask again at once. Loop thread.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static void log_change(const struct scrape_request *r, enum scrape_health before)
{
	const struct scrape_type *type = r->type;

	if (r->reason && before != SCRAPE_DOWN)
		log_write(LOG_WARN, "scrape failed", "job", r->job->name, "target",
			type->target->address, "type", type->spec.name, "reason",
			scrape_reason_name(r->reason), "error", r->error.text, NULL);
	else if (!r->reason && before == SCRAPE_DOWN)
		log_write(LOG_INFO, "scrape works again", "job", r->job->name, "target",
			type->target->address, "type", type->spec.name, NULL);
}

static void log_failure(struct scrape *s, const struct scrape_request *r)
{
	const struct scrape_failure f = {.time_ns = r->start_real_ns,
		.job = r->job->name,
		.url = r->type->url,
		.type = r->type->spec.name,
		.reason = scrape_reason_name(r->reason),
		.error = r->error.text};
	int e = scrape_failure_log_write(&s->failure_log, r->job->scrape_failure_log_file, &f);

	if (e == 0)
		return;
	metric_inc(s->m.log_failed);
	if (e != -EBADF) /* that it could not be opened was said then */
		LOG_RATED(LOG_ERROR, "cannot write to scrape_failure_log_file %s: %s",
			r->job->scrape_failure_log_file, strerror(-e));
}

static void log_mended_texts(const struct scrape_request *r)
{
	const struct scrape_type *type = r->type;

	if (!r->reason && r->n_mended_texts && !type->last_error[0])
		log_write(LOG_WARN, "labels mended", "job", r->job->name, "target",
			type->target->address, "type", type->spec.name, "error", r->error.text,
			NULL);
}

/* What others of the same labels and time left no room for. The rest of the scrape is stored, so its target is up. */
static void note_conflicts(struct scrape *s, struct scrape_request *r)
{
	const struct scrape_type *type = r->type;

	if (!r->n_conflicts)
		return;
	metric_add(metric_cell(s->m.conflicts, r->job->name), (double)r->n_conflicts);
	if (r->reason)
		return;
	err_set(&r->error, 0,
		"%" PRIu64 " of %" PRIu64
		" series not stored: others are, with the same labels and time "
		"but other content",
		r->n_conflicts, r->n_series);
	if (!type->last_error[0])
		log_write(LOG_WARN, "series not stored", "job", r->job->name, "target",
			type->target->address, "type", type->spec.name, "error", r->error.text,
			NULL);
}

static void update_status(struct scrape *s, struct scrape_request *r)
{
	struct scrape_type *type = r->type;

	log_change(r, type->health);
	log_mended_texts(r);
	note_conflicts(s, r);
	lock_take(&s->lock);
	type->health = r->reason ? SCRAPE_DOWN : SCRAPE_UP;
	free(type->last_error);
	type->last_error =
		xstrdup(r->reason || r->n_conflicts || r->n_mended_texts ? r->error.text : "");
	type->last_scrape_ns = r->start_real_ns;
	type->last_duration_ns = r->end_mono_ns - r->start_mono_ns;
	type->last_samples = r->n_samples;
	type->last_series = r->n_series;
	type->behind_s = r->behind_s;
	lock_release(&s->lock);
	metric_inc(metric_cell(s->m.scrapes, r->job->name, type->spec.name));
	if (r->reason)
		metric_inc(metric_cell(s->m.failures, r->job->name, scrape_reason_name(r->reason)));
	if (r->reason)
		log_failure(s, r);
	metric_add(s->m.lost, r->lost_s);
	if (r->restarted)
		metric_inc(s->m.restarts);
}

static void set_cursor(struct scrape_type *type, const char *cursor)
{
	free(type->cursor);
	type->cursor = cursor ? xstrdup(cursor) : NULL;
}

/* Moves the cursor on. True when the same slot should be asked again at once. */
static bool follow_cursor(struct scrape *s, struct scrape_request *r)
{
	struct scrape_type *type = r->type;

	if (r->discard) {
		metric_inc(s->m.discarded);
		set_cursor(type, r->cursor_stored);
		return type->n_retries++ < SCRAPE_MAX_RETRIES;
	}
	if (r->reason == SCRAPE_FAIL_HTTP_STATUS && r->response.status == 400 && type->cursor) {
		set_cursor(type, NULL);
		return type->n_retries++ < SCRAPE_MAX_RETRIES;
	}
	if (r->reason || !r->cursor_next)
		return false;
	set_cursor(type, r->cursor_next);
	return r->behind_s > 0 && !r->is_unchanged && type->n_asks < SCRAPE_MAX_ASKS;
}

static bool differs(const char *a, const char *b)
{
	return a && (!b || strcmp(a, b) != 0);
}

/* What the answer says of the target: an exporter names its types, any other valid profile comes from net/http/pprof or the like. */
static void learn(struct scrape_request *r)
{
	struct scrape_target *t = r->type->target;
	enum scrape_preset preset = t->preset;
	struct errbuf eb = {0};
	bool changed;

	if (r->is_sonde && preset != SCRAPE_PRESET_GO)
		preset = SCRAPE_PRESET_NODE;
	else if (preset == SCRAPE_PRESET_AUTO && !r->reason)
		preset = SCRAPE_PRESET_GO;
	changed = preset != t->preset ||
		  (preset == SCRAPE_PRESET_NODE && differs(r->answer_types, t->types_header));
	t->preset = preset;
	if (r->answer_types && changed) {
		free(t->types_header);
		t->types_header = xstrdup(r->answer_types);
	}
	if (differs(r->answer_labels, t->labels_header)) {
		free(t->labels_header);
		t->labels_header = xstrdup(r->answer_labels);
	}
	if (changed && scrape_target_set_types(t, &eb) < 0)
		LOG_RATED(LOG_WARN, "job %s, target %s: %s", r->job->name, t->address, eb.text);
}

static void release(struct scrape *s, struct scrape_request *r)
{
	struct scrape_type *type = r->type;
	struct scrape_target *t = type->target;

	ASSERT(type->request == r && !r->is_large);
	ASSERT(s->n_in_flight && t->n_in_flight);
	ASSERT(s->reserved_bytes >= r->reserved_bytes && s->small_bytes >= r->small_bytes);
	scrape_gates_leave(s, r);
	s->reserved_bytes -= r->reserved_bytes;
	s->small_bytes -= r->small_bytes;
	s->n_in_flight--;
	t->n_in_flight--;
	metric_set(s->m.in_flight, (double)s->n_in_flight);
	type->request = NULL;
	scrape_request_free(s, r);
	if (type->is_gone)
		scrape_type_release(s, type);
	else if (type->wait && !type->wait->list && !s->stopping)
		scrape_wait_retry(type->wait);
	if (t->is_gone && !t->may_return && !t->n_in_flight)
		scrape_target_free(s, t);
}

void scrape_finish(struct scrape *s, struct scrape_request *r)
{
	struct scrape_type *type = r->type;
	int64_t slot_real_ns = r->slot_real_ns;
	bool again = false;

	r->is_finishing = true;
	if (r->is_last) {
		release(s, r);
		return;
	}
	if (r->size_bytes)
		type->last_size_bytes = r->size_bytes;
	if (!s->stopping) {
		if (!r->discard)
			update_status(s, r);
		again = follow_cursor(s, r);
		if (!type->target->is_gone && !type->is_gone)
			learn(r);
	}
	/* learn() may have replaced this type, or discovery the target */
	again = again && !type->is_gone && !type->target->is_gone;
	release(s, r);
	if (again)
		scrape_type_want(type, slot_real_ns);
	if (!s->stopping)
		scrape_start_waiting(s);
}
