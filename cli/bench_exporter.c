/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter that samples a benchmark: asked with a cursor, so that no second is in two profiles or in none.
 */
#include "cli/bench.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
	START_TIMEOUT_MS = 30000,
	REQUEST_TIMEOUT_MS = 30000,
	POLL_MS = 100,
	SPAN_S = 300,
};
#define MAX_BODY_BYTES ((size_t)1 << 30)

static int get(const struct bench_exporter *e, const char *path, struct http_response *ret,
	struct errbuf *eb)
{
	_cleanup_free_ char *agent = xasprintf("sonde/%s", version_number());
	_cleanup_free_ char *url = xasprintf("%s%s", e->url, path);
	const struct http_fetch f = {
		.url = url, .timeout_ms = REQUEST_TIMEOUT_MS, .max_body_bytes = MAX_BODY_BYTES};
	int r = http_client_fetch(&f, agent, ret, eb);

	if (r < 0)
		return err_prefix(eb, r, "%s", url);
	if (ret->status != 200)
		return err_set(eb, -EIO, "%s: status %u: %.*s", url, ret->status,
			(int)MIN(ret->body.len, (size_t)200), (const char *)ret->body.data);
	return 0;
}

/* ---- one of our own ---- */

/* The exporter beside this program, else the one in PATH. */
static char *find_program(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		self[n] = 0;
		slash = strrchr(self, '/');
		if (slash &&
			(size_t)(slash + 1 - self) + sizeof("sonde-exporter") <= sizeof(self)) {
			memcpy(slash + 1, "sonde-exporter", sizeof("sonde-exporter"));
			if (!access(self, X_OK))
				return xstrdup(self);
		}
	}
	return xstrdup("sonde-exporter");
}

static void exec_exporter(const char *program, const char *address, const char *frequency,
	const char *maximum, const char *log)
{
	char *argv[8];
	const char *const args[] = {program, address, frequency, maximum,
		"--profile.max-overhead=0", "--symbols.cache-path=", NULL};
	struct fs *fs = &fs_system;
	int fd = fs->open(fs, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (size_t i = 0; i < ARRAY_SIZE(args);
		i++) /* exec takes them as they were before const */
		argv[i] = args[i] ? xstrdup(args[i]) : NULL;
	if (fd >= 0) {
		dup2(fd, STDERR_FILENO);
		dup2(fd, STDOUT_FILENO);
	}
	setpgid(0, 0); /* an interrupt ends the benchmark, which ends the exporter */
	bench_unblock_signals();
	execvp(program, argv);
	_exit(127);
}

/* The last line of its log. */
static int fail(const struct bench_exporter *e, const char *why, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/log", e->directory);
	_cleanup_bytes_ struct bytes log;
	const char *line = "";

	bytes_init(&log, NULL, 0);
	if (fs_read_file(&fs_system, path, 1 << 20, &log, NULL) >= 0) {
		while (log.len && log.data[log.len - 1] == '\n')
			log.len--;
		bytes_put_u8(&log, 0);
		line = (const char *)log.data;
		if (strrchr(line, '\n'))
			line = strrchr(line, '\n') + 1;
	}
	return err_set(eb, -EIO, "the exporter %s: %.300s", why, line);
}

static void sleep_ms(int64_t ms)
{
	clock_system.sleep_until_ns(
		&clock_system, clock_monotonic_ns(&clock_system) + ms * 1000000);
}

static int wait_ready(struct bench_exporter *e, struct errbuf *eb)
{
	for (int waited = 0; waited < START_TIMEOUT_MS; waited += POLL_MS) {
		_cleanup_http_response_ struct http_response r;

		if (waitpid(e->pid, NULL, WNOHANG) == e->pid) {
			e->pid = 0;
			return fail(
				e, "ended (it needs root or the capabilities that it names)", eb);
		}
		if (get(e, "/-/ready", &r, NULL) == 0)
			return 0;
		sleep_ms(POLL_MS);
	}
	return fail(e, "is not ready after 30 s", eb);
}

/* One that nobody listens on now. */
static int find_port(unsigned *ret, struct errbuf *eb)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return err_set(eb, -errno, "no port for the exporter: %s", strerror(errno));
	*ret = ntohs(a.sin_port);
	return 0;
}

