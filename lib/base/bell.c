/* SPDX-License-Identifier: Apache-2.0
 *
 * An eventfd: unlike a condition it can be waited for together with other descriptors.
 */
#include "lib/base/bell.h"
#include "lib/base/clock.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int bell_init(struct bell *b, struct errbuf *eb)
{
	*b = (struct bell) {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return b->fd < 0 ? err_set(eb, -errno, "eventfd: %s", strerror(errno)) : 0;
}

void bell_done(struct bell *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

void bell_ring(struct bell *b)
{
	const uint64_t one = 1;

	/* It fails when it has been rung 2^64 times, and then it is readable. */
	(void)!write(b->fd, &one, sizeof(one));
}

void bell_close(struct bell *b)
{
	b->is_closed = true;
	bell_ring(b);
}

/* What was rung up to now is heard. */
static void hear(struct bell *b)
{
	uint64_t rings;

	(void)!read(b->fd, &rings, sizeof(rings));
}

/* False when the time is over, or was before. */
static bool wait_for(struct pollfd *p, nfds_t n, int64_t until_ns)
{
	for (;;) {
		int64_t left_ns = until_ns - clock_monotonic_ns(&clock_system);
		struct timespec ts = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
		int r;

		if (left_ns < 0)
			ts = (struct timespec) {0};
		r = ppoll(p, n, until_ns == BELL_NEVER ? NULL : &ts, NULL);
		if (r >= 0 || errno != EINTR)
			return r > 0;
	}
}

enum bell_end bell_wait(struct bell *b, int fd, int64_t earliest_ns, int64_t until_ns)
{
	struct pollfd p[] = {{.fd = b->fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	if (b->is_closed)
		return BELL_RUNG;
	if (!wait_for(p, 2, until_ns))
		return BELL_TIME_OVER;
	if (!p[0].revents)
		return BELL_FD_READY;
	do
		hear(b);
	while (!b->is_closed && wait_for(p, 1, earliest_ns));
	return BELL_RUNG;
}
