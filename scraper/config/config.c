/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a configuration, a list of relabel rules, a list of target groups; references and
 * comparison.
 */
#include "scraper/config/config.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/json/read.h"
#include "scraper/config/json.h"
#include "scraper/config/keys.h"
#include <string.h>

enum { MAX_FILE = 16 << 20 };

/* Where a job was written. */
struct place {
	const char *file;
	size_t idx; /* in that file's list */
	const struct conf_node *node;
};

static int check_job_names(
	struct config_reader *r, const struct config_top *top, const struct place *places)
{
	for (size_t i = 0; i < top->n_jobs; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct conf_node *at = conf_node_get(places[i].node, "job_name");
			size_t mark;
			int e;

			if (strcmp(top->jobs[i].name, top->jobs[k].name))
				continue;
			r->file = places[i].file;
			mark = config_path_push(r, "scrape_configs[%zu]", places[i].idx);
			e = config_fail(r, at, "job_name",
				"\"%.100s\" is listed twice, first as scrape_configs[%zu] in line "
				"%u%s%s",
				top->jobs[i].name, places[k].idx,
				conf_node_get(places[k].node, "job_name")->line,
				places[k].file == r->file ? "" : " of ",
				places[k].file == r->file ? "" : places[k].file);
			config_path_pop(r, mark);
			return e;
		}
	}
	return 0;
}

/* All jobs so far and where they stand. */
struct jobs {
	struct config_job *items;
	struct place *places;
	size_t n;
};

static int add_jobs(struct config_reader *r, struct jobs *jobs, const struct config_top *top,
	const struct conf_node *root)
{
	const struct conf_node *list = root ? conf_node_get(root, "scrape_configs") : NULL;
	struct arena *arena = config_mem_arena(r->mem);
	size_t n = jobs->n + top->n_jobs;
	struct config_job *items = arena_alloc_array(arena, n + 1, sizeof(*items));
	struct place *places = arena_alloc_array(arena, n + 1, sizeof(*places));

	if (!items || !places)
		return config_out_of_memory(r);
	if (jobs->n) {
		memcpy(items, jobs->items, jobs->n * sizeof(*items));
		memcpy(places, jobs->places, jobs->n * sizeof(*places));
	}
	for (size_t i = 0; i < top->n_jobs; i++) {
		items[jobs->n + i] = top->jobs[i];
		places[jobs->n + i] =
			(struct place) {.file = r->file, .idx = i, .node = list->items[i]};
	}
	*jobs = (struct jobs) {items, places, n};
	return 0;
}

static int parse_file(struct config_reader *r, enum config_keys_id id, const void *text, size_t len,
	struct config_top *ret, struct conf_node **ret_root)
{
	int e = conf_yaml_parse(r->file, text, len, config_mem_arena(r->mem), ret_root, r->eb);

	if (*ret_root && conf_node_is_null(*ret_root))
		*ret_root = NULL;
	return e < 0 ? e : config_read_section(r, config_keys(id), *ret_root, ret);
}

/* One file that scrape_config_files names. */
static int include_file(struct config_reader *r, struct fs *fs, const char *path, struct jobs *jobs,
	uint8_t sha256[static 32])
{
	_cleanup_bytes_ struct bytes text = {0};
	struct conf_node *root = NULL;
	const char *main_file = r->file;
	struct config_top top;
	int e = fs_read_file(fs, path, MAX_FILE, &text, r->eb);

	if (e < 0)
		return e;
	r->file = arena_strdup(config_mem_arena(r->mem), path);
	if (!r->file)
		return -ENOMEM;
	e = parse_file(r, CONFIG_KEYS_INCLUDE, text.data, text.len, &top, &root);
	if (e == 0)
		e = add_jobs(r, jobs, &top, root);
	r->file = main_file;
	bytes_put(&text, sha256, 32);
	hash_sha256(text.data, text.len, sha256);
	return e;
}

static int include_files(struct config_reader *r, struct fs *fs, const struct config_top *top,
	struct jobs *jobs, uint8_t sha256[static 32])
{
	for (size_t i = 0; fs && i < top->files.n; i++) {
		_cleanup_bytes_ struct bytes paths = {0};
		int e = fs_glob(fs, top->files.items[i], &paths);

		if (e < 0)
			return err_set(r->eb, e, "%s: scrape_config_files[%zu]: %s: %s", r->file, i,
				top->files.items[i], strerror(-e));
		for (size_t off = 0; e == 0 && off < paths.len;
			off += strlen((char *)paths.data + off) + 1)
			e = include_file(r, fs, (const char *)paths.data + off, jobs, sha256);
		if (e < 0)
			return e;
	}
	return 0;
}

