/* SPDX-License-Identifier: Apache-2.0
 *
 * What docker_sd_configs and dockerswarm_sd_configs have in common: several lists asked for together from a Docker
 * Engine, over TCP, TLS or a Unix socket; and labels of networks.
 */
#pragma once
#include "lib/json/read.h"
#include "scraper/discover/build.h"
#include "scraper/discover/provider.h"
#include <stdbool.h>

enum { DOCKER_MAX_LISTS = 4 };

struct config_docker_client;
struct config_filter;

/* One refresh: lists by index, as `paths` of docker_client_refresh. */
struct docker_client {
	struct json_doc *lists[DOCKER_MAX_LISTS];
	size_t n_lists, n_waiting;
	const char *host; /* that is asked, the configuration's */
	int error;	  /* of the first list that failed */
	struct errbuf error_text;
	/* All lists are there: makes the groups. */
	void (*done)(struct discover_provider *p, struct docker_client *c);
};

/*
 * Asks for `paths` ("/containers/json"), the first with the configuration's filters; skips a refresh while the last one
 * waits. p->state is a struct docker_client.
 */
void docker_client_refresh(struct discover_provider *p, const struct config_docker_client *sd,
	const char *const *paths, size_t n, int64_t now_ns);
void docker_client_done(struct docker_client *c);

/* Sets `prefix`network_{id,name,scope,internal,ingress,label_*} of the network with that id, if the list has it. */
void docker_set_network(struct labels_builder *b, const char *prefix,
	const struct json_value *networks, const char *id);
