/* SPDX-License-Identifier: Apache-2.0
 *
 * A drain reads every descriptor, whichever had news.
 */
#include "exporter/sample/news.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

enum { EVENTS_AT_ONCE = 64 };

int news_open(struct errbuf *eb)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 ? err_set(eb, -errno, "epoll: %s", strerror(errno)) : fd;
}

int news_watch(int news_fd, int fd, struct errbuf *eb)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	if (epoll_ctl(news_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(eb, -errno,
			"epoll: a ring or side-band buffer cannot be waited for: %s",
			strerror(errno));
	return 0;
}

void news_take(int news_fd)
{
	struct epoll_event events[EVENTS_AT_ONCE];

	while (epoll_wait(news_fd, events, EVENTS_AT_ONCE, 0) == EVENTS_AT_ONCE)
		;
}
