/* SPDX-License-Identifier: Apache-2.0
 *
 * Wakes the net thread, which may sleep until something happens.
 */
#include "lib/net/server/impl.h"
#include "lib/base/log.h"
#include <errno.h>
#include <unistd.h>

void http_wake_net(struct http_server *s)
{
	uint64_t one = 1;

	if (write(s->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_printf(LOG_DEBUG, "eventfd: %d", errno);
}
