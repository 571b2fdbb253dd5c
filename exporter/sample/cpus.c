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

void cpus_init(struct cpus *c, struct keeper *keeper, int news_fd, uint32_t n_cpus, uint32_t hz)
{
	*c = (struct cpus) {.keeper = keeper,
		.news_fd = news_fd,
		.cpu = xcalloc(n_cpus, sizeof(*c->cpu)),
		.n_cpus = n_cpus,
		.hz = hz};
}

static void detach(struct cpus *c, struct cpu_events *e)
{
	if (!e->attached)
		return;
	sideband_done(&e->sideband);
	close(e->fds.clock_fd);
	close(e->fds.sideband_fd);
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

static void set_period(const struct cpu_events *e, uint32_t hz)
{
	uint64_t period = (uint64_t)NS_PER_S / hz;

	if (ioctl(e->fds.clock_fd, PERF_EVENT_IOC_PERIOD, &period))
		LOG_RATED(LOG_DEBUG, "PERF_EVENT_IOC_PERIOD: %s", strerror(errno));
}

static int attach(struct cpus *c, uint32_t cpu, struct errbuf *eb)
{
	struct cpu_events *e = &c->cpu[cpu];
	int r = c->keeper->attach_cpu(c->keeper, cpu, &e->fds, eb);

	if (r < 0)
		return r;
	r = sideband_open(&e->sideband, e->fds.sideband_fd, eb);
	if (r >= 0) {
		r = news_watch(c->news_fd, e->fds.sideband_fd, eb);
		if (r < 0)
			sideband_done(&e->sideband);
	}
	if (r < 0) {
		close(e->fds.clock_fd);
		close(e->fds.sideband_fd);
		return r;
	}
	e->attached = true;
	e->runs = e->busy_ns = 0;
	c->n_attached++;
	c->attached++;
	set_period(e, c->hz);
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

void cpus_set_hz(struct cpus *c, uint32_t hz)
{
	if (hz == c->hz)
		return;
	c->hz = hz;
	for (uint32_t i = 0; i < c->n_cpus; i++)
		if (c->cpu[i].attached)
			set_period(&c->cpu[i], hz);
}

void cpus_revive(struct cpus *c, uint32_t cpu, uint64_t runs, uint64_t busy_ns)
{
	struct cpu_events *e = &c->cpu[cpu];
	uint64_t patience =
		MAX((uint64_t)REVIVE_BUSY_NS, REVIVE_PERIODS * (uint64_t)NS_PER_S / c->hz);

	if (!e->attached)
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