/* Texts of the jobs, for comparison and for showing. */
static int print_jobs(struct config_reader *r, struct config_top *top)
{
	for (size_t i = 0; i < top->n_jobs; i++) {
		_cleanup_bytes_ struct bytes text = {0};
		struct config_job *job = &top->jobs[i];

		config_print_section(
			config_keys(CONFIG_KEYS_JOB), job, 2, CONFIG_SHOW_SECRETS, &text);
		if (bytes_error(&text) < 0)
			return config_out_of_memory(r);
		hash_sha256(text.data, text.len, job->identity);
		explicit_bzero(text.data, text.len);
		bytes_reset(&text);
		config_print_section(
			config_keys(CONFIG_KEYS_JOB), job, 2, CONFIG_HIDE_SECRETS, &text);
		if (bytes_error(&text) < 0)
			return config_out_of_memory(r);
		text.data[0] = '-';
		job->text = arena_strndup(config_mem_arena(r->mem), (char *)text.data, text.len);
		job->text_len = text.len;
		job->index = (uint32_t)i;
		if (!job->text)
			return config_out_of_memory(r);
	}
	return 0;
}

static int finish(struct config_reader *r, const struct config_top *top,
	const uint8_t sha256[static 32], struct config **ret)
{
	struct arena *arena = config_mem_arena(r->mem);
	struct config *c = xcalloc(1, sizeof(*c));

	c->refs = 1;
	c->path = arena_strdup(arena, r->file);
	c->global = top->global;
	c->storage = top->storage;
	c->jobs = top->jobs;
	c->n_jobs = top->n_jobs;
	c->warnings = arena_alloc_array(arena, r->n_warnings + 1, sizeof(*c->warnings));
	memcpy(c->sha256, sha256, sizeof(c->sha256));
	if (arena_error(arena, NULL) < 0) {
		free(c);
		return config_out_of_memory(r);
	}
	c->n_warnings = r->n_warnings;
	for (size_t i = 0; i < r->n_warnings; i++)
		c->warnings[i].text = r->warnings[i];
	c->mem = TAKE(r->mem);
	*ret = c;
	return 0;
}

static int read_top(
	struct config_reader *r, struct fs *fs, const void *text, size_t len, struct config **ret)
{
	struct conf_node *root = NULL;
	struct config_top top;
	struct jobs jobs = {0};
	uint8_t sha256[32];
	int e = parse_file(r, CONFIG_KEYS_TOP, text, len, &top, &root);

	hash_sha256(text, len, sha256);
	if (e == 0)
		e = add_jobs(r, &jobs, &top, root);
	if (e == 0)
		e = include_files(r, fs, &top, &jobs, sha256);
	top.jobs = jobs.items;
	top.n_jobs = jobs.n;
	if (e == 0)
		e = check_job_names(r, &top, jobs.places);
	if (e == 0)
		e = print_jobs(r, &top);
	return e < 0 ? e : finish(r, &top, sha256, ret);
}

int config_parse(struct fs *fs, const char *path, const void *text, size_t len,
	const struct config_load_opts *opts, struct config **ret, struct errbuf *eb)
{
	struct config_reader r = {.file = path, .mem = config_mem_new(), .opts = opts, .eb = eb};
	int e = read_top(&r, fs, text, len, ret);

	free(r.warnings);
	config_mem_free(r.mem);
	return e;
}

int config_load(struct fs *fs, const char *path, const struct config_load_opts *opts,
	struct config **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text = {0};
	struct fs_stat st;
	int e = fs->stat(fs, path, &st);

	if (e == 0 && st.is_dir)
		return err_set(eb, -EISDIR, "%s: is a directory, expected a YAML file", path);
	if (e < 0)
		return err_set(eb, e, "%s: %s", path, strerror(-e));
	e = fs_read_file(fs, path, MAX_FILE, &text, eb);
	return e < 0 ? e : config_parse(fs, path, text.data, text.len, opts, ret, eb);
}

