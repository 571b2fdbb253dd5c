/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts beside the profiles: the line of a run in metrics.csv, written by `sonde bench` or by anybody else.
 */
#include "cli/files.h"
#include "cli/runs.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <math.h>
#include <string.h>

enum { MAX_CSV_BYTES = 16 << 20, MAX_FIELD = 256 };

/* One field of RFC 4180 from *at on, cut to MAX_FIELD; false behind a line's last. */
static bool next_field(const char **at, char ret[MAX_FIELD])
{
	const char *p = *at;
	bool quoted = *p == '"';
	size_t n = 0;

	if (!*p || *p == '\n')
		return false;
	for (p += quoted; *p; p++) {
		if (quoted && *p == '"') {
			if (p[1] != '"')
				break;
			p++;
		} else if (!quoted && (*p == ',' || *p == '\r' || *p == '\n'))
			break;
		if (n + 1 < MAX_FIELD)
			ret[n++] = *p;
	}
	ret[n] = '\0';
	p += quoted && *p == '"';
	p += *p == '\r';
	*at = p + (*p == ',');
	return true;
}

static const char *next_line(const char *p)
{
	p += strcspn(p, "\n");
	return p + (*p == '\n');
}

struct columns {
	int side, run, metric;
};

static struct columns find_columns(const char *line, const char *metric)
{
	struct columns c = {-1, -1, -1};
	char field[MAX_FIELD];

	for (int i = 0; next_field(&line, field); i++)
		if (!strcmp(field, "side"))
			c.side = i;
		else if (!strcmp(field, "run"))
			c.run = i;
		else if (!strcmp(field, metric))
			c.metric = i;
	return c;
}

/* The metric's text where the line is that of "SIDE-RUN". */
static bool take_line(
	const char *line, const struct columns *c, const char *stem, char ret[MAX_FIELD])
{
	char field[MAX_FIELD], side[MAX_FIELD] = "", run[MAX_FIELD] = "";
	size_t n;

	*ret = '\0';
	for (int i = 0; next_field(&line, field); i++) {
		char *to = i == c->side ? side : i == c->run ? run : i == c->metric ? ret : NULL;

		if (to)
			memcpy(to, field, sizeof(field));
	}
	n = strlen(side);
	return !strncmp(stem, side, n) && stem[n] == '-' && !strcmp(stem + n + 1, run) && *ret;
}

static int find_value(const char *text, const char *stem, const char *name, const char *table,
	double *ret, struct errbuf *eb)
{
	struct columns c = find_columns(text, name);
	char value[MAX_FIELD];

	if (c.side < 0 || c.run < 0 || c.metric < 0)
		return err_set(eb, -EINVAL, "%s: expected columns side, run and %s", table, name);
	for (const char *line = next_line(text); *line; line = next_line(line)) {
		if (!take_line(line, &c, stem, value))
			continue;
		if (str_parse_double(value, ret, NULL) < 0 || !(*ret > 0) || !isfinite(*ret))
			return err_set(eb, -EINVAL,
				"%s: %s of %s is \"%.40s\": expected a number above 0", table, name,
				stem, value);
		return 0;
	}
	return err_set(
		eb, -EINVAL, "%s: no line of %s, side and run with - between them", table, stem);
}

int cli_run_metric(const char *path, const char *name, double *ret, struct errbuf *eb)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	_cleanup_free_ char *table =
		xasprintf("%.*smetrics.csv", slash ? (int)(slash + 1 - path) : 0, path);
	_cleanup_free_ char *stem = xstrdup(base);
	_cleanup_bytes_ struct bytes text;
	static const char *const endings[] = {".gz", ".pb", ".pprof", ".folded"};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (str_ends_with(stem, endings[i]))
			stem[strlen(stem) - strlen(endings[i])] = '\0';
	bytes_init(&text, NULL, 0);
	r = fs_read_file(&fs_system, table, MAX_CSV_BYTES, &text, eb);
	bytes_put_u8(&text, '\0');
	if (r >= 0)
		r = bytes_error(&text);
	return r < 0 ? r : find_value((const char *)text.data, stem, name, table, ret, eb);
}
