/* SPDX-License-Identifier: Apache-2.0
 *
 * dockerswarm_sd_configs: the services, tasks or nodes of a Docker Swarm. Rules and labels are those of Prometheus
 * (discovery/moby/{services,tasks,nodes}.go).
 */
#include "lib/base/alloc.h"
#include "scraper/config/config.h"
#include "scraper/discover/docker_client.h"
#include <string.h>

#define PREFIX "__meta_dockerswarm_"

/* Which label comes from where. */
struct field {
	const char *label, *path;
};

struct swarm {
	const struct config_dockerswarm_sd *sd;
	const struct json_value *services, *nodes, *networks; /* NULL: not asked for */
	struct discover_build build;
};

static const struct config_dockerswarm_sd *settings(const struct discover_provider *p)
{
	return &p->job->dockerswarm_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_dockerswarm_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "dockerswarm_sd_configs", i, out);
}

static void set_fields(
	struct labels_builder *b, const struct json_value *v, const struct field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char label[80];

		snprintf(label, sizeof(label), PREFIX "%s", fields[i].label);
		discover_set_value(b, label, discover_json_at(v, fields[i].path));
	}
}

/* The item of a list whose ID is that, or NULL. */
static const struct json_value *find(const struct json_value *list, const char *id)
{
	for (size_t i = 0; list && *id && i < json_value_len(list); i++) {
		if (!strcmp(discover_json_text(json_value_at(list, i), "ID"), id))
			return json_value_at(list, i);
	}
	return NULL;
}

static const char *service_mode(const struct json_value *s)
{
	if (discover_json_at(s, "Spec.Mode.Global"))
		return "global";
	return discover_json_at(s, "Spec.Mode.Replicated") ? "replicated" : "";
}

/* What a task takes over from its service, too. */
static void set_service(struct labels_builder *b, const struct json_value *s)
{
	static const struct field fields[] = {{"service_id", "ID"}, {"service_name", "Spec.Name"}};

	set_fields(b, s, fields, ARRAY_SIZE(fields));
	labels_builder_set(b, PREFIX "service_mode", service_mode(s));
	discover_set_map(b, PREFIX "service_label_", discover_json_at(s, "Spec.Labels"));
}

static void set_node(struct labels_builder *b, const struct json_value *n)
{
	static const struct field fields[] = {
		{"node_id", "ID"},
		{"node_role", "Spec.Role"},
		{"node_availability", "Spec.Availability"},
		{"node_hostname", "Description.Hostname"},
		{"node_platform_architecture", "Description.Platform.Architecture"},
		{"node_platform_os", "Description.Platform.OS"},
		{"node_engine_version", "Description.Engine.EngineVersion"},
		{"node_status", "Status.State"},
		{"node_address", "Status.Addr"},
		{"node_manager_leader", "ManagerStatus.Leader"},
		{"node_manager_reachability", "ManagerStatus.Reachability"},
		{"node_manager_address", "ManagerStatus.Addr"},
	};

	set_fields(b, n, fields, ARRAY_SIZE(fields));
	/* Docker leaves a false out */
	if (discover_json_at(n, "ManagerStatus") && !discover_json_at(n, "ManagerStatus.Leader"))
		labels_builder_set(b, PREFIX "node_manager_leader", "false");
	discover_set_map(b, PREFIX "node_label_", discover_json_at(n, "Spec.Labels"));
}

/* host:port of "10.0.0.2/24"; false when there is no prefix length. */
static bool set_cidr(struct labels_builder *b, const char *cidr, uint64_t port)
{
	const char *slash = strchr(cidr, '/');
	_cleanup_free_ char *host = slash ? xstrndup(cidr, (size_t)(slash - cidr)) : NULL;

	if (host)
		discover_set_address(b, host, port);
	return host != NULL;
}

static bool is_tcp(const struct json_value *port)
{
	return !strcmp(discover_json_text(port, "Protocol"), "tcp");
}

static uint64_t published(const struct json_value *port)
{
	const struct json_value *v = discover_json_at(port, "PublishedPort");

	return v && json_value_int(v) > 0 ? (uint64_t)json_value_int(v) : 0;
}

