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

/* As attach, attach_sideband and attach_file of struct keeper: descriptors. */
int load_attach(const struct loaded *l, uint32_t event, uint32_t cpu, struct errbuf *eb);
int load_attach_sideband(uint32_t cpu, struct errbuf *eb);
int load_attach_file(
	const struct loaded *l, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb);
/* The first CPU that events can be attached to, tried with all that are on; -errno with a text. */
int load_try_attach(const struct loaded *l, uint32_t n_cpus, struct errbuf *eb);

enum { LOAD_MAX_LINKS = 16, LOAD_MAX_FDS = ABI_MAX_EVENTS + LOAD_MAX_LINKS };
/* Descriptors that attaching needs later and links that must stay: everything else may be closed. Returns how many. */
size_t load_fds(const struct loaded *l, int ret[LOAD_MAX_FDS]);
