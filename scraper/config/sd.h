/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of service discoveries, a struct for each kind; a job has a list of each.
 */
#pragma once
#include "scraper/config/http.h"
#include <stdint.h>

struct config_file_sd {
	struct config_strings files; /* joined with the configuration's directory; the last
					component may be a glob */
	int64_t refresh_interval_ms;
};

struct config_http_sd {
	const char *url, *shown_url; /* the latter without a password */
	int64_t refresh_interval_ms; /* also the time an answer may take */
	struct config_http http;
};

struct config_dns_sd {
	struct config_strings names;
	int type; /* enum dns_type */
	uint64_t port;
	int64_t refresh_interval_ms;
};

/* A filter that a server applies: any of the values. */
struct config_filter {
	const char *name;
	struct config_strings values;
};

/* What docker and dockerswarm have in common. */
struct config_docker_client {
	const char *host; /* unix://PATH, tcp://…, http://… or https://… */
	uint64_t port;	  /* of targets that publish none */
	struct config_filter *filters;
	size_t n_filters;
	int64_t refresh_interval_ms; /* also the time an answer may take */
	struct config_http http;
};

struct config_docker_sd {
	struct config_docker_client client;
	const char *host_networking_host;
	bool match_first_network;
};

enum config_swarm_role {
	CONFIG_SWARM_NONE,
	CONFIG_SWARM_SERVICES,
	CONFIG_SWARM_TASKS,
	CONFIG_SWARM_NODES
};
struct config_dockerswarm_sd {
	struct config_docker_client client;
	int role; /* enum config_swarm_role */
};

struct config_consul_sd {
	const char *server, *scheme, *path_prefix;
	const char *token, *datacenter, *namespace, *partition;
	const char *username, *password; /* old forms of basic_auth */
	bool allow_stale;
	const char *tag_separator, *filter, *health_filter;
	struct config_strings services, tags;
	struct labels node_meta;
	int64_t refresh_interval_ms;
	struct config_http http;
};

struct config_nomad_sd {
	const char *server, *region, *namespace, *tag_separator;
	bool allow_stale;
	int64_t refresh_interval_ms;
	struct config_http http;
};

enum config_kubernetes_role {
	CONFIG_KUBERNETES_UNSET,
	CONFIG_KUBERNETES_NODE,
	CONFIG_KUBERNETES_POD,
	CONFIG_KUBERNETES_SERVICE,
	CONFIG_KUBERNETES_ENDPOINTS,
	CONFIG_KUBERNETES_ENDPOINTSLICE,
	CONFIG_KUBERNETES_INGRESS,
};
struct config_kubernetes_sd {
	int role;		/* enum config_kubernetes_role */
	const char *api_server; /* NULL: by the kubeconfig file, or as inside the cluster */
	const char *kubeconfig_file;
	struct config_kubernetes_namespaces {
		bool is_written, own_namespace;
		struct config_strings names;
	} namespaces; /* none: all of them */
	struct config_kubernetes_selector {
		int role; /* whose resources it selects */
		const char *label, *field;
	} * selectors;
	size_t n_selectors;
	struct config_kubernetes_attach {
		bool is_written, node, namespace, deployment, job, cronjob;
	} attach;
	struct config_http http;
};

struct config_ec2_sd {
	const char *region, *endpoint;	     /* NULL: found as scraper/discover/aws.h says */
	const char *access_key, *secret_key; /* the same */
	const char *profile, *role_arn, *external_id;
	uint64_t port;
	struct config_filter *filters;
	size_t n_filters;
	int64_t refresh_interval_ms;
	struct config_http http;
};