/* ---- services ---- */

static void put_service_address(struct swarm *w, const struct labels *common,
	const struct json_value *vip, const struct json_value *port)
{
	static const struct field fields[] = {{"service_endpoint_port_name", "Name"},
		{"service_endpoint_port_publish_mode", "PublishMode"}};
	_cleanup_labels_builder_ struct labels_builder b;

	labels_builder_init(&b);
	labels_builder_reset(&b, common);
	docker_set_network(&b, PREFIX, w->networks, discover_json_text(vip, "NetworkID"));
	if (port)
		set_fields(&b, port, fields, ARRAY_SIZE(fields));
	if (set_cidr(&b, discover_json_text(vip, "Addr"),
		    port ? published(port) : w->sd->client.port))
		discover_build_target(&w->build, &b);
}

/* For each virtual address a target per TCP port; without one, a target with the configured port. */
static void put_service(struct swarm *w, const struct json_value *s, struct labels_builder *b)
{
	static const struct field fields[] = {
		{"service_task_container_hostname", "Spec.TaskTemplate.ContainerSpec.Hostname"},
		{"service_task_container_image", "Spec.TaskTemplate.ContainerSpec.Image"},
		{"service_updating_status", "UpdateStatus.State"},
	};
	const struct json_value *vips = discover_json_at(s, "Endpoint.VirtualIPs"),
				*ports = discover_json_at(s, "Endpoint.Ports");
	_cleanup_labels_ struct labels common = {0};

	set_service(b, s);
	set_fields(b, s, fields, ARRAY_SIZE(fields));
	if (labels_builder_finish(b, &common) < 0) {
		w->build.error = -ENOMEM;
		return;
	}
	for (size_t i = 0; vips && i < json_value_len(vips); i++) {
		bool has_port = false;

		for (size_t k = 0; ports && k < json_value_len(ports); k++) {
			if (!is_tcp(json_value_at(ports, k)))
				continue;
			put_service_address(
				w, &common, json_value_at(vips, i), json_value_at(ports, k));
			has_port = true;
		}
		if (!has_port)
			put_service_address(w, &common, json_value_at(vips, i), NULL);
	}
}

/* ---- tasks ---- */

static void set_port_mode(struct labels_builder *b, const struct json_value *port)
{
	discover_set_value(
		b, PREFIX "task_port_publish_mode", discover_json_at(port, "PublishMode"));
}

/* Ports that the task publishes on its node. */
static void put_task_ports(
	struct swarm *w, const struct labels *common, const struct json_value *task)
{
	const struct json_value *ports = discover_json_at(task, "Status.PortStatus.Ports");

	for (size_t i = 0; ports && i < json_value_len(ports); i++) {
		const struct json_value *port = json_value_at(ports, i);
		_cleanup_labels_builder_ struct labels_builder b;

		labels_builder_init(&b);
		labels_builder_reset(&b, common);
		if (!is_tcp(port))
			continue;
		set_port_mode(&b, port);
		discover_set_address(
			&b, labels_get(common, PREFIX "node_address"), published(port));
		discover_build_target(&w->build, &b);
	}
}

static void put_task_address(struct swarm *w, const struct labels *common,
	const struct json_value *network, const char *cidr, const struct json_value *port)
{
	_cleanup_labels_builder_ struct labels_builder b;

	labels_builder_init(&b);
	labels_builder_reset(&b, common);
	docker_set_network(&b, PREFIX, w->networks, discover_json_text(network, "ID"));
	if (port)
		set_port_mode(&b, port);
	if (set_cidr(&b, cidr, port ? published(port) : w->sd->client.port))
		discover_build_target(&w->build, &b);
}

/* An address in a network, with each TCP port of the task's service. */
static void put_task_attachment(struct swarm *w, const struct labels *common,
	const struct json_value *attachment, const struct json_value *service)
{
	const struct json_value *addresses = discover_json_at(attachment, "Addresses"),
				*network = discover_json_at(attachment, "Network"),
				*ports = discover_json_at(service, "Endpoint.Ports");

	for (size_t i = 0; addresses && i < json_value_len(addresses); i++) {
		const char *cidr = json_value_str(json_value_at(addresses, i));
		bool has_port = false;

		for (size_t k = 0; cidr && ports && k < json_value_len(ports); k++) {
			if (!is_tcp(json_value_at(ports, k)))
				continue;
			put_task_address(w, common, network, cidr, json_value_at(ports, k));
			has_port = true;
		}
		if (cidr && !has_port)
			put_task_address(w, common, network, cidr, NULL);
	}
}

