/* SPDX-License-Identifier: Apache-2.0
 *
 * ec2_sd_configs: the instances of an AWS account and region, over EC2's Query API with requests signed by version 4.
 * Rules and labels are those of Prometheus (discovery/aws/ec2.go).
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/aws.h"
#include "scraper/discover/build.h"
#include "scraper/discover/provider.h"
#include "scraper/discover/xml.h"
#include <string.h>

#define PREFIX "__meta_ec2_"
#define API_VERSION "2016-11-15"
enum { PAGE = 1000, MAX_PAGES = 1000, TIMEOUT_MS = 60000 };

struct state {
	struct aws aws;
	struct arena zones_arena;
	const struct xml_node
		*zones; /* of DescribeAvailabilityZones, asked for once; NULL: not there */
	bool asked_zones;
	struct discover_build build; /* of the pages so far */
	bool is_busy;
	unsigned n_pages;
};

static const struct config_ec2_sd *settings(const struct discover_provider *p)
{
	return &p->job->ec2_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_ec2_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "ec2_sd_configs", i, out);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	struct state *s = xcalloc(1, sizeof(*s));

	arena_init(&s->zones_arena, NULL);
	aws_init(&s->aws, p, &job->ec2_sds[i]);
	p->state = s;
	return 0;
}

static void stop(struct discover_provider *p)
{
	struct state *s = p->state;

	discover_build_done(&s->build);
	arena_done(&s->zones_arena);
	aws_free(&s->aws);
	free(s);
}

static void fail(struct discover_provider *p, const char *why)
{
	struct state *s = p->state;

	s->is_busy = false;
	discover_build_done(&s->build);
	s->build = (struct discover_build) {0};
	discover_failed(p, "ec2_sd %s: %s", s->aws.region ? s->aws.region : "", why);
}

/* ---- requests ---- */

static int ask(struct discover_provider *p, const char *body, size_t n_body,
	void (*done)(struct discover_provider *p, struct http_response *r, void *arg),
	struct errbuf *eb)
{
	const struct config_ec2_sd *sd = settings(p);
	struct state *s = p->state;
	const struct aws_credentials *c = aws_credentials(&s->aws);
	_cleanup_free_ char *url = NULL, *service = NULL, *token = NULL;
	const char *headers[2] = {NULL};

	if (sd->endpoint && *sd->endpoint)
		url = xasprintf(
			"%s%s", strstr(sd->endpoint, "://") ? "" : "https://", sd->endpoint);
	else
		url = aws_url("ec2", s->aws.region);
	service = xasprintf("aws:amz:%s:ec2", s->aws.region);
	if (c->session)
		headers[0] = token = xasprintf("X-Amz-Security-Token: %s", c->session);
	return discover_fetch(p,
		&(struct discover_request) {
			.url = url,
			.headers = headers,
			.transport = &sd->http.transport,
			.timeout_ms = TIMEOUT_MS,
			.body = body,
			.n_body = n_body,
			.signature =
				&(struct http_signature) {service, c->access_key, c->secret_key},
			.done = done,
		},
		eb);
}

static void put_param(struct bytes *b, const char *name, const char *value)
{
	bytes_printf(b, "&%s=", name);
	url_escape_query(b, value, strlen(value));
}

static void on_page(struct discover_provider *p, struct http_response *r, void *arg);

static void ask_page(struct discover_provider *p, const char *next_token)
{
	const struct config_ec2_sd *sd = settings(p);
	_cleanup_bytes_ struct bytes body = {0};
	struct errbuf eb = {0};
	char name[64];
	int e;

	bytes_printf(&body, "Action=DescribeInstances&Version=" API_VERSION "&MaxResults=%d", PAGE);
	for (size_t i = 0; i < sd->n_filters; i++) {
		snprintf(name, sizeof(name), "Filter.%zu.Name", i + 1);
		put_param(&body, name, sd->filters[i].name);
		for (size_t k = 0; k < sd->filters[i].values.n; k++) {
			snprintf(name, sizeof(name), "Filter.%zu.Value.%zu", i + 1, k + 1);
			put_param(&body, name, sd->filters[i].values.items[k]);
		}
	}
	if (next_token)
		put_param(&body, "NextToken", next_token);
	e = bytes_error(&body);
	if (e == 0)
		e = ask(p, (const char *)body.data, body.len, on_page, &eb);
	if (e < 0)
		fail(p, err_text(&eb, e));
}

/* The answer's document; an error names AWS's own code and message. */
static int read_xml(const struct http_response *r, struct arena *arena, struct xml_node **ret,
	struct errbuf *eb)
{
	struct xml_node *root = NULL;
	const char *code, *message;
	int e;

