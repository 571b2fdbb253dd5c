/* SPDX-License-Identifier: Apache-2.0
 *
 * file_sd_configs: files of target groups, found by globs, read again when inotify says that
 * something in their directories happened and every refresh_interval. Directories are watched, not
 * files, since editors and Kubernetes replace files by renaming.
 */
#include <sys/inotify.h>
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "scraper/config/config.h"
#include "scraper/discover/provider.h"
#include <string.h>

enum { MAX_FILE = 16 << 20, MAX_FILES = 10000 };

/* One file's groups as last read without error. */
struct sd_file {
	char *path;
	struct discover_group *groups;
	size_t n_groups;
	size_t n_replaced;
	bool seen; /* in this refresh */
};

struct file_state {
	char **patterns;
	size_t n_patterns;
	int64_t refresh_ns;
	struct sd_file *files;
	size_t n_files, cap_files;
};

static size_t count(const struct config_job *job)
{
	return job->n_file_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	const struct config_file_sd *sd = &job->file_sds[i];

	bytes_put_varint(out, (uint64_t)sd->refresh_interval_ms);
	for (size_t k = 0; k < sd->files.n; k++)
		bytes_put(out, sd->files.items[k], strlen(sd->files.items[k]) + 1);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	const struct config_file_sd *sd = &job->file_sds[i];
	struct file_state *state = xcalloc(1, sizeof(*state));

	p->state = state;
	state->refresh_ns = sd->refresh_interval_ms * NS_PER_MS;
	state->patterns = xcalloc(sd->files.n, sizeof(char *));
	for (; state->n_patterns < sd->files.n; state->n_patterns++)
		state->patterns[state->n_patterns] = xstrdup(sd->files.items[state->n_patterns]);
	p->next_ns = 0;
	return 0;
}

static void file_done(struct sd_file *f)
{
	for (size_t i = 0; i < f->n_groups; i++)
		discover_group_done(&f->groups[i]);
	free(f->groups);
	free(f->path);
}

static void stop(struct discover_provider *p)
{
	struct file_state *state = p->state;

	for (size_t i = 0; i < state->n_files; i++)
		file_done(&state->files[i]);
	for (size_t i = 0; i < state->n_patterns; i++)
		free(state->patterns[i]);
	free(state->files);
	free(state->patterns);
	free(state);
	/* The provider's groups were the files'. */
	p->n_groups = 0;
}

/* "dir" of "dir/x", "." of "x". */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Adding a watch again is harmless and finds directories that came later. */
static void watch_directories(struct discover_provider *p)
{
	const struct file_state *state = p->state;

	p->n_watches = 0;
	for (size_t i = 0; i < state->n_patterns; i++) {
		_cleanup_free_ char *dir = directory_of(state->patterns[i]);
		int wd = inotify_add_watch(p->inotify_fd, dir,
			IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
				IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);

		if (wd >= 0 && alloc_grow(&p->watches, &p->cap_watches, p->n_watches + 1,
				       sizeof(int)) == 0)
			p->watches[p->n_watches++] = wd;
	}
}

static void failed(struct discover_provider *p, const char *text)
{
	p->failures++;
	snprintf(p->error, sizeof(p->error), "%s", text);
}

/* Groups of the file's text; nothing is changed on failure. */
static int parse_file(const char *path, const struct bytes *text, struct discover_group **ret,
	size_t *ret_n, size_t *ret_n_replaced, struct errbuf *eb)
{
	struct config_groups parsed;
	struct discover_group *groups;
	size_t n = 0;
	int r = config_parse_groups(path, text->data, text->len, &parsed, eb);

	if (r < 0)
		return r;
	*ret_n_replaced = parsed.n_replaced;
	groups = xcalloc(parsed.n + 1, sizeof(*groups));
	for (; n < parsed.n && r == 0; n += r == 0) {
		_cleanup_free_ char *source = xasprintf("%s:%zu", path, n);

		r = discover_group_from(
			&parsed.items[n], source, "__meta_filepath", path, &groups[n]);
	}
	config_groups_free(&parsed);
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			discover_group_done(&groups[i]);
		free(groups);
		return err_set(eb, r, "%s: out of memory", path);
	}
	*ret = groups;
	*ret_n = n;
	return 0;
}

static bool same_groups(const struct sd_file *f, const struct discover_group *groups, size_t n)
{
	if (f->n_groups != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!discover_group_equal(&f->groups[i], &groups[i]))
			return false;
	}
	return true;
}