static int start_own(uint64_t frequency_hz, struct bench_exporter *e, struct errbuf *eb)
{
	_cleanup_free_ char *program = find_program(), *address = NULL, *log = NULL;
	_cleanup_free_ char *frequency =
		xasprintf("--profile.frequency=%llu", (unsigned long long)frequency_hz);
	char directory[] = "/tmp/sonde-bench-XXXXXX";
	unsigned port = 0;
	int r;

	if (!mkdtemp(directory))
		return err_set(eb, -errno, "%s: %s", directory, strerror(errno));
	e->directory = xstrdup(directory);
	r = find_port(&port, eb);
	if (r)
		return r;
	e->url = xasprintf("http://127.0.0.1:%u", port);
	address = xasprintf("--web.listen-address=127.0.0.1:%u", port);
	log = xasprintf("%s/log", directory);
	e->pid = fork();
	if (e->pid < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (!e->pid)
		exec_exporter(program, address, frequency, "--profile.max-frequency=999", log);
	return wait_ready(e, eb);
}

int bench_exporter_start(
	const char *url, uint64_t frequency_hz, struct bench_exporter *ret, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response r = {};

	*ret = (struct bench_exporter) {};
	if (!url)
		return start_own(frequency_hz, ret, eb);
	ret->url = xstrdup(url);
	while (str_ends_with(ret->url, "/"))
		ret->url[strlen(ret->url) - 1] = 0;
	return get(ret, "/-/ready", &r, eb);
}

void bench_exporter_done(struct bench_exporter *e)
{
	struct fs *fs = &fs_system;

	if (e->pid > 0) {
		kill(e->pid, SIGTERM);
		while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (e->directory)
		(void)!fs_remove_all(fs, e->directory);
	free(e->url);
	free(e->directory);
}

/* ---- profiles ---- */

static int take_cursor(const struct http_response *r, char **cursor, struct errbuf *eb)
{
	const char *value = http_response_header(r, "sonde-cursor");

	if (!value)
		return err_set(
			eb, -EPROTO, "the answer has no Sonde-Cursor: is this a Sonde exporter?");
	free(*cursor);
	*cursor = xstrdup(value);
	return 0;
}

int bench_exporter_cursor(const struct bench_exporter *e, char **ret_cursor, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response r = {};
	int e_ = get(e, "/debug/pprof/profile?since=&span=1&symbolize=none", &r, eb);

	return e_ ? e_ : take_cursor(&r, ret_cursor, eb);
}

int bench_exporter_read(const struct bench_exporter *e, pid_t pid, char **cursor, struct bytes *ret,
	uint64_t *ret_behind, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response r = {};
	_cleanup_free_ char *path =
		xasprintf("/debug/pprof/profile?since=%s&span=%d&pid=%d&children=1", *cursor,
			SPAN_S, (int)pid);
	const char *lost, *behind;
	int e_ = get(e, path, &r, eb);

	if (e_)
		return e_;
	lost = http_response_header(&r, "sonde-lost-seconds");
	behind = http_response_header(&r, "sonde-behind-seconds");
	if (lost && strcmp(lost, "0") != 0)
		return err_set(eb, -EIO, "the exporter lost %s seconds of this run", lost);
	*ret_behind = 0;
	if (behind && str_parse_u64(behind, ret_behind, NULL) < 0)
		return err_set(eb, -EPROTO, "Sonde-Behind-Seconds: \"%.20s\"", behind);
	bytes_put(ret, r.body.data, r.body.len);
	e_ = take_cursor(&r, cursor, eb);
	return e_ ? e_ : bytes_error(ret);
}
