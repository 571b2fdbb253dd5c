/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a bundle that --debug.capture wrote: the drains with their records into a sink, by a virtual clock, and the keeper's
 * answers through a struct keeper. Everything behind the drain then runs without root and always the same way.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "exporter/sample/drain.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"

struct replay;

/* Reads and checks the whole file: -EBADMSG with the offset of what does not follow the format. The clock is set to each
 * drain's times as it is played. */
int replay_open(struct fs *fs, const char *path, const struct sample_sink *sink,
	struct clock_virtual *clock, struct replay **ret, struct errbuf *eb) _must_check_;
/* The same from memory, which is copied. */
int replay_open_bytes(const void *p, size_t len, const struct sample_sink *sink,
	struct clock_virtual *clock, struct replay **ret, struct errbuf *eb) _must_check_;
void replay_freep(struct replay **r);

/* Plays one drain: 1, or 0 when there is no more. */
int replay_step(struct replay *r);

/* Answers as captured: the same question gets the captured answers in turn, then the last one again; -ESRCH when it was never
 * asked. Files come as memfds. Lives as long as the replay; thread-safe. */
struct keeper *replay_keeper(struct replay *r);
