/* SPDX-License-Identifier: Apache-2.0
 *
 * What container runtimes write down of a container: its name, image, pod and namespace. Their
 * files are read; their sockets would need the right to write, which is that to start containers.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "exporter/proc/asks.h"
#include <stdbool.h>
#include <stddef.h>

enum container_format {
	CONTAINER_DOCKER, /* config.v2.json */
	CONTAINER_OCI, /* config.json of a bundle, with annotations of containerd, CRI-O, nerdctl */
	CONTAINER_PODMAN, /* containers.json: all of them */
};

/* Looks through the files of the runtimes in the root of process 1, where the host's are, and in our
 * own. Blocks. uid: whose slice the container is in, whose own podman may have started it; 0: root's, or nobody's. False when none
 * knows the container. */
bool container_read(struct keeper *k, const char *id, uint32_t uid, struct container_info *ret);

/* One file's text. False when it says nothing of that container. Pure. */
bool container_parse(enum container_format format, const char *id, const void *p, size_t n,
	struct container_info *ret);
