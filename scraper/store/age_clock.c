/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets of the wall clock to the one that nobody sets: those that are behind count at once, those that are ahead only after a while.
 */
#include "scraper/store/age_clock.h"

static const int64_t SLACK_NS = 10 * 60LL * NS_PER_S;

void age_clock_init(struct age_clock *a, struct clock *clock, int64_t wait_ns, int64_t newest_ns)
{
	int64_t now_ns = clock_boottime_ns(clock), offset_ns = clock_wall_offset_ns(clock),
		newest_offset_ns;

	*a = (struct age_clock) {.clock = clock,
		.wait_ns = wait_ns,
		.last_ns = offset_ns,
		.ahead_since_ns = INT64_MAX};
	a->offset_ns = offset_ns;
	if (!__builtin_sub_overflow(newest_ns, now_ns, &newest_offset_ns) &&
		newest_offset_ns < offset_ns) {
		a->offset_ns = newest_offset_ns;
		a->ahead_since_ns = now_ns;
	}
}

static bool is_ahead(int64_t offset_ns, int64_t of_ns)
{
	int64_t by_ns;

	return !__builtin_sub_overflow(offset_ns, of_ns, &by_ns) ? by_ns > SLACK_NS
								 : offset_ns > of_ns;
}

int64_t age_clock_look(struct age_clock *a)
{
	int64_t now_ns = clock_boottime_ns(a->clock), offset_ns = clock_wall_offset_ns(a->clock),
		set_ns;

	if (!is_ahead(offset_ns, a->offset_ns)) {
		a->offset_ns = offset_ns;
		a->ahead_since_ns = INT64_MAX;
	} else if (a->ahead_since_ns == INT64_MAX) {
		a->ahead_since_ns = now_ns;
	} else if (now_ns - a->ahead_since_ns >= a->wait_ns) {
		a->offset_ns = offset_ns;
		a->ahead_since_ns = INT64_MAX;
	}
	if (__builtin_sub_overflow(offset_ns, a->last_ns, &set_ns))
		set_ns = offset_ns > a->last_ns ? INT64_MAX : INT64_MIN;
	a->last_ns = offset_ns;
	return set_ns > SLACK_NS || set_ns < -SLACK_NS ? set_ns : 0;
}

int64_t age_clock_now_ns(struct age_clock *a)
{
	int64_t now_ns;

	return __builtin_add_overflow(clock_boottime_ns(a->clock), a->offset_ns, &now_ns) ? 0
											  : now_ns;
}
