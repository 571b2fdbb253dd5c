/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled time over busy time.
 */
#include "exporter/sample/coverage.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/cursor.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define TICK_NS (NS_PER_S / 100) /* USER_HZ, the unit of /proc/stat */
#define MIN_BUSY_NS (2.0 * NS_PER_S)
#define FADE_NS (60.0 * NS_PER_S)

struct cpu_coverage {
	uint64_t busy_ns, sampled_ns; /* as observed last, cumulative */
	double busy, sampled;	      /* faded sums */
	bool known;
};

struct coverage {
	struct cpu_coverage *cpus;
	uint32_t n_cpus;
	int64_t last_ns;
	double elapsed; /* faded */
};

struct coverage *coverage_new(uint32_t n_cpus)
{
	struct coverage *c = xcalloc(1, sizeof(*c));

	c->cpus = xcalloc(n_cpus, sizeof(*c->cpus));
	c->n_cpus = n_cpus;
	return c;
}

void coverage_freep(struct coverage **c)
{
	if (*c)
		free((*c)->cpus);
	free(*c);
	*c = NULL;
}

static uint64_t take_number(struct cursor *c)
{
	uint64_t v = 0;

	while (cursor_left(c) && *c->pos == ' ')
		c->pos++;
	while (cursor_left(c) && *c->pos >= '0' && *c->pos <= '9')
		v = v * 10 + (uint64_t)(*c->pos++ - '0');
	return v;
}

/* user nice system idle iowait irq softirq …; what guests used is in user already, what was stolen nobody here used. */
static uint64_t take_busy_ns(struct cursor *c)
{
	uint64_t ticks = take_number(c) + take_number(c) + take_number(c);

	take_number(c);
	take_number(c);
	ticks += take_number(c) + take_number(c);
	return ticks * (uint64_t)TICK_NS;
}

static void observe_cpu(struct cpu_coverage *p, uint64_t busy_ns, uint64_t sampled_ns)
{
	if (p->known && busy_ns >= p->busy_ns && sampled_ns >= p->sampled_ns) {
		p->busy += (double)(busy_ns - p->busy_ns);
		p->sampled += (double)(sampled_ns - p->sampled_ns);
	}
	p->known = true;
	p->busy_ns = busy_ns;
	p->sampled_ns = sampled_ns;
}

static bool take_line(struct cursor *c, struct cursor *ret_line)
{
	const uint8_t *nl = cursor_left(c) ? memchr(c->pos, '\n', cursor_left(c)) : NULL;

	if (!nl)
		return false;
	*ret_line = cursor_sub(c, (size_t)(nl - c->pos));
	cursor_skip(c, 1);
	return true;
}

void coverage_observe(struct coverage *c, const char *proc_stat, size_t len,
	const uint64_t *sampled_ns, int64_t now_ns)
{
	double keep = c->last_ns ? exp(-(double)(now_ns - c->last_ns) / FADE_NS) : 1;
	struct cursor all = cursor_of(proc_stat, len), line;

	for (uint32_t i = 0; i < c->n_cpus; i++) {
		c->cpus[i].busy *= keep;
		c->cpus[i].sampled *= keep;
	}
	c->elapsed = c->elapsed * keep + (1 - keep) * FADE_NS;
	c->last_ns = now_ns;
	while (take_line(&all, &line)) {
		uint64_t cpu;

		if (cursor_left(&line) < 5 || memcmp(line.pos, "cpu", 3) != 0 || line.pos[3] == ' ')
			continue;
		cursor_skip(&line, 3);
		cpu = take_number(&line);
		if (cpu < c->n_cpus)
			observe_cpu(&c->cpus[cpu], take_busy_ns(&line), sampled_ns[cpu]);
	}
}

uint64_t coverage_busy_ns(const struct coverage *c, uint32_t cpu)
{
	return cpu < c->n_cpus ? c->cpus[cpu].busy_ns : 0;
}

double coverage_ratio(const struct coverage *c)
{
	double busy = 0, sampled = 0;

	for (uint32_t i = 0; i < c->n_cpus; i++) {
		busy += c->cpus[i].busy;
		sampled += c->cpus[i].sampled;
	}
	return busy < MIN_BUSY_NS ? 0 : sampled / busy;
}

double coverage_worst_ratio(const struct coverage *c)
{
	double worst = 0;
	bool any = false;

	for (uint32_t i = 0; i < c->n_cpus; i++) {
		const struct cpu_coverage *p = &c->cpus[i];

		if (p->busy < MIN_BUSY_NS || p->busy < c->elapsed / 10)
			continue;
		if (!any || p->sampled / p->busy < worst)
			worst = p->sampled / p->busy;
		any = true;
	}
	return worst;
}
