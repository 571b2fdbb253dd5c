/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of failed scrapes go to files and to pipes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "scraper/config/config.h"
#include "scraper/scrape/failure_log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct scrape_failure failure = {
	.job = "j", .url = "http://h/", .type = "cpu", .reason = "connect", .error = "refused"};

static void put_lines(char *path, int fd)
{
	struct config_job job = {.scrape_failure_log_file = path};
	struct config cfg = {.jobs = &job, .n_jobs = 1};
	struct scrape_failure_log l = {.fs = &fs_system};
	char text[1024];
	ssize_t n;

	assert_int_equal(scrape_failure_log_open(&l, &cfg), 0);
	assert_int_equal(scrape_failure_log_write(&l, path, &failure), 0);
	assert_int_equal(scrape_failure_log_write(&l, path, &failure), 0);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\"msg\":\"refused\""));
	assert_ptr_not_equal(strchr(text, '\n'), strrchr(text, '\n'));
	assert_int_equal(text[n - 1], '\n');
	scrape_failure_log_close(&l);
}

static void test_lines(void **state)
{
	char file[] = "/tmp/test_failure_log_XXXXXX", pipe[64];
	int fd = mkstemp(file);

	(void)state;
	assert_true(fd >= 0);
	put_lines(file, fd);
	close(fd);
	snprintf(pipe, sizeof(pipe), "%s.pipe", file);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	fd = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	put_lines(pipe, fd);
	close(fd);
	unlink(pipe);
	unlink(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
