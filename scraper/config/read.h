/* SPDX-License-Identifier: Apache-2.0
 *
 * From a tree of YAML to structs, driven by tables of keys: types, defaults and nesting stand in
 * scraper/config/keys.c, and nothing else knows how a key is spelled.
 */
#pragma once
#include "lib/base/arena.h"
#include "scraper/config/config.h"
#include "lib/conf/conf_yaml.h"
#include <stddef.h>

enum config_type {
	CONFIG_TYPE_STRING,	/* const char * */
	CONFIG_TYPE_SECRET,	/* the same, never shown */
	CONFIG_TYPE_PATH,	/* the same, joined with the directory of the file it stands in */
	CONFIG_TYPE_URL,	/* the same, its password never shown */
	CONFIG_TYPE_SERVER,	/* the same, whose scheme may be left out, then it is http */
	CONFIG_TYPE_BOOL,	/* bool */
	CONFIG_TYPE_TRISTATE,	/* enum config_tristate */
	CONFIG_TYPE_UINT,	/* uint64_t */
	CONFIG_TYPE_DOUBLE,	/* double, zero or more */
	CONFIG_TYPE_SECONDS,	/* int64_t, whole seconds */
	CONFIG_TYPE_DURATION,	/* int64_t, ms */
	CONFIG_TYPE_BYTES,	/* uint64_t */
	CONFIG_TYPE_ENUM,	/* int; key->names */
	CONFIG_TYPE_ACTION,	/* enum relabel_action */
	CONFIG_TYPE_REGEX,	/* struct regex *, anchored */
	CONFIG_TYPE_STRINGS,	/* struct config_strings */
	CONFIG_TYPE_SECRETS,	/* the same, never shown */
	CONFIG_TYPE_PATHS,	/* the same, joined with the directory */
	CONFIG_TYPE_NAMES,	/* struct config_strings of label names */
	CONFIG_TYPE_SOURCES,	/* the same as const char ** and a count */
	CONFIG_TYPE_LABELS,	/* struct labels */
	CONFIG_TYPE_ENV_LABELS, /* the same, $VAR expanded in values */
	CONFIG_TYPE_PARAMS,	/* struct config_param * and a count */
	CONFIG_TYPE_SECRET_PARAMS, /* the same, values never shown */
	CONFIG_TYPE_SECTION,	   /* struct of key->section */
	CONFIG_TYPE_LIST,	   /* pointer to an array of them and a count */
	CONFIG_TYPE_MAP,	   /* the same, each with a name */
};

enum config_support {
	CONFIG_READ,	/* has an effect */
	CONFIG_IGNORED, /* accepted with one warning */
};

struct config_section;

struct config_key {
	const char *name;
	enum config_type type;
	enum config_support support;
	size_t offset, n_offset;  /* of the value, and of its count where it has one */
	const char *default_text; /* as written in a file and in the docs; NULL: none */
	const struct config_section *section;
	bool is_optional;	  /* SECTION: n_offset is that of a bool, whether it was written */
	const char *const *names; /* ENUM: ended by NULL, values 0, 1 … */
	bool is_any_case;	  /* ENUM: names in any case */
	const char *note;	  /* IGNORED: what replaces it, or NULL */
};

struct config_reader;
struct config_seen;
/* Checks one object after its keys were read; `seen` has those that were written. -EINVAL by config_fail. */
typedef int config_check_fn(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen);

struct config_section {
	const char *title; /* as in docs/configuration.md, e.g. "scrape_configs[]" */
	const struct config_key *keys;
	size_t n_keys, size;
	config_check_fn *check; /* may be NULL */
};

/* Values as written, by index of the section's key; NULL where absent or null. */
struct config_seen {
	const struct config_section *section;
	const struct conf_node **values;
};

struct config_reader {
	const char *file;
	struct config_mem *mem;
	const struct config_load_opts *opts;
	const struct config_global *global; /* once it is read */
	struct errbuf *eb;
	char path[512]; /* "scrape_configs[2].scheme" */
	size_t path_len;
	const char *map_name; /* of the MAP entry that is read */
	const char **warnings;
	size_t n_warnings, cap_warnings;
};

/* Owns the strings, expressions and label sets of a tree. */
struct config_mem *config_mem_new(void);
void config_mem_free(struct config_mem *m);
struct arena *config_mem_arena(struct config_mem *m);
/* The copy belongs to `m`. -ENOMEM. */
int config_mem_keep_labels(
	struct config_mem *m, struct labels_builder *b, struct labels *ret) _must_check_;

/* Reads `node` (NULL: nothing written) into `object`, which is cleared first. What it points to is r->mem's. -EINVAL by config_fail, -ENOMEM. */
int config_read_section(struct config_reader *r, const struct config_section *section,
	const struct conf_node *node, void *object) _must_check_;
/* The same for a list of objects; null items are errors. */
int config_read_list(struct config_reader *r, const struct config_section *section,
	const struct conf_node *node, void **ret, size_t *ret_n) _must_check_;

/* The node of the key that was written, or NULL. */
const struct conf_node *config_seen_key(const struct config_seen *seen, const char *name);
/* -EINVAL "FILE:LINE:COL: path[.key]: …"; `at` or, when NULL, `fallback` gives the place. */
int config_fail(struct config_reader *r, const struct conf_node *at, const char *key,
	const char *fmt, ...) _printf_(4, 5);
/* Notes a warning with the same beginning. 0 or -ENOMEM. */
int config_warn(struct config_reader *r, const struct conf_node *at, const char *key,
	const char *fmt, ...) _printf_(4, 5);
/* Longer and shorter path: config_path_push returns what config_path_pop takes back. */
size_t config_path_push(struct config_reader *r, const char *fmt, ...) _printf_(2, 3);
void config_path_pop(struct config_reader *r, size_t mark);
/* -ENOMEM with a text. */
int config_out_of_memory(struct config_reader *r);

enum config_print { CONFIG_HIDE_SECRETS, CONFIG_SHOW_SECRETS };
/* Appends the object's keys in YAML block style, `indent` deep; values as read, so defaults are
 * there. Secrets are written as <secret> unless they are to be shown, which is for comparison. */
void config_print_section(const struct config_section *section, const void *object, unsigned indent,
	enum config_print how, struct bytes *out);
/* The path, or the path below the directory of the file that is read. NULL: out of memory. */
const char *config_join_path(struct config_reader *r, const char *path);