static void put_task(struct swarm *w, const struct json_value *t, struct labels_builder *b)
{
	static const struct field fields[] = {
		{"task_id", "ID"},
		{"task_desired_state", "DesiredState"},
		{"task_state", "Status.State"},
		{"task_container_id", "Status.ContainerStatus.ContainerID"},
	};
	const struct json_value *service = find(w->services, discover_json_text(t, "ServiceID")),
				*node = find(w->nodes, discover_json_text(t, "NodeID")),
				*slot = discover_json_at(t, "Slot"),
				*networks = discover_json_at(t, "NetworksAttachments");
	_cleanup_labels_ struct labels common = {0};

	set_fields(b, t, fields, ARRAY_SIZE(fields));
	/* Docker leaves 0, that of a global service's task, out */
	labels_builder_set(b, PREFIX "task_slot", "0");
	discover_set_value(b, PREFIX "task_slot", slot);
	discover_set_map(
		b, PREFIX "container_label_", discover_json_at(t, "Spec.ContainerSpec.Labels"));
	if (service)
		set_service(b, service);
	if (node)
		set_node(b, node);
	if (labels_builder_finish(b, &common) < 0) {
		w->build.error = -ENOMEM;
		return;
	}
	put_task_ports(w, &common, t);
	for (size_t i = 0; networks && i < json_value_len(networks); i++)
		put_task_attachment(w, &common, json_value_at(networks, i), service);
}

/* ---- nodes ---- */

static void put_node(struct swarm *w, const struct json_value *n, struct labels_builder *b)
{
	set_node(b, n);
	discover_set_address(b, discover_json_text(n, "Status.Addr"), w->sd->client.port);
	discover_build_target(&w->build, b);
}

/* By role: the list that makes targets comes first and is filtered. */
static const struct role {
	const char *paths[DOCKER_MAX_LISTS];
	size_t n;
	void (*put)(struct swarm *w, const struct json_value *item, struct labels_builder *b);
} roles[] = {
	[CONFIG_SWARM_SERVICES] = {{"/services", "/networks"}, 2, put_service},
	[CONFIG_SWARM_TASKS] = {{"/tasks", "/networks", "/services", "/nodes"}, 4, put_task},
	[CONFIG_SWARM_NODES] = {{"/nodes"}, 1, put_node},
};

static void put_all(struct discover_provider *p, struct docker_client *c)
{
	const struct role *role = &roles[settings(p)->role];
	const struct json_value *lists[DOCKER_MAX_LISTS] = {0};
	_cleanup_labels_builder_ struct labels_builder b;
	struct swarm w = {.sd = settings(p)};

	for (size_t i = 0; i < role->n; i++)
		lists[i] = json_doc_root(c->lists[i]);
	w.networks = lists[1];
	w.services = lists[2];
	w.nodes = lists[3];
	labels_builder_init(&b);
	discover_build_init(&w.build, "DockerSwarm");
	for (size_t i = 0; i < json_value_len(lists[0]); i++) {
		labels_builder_reset(&b, NULL);
		role->put(&w, json_value_at(lists[0], i), &b);
	}
	discover_build_set(&w.build, p);
	discover_build_done(&w.build);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	struct docker_client *c = xcalloc(1, sizeof(*c));

	(void)job, (void)i;
	c->done = put_all;
	p->state = c;
	return 0;
}

static void stop(struct discover_provider *p)
{
	docker_client_done(p->state);
	free(p->state);
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	const struct role *role = &roles[settings(p)->role];

	docker_client_refresh(p, &settings(p)->client, role->paths, role->n, now_ns);
}

const struct discover_kind *discover_dockerswarm(void)
{
	static const struct discover_kind kind = {
		"dockerswarm", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
