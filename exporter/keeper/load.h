/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF object and the perf events: the only file that knows libbpf. Used by the keeper before and after the roles split.
 */
#pragma once
#include "exporter/keeper/roles.h"

struct loaded;

/* Opens and loads the skeleton and makes the rings; fills the ring and counter fields of *ret. */
int load_bpf(const struct role_options *o, struct keeper_setup *ret, struct loaded **ret_loaded,
	struct errbuf *eb);
void load_freep(struct loaded **l);

/* Both events of one CPU, enabled, at the base rate. -ENODEV when the CPU is offline. */
int load_attach_cpu(struct loaded *l, uint32_t cpu, struct keeper_cpu *ret, struct errbuf *eb);

enum { LOAD_MAX_FDS = 8 };
/* Descriptors that attaching needs later and links that must stay: everything else may be closed. Returns how many. */
size_t load_fds(const struct loaded *l, int ret[LOAD_MAX_FDS]);
