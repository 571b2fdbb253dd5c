/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rates. A rate in force is the wanted one halved `level` times. A level is judged by what its rate cost since
 * it began: as soon as that is more than a whole window may cost, the rate is halved; after a full window that would allow the
 * next higher rate, whose cost is in proportion, with a tenth to spare, it is doubled.
 */
#include "exporter/sample/governor.h"
#include "exporter/event/event.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <pthread.h>
#include <stdio.h>

enum { MAX_LEVEL = 10 };
#define SPARE 0.9

struct observation {
	int64_t time_ns;
	struct governor_cost cost;
};

/* The rate of one event. */
struct rate {
	uint32_t *requests;
	size_t n_requests, cap_requests;
	uint32_t level;
	struct observation level_began;
	double part; /* of max_overhead, 0 to 1 */
	struct governor_rate stats;
};

struct governor {
	struct governor_options options;
	int first;	       /* the event with the largest share */
	pthread_mutex_t mutex; /* leaf lock; guards all below */
	struct rate rates[ABI_N_EVENTS];
	struct observation window[GOVERNOR_WINDOW_S + 1]; /* one a second, a ring */
	uint32_t n_window;				  /* observations ever put into it */
	double overhead_ratio;
};

void governor_shares(uint32_t events, uint32_t ret[ABI_N_EVENTS])
{
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		const struct event_source *s = event_source(i);

		ret[i] = events & EVENT_BIT(i) && event_follows_rate(s) ? s->cost_share : 0;
	}
}

struct governor *governor_new(const struct governor_options *o)
{
	struct governor *g = xcalloc(1, sizeof(*g));
	uint32_t sum = 0;

	g->options = *o;
	if (!g->options.min_hz)
		g->options.min_hz = 1;
	for (int i = 0; i < ABI_N_EVENTS; i++) {
		sum += o->shares[i];
		if (o->shares[i] > o->shares[g->first])
			g->first = i;
	}
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		struct rate *r = &g->rates[i];

		if (!o->shares[i])
			continue;
		r->part = (double)o->shares[i] / sum;
		r->stats = (struct governor_rate) {.is_governed = true,
			.hz = o->base_hz,
			.wanted_hz = o->base_hz,
			.limit_ratio = r->part * o->max_overhead};
	}
	pthread_mutex_init(&g->mutex, NULL);
	return g;
}

void governor_freep(struct governor **g)
{
	if (!*g)
		return;
	pthread_mutex_destroy(&(*g)->mutex);
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		free((*g)->rates[i].requests);
	free(*g);
	*g = NULL;
}

void governor_request(struct governor *g, enum abi_event event, uint32_t hz)
{
	struct rate *r = &g->rates[event];

	pthread_mutex_lock(&g->mutex);
	if (alloc_grow(&r->requests, &r->cap_requests, r->n_requests + 1, sizeof(*r->requests)) ==
		0)
		r->requests[r->n_requests++] = hz;
	pthread_mutex_unlock(&g->mutex);
}

void governor_release(struct governor *g, enum abi_event event, uint32_t hz)
{
	struct rate *r = &g->rates[event];

	pthread_mutex_lock(&g->mutex);
	for (size_t i = 0; i < r->n_requests; i++) {
		if (r->requests[i] != hz)
			continue;
		r->requests[i] = r->requests[--r->n_requests];
		break;
	}
	pthread_mutex_unlock(&g->mutex);
}

static uint32_t wanted_hz(const struct governor *g, const struct rate *r)
{
	uint32_t hz = g->options.base_hz;

	for (size_t i = 0; i < r->n_requests; i++)
		hz = MAX(hz, MIN(r->requests[i], g->options.max_hz));
	return hz;
}

static uint32_t rate_at(const struct governor *g, uint32_t wanted, uint32_t level)
{
	return MAX(wanted >> level, MIN(g->options.min_hz, wanted));
}

/* Keeps an observation a second; the ratios are over those at most a window old. */
static void observe(struct governor *g, const struct observation *o, uint32_t n_online)
{
	const uint32_t slots = GOVERNOR_WINDOW_S + 1;
	const struct observation *last = &g->window[(g->n_window - 1) % slots], *first;
	double all_ns;

	if (g->n_window && o->time_ns - last->time_ns < NS_PER_S)
		return;
	g->window[g->n_window++ % slots] = *o;
	first = &g->window[g->n_window < slots ? 0 : g->n_window % slots];
	if (o->time_ns <= first->time_ns)
		return;
	all_ns = (double)(o->time_ns - first->time_ns) * MAX(n_online, 1U);
	g->overhead_ratio = (double)(o->cost.all_ns - first->cost.all_ns) / all_ns;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		g->rates[i].stats.rate_ratio =
			(double)(o->cost.rate_ns[i] - first->cost.rate_ns[i]) / all_ns;
}

