/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of exporter/event → programs of the keeper.
 */
#include "exporter/keeper/programs.h"
#include "lib/base/clock.h"
#include <string.h>

void programs_of_events(uint32_t events, uint32_t hz, struct keeper_programs *ret)
{
	*ret = (struct keeper_programs) {.n = ABI_N_EVENTS};
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		const struct event_source *s = event_source(i);

		ret->rows[i] = (struct keeper_program) {
			.event = s->name,
			.target = s->target,
			.type = s->perf.type,
			.config = s->perf.config,
			.period = event_period(s, hz),
			.is_preemptible = event_is_preemptible(i),
			.is_on = events & EVENT_BIT(i),
		};
	}
}

const struct keeper_program *programs_find(
	const struct keeper_programs *p, uint32_t event, enum event_target target)
{
	const struct keeper_program *row = event < p->n ? &p->rows[event] : NULL;

	return row && row->is_on && row->target == target ? row : NULL;
}

bool programs_have(const struct keeper_programs *p, enum event_target target)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (programs_find(p, i, target))
			return true;
	return false;
}

bool programs_are_preemptible(const struct keeper_programs *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->rows[i].is_on && p->rows[i].is_preemptible)
			return true;
	return false;
}

bool programs_leave_out(const struct keeper_programs *p, const char *name)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const char *event = p->rows[i].event;
		size_t len = event ? strlen(event) : 0;

		if (len && strncmp(name, event, len) == 0 && name[len] == '_')
			return !p->rows[i].is_on;
	}
	return false;
}
