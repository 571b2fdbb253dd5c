/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rate. The rate in force is the wanted one halved `level` times. A level is judged by what it cost since it
 * began: as soon as that is more than a whole window may cost, the rate is halved; after a full window that would allow
 * twice the cost with a tenth to spare, it is doubled.
 */
#include "exporter/sample/governor.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <pthread.h>
#include <stdbool.h>

enum { MAX_LEVEL = 10 };
#define SPARE 0.9

struct observation {
	int64_t time_ns;
	uint64_t cost_ns;
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
	if (o->time_ns > first->time_ns)
		g->stats.overhead_ratio =
			(double)(o->cost_ns - first->cost_ns) /
			((double)(o->time_ns - first->time_ns) * MAX(n_online, 1U));
}

static void judge(
	struct governor *g, const struct observation *o, uint32_t wanted, uint32_t n_online)
{
	double window_ns = (double)GOVERNOR_WINDOW_S * NS_PER_S;
	double allowed = g->options.max_overhead * window_ns * MAX(n_online, 1U);
	double cost = (double)(o->cost_ns - g->level_began.cost_ns);
	bool full = (double)(o->time_ns - g->level_began.time_ns) >= window_ns;
	bool lower = cost > allowed && g->level < MAX_LEVEL &&
		     rate_at(g, wanted, g->level + 1) < rate_at(g, wanted, g->level);
	bool raise = full && g->level && cost * 2 < allowed * SPARE;

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

uint32_t governor_step(
	struct governor *g, int64_t now_ns, uint64_t own_cpu_ns, uint64_t bpf_ns, uint32_t n_online)
{
	struct observation o = {.time_ns = now_ns, .cost_ns = own_cpu_ns + bpf_ns};
	uint32_t hz;

	pthread_mutex_lock(&g->mutex);
	if (!g->n_window)
		g->level_began = o;
	observe(g, &o, n_online);
	g->stats.wanted_hz = wanted_hz(g);
	if (g->options.max_overhead > 0)
		judge(g, &o, g->stats.wanted_hz, n_online);
	hz = g->stats.hz = rate_at(g, g->stats.wanted_hz, g->level);
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
