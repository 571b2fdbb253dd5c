/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of each online CPU: attached through the keeper, followed as CPUs come and go, re-rated. Owned by the drain.
 */
#pragma once
#include "exporter/event/event.h"
#include "exporter/keeper/keeper.h"
#include "exporter/sample/governor.h"
#include "exporter/sample/sideband.h"
#include <stdbool.h>
#include <stdint.h>

struct cpu_events {
	int event_fds[ABI_N_EVENTS]; /* -1: off, or not attached to CPUs */
	int sideband_fd;
	struct sideband_buffer sideband;
	bool attached;
	bool online;
	uint64_t runs;	  /* program runs when they last moved */
	uint64_t busy_ns; /* the CPU's busy time then */
};

struct cpus {
	struct keeper *keeper;
	int news_fd;		/* an epoll set that side-band events are put into; not owned */
	struct cpu_events *cpu; /* by number */
	uint32_t n_cpus, n_online, n_attached;
	uint32_t events; /* EVENT_BITs of those that are on */
	struct governor_rates rates;
	uint32_t quiet_rounds;				/* until a silent keeper is asked again */
	uint64_t attached, detached, failures, revived; /* events since start */
};

void cpus_init(struct cpus *c, const struct keeper_setup *setup, int news_fd, uint32_t n_cpus,
	const struct governor_rates *rates);
void cpus_done(struct cpus *c);

/*
 * Attaches what is online and not attached, detaches what is offline; `online` is the text of
 * /sys/devices/system/cpu/online ("0-3,8"). Returns 0, the first failure with its text, or -EBADMSG for a malformed list.
 */
int cpus_follow(struct cpus *c, const char *online, struct errbuf *eb);
/* Sets the rates of every attached CPU. */
void cpus_set_rates(struct cpus *c, const struct governor_rates *rates);
/* Attaches a CPU anew when its program has not run while the CPU was busy for several periods: it went offline and came back
 * between two looks, or the kernel gave the event up. */
void cpus_revive(struct cpus *c, uint32_t cpu, uint64_t runs, uint64_t busy_ns);

/* Bit set of a CPU list into `ret` (n_cpus bools); exposed for tests. */
int cpus_parse_list(const char *list, bool *ret, uint32_t n_cpus);