/* What the other rates have cost since the level of this one began. */
static double cost_of_others(const struct governor *g, int event, const struct observation *o)
{
	const struct observation *began = &g->rates[event].level_began;
	double sum = 0;

	for (int i = 0; i < ABI_N_EVENTS; i++)
		if (i != event && g->options.shares[i])
			sum += (double)(o->cost.rate_ns[i] - began->cost.rate_ns[i]);
	return sum;
}

static void judge(struct governor *g, int event, const struct observation *o, uint32_t n_online)
{
	struct rate *r = &g->rates[event];
	uint32_t wanted = r->stats.wanted_hz, hz = rate_at(g, wanted, r->level);
	double window_ns = (double)GOVERNOR_WINDOW_S * NS_PER_S;
	double whole = g->options.max_overhead * window_ns * MAX(n_online, 1U);
	double left = event == g->first ? whole - cost_of_others(g, event, o) : 0;
	double allowed = MAX(whole * r->part, left);
	double cost = (double)(o->cost.rate_ns[event] - r->level_began.cost.rate_ns[event]);
	bool full = (double)(o->time_ns - r->level_began.time_ns) >= window_ns;
	bool lower =
		cost > allowed && r->level < MAX_LEVEL && rate_at(g, wanted, r->level + 1) < hz;
	bool raise =
		full && r->level && cost * rate_at(g, wanted, r->level - 1) / hz < allowed * SPARE;

	if (lower) {
		r->level++;
		r->stats.lowered++;
	} else if (raise) {
		r->level--;
		r->stats.raised++;
	}
	if (lower || raise || full)
		r->level_began = *o;
}

static enum governor_reason reason_of(const struct governor *g, const struct governor_rate *r)
{
	if (r->hz < r->wanted_hz)
		return GOVERNOR_OVERHEAD;
	return r->wanted_hz > g->options.base_hz ? GOVERNOR_REQUEST : GOVERNOR_FREQUENCY;
}

static uint32_t step_rate(struct governor *g, int event, const struct observation *o, bool is_begin,
	uint32_t n_online)
{
	struct rate *r = &g->rates[event];

	if (is_begin)
		r->level_began = *o;
	r->stats.wanted_hz = wanted_hz(g, r);
	if (g->options.max_overhead > 0)
		judge(g, event, o, n_online);
	r->stats.hz = rate_at(g, r->stats.wanted_hz, r->level);
	r->stats.reason = reason_of(g, &r->stats);
	return r->stats.hz;
}

struct governor_rates governor_step(
	struct governor *g, int64_t now_ns, const struct governor_cost *cost, uint32_t n_online)
{
	struct observation o = {.time_ns = now_ns, .cost = *cost};
	struct governor_rates rates = {{0}};
	bool is_begin;

	pthread_mutex_lock(&g->mutex);
	is_begin = !g->n_window;
	observe(g, &o, n_online);
	for (int i = 0; i < ABI_N_EVENTS; i++)
		if (g->options.shares[i])
			rates.hz[i] = step_rate(g, i, &o, is_begin, n_online);
	pthread_mutex_unlock(&g->mutex);
	return rates;
}

void governor_stats(struct governor *g, struct governor_stats *ret)
{
	pthread_mutex_lock(&g->mutex);
	*ret = (struct governor_stats) {.overhead_ratio = g->overhead_ratio};
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		ret->events[i] = g->rates[i].stats;
		ret->events[i].n_requests = (uint32_t)g->rates[i].n_requests;
	}
	pthread_mutex_unlock(&g->mutex);
}

const char *governor_reason_name(enum governor_reason reason)
{
	static const char *const names[GOVERNOR_N_REASONS] = {
		[GOVERNOR_FREQUENCY] = "frequency",
		[GOVERNOR_REQUEST] = "request",
		[GOVERNOR_OVERHEAD] = "overhead",
	};

	return names[reason];
}

void governor_describe(const struct governor_rate *r, char *ret, size_t cap)
{
	if (r->reason == GOVERNOR_OVERHEAD)
		snprintf(ret, cap, "%u Hz (lowered from %u Hz for --profile.max-overhead)", r->hz,
			r->wanted_hz);
	else
		snprintf(ret, cap, "%u Hz (%s)", r->hz,
			r->reason == GOVERNOR_REQUEST ? "asked for by a request with hz="
						      : "--profile.frequency");
}