static struct sd_file *find_file(struct file_state *state, const char *path)
{
	for (size_t i = 0; i < state->n_files; i++) {
		if (!strcmp(state->files[i].path, path))
			return &state->files[i];
	}
	if (state->n_files >= MAX_FILES || alloc_grow(&state->files, &state->cap_files,
						   state->n_files + 1, sizeof(*state->files)) < 0)
		return NULL;
	state->files[state->n_files] = (struct sd_file) {.path = xstrdup(path)};
	return &state->files[state->n_files++];
}

/* Whether the directory has an entry of that name: one that leads nowhere is a link that is being swapped. */
static bool is_named(struct fs *fs, const char *path)
{
	_cleanup_bytes_ struct bytes names = {0};
	_cleanup_free_ char *dir = directory_of(path);
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (fs->list(fs, dir, &names) < 0)
		return false;
	for (size_t off = 0; off < names.len; off += strlen((char *)names.data + off) + 1)
		if (!strcmp((char *)names.data + off, name))
			return true;
	return false;
}

static void read_one(struct discover_provider *p, const char *path)
{
	_cleanup_bytes_ struct bytes text = {0};
	struct file_state *state = p->state;
	struct discover_group *groups = NULL;
	struct errbuf eb = {0};
	struct fs_stat st;
	struct sd_file *f;
	size_t n = 0, n_replaced = 0;
	int r = p->fs->stat(p->fs, path, &st);

	if (r == -ENOENT && !is_named(p->fs, path)) /* gone, or not there yet: no failure */
		return;
	f = find_file(state, path);
	if (!f) {
		failed(p, "more files than 10000, or out of memory");
		return;
	}
	if (f->seen) /* two patterns */
		return;
	f->seen = true;
	if (r < 0)
		r = err_set(&eb, r, "%s: %s", path, strerror(-r));
	else
		r = fs_read_file(p->fs, path, MAX_FILE, &text, &eb);
	if (r == 0)
		r = parse_file(path, &text, &groups, &n, &n_replaced, &eb);
	if (r < 0) {
		failed(p, err_text(&eb, r));
		return;
	}
	discover_replaced(p, path, n_replaced, &f->n_replaced);
	if (same_groups(f, groups, n)) {
		for (size_t i = 0; i < n; i++)
			discover_group_done(&groups[i]);
		free(groups);
		return;
	}
	for (size_t i = 0; i < f->n_groups; i++)
		discover_group_done(&f->groups[i]);
	free(f->groups);
	f->groups = groups;
	f->n_groups = n;
	p->changed = true;
}

static void read_pattern(struct discover_provider *p, const char *pattern)
{
	_cleanup_bytes_ struct bytes paths = {0};
	int r = fs_glob(p->fs, pattern, &paths);

	if (r < 0) {
		char text[300];

		snprintf(text, sizeof(text), "%.200s: %s", pattern, strerror(-r));
		failed(p, text);
		return;
	}
	for (size_t off = 0; off < paths.len; off += strlen((char *)paths.data + off) + 1)
		read_one(p, (const char *)paths.data + off);
}

static void drop_missing_files(struct discover_provider *p)
{
	struct file_state *state = p->state;
	size_t n = 0;

	for (size_t i = 0; i < state->n_files; i++) {
		if (state->files[i].seen) {
			state->files[n++] = state->files[i];
			continue;
		}
		p->changed |= state->files[i].n_groups > 0;
		file_done(&state->files[i]);
	}
	state->n_files = n;
}

/* The provider's list shares the files' groups. */
static void collect_groups(struct discover_provider *p)
{
	const struct file_state *state = p->state;
	size_t n = 0;

	for (size_t i = 0; i < state->n_files; i++)
		n += state->files[i].n_groups;
	if (alloc_grow(&p->groups, &p->cap_groups, n, sizeof(*p->groups)) < 0) {
		failed(p, "out of memory");
		n = 0;
	}
	p->n_groups = 0;
	for (size_t i = 0; i < state->n_files && n; i++) {
		for (size_t k = 0; k < state->files[i].n_groups; k++)
			p->groups[p->n_groups++] = state->files[i].groups[k];
	}
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	struct file_state *state = p->state;

	p->refreshes++;
	p->is_settled = true;
	p->error[0] = 0;
	p->next_ns = now_ns + state->refresh_ns;
	watch_directories(p); /* first, so that nothing is missed in between */
	for (size_t i = 0; i < state->n_files; i++)
		state->files[i].seen = false;
	for (size_t i = 0; i < state->n_patterns; i++)
		read_pattern(p, state->patterns[i]);
	drop_missing_files(p);
	collect_groups(p);
}

const struct discover_kind *discover_file(void)
{
	static const struct discover_kind kind = {
		"file", count, put_key, start, refresh, stop, .shares_groups = true};

	return &kind;
}
