/* SPDX-License-Identifier: Apache-2.0
 *
 * Where runs are: files, patterns and directories of arguments, and profiles in memory.
 */
#include "cli/files.h"
#include "cli/runs.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

void cli_sources_done(struct cli_sources *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->items[i].name);
		bytes_done(&s->items[i].raw);
	}
	free(s->items);
	*s = (struct cli_sources) {};
}

int cli_sources_add(
	struct cli_sources *s, const char *name, struct cli_source **ret, struct errbuf *eb)
{
	struct cli_source *new;

	if (alloc_grow(&s->items, &s->cap, s->n + 1, sizeof(*s->items)) < 0)
		return err_set(eb, -ENOMEM, "out of memory for %zu runs", s->n + 1);
	new = &s->items[s->n++];
	*new = (struct cli_source) {.name = xstrdup(name)};
	bytes_init(&new->raw, NULL, 0);
	if (ret)
		*ret = new;
	return 0;
}

int cli_source_read(const struct cli_source *s, struct cli_profile *ret, struct errbuf *eb)
{
	if (!s->raw.len)
		return cli_profile_read(ret, s->name, eb);
	profile_reset(&ret->p);
	return cli_profile_decode(s->raw.data, s->raw.len, s->name, &ret->raw, &ret->p, eb);
}

/* ---- arguments ---- */

static bool is_profile(const char *path)
{
	static const char *const endings[] = {".pb", ".pb.gz", ".pprof", ".folded"};

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (str_ends_with(path, endings[i]))
			return true;
	return false;
}

/* glob sorts. */
static int add_matches(struct cli_sources *ret, const char *pattern, bool any, struct errbuf *eb)
{
	glob_t found = {};
	size_t before = ret->n;
	int r = glob(pattern, 0, NULL, &found), e = 0;

	for (size_t i = 0; !r && !e && i < found.gl_pathc; i++)
		if (any || is_profile(found.gl_pathv[i]))
			e = cli_sources_add(ret, found.gl_pathv[i], NULL, eb);
	globfree(&found);
	if (r == GLOB_NOSPACE)
		return err_set(eb, -ENOMEM, "out of memory for the files of %s", pattern);
	if (!e && ret->n == before)
		return err_set(eb, -ENOENT,
			"%s: no profile there (*.pb, *.pb.gz, *.pprof, *.folded)", pattern);
	return e;
}

int cli_sources_add_path(struct cli_sources *ret, const char *argument, struct errbuf *eb)
{
	bool is_there;
	struct stat st;

	is_there = strcmp(argument, "-") != 0 && !stat(argument, &st);
	if (is_there && S_ISDIR(st.st_mode)) {
		_cleanup_free_ char *pattern = xasprintf("%s/*", argument);

		return add_matches(ret, pattern, false, eb);
	}
	if (!is_there && strpbrk(argument, "*?["))
		return add_matches(ret, argument, true, eb);
	return cli_sources_add(ret, argument, NULL, eb); /* reading it says what is wrong */
}