	if (r->error < 0)
		return err_set(eb, r->error, "%s", r->text.text);
	e = xml_read(r->body.data, r->body.len, arena, &root, r->status == 200 ? eb : NULL);
	if (r->status == 200) {
		*ret = root;
		return e;
	}
	code = e == 0 ? xml_text(root, "Errors.Error.Code") : NULL;
	message = e == 0 ? xml_text(root, "Errors.Error.Message") : NULL;
	return err_set(eb, -EPROTO, "the server answered with status %u%s%.80s%s%.200s", r->status,
		code ? ": " : "", code ? code : "", message ? ": " : "", message ? message : "");
}

/* ---- instances ---- */

static const char *zone_id(const struct state *s, const char *zone)
{
	const struct xml_node *list = xml_at(s->zones, "availabilityZoneInfo");

	for (const struct xml_node *z = list ? list->children : NULL; z; z = z->next) {
		const char *name = xml_text(z, "zoneName");

		if (name && !strcmp(name, zone))
			return xml_text(z, "zoneId");
	}
	return NULL;
}

/* ",a,b," */
static void list_add(struct bytes *list, const char *item)
{
	if (!list->len)
		bytes_put_u8(list, ',');
	bytes_printf(list, "%s,", item);
}

static bool list_has(const struct bytes *list, const char *item)
{
	_cleanup_free_ char *whole = xasprintf(",%s,", item);

	return list->len && memmem(list->data, list->len, whole, strlen(whole));
}

static void set_list(struct labels_builder *b, const char *label, struct bytes *list)
{
	if (!list->len)
		return;
	if (bytes_error(list) < 0)
		b->error = -ENOMEM;
	else
		labels_builder_set_n(b, label, strlen(label), (const char *)list->data, list->len);
}

enum { MAX_DEVICES = 64 };

/* The IPv6 addresses of an instance's interfaces. */
struct addresses {
	struct bytes all;
	const char *first;
	const char *by_device[MAX_DEVICES]; /* primary ones at the place of their device */
	size_t n_devices;
};

static void read_interface(struct addresses *a, const struct xml_node *interface)
{
	const struct xml_node *set = xml_at(interface, "ipv6AddressesSet");
	const char *device = xml_text(interface, "attachment.deviceIndex");
	uint64_t idx = 0;

	if (!device || str_parse_u64(device, &idx, NULL) < 0)
		idx = MAX_DEVICES;
	for (const struct xml_node *i = set ? set->children : NULL; i; i = i->next) {
		const char *address = xml_text(i, "ipv6Address"),
			   *is_primary = xml_text(i, "isPrimaryIpv6");

		if (!address)
			continue;
		list_add(&a->all, address);
		if (!a->first && *address)
			a->first = address;
		if (!is_primary || strcmp(is_primary, "true") != 0 || idx >= MAX_DEVICES)
			continue;
		a->by_device[idx] = address;
		a->n_devices = MAX(a->n_devices, (size_t)idx + 1);
	}
}

/*
 * What an instance has in its VPC: subnets in order, each once; all IPv6 addresses; the primary ones. Returns the address that stands
 * for it, the first primary one or else the first, or NULL.
 */
static const char *set_interfaces(struct labels_builder *b, const struct xml_node *instance)
{
	_cleanup_bytes_ struct bytes subnets = {0}, primary = {0};
	const struct xml_node *set = xml_at(instance, "networkInterfaceSet");
	struct addresses a = {0};
	const char *stands = NULL;

	for (const struct xml_node *i = set ? set->children : NULL; i; i = i->next) {
		const char *subnet = xml_text(i, "subnetId");

		if (!subnet)
			continue;
		if (!list_has(&subnets, subnet))
			list_add(&subnets, subnet);
		read_interface(&a, i);
	}
	if (!subnets.len)
		bytes_put_str(&subnets, ",,");
	for (size_t i = 0; i < a.n_devices; i++) {
		if (!stands && a.by_device[i] && *a.by_device[i])
			stands = a.by_device[i];
		list_add(&primary, a.by_device[i] ? a.by_device[i] : "");
	}
	set_list(b, PREFIX "subnet_id", &subnets);
	set_list(b, PREFIX "ipv6_addresses", &a.all);
	set_list(b, PREFIX "primary_ipv6_addresses", &primary);
	bytes_done(&a.all);
	return stands ? stands : a.first;
}

static void set_tags(struct labels_builder *b, const struct xml_node *instance)
{
	const struct xml_node *tags = xml_at(instance, "tagSet");

	for (const struct xml_node *t = tags ? tags->children : NULL; t; t = t->next) {
		const char *key = xml_text(t, "key"), *value = xml_text(t, "value");

		if (key && value)
			discover_set_named(b, PREFIX "tag_", key, value);
	}
}

static void set_texts(
	struct labels_builder *b, const struct xml_node *i, const char *const (*texts)[2], size_t n)
{
	char label[64];

	for (size_t k = 0; k < n; k++) {
		const char *text = xml_text(i, texts[k][1]);

		snprintf(label, sizeof(label), PREFIX "%s", texts[k][0]);
		if (text)
			labels_builder_set(b, label, text);
	}
}

