/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's children: roles and strangers that end, signals that are passed on, a main that does not end. Real processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exporter/keeper/supervise.h"
#include "lib/base/clock.h"

/* How a child ends by itself, or at a signal. */
enum end { EXIT_0, EXIT_3, ABORT, EXIT_4_ON_TERM, NEVER };

struct family {
	struct supervise_role roles[3];
	struct openers openers;
	int signal_fd;
	sigset_t old;
};

static void on_term(int number)
{
	(void)number;
	_exit(4);
}

static pid_t child(const struct family *f, enum end end)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigaction(SIGTERM, &(struct sigaction) {.sa_handler = on_term}, NULL);
	(void)sigaction(SIGABRT, &(struct sigaction) {.sa_handler = SIG_DFL}, NULL);
	switch (end) {
	case EXIT_0: _exit(0);
	case EXIT_3: _exit(3);
	case ABORT: abort();
	case EXIT_4_ON_TERM: sigprocmask(SIG_SETMASK, &f->old, NULL); break;
	case NEVER: break;
	}
	for (;;)
		pause();
}

static int setup(void **state)
{
	struct family *f = calloc(1, sizeof(*f));
	sigset_t set;

	f->roles[0].name = "main";
	f->roles[1].name = "parser";
	f->roles[2].name = "fetcher"; /* not started */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, &f->old))
		return -1;
	f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	*state = f;
	return f->signal_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct family *f = *state;
	const struct timespec none = {0};
	sigset_t set;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	while (sigtimedwait(&set, NULL, &none) > 0)
		;
	sigprocmask(SIG_SETMASK, &f->old, NULL);
	close(f->signal_fd);
	free(f);
	return 0;
}

static bool is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

/* As the keeper's loop. */
static int run(struct family *f, int end_ms)
{
	struct supervision s = {.roles = f->roles,
		.n_roles = 3,
		.openers = &f->openers,
		.signal_fd = f->signal_fd,
		.end_ms = end_ms};
	struct pollfd p = {.fd = f->signal_fd, .events = POLLIN};
	int status;

	while ((status = supervise_step(&s)) == -EAGAIN)
		(void)poll(&p, 1, supervise_wait_ms(&s));
	supervise_end(&s);
	return status;
}

static void who_ends_decides(void **state)
{
	static const struct {
		enum end main, parser;
		int status;
	} cases[] = {
		{EXIT_0, NEVER, 0}, {EXIT_3, NEVER, 3}, {ABORT, NEVER, 128 + SIGABRT},
		{NEVER, EXIT_3, 1}, {NEVER, ABORT, 128 + SIGABRT},
		{EXIT_3, EXIT_0, 3}, /* a role that just closes ends nobody */
	};
	struct family *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t main = child(f, cases[i].main), parser = child(f, cases[i].parser);

		f->roles[0].pid = main;
		f->roles[1].pid = parser;
		assert_int_equal(run(f, 60000), cases[i].status);
		assert_true(is_gone(main) && is_gone(parser));
	}
}

/* Many end behind one SIGCHLD, before and after the start; one lives on and is not waited for. */
static void strangers_are_reaped(void **state)
{
	struct family *f = *state;
	pid_t strangers[20], lives = child(f, NEVER), opener = child(f, NEVER);

	for (int i = 0; i < 20; i++)
		strangers[i] = child(f, i % 2 ? EXIT_3 : ABORT);
	f->roles[0].pid = child(f, EXIT_4_ON_TERM);
	f->roles[1].pid = child(f, NEVER);
	f->openers.pids[3] = child(f, EXIT_3);
	f->openers.pids[5] = opener;
	if (fork() == 0) { /* ends the test once all are reaped, itself a stranger */
		for (int i = 0; i < 20; i++)
			while (!is_gone(strangers[i]))
				usleep(1000);
		kill(getppid(), SIGTERM);
		_exit(9);
	}
	assert_int_equal(run(f, 60000), 4);
	assert_int_equal(f->openers.pids[3], 0);
	assert_true(is_gone(opener));
	assert_int_equal(kill(lives, SIGKILL), 0);
	assert_int_equal(waitpid(lives, NULL, 0), lives);
}

static void main_has_its_time(void **state)
{
	struct family *f = *state;
	int64_t begun = clock_monotonic_ns(&clock_system), took;
	pid_t main = child(f, NEVER);

	f->roles[0].pid = main; /* SIGTERM is blocked there */
	kill(getpid(), SIGHUP);
	kill(getpid(), SIGTERM);
	assert_int_equal(run(f, 300), 1);
	took = clock_monotonic_ns(&clock_system) - begun;
	assert_true(took >= 300 * NS_PER_MS && took < 20 * NS_PER_S);
	assert_true(is_gone(main));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_ends_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(strangers_are_reaped, setup, teardown),
		cmocka_unit_test_setup_teardown(main_has_its_time, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
