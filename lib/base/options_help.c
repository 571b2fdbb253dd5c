/* SPDX-License-Identifier: Apache-2.0
 *
 * What a table of flags prints: the manual page, the version, one value.
 */
#include "lib/base/options.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include <inttypes.h>
#include <string.h>

enum { HELP_COLUMNS = 100, HELP_INDENT = 7, HELP_DEEP_INDENT = 14 };

/* Words of `text` filled into lines; a blank line parts paragraphs, lines that start with a space
 * are kept. */
static void print_filled(struct bytes *out, const char *text, int indent)
{
	int column = 0;

	while (*text) {
		size_t len = strcspn(text, " \n");

		if (*text == '\n') {
			bool is_blank = text[1] == '\n' || !column;

			bytes_put_str(out, column ? "\n" : "");
			if (is_blank)
				bytes_put_str(out, "\n");
			column = 0;
			text += strspn(text, "\n");
		} else if (*text == ' ' && !column) {
			len = strcspn(text, "\n");
			bytes_printf(out, "%*s%.*s\n", indent, "", (int)len, text);
			text += len + (text[len] == '\n');
		} else if (*text == ' ') {
			text++;
		} else {
			if (column && column + 1 + (int)len > HELP_COLUMNS) {
				bytes_put_str(out, "\n");
				column = 0;
			}
			if (column)
				bytes_put_str(out, " ");
			else
				bytes_printf(out, "%*s", indent, "");
			bytes_put(out, text, len);
			column = (column ? column + 1 : indent) + (int)len;
			text += len;
		}
	}
	bytes_put_str(out, column ? "\n" : "");
}

static void print_kept(struct bytes *out, const char *text, int indent)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		bytes_printf(out, "%*s%.*s\n", len ? indent : 0, "", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static const char *value_name(const struct option_spec *s)
{
	if (s->value)
		return s->value;
	switch (s->kind) {
	case OPTION_U64:
	case OPTION_DOUBLE: return "N";
	case OPTION_DURATION: return "DURATION";
	case OPTION_BYTES: return "SIZE";
	case OPTION_LABELS: return "NAME=VALUE";
	default: return "TEXT";
	}
}

static void print_option(struct bytes *out, const struct option_spec *s)
{
	bytes_printf(out, "%*s", HELP_INDENT, "");
	if (s->letter && s->kind == OPTION_BOOL)
		bytes_printf(out, "-%c, ", s->letter);
	else if (s->letter)
		bytes_printf(out, "-%c %s, ", s->letter, value_name(s));
	if (s->kind == OPTION_BOOL)
		bytes_printf(out, "--[no-]%s", s->name);
	else
		bytes_printf(out, "--%s=%s", s->name, value_name(s));
	if (s->also)
		bytes_printf(out, ", --%s=%s", s->also, value_name(s));
	if (s->kind == OPTION_STRINGS || s->kind == OPTION_LABELS)
		bytes_put_str(out, " ...");
	bytes_put_str(out, "\n");
	print_filled(out, s->help, HELP_DEEP_INDENT);
	if (s->kind == OPTION_BOOL)
		bytes_printf(out, "%*sDefault: %s\n", HELP_DEEP_INDENT, "",
			s->fallback ? s->fallback : "false");
	else if (s->fallback && *s->fallback)
		bytes_printf(out, "%*sDefault: %s\n", HELP_DEEP_INDENT, "", s->fallback);
	bytes_put_str(out, "\n");
}

void options_print_help(const struct option_program *p, struct bytes *out)
{
	bytes_printf(out, "NAME\n%*s%s - %s\n\nSYNOPSIS\n%*s%s [OPTION...]%s%s\n\nDESCRIPTION\n",
		HELP_INDENT, "", p->name, p->summary, HELP_INDENT, "", p->name,
		p->arguments ? " " : "", p->arguments ? p->arguments : "");
	print_filled(out, p->description, HELP_INDENT);
	bytes_put_str(out, "\nOPTIONS\n");
	for (size_t i = 0; i < p->n_specs; i++) {
		if (p->specs[i].kind == OPTION_KIND_HEADING)
			bytes_printf(out, "   %s\n", p->specs[i].help);
		else
			print_option(out, &p->specs[i]);
	}
	bytes_printf(out,
		"   Help\n%*s-h, --help\n%*sPrint this page.\n\n%*s--version\n"
		"%*sPrint version, revision and compiler.\n\nEXIT STATUS\n",
		HELP_INDENT, "", HELP_DEEP_INDENT, "", HELP_INDENT, "", HELP_DEEP_INDENT, "");
	print_kept(out, "0      success", HELP_INDENT);
	if (p->exit_status)
		print_kept(out, p->exit_status, HELP_INDENT);
	print_kept(out, "2      the command line is wrong; stderr says what was expected",
		HELP_INDENT);
	if (p->examples) {
		bytes_put_str(out, "\nEXAMPLES\n");
		print_kept(out, p->examples, HELP_INDENT);
	}
}

void options_print_version(const struct option_program *p, struct bytes *out)
{
	const char *revision = version_revision();

	bytes_printf(out, "%s, version %s%s%s%s\n  compiler: %s\n", p->name, version_number(),
		*revision ? " (revision " : "", revision, *revision ? ")" : "", version_compiler());
}

void option_print_value(const struct option_spec *s, const void *values, struct bytes *out)
{
	const void *at = (const char *)values + s->offset;
	const struct option_list *list = at;
	char duration[64];

	switch (s->kind) {
	case OPTION_KIND_HEADING: break;
	case OPTION_BOOL: bytes_put_str(out, *(const bool *)at ? "true" : "false"); break;
	case OPTION_STRING:
	case OPTION_CHOICE: {
		const char *const *text = at;

		bytes_put_str(out, *text ? *text : "");
		break;
	}
	case OPTION_U64: bytes_printf(out, "%" PRIu64, *(const uint64_t *)at); break;
	case OPTION_DOUBLE: bytes_printf(out, "%.15g", *(const double *)at); break;
	case OPTION_DURATION:
		str_format_duration_ms(*(const int64_t *)at, duration);
		bytes_put_str(out, duration);
		break;
	case OPTION_BYTES: {
		static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
		uint64_t v = *(const uint64_t *)at;
		unsigned u = 0;

		while (v && v % 1024 == 0 && u + 1 < ARRAY_SIZE(units)) {
			v /= 1024;
			u++;
		}
		bytes_printf(out, "%" PRIu64 "%s", v, v ? units[u] : "");
		break;
	}
	case OPTION_STRINGS:
	case OPTION_LABELS:
		for (size_t i = 0; i < list->n; i++)
			bytes_printf(out, "%s%s", i ? ", " : "", list->items[i]);
		break;
	}
}