static void put_instance(struct discover_provider *p, const char *owner, const struct xml_node *i)
{
	static const char *const any[][2] = {{"instance_id", "instanceId"},
		{"private_ip", "privateIpAddress"}, {"private_dns_name", "privateDnsName"},
		{"platform", "platform"}, {"ami", "imageId"},
		{"availability_zone", "placement.availabilityZone"},
		{"instance_state", "instanceState.name"}, {"instance_type", "instanceType"},
		{"instance_lifecycle", "instanceLifecycle"}, {"architecture", "architecture"}};
	static const char *const public[][2] = {
		{"public_ip", "ipAddress"}, {"public_dns_name", "dnsName"}};
	static const char *const vpc[][2] = {
		{"vpc_id", "vpcId"}, {"primary_subnet_id", "subnetId"}};
	const char *ip = xml_text(i, "privateIpAddress"), *ipv6 = NULL, *id,
		   *zone = xml_text(i, "placement.availabilityZone");
	struct state *s = p->state;
	_cleanup_labels_builder_ struct labels_builder b;

	labels_builder_init(&b);
	set_texts(&b, i, any, ARRAY_SIZE(any));
	if (xml_text(i, "ipAddress"))
		set_texts(&b, i, public, ARRAY_SIZE(public));
	if (xml_text(i, "vpcId")) {
		set_texts(&b, i, vpc, ARRAY_SIZE(vpc));
		ipv6 = set_interfaces(&b, i);
	}
	if (ipv6)
		labels_builder_set(&b, PREFIX "default_ipv6_address", ipv6);
	ip = ip && *ip ? ip : ipv6;
	if (!ip)
		return;
	id = zone ? zone_id(s, zone) : NULL;
	if (id)
		labels_builder_set(&b, PREFIX "availability_zone_id", id);
	if (owner)
		labels_builder_set(&b, PREFIX "owner_id", owner);
	labels_builder_set(&b, PREFIX "region", s->aws.region);
	set_tags(&b, i);
	discover_set_address(&b, ip, settings(p)->port);
	discover_build_target(&s->build, &b);
}

static void put_page(struct discover_provider *p, const struct xml_node *root)
{
	const struct xml_node *set = xml_at(root, "reservationSet");

	for (const struct xml_node *r = set ? set->children : NULL; r; r = r->next) {
		const struct xml_node *list = xml_at(r, "instancesSet");

		for (const struct xml_node *i = list ? list->children : NULL; i; i = i->next)
			put_instance(p, xml_text(r, "ownerId"), i);
	}
}

static void on_page(struct discover_provider *p, struct http_response *r, void *arg)
{
	_cleanup_arena_ struct arena arena;
	struct state *s = p->state;
	struct xml_node *root = NULL;
	struct errbuf eb = {0};
	const char *next;
	int e;

	(void)arg;
	arena_init(&arena, NULL);
	e = read_xml(r, &arena, &root, &eb);
	if (e < 0) {
		if (r->status >= 400 && r->status < 500)
			aws_forget(&s->aws);
		fail(p, err_text(&eb, e));
		return;
	}
	if (strcmp(root->name, "DescribeInstancesResponse") != 0) {
		fail(p, "the answer is no DescribeInstancesResponse");
		return;
	}
	put_page(p, root);
	next = xml_text(root, "nextToken");
	if (next && *next && ++s->n_pages < MAX_PAGES) {
		ask_page(p, next);
		return;
	}
	s->is_busy = false;
	discover_build_set(&s->build, p);
	discover_build_done(&s->build);
	s->build = (struct discover_build) {0};
}

/* Without the right to list zones their ids are missing, and nothing else. */
static void on_zones(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct state *s = p->state;
	struct xml_node *root = NULL;

	(void)arg;
	s->asked_zones = true;
	if (read_xml(r, &s->zones_arena, &root, NULL) == 0)
		s->zones = root;
	ask_page(p, NULL);
}

static void on_credentials(struct discover_provider *p, const char *error)
{
	static const char zones[] = "Action=DescribeAvailabilityZones&Version=" API_VERSION;
	struct state *s = p->state;
	struct errbuf eb = {0};
	int e;

	if (error) {
		fail(p, error);
		return;
	}
	discover_build_init(&s->build, s->aws.region);
	if (s->asked_zones) {
		ask_page(p, NULL);
		return;
	}
	e = ask(p, zones, strlen(zones), on_zones, &eb);
	if (e < 0)
		fail(p, err_text(&eb, e));
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	struct state *s = p->state;

	p->next_ns = now_ns + settings(p)->refresh_interval_ms * NS_PER_MS;
	if (s->is_busy)
		return;
	p->refreshes++;
	s->is_busy = true;
	s->n_pages = 0;
	aws_obtain(&s->aws, on_credentials);
}

const struct discover_kind *discover_ec2(void)
{
	static const struct discover_kind kind = {
		"ec2", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