struct config *config_get(struct config *c)
{
	c->refs++;
	return c;
}

void config_put(struct config *c)
{
	if (--c->refs)
		return;
	config_mem_free(c->mem);
	free(c);
}

const struct config_job *config_job_named(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_jobs; i++) {
		if (!strcmp(c->jobs[i].name, name))
			return &c->jobs[i];
	}
	return NULL;
}

bool config_job_equal(const struct config_job *a, const struct config_job *b)
{
	return !memcmp(a->identity, b->identity, sizeof(a->identity));
}

void config_sd_key(const struct config_job *job, const char *kind, size_t i, struct bytes *out)
{
	const struct config_section *keys = config_keys(CONFIG_KEYS_JOB);

	for (size_t k = 0; k < keys->n_keys; k++) {
		const struct config_key *key = &keys->keys[k];
		const char *items;

		if (strcmp(key->name, kind))
			continue;
		memcpy(&items, (const char *)job + key->offset, sizeof(items));
		config_print_section(
			key->section, items + i * key->section->size, 0, CONFIG_SHOW_SECRETS, out);
	}
}

static bool config_has_storage(const struct config_storage *s)
{
	const struct config_retention *x = &s->tsdb.retention;

	return x->time_ms || x->size_bytes || x->percentage > 0 || s->tsdb.out_of_order_ms;
}

void config_print(const struct config *c, struct bytes *out)
{
	size_t storage = out->len;

	bytes_put_str(out, "storage:\n");
	config_print_section(
		config_keys(CONFIG_KEYS_STORAGE), &c->storage, 2, CONFIG_HIDE_SECRETS, out);
	if (!config_has_storage(&c->storage))
		out->len = storage;
	bytes_put_str(out, "global:\n");
	config_print_section(
		config_keys(CONFIG_KEYS_GLOBAL), &c->global, 2, CONFIG_HIDE_SECRETS, out);
	if (c->n_jobs)
		bytes_put_str(out, "scrape_configs:\n");
	for (size_t i = 0; i < c->n_jobs; i++)
		bytes_put(out, c->jobs[i].text, c->jobs[i].text_len);
}

void config_rule_json(const struct relabel_rule *rule, struct json *j)
{
	json_object_begin(j);
	json_key(j, "source_labels");
	json_array_begin(j);
	for (size_t i = 0; i < rule->n_source_labels; i++)
		json_string(j, rule->source_labels[i]);
	json_array_end(j);
	json_kv_string(j, "separator", rule->separator);
	json_kv_string(j, "regex", regex_text(rule->regex));
	json_kv_uint(j, "modulus", rule->modulus);
	json_kv_string(j, "target_label", rule->target_label);
	json_kv_string(j, "replacement", rule->replacement);
	json_kv_string(j, "action", relabel_action_name(rule->action));
	json_object_end(j);
}

int config_load_http(
	struct fs *fs, const char *path, struct config_http_file *ret, struct errbuf *eb)
{
	struct config_reader r = {.file = path, .mem = config_mem_new(), .eb = eb};
	_cleanup_bytes_ struct bytes text = {0};
	struct conf_node *root = NULL;
	int e = fs_read_file(fs, path, MAX_FILE, &text, eb);

	*ret = (struct config_http_file) {.mem = r.mem};
	if (e == 0)
		e = conf_yaml_parse(path, text.data, text.len, config_mem_arena(r.mem), &root, eb);
	if (root && conf_node_is_null(root))
		root = NULL;
	if (e == 0)
		e = config_read_section(&r, &config_keys_http_file, root, &ret->http);
	free(r.warnings);
	if (e < 0)
		config_http_file_free(ret);
	return e;
}

void config_http_file_free(struct config_http_file *f)
{
	config_mem_free(f->mem);
	*f = (struct config_http_file) {0};
}

int config_parse_labels(const char *text, struct labels_builder *b, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *root, *value;
	const char *name;
	void *pos = NULL;

	if (json_read(text, strlen(text), MAX_FILE, &doc, eb) < 0)
		return -EINVAL;
	root = json_doc_root(doc);
	if (json_value_kind(root) != JSON_KIND_OBJECT)
		return err_set(eb, -EINVAL, "expected an object of names and values, got %s",
			json_value_kind_name(root));
	while (json_value_next(root, &pos, &name, &value)) {
		if (!*name)
			return err_set(eb, -EINVAL, "a label name cannot be empty");
		if (!json_value_str(value))
			return err_set(eb, -EINVAL,
				"the value of \"%.100s\" is %s, expected a string", name,
				json_value_kind_name(value));
		labels_builder_set(b, name, json_value_str(value));
	}
	return b->error;
}

