/* SPDX-License-Identifier: Apache-2.0
 *
 * One socket to the keeper or an opener, as main uses it: a request out, its reply in. For one thread at a time.
 */
#pragma once
#include "exporter/keeper/protocol.h"

struct channel {
	int sock;
	uint32_t seq; /* of the last request */
};

/* Sends q (and fd when ≥ 0) and waits for its reply, at most timeout_ms (-ETIMEDOUT: the reply may still come; the next call
 * drops it). ≥ 0 when it was granted, with its descriptors in ret_fds, the caller's; -EPIPE when the peer is gone. */
int channel_call(struct channel *c, struct keeper_request *q, int fd, int timeout_ms,
	int ret_fds[KEEPER_MAX_FDS], struct keeper_reply *ret);
/* After -ETIMEDOUT: has the reply come by now? 1 and it is dropped; 0 not yet; -errno when none will come. Does not block. */
int channel_take_late(struct channel *c);
/* The one descriptor of a granted request, or the error; closes what is too much. */
int channel_only_fd(int r, int fds[KEEPER_MAX_FDS]);
