/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of each online CPU.
 */
#include "exporter/sample/cpus.h"
#include "exporter/sample/news.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>

#define REVIVE_BUSY_NS (NS_PER_S / 2)
#define REVIVE_PERIODS 5
/* A keeper that did not answer is left alone for so many rounds, one a second: each question may wait for 5 s, and samples with it. */
#define QUIET_ROUNDS 30

void cpus_init(struct cpus *c, const struct keeper_setup *setup, int news_fd, uint32_t n_cpus,
	const struct governor_rates *rates)
{
	*c = (struct cpus) {.keeper = setup->keeper,
		.news_fd = news_fd,
		.cpu = xcalloc(n_cpus, sizeof(*c->cpu)),
		.n_cpus = n_cpus,
		.events = setup->events,
		.rates = *rates};
}

static void close_events(struct cpu_events *e)
{
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		if (e->event_fds[i] >= 0)
			close(e->event_fds[i]);
	if (e->sideband_fd >= 0)
		close(e->sideband_fd);
}

static void detach(struct cpus *c, struct cpu_events *e)
{
	if (!e->attached)
		return;
	sideband_done(&e->sideband);
	close_events(e);
	e->attached = false;
	c->n_attached--;
	c->detached++;
}

void cpus_done(struct cpus *c)
{
	for (uint32_t i = 0; i < c->n_cpus; i++)
		detach(c, &c->cpu[i]);
	free(c->cpu);
	memset(c, 0, sizeof(*c));
}

static void set_rates(const struct cpu_events *e, const struct governor_rates *rates)
{
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		uint64_t value = event_period(event_source(i), rates->hz[i]);

		if (e->event_fds[i] >= 0 && ioctl(e->event_fds[i], PERF_EVENT_IOC_PERIOD, &value))
			LOG_RATED(LOG_DEBUG, "PERF_EVENT_IOC_PERIOD: %s", strerror(errno));
	}
}

/* Of all events that are on, and the side-band buffer; the first that fails ends it. */
static int open_events(struct cpus *c, uint32_t cpu, struct errbuf *eb)
{
	struct cpu_events *e = &c->cpu[cpu];

	e->sideband_fd = -1;
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		e->event_fds[i] = -1;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		if (!(c->events & EVENT_BIT(i)) || event_source(i)->target != EVENT_PER_CPU)
			continue;
		e->event_fds[i] = c->keeper->attach(c->keeper, i, cpu, eb);
		if (e->event_fds[i] < 0)
			return e->event_fds[i];
	}
	e->sideband_fd = c->keeper->attach_sideband(c->keeper, cpu, eb);
	return MIN(e->sideband_fd, 0);
}

static int attach(struct cpus *c, uint32_t cpu, struct errbuf *eb)
{
	struct cpu_events *e = &c->cpu[cpu];
	int r;

	if (c->quiet_rounds)
		return err_set(eb, -EBUSY, "the keeper did not answer lately");
	r = open_events(c, cpu, eb);
	if (r == -ETIMEDOUT)
		c->quiet_rounds = QUIET_ROUNDS;
	if (r >= 0)
		r = sideband_open(&e->sideband, e->sideband_fd, eb);
	if (r >= 0) {
		r = news_watch(c->news_fd, e->sideband_fd, eb);
		if (r < 0)
			sideband_done(&e->sideband);
	}
	if (r < 0) {
		close_events(e);
		return r;
	}
	e->attached = true;
	e->runs = e->busy_ns = 0;
	c->n_attached++;
	c->attached++;
	set_rates(e, &c->rates);
	return 0;
}

static const char *take_cpu(const char *p, uint32_t *ret)
{
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return NULL;
	while (*p >= '0' && *p <= '9' && v < UINT32_MAX)
		v = v * 10 + (uint64_t)(*p++ - '0');
	*ret = (uint32_t)MIN(v, UINT32_MAX);
	return p;
}

int cpus_parse_list(const char *list, bool *ret, uint32_t n_cpus)
{
	memset(ret, 0, n_cpus * sizeof(*ret));
	while (list && *list && *list != '\n') {
		uint32_t first, last;

		list = take_cpu(list, &first);
		last = first;
		if (list && *list == '-')
			list = take_cpu(list + 1, &last);
		if (!list || last < first || (*list && *list != ',' && *list != '\n'))
			return -EBADMSG;
		for (uint32_t i = first; i <= last && i < n_cpus; i++)
			ret[i] = true;
		list += *list == ',';
	}
	return list ? 0 : -EBADMSG;
}

int cpus_follow(struct cpus *c, const char *online, struct errbuf *eb)
{
	_cleanup_free_ bool *up = xcalloc(c->n_cpus, sizeof(*up));
	int r = cpus_parse_list(online, up, c->n_cpus), first = 0;

	if (r < 0)
		return err_set(eb, r, "malformed list of online CPUs: %.64s", online);
	c->n_online = 0;
	c->quiet_rounds -= c->quiet_rounds > 0;
	for (uint32_t i = 0; i < c->n_cpus; i++) {
		struct errbuf why = {0};

		c->n_online += up[i];
		c->cpu[i].online = up[i];
		if (!up[i])
			detach(c, &c->cpu[i]);
		if (!up[i] || c->cpu[i].attached)
			continue;
		r = attach(c, i, &why);
		c->failures += r < 0;
		if (r < 0 && first == 0)
			first = err_set(eb, r, "CPU %u: %s", i, err_text(&why, r));
	}
	return first;
}

void cpus_set_rates(struct cpus *c, const struct governor_rates *rates)
{
	if (memcmp(rates, &c->rates, sizeof(*rates)) == 0)
		return;
	c->rates = *rates;
	for (uint32_t i = 0; i < c->n_cpus; i++)
		if (c->cpu[i].attached)
			set_rates(&c->cpu[i], rates);
}

void cpus_revive(struct cpus *c, uint32_t cpu, uint64_t runs, uint64_t busy_ns)
{
	struct cpu_events *e = &c->cpu[cpu];
	uint32_t hz = MAX(c->rates.hz[ABI_EVENT_CPU], 1U);
	uint64_t patience = MAX((uint64_t)REVIVE_BUSY_NS, REVIVE_PERIODS * (uint64_t)NS_PER_S / hz);

	if (!e->attached || !(c->events & EVENT_BIT(ABI_EVENT_CPU)))
		return;
	if (runs != e->runs || !e->busy_ns) {
		e->runs = runs;
		e->busy_ns = busy_ns;
		return;
	}
	if (busy_ns < e->busy_ns + patience)
		return;
	detach(c, e);
	c->revived++;
	c->failures += attach(c, cpu, NULL) < 0;
}