static int read_rules(
	struct config_reader *r, const void *text, size_t len, struct config_rules *ret)
{
	struct arena *arena = config_mem_arena(r->mem);
	struct conf_node *root = NULL;
	void *rules;
	int e = conf_yaml_parse(r->file, text, len, arena, &root, r->eb);

	if (e < 0)
		return e;
	if (!root || conf_node_is_null(root))
		return config_fail(r, root, NULL, "expected a list of relabel rules, got nothing");
	e = config_read_list(r, config_keys(CONFIG_KEYS_RELABEL), root, &rules, &ret->n);
	if (e < 0)
		return e;
	ret->rules = rules;
	ret->texts = arena_alloc_array(arena, ret->n + 1, sizeof(*ret->texts));
	for (size_t i = 0; i < ret->n && ret->texts; i++) {
		_cleanup_bytes_ struct bytes line = {0};

		conf_node_print(root->items[i], &line);
		ret->texts[i] = bytes_error(&line) < 0
					? NULL
					: arena_strndup(arena, (char *)line.data, line.len);
		if (!ret->texts[i])
			return config_out_of_memory(r);
	}
	return arena_error(arena, NULL) < 0 ? config_out_of_memory(r) : 0;
}

int config_parse_rules(
	const char *path, const void *text, size_t len, struct config_rules *ret, struct errbuf *eb)
{
	struct config_reader r = {.file = path, .mem = config_mem_new(), .eb = eb};
	int e;

	*ret = (struct config_rules) {0};
	e = read_rules(&r, text, len, ret);
	ret->mem = r.mem;
	free(r.warnings);
	if (e < 0)
		config_rules_free(ret);
	return e;
}

void config_rules_free(struct config_rules *rules)
{
	config_mem_free(rules->mem);
	*rules = (struct config_rules) {0};
}

/* In JSON the keys of a group are the same in any case, as to Go. */
static void fold_keys(struct conf_node *root)
{
	static const char *const names[] = {"targets", "labels"};

	for (size_t i = 0; root && root->kind == CONF_SEQUENCE && i < root->n; i++) {
		struct conf_node *group = root->items[i];

		for (size_t k = 0; group->kind == CONF_MAPPING && k < group->n; k += 2)
			for (size_t n = 0; n < ARRAY_SIZE(names); n++)
				if (!strcasecmp(group->items[k]->text, names[n]))
					group->items[k]->text = names[n];
	}
}

int config_parse_groups(const char *path, const void *text, size_t len, struct config_groups *ret,
	struct errbuf *eb)
{
	struct config_reader r = {.file = path, .mem = config_mem_new(), .eb = eb};
	struct conf_node *root = NULL;
	const bool is_json = str_ends_with(path, ".json") || str_ends_with(path, ".JSON");
	_cleanup_bytes_ struct bytes clean = {0};
	void *groups = NULL;
	int e = 0;

	*ret = (struct config_groups) {0};
	if (!str_is_utf8(text, len)) {
		ret->n_replaced = str_put_utf8(text, len, &clean);
		e = bytes_error(&clean);
		text = clean.data;
		len = clean.len;
	}
	if (e)
		e = err_set(eb, e, "%s: out of memory", path);
	else if (is_json)
		e = config_json_parse(path, text, len, config_mem_arena(r.mem), &root, eb);
	else
		e = conf_yaml_parse(path, text, len, config_mem_arena(r.mem), &root, eb);
	if (e == 0 && is_json)
		fold_keys(root);
	if (e == 0 && root && !conf_node_is_null(root))
		e = config_read_list(&r, config_keys(CONFIG_KEYS_STATIC), root, &groups, &ret->n);
	ret->items = groups;
	ret->mem = r.mem;
	free(r.warnings);
	if (e < 0)
		config_groups_free(ret);
	return e;
}

void config_groups_free(struct config_groups *g)
{
	config_mem_free(g->mem);
	*g = (struct config_groups) {0};
}
