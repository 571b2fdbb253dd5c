/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rate. The rate in force is the wanted one halved `level` times. A level is judged by what its rate cost since
 * it began: as soon as that is more than a whole window may cost, the rate is halved; after a full window that would allow the
 * next higher rate, whose cost is in proportion, with a tenth to spare, it is doubled.
 */
#include "exporter/sample/governor.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

enum { MAX_LEVEL = 10 };
#define SPARE 0.9

struct observation {
	int64_t time_ns;
	struct governor_cost cost;
};

struct governor {
	struct governor_options options;
	pthread_mutex_t mutex; /* leaf lock; guards all below */
	uint32_t *requests;
	size_t n_requests, cap_requests;
	uint32_t level;
	struct observation level_began;
	struct observation window[GOVERNOR_WINDOW_S + 1]; /* one a second, a ring */
	uint32_t n_window;				  /* observations ever put into it */
	struct governor_stats stats;
};

struct governor *governor_new(const struct governor_options *o)
{
	struct governor *g = xcalloc(1, sizeof(*g));

	g->options = *o;
	if (!g->options.min_hz)
		g->options.min_hz = 1;
	g->stats.hz = g->stats.wanted_hz = o->base_hz;
	pthread_mutex_init(&g->mutex, NULL);
	return g;
}

void governor_freep(struct governor **g)
{
	if (!*g)
		return;
	pthread_mutex_destroy(&(*g)->mutex);
	free((*g)->requests);
	free(*g);
	*g = NULL;
}

void governor_request(struct governor *g, uint32_t hz)
{
	pthread_mutex_lock(&g->mutex);
	if (alloc_grow(&g->requests, &g->cap_requests, g->n_requests + 1, sizeof(*g->requests)) ==
		0)
		g->requests[g->n_requests++] = hz;
	pthread_mutex_unlock(&g->mutex);
}

void governor_release(struct governor *g, uint32_t hz)
{
	pthread_mutex_lock(&g->mutex);
	for (size_t i = 0; i < g->n_requests; i++) {
		if (g->requests[i] != hz)
			continue;
		g->requests[i] = g->requests[--g->n_requests];
		break;
	}
	pthread_mutex_unlock(&g->mutex);
}

static uint32_t wanted_hz(const struct governor *g)
{
	uint32_t hz = g->options.base_hz;

	for (size_t i = 0; i < g->n_requests; i++)
		hz = MAX(hz, MIN(g->requests[i], g->options.max_hz));
	return hz;
}

static uint32_t rate_at(const struct governor *g, uint32_t wanted, uint32_t level)
{
	return MAX(wanted >> level, MIN(g->options.min_hz, wanted));
}

/* Keeps an observation a second; the ratio is over those at most a window old. */
static void observe(struct governor *g, const struct observation *o, uint32_t n_online)
{
	const uint32_t slots = GOVERNOR_WINDOW_S + 1;
	const struct observation *last = &g->window[(g->n_window - 1) % slots], *first;

	if (g->n_window && o->time_ns - last->time_ns < NS_PER_S)
		return;
	g->window[g->n_window++ % slots] = *o;
	first = &g->window[g->n_window < slots ? 0 : g->n_window % slots];
	if (o->time_ns > first->time_ns) {
		double all_ns = (double)(o->time_ns - first->time_ns) * MAX(n_online, 1U);

		g->stats.overhead_ratio = (double)(o->cost.all_ns - first->cost.all_ns) / all_ns;
		g->stats.rate_ratio = (double)(o->cost.rate_ns - first->cost.rate_ns) / all_ns;
	}
}

static void judge(
	struct governor *g, const struct observation *o, uint32_t wanted, uint32_t n_online)
{
	double window_ns = (double)GOVERNOR_WINDOW_S * NS_PER_S;
	double allowed = g->options.max_overhead * window_ns * MAX(n_online, 1U);
	double cost = (double)(o->cost.rate_ns - g->level_began.cost.rate_ns);
	bool full = (double)(o->time_ns - g->level_began.time_ns) >= window_ns;
	uint32_t hz = rate_at(g, wanted, g->level);
	bool lower =
		cost > allowed && g->level < MAX_LEVEL && rate_at(g, wanted, g->level + 1) < hz;
	bool raise =
		full && g->level && cost * rate_at(g, wanted, g->level - 1) / hz < allowed * SPARE;

	if (lower) {
		g->level++;
		g->stats.lowered++;
	} else if (raise) {
		g->level--;
		g->stats.raised++;
	}
	if (lower || raise || full)
		g->level_began = *o;
}

static enum governor_reason reason_of(const struct governor *g)
{
	if (g->stats.hz < g->stats.wanted_hz)
		return GOVERNOR_OVERHEAD;
	return g->stats.wanted_hz > g->options.base_hz ? GOVERNOR_REQUEST : GOVERNOR_FREQUENCY;
}

uint32_t governor_step(
	struct governor *g, int64_t now_ns, const struct governor_cost *cost, uint32_t n_online)
{
	struct observation o = {.time_ns = now_ns, .cost = *cost};
	uint32_t hz;

	pthread_mutex_lock(&g->mutex);
	if (!g->n_window)
		g->level_began = o;
	observe(g, &o, n_online);
	g->stats.wanted_hz = wanted_hz(g);
	if (g->options.max_overhead > 0)
		judge(g, &o, g->stats.wanted_hz, n_online);
	hz = g->stats.hz = rate_at(g, g->stats.wanted_hz, g->level);
	g->stats.reason = reason_of(g);
	pthread_mutex_unlock(&g->mutex);
	return hz;
}

void governor_stats(struct governor *g, struct governor_stats *ret)
{
	pthread_mutex_lock(&g->mutex);
	*ret = g->stats;
	ret->n_requests = (uint32_t)g->n_requests;
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

void governor_describe(const struct governor_stats *s, char *ret, size_t cap)
{
	if (s->reason == GOVERNOR_OVERHEAD)
		snprintf(ret, cap, "%u Hz (lowered from %u Hz for --profile.max-overhead)", s->hz,
			s->wanted_hz);
	else
		snprintf(ret, cap, "%u Hz (%s)", s->hz,
			s->reason == GOVERNOR_REQUEST ? "asked for by a request with hz="
						      : "--profile.frequency");
}
