/* SPDX-License-Identifier: Apache-2.0
 *
 * From what discovery knows of a target to what is scraped and stored.
 */
#include "scraper/discover/target.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum { UNIX_PATH_BYTES = sizeof((struct sockaddr_un) {}.sun_path) - 1 };

void discover_group_done(struct discover_group *g)
{
	for (size_t i = 0; i < g->n_targets; i++)
		labels_done(&g->targets[i]);
	free(g->targets);
	free(g->source);
	labels_done(&g->labels);
	*g = (struct discover_group) {0};
}

void target_done(struct target *t)
{
	labels_done(&t->discovered);
	labels_done(&t->relabeled);
	labels_done(&t->labels);
	*t = (struct target) {0};
}

static void set_if_absent(struct labels_builder *b, const char *name, const char *value)
{
	if (!*labels_builder_get(b, name))
		labels_builder_set(b, name, value);
}

static void set_duration_if_absent(struct labels_builder *b, const char *name, int64_t ms)
{
	char text[64];

	str_format_duration_ms(ms, text);
	set_if_absent(b, name, text);
}

/* The discovered labels: those of the target, of its group, of the job; the first that has one
 * wins. */
static int discovered_labels(const struct config_job *job, const struct discover_group *group,
	size_t i, const char *profile_name, const char *profile_path, struct labels_builder *b)
{
	char name[256];
	int r = labels_builder_reset(b, &group->targets[i]);

	for (size_t k = 0; k < group->labels.n; k++)
		set_if_absent(b, group->labels.items[k].name, group->labels.items[k].value);
	set_if_absent(b, "job", job->name);
	set_duration_if_absent(b, "__scrape_interval__", job->scrape_interval_ms);
	set_duration_if_absent(b, "__scrape_timeout__", job->scrape_timeout_ms);
	set_if_absent(b, "__metrics_path__", job->metrics_path);
	set_if_absent(b, "__scheme__", job->scheme);
	for (size_t k = 0; k < job->n_params; k++) {
		snprintf(name, sizeof(name), "__param_%s", job->params[k].name);
		if (job->params[k].values.n)
			set_if_absent(b, name, job->params[k].values.items[0]);
	}
	if (profile_name) {
		set_if_absent(b, "__name__", profile_name);
		set_if_absent(b, "__profile_path__", profile_path ? profile_path : "");
	}
	return r < 0 ? r : b->error;
}

static void invalid(struct target *t, const char *fmt, ...) _printf_(2, 3);
static void invalid(struct target *t, const char *fmt, ...)
{
	va_list ap;

	t->state = TARGET_INVALID;
	va_start(ap, fmt);
	vsnprintf(t->error, sizeof(t->error), fmt, ap);
	va_end(ap);
}

/* Interval or timeout from a label. */
static bool read_duration(
	struct target *t, const struct labels_builder *b, const char *label, int64_t *ret_ms)
{
	const char *text = labels_builder_get(b, label);
	struct errbuf eb = {0};

	if (str_parse_duration_ms(text, ret_ms, &eb) < 0) {
		invalid(t, "label %s: %.200s", label, eb.text);
		return false;
	}
	if (*ret_ms <= 0)
		invalid(t, "label %s: \"%.80s\" cannot be zero", label, text);
	return *ret_ms > 0;
}

/* `seconds` as Go's handlers read it. */
static bool window_is_valid(const char *text)
{
	uint64_t seconds;

	return !*text || (str_parse_u64(text, &seconds, NULL) == 0 && seconds >= 1 &&
				 seconds <= CONFIG_MAX_WINDOW_SECONDS);
}

/* What Prometheus checks after relabeling, and the window. */
static void check(struct target *t, const struct labels_builder *b)
{
	const char *address = labels_builder_get(b, "__address__"),
		   *scheme = labels_builder_get(b, "__scheme__"),
		   *unix_socket = labels_builder_get(b, TARGET_UNIX_SOCKET);

	t->state = TARGET_ACTIVE;
	if (*unix_socket && (*unix_socket != '/' || strlen(unix_socket) > UNIX_PATH_BYTES))
		invalid(t,
			"label __unix_socket__: \"%.150s\" is no absolute path of at most %d bytes",
			unix_socket, UNIX_PATH_BYTES);
	else if (!*address && !*unix_socket)
		invalid(t, "no address: relabeling left no __address__");
	else if (strchr(address, '/'))
		invalid(t, "\"%.150s\" is not a valid address: it contains a slash", address);
	else if (strpbrk(address, " \t\n?#@"))
		invalid(t, "\"%.150s\" is not a valid address, expected host:port", address);
	else if (*scheme && strcmp(scheme, "http") && strcmp(scheme, "https"))
		invalid(t, "\"%.80s\" is not a valid scheme, expected http or https", scheme);
	else if (!window_is_valid(labels_builder_get(b, "__param_seconds")))
		invalid(t, "label __param_seconds: \"%.80s\" is no whole number from 1 to %d",
			labels_builder_get(b, "__param_seconds"), CONFIG_MAX_WINDOW_SECONDS);
	if (t->state == TARGET_ACTIVE &&
		read_duration(t, b, "__scrape_interval__", &t->interval_ms))
		(void)read_duration(t, b, "__scrape_timeout__", &t->timeout_ms);
}

