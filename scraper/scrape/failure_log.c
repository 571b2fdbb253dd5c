/* SPDX-License-Identifier: Apache-2.0
 *
 * One write per line to a file opened for appending, so that several writers do not mix.
 */
#include "scraper/scrape/failure_log.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/json/write.h"
#include "lib/base/log.h"
#include "scraper/config/config.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

static struct scrape_failure_file *find(const struct scrape_failure_log *l, const char *path)
{
	struct scrape_failure_file *f = l->files;

	while (f && strcmp(f->path, path))
		f = f->next;
	return f;
}

static bool open_file(struct scrape_failure_log *l, const char *path)
{
	struct scrape_failure_file *f = xcalloc(1, sizeof(*f));

	f->path = xstrdup(path);
	/* A pipe that nobody reads is an error: this thread waits for nothing. */
	f->fd = l->fs->open(l->fs, path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0644);
	if (f->fd < 0)
		log_write(LOG_ERROR, "cannot open scrape_failure_log_file", "path", path, "error",
			strerror(-f->fd), NULL);
	f->next = l->files;
	l->files = f;
	return f->fd >= 0;
}

unsigned scrape_failure_log_open(struct scrape_failure_log *l, const struct config *cfg)
{
	unsigned n_failed = 0;

	scrape_failure_log_close(l);
	for (size_t i = 0; i < cfg->n_jobs; i++) {
		const char *path = cfg->jobs[i].scrape_failure_log_file;

		if (path && *path && !find(l, path))
			n_failed += !open_file(l, path);
	}
	return n_failed;
}

void scrape_failure_log_close(struct scrape_failure_log *l)
{
	while (l->files) {
		struct scrape_failure_file *f = l->files;

		l->files = f->next;
		if (f->fd >= 0)
			(void)l->fs->close(l->fs, f->fd);
		free(f->path);
		free(f);
	}
}

static void put_time(struct json *j, int64_t time_ns)
{
	time_t s = (time_t)(time_ns / NS_PER_S);
	char date[32] = "", text[64];
	struct tm tm;

	if (gmtime_r(&s, &tm))
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%09lldZ", date, (long long)(time_ns % NS_PER_S));
	json_kv_string(j, "time", text);
}

int scrape_failure_log_write(
	struct scrape_failure_log *l, const char *path, const struct scrape_failure *f)
{
	const struct scrape_failure_file *file = path && *path ? find(l, path) : NULL;
	_cleanup_bytes_ struct bytes line = {};
	struct json j = json_to(&line);
	ssize_t n;

	if (!file || file->fd < 0)
		return file ? -EBADF : 0;
	json_object_begin(&j);
	put_time(&j, f->time_ns);
	json_kv_string(&j, "level", "ERROR");
	json_kv_string(&j, "msg", f->error);
	json_kv_string(&j, "job_name", f->job);
	json_kv_string(&j, "target", f->url);
	json_kv_string(&j, "profile_type", f->type);
	json_kv_string(&j, "reason", f->reason);
	json_object_end(&j);
	bytes_put_u8(&line, '\n');
	if (bytes_error(&line) < 0)
		return -ENOMEM;
	n = l->fs->append(l->fs, file->fd, line.data, line.len);
	return n < 0 ? (int)n : (size_t)n < line.len ? -EIO : 0;
}
