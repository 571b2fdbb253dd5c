/* SPDX-License-Identifier: Apache-2.0
 *
 * The effective configuration as YAML, from the same tables that read it. Equal texts mean equal
 * settings.
 */
#include "scraper/config/keys.h"
#include "scraper/config/value.h"

static void put_indent(unsigned indent, struct bytes *out)
{
	bytes_printf(out, "%*s", (int)indent, "");
}

static void print_list(const struct config_key *key, const void *object, unsigned indent,
	enum config_print how, struct bytes *out)
{
	const char *items =
		*(const char *const *)(const void *)((const char *)object + key->offset);
	size_t n = *(const size_t *)(const void *)((const char *)object + key->n_offset);

	for (size_t i = 0; i < n; i++) {
		size_t start = out->len;

		config_print_section(
			key->section, items + i * key->section->size, indent + 2, how, out);
		if (out->len == start) { /* nothing but absent values */
			put_indent(indent, out);
			bytes_put_str(out, "- {}\n");
		} else if (!bytes_error(out)) {
			out->data[start + indent] = '-';
		}
	}
}

static void print_map(const struct config_key *key, const void *object, unsigned indent,
	enum config_print how, struct bytes *out)
{
	const char *items =
		*(const char *const *)(const void *)((const char *)object + key->offset);
	size_t n = *(const size_t *)(const void *)((const char *)object + key->n_offset);

	for (size_t i = 0; i < n; i++) {
		size_t start;

		put_indent(indent, out);
		conf_print_scalar(
			*(const char *const *)(const void *)(items + i * key->section->size), out);
		bytes_put_str(out, ":\n");
		start = out->len;
		config_print_section(
			key->section, items + i * key->section->size, indent + 2, how, out);
		if (out->len == start && !bytes_error(out)) {
			out->len--;
			bytes_put_str(out, " {}\n");
		}
	}
}

static void print_key(const struct config_key *key, const void *object, unsigned indent,
	enum config_print how, struct bytes *out)
{
	size_t start = out->len, after_name;

	put_indent(indent, out);
	bytes_printf(out, "%s:", key->name);
	after_name = out->len;
	switch (key->type) {
	case CONFIG_TYPE_SECTION:
		if (key->is_optional && !*(const bool *)((const char *)object + key->n_offset)) {
			out->len = start;
			break;
		}
		bytes_put_u8(out, '\n');
		config_print_section(
			key->section, (const char *)object + key->offset, indent + 2, how, out);
		if (out->len == after_name + 1) { /* nothing but absent values */
			out->len = after_name;
			bytes_put_str(out, " {}\n");
		}
		break;
	case CONFIG_TYPE_LIST:
	case CONFIG_TYPE_MAP:
		bytes_put_u8(out, '\n');
		if (key->type == CONFIG_TYPE_LIST)
			print_list(key, object, indent, how, out);
		else
			print_map(key, object, indent + 2, how, out);
		if (out->len == after_name + 1)
			out->len = start;
		return;
	default:
		bytes_put_u8(out, ' ');
		if (config_value_print(key, object, how, out))
			bytes_put_u8(out, '\n');
		else
			out->len = start;
	}
}

void config_print_section(const struct config_section *section, const void *object, unsigned indent,
	enum config_print how, struct bytes *out)
{
	for (size_t i = 0; i < section->n_keys; i++) {
		if (section->keys[i].support == CONFIG_READ)
			print_key(&section->keys[i], object, indent, how, out);
	}
}