/* Drops __meta_*, names the instance, and splits off what is stored. */
static int final_labels(struct labels_builder *b, struct target *t)
{
	int r;

	for (size_t i = b->n; i > 0; i--) {
		if (str_starts_with(b->items[i - 1].name, "__meta_"))
			labels_builder_set(b, b->items[i - 1].name, "");
	}
	/* behind a socket of its own nothing has to be reached by an address */
	if (!*labels_builder_get(b, "__address__")) {
		set_if_absent(b, "instance", labels_builder_get(b, TARGET_UNIX_SOCKET));
		labels_builder_set(b, "__address__", "localhost");
	}
	set_if_absent(b, "instance", labels_builder_get(b, "__address__"));
	r = labels_builder_finish(b, &t->relabeled);
	for (size_t i = b->n; i > 0; i--) {
		const char *name = b->items[i - 1].name;

		if (str_starts_with(name, "__") && strcmp(name, "__name__"))
			labels_builder_set(b, name, "");
	}
	return r < 0 ? r : labels_builder_finish(b, &t->labels);
}

int target_build(const struct config_job *job, const struct discover_group *group, size_t i,
	const char *profile_name, const char *profile_path, struct target *ret)
{
	_cleanup_labels_builder_ struct labels_builder b;
	struct errbuf eb = {0};
	int r;

	labels_builder_init(&b);
	*ret = (struct target) {0};
	r = discovered_labels(job, group, i, profile_name, profile_path, &b);
	if (r == 0)
		r = labels_builder_finish(&b, &ret->discovered);
	if (r == 0) {
		r = relabel_apply(job->relabel, job->n_relabel, &b, NULL, &eb);
		if (r == 0) {
			ret->state = TARGET_DROPPED;
			return 0;
		}
	}
	if (r > 0) {
		check(ret, &b);
		r = ret->state == TARGET_ACTIVE ? final_labels(&b, ret) : 0;
	}
	if (r < 0)
		invalid(ret, "%s", err_text(&eb, r));
	return r;
}

/* A path as someone wrote it, with what no URL may contain escaped. */
static void put_path(struct bytes *out, const char *path)
{
	if (*path != '/')
		bytes_put_u8(out, '/');
	for (; *path; path++) {
		if ((uint8_t)*path <= ' ' || (uint8_t)*path >= 0x7f || *path == '#')
			bytes_printf(out, "%%%02X", (uint8_t)*path);
		else
			bytes_put_u8(out, (uint8_t)*path);
	}
}

static void put_param(struct bytes *out, const char *name, const char *value, bool *has_query)
{
	bytes_put_u8(out, *has_query ? '&' : '?');
	*has_query = true;
	url_escape_query(out, name, strlen(name));
	bytes_put_u8(out, '=');
	url_escape_query(out, value, strlen(value));
}

static bool job_has_param(const struct config_job *job, const char *name)
{
	for (size_t i = 0; i < job->n_params; i++) {
		if (!strcmp(job->params[i].name, name))
			return true;
	}
	return false;
}

/* The job's parameters, each first value from its label, then those that only labels have. */
static void put_params(
	const struct config_job *job, const struct target *t, struct bytes *out, bool *has_query)
{
	char label[256];

	for (size_t i = 0; i < job->n_params; i++) {
		const struct config_param *p = &job->params[i];
		const char *first;

		snprintf(label, sizeof(label), "__param_%s", p->name);
		first = labels_get(&t->relabeled, label);
		if (*first)
			put_param(out, p->name, first, has_query);
		for (size_t k = 1; k < p->values.n; k++)
			put_param(out, p->name, p->values.items[k], has_query);
	}
	for (size_t i = 0; i < t->relabeled.n; i++) {
		const struct label *l = &t->relabeled.items[i];

		if (str_starts_with(l->name, "__param_") &&
			!job_has_param(job, l->name + strlen("__param_")))
			put_param(out, l->name + strlen("__param_"), l->value, has_query);
	}
}

void target_url(const struct config_job *job, const struct target *t, const char *path,
	struct bytes *out, bool *ret_has_query)
{
	const char *scheme = labels_get(&t->relabeled, "__scheme__");
	const char *prefix = labels_get(&t->relabeled, "__profile_path_prefix__");
	const char *own_path = labels_get(&t->relabeled, "__profile_path__");
	size_t len;

	if (!*prefix)
		prefix = job->profiling.path_prefix;
	if (*own_path)
		path = own_path;
	bytes_printf(out, "%s://%s", *scheme ? scheme : job->scheme,
		labels_get(&t->relabeled, "__address__"));
	len = out->len;
	if (*prefix)
		put_path(out, prefix);
	while (out->len > len && !bytes_error(out) && out->data[out->len - 1] == '/')
		out->len--;
	put_path(out, path);
	*ret_has_query = strchr(path, '?') != NULL;
	put_params(job, t, out, ret_has_query);
}

uint64_t target_hash(const struct config_job *job, const struct target *t)
{
	_cleanup_bytes_ struct bytes url = {0};
	bool has_query;

	target_url(job, t, "/", &url, &has_query);
	return hash_xxh3_seed(url.data, url.len, labels_hash(&t->relabeled));
}
