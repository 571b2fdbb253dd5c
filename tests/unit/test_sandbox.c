/* SPDX-License-Identifier: Apache-2.0
 *
 * System call filters, each in a child of its own: whom a process behind one may signal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/base/cleanup.h"
#include "lib/base/sandbox.h"

/* What abort() needs, sanitizers' included. */
static int enter_list(void)
{
	static const int calls[] = {SYS_getpid, SYS_gettid, SYS_tgkill, SYS_exit_group, SYS_write,
		SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack, SYS_mmap, SYS_munmap,
		SYS_mprotect, SYS_madvise, SYS_prctl, SYS_futex};

	return sandbox_allow_only(calls, ARRAY_SIZE(calls), false, NULL);
}

static int enter_main(void)
{
	return sandbox_enter(SANDBOX_MAIN, NULL);
}

static int enter_fetcher(void)
{
	return sandbox_enter(SANDBOX_FETCHER, NULL);
}

static int enter_opener(void)
{
	return sandbox_enter(SANDBOX_OPENER, NULL);
}

static int (*const filters[])(void) = {enter_list, enter_main, enter_fetcher, enter_opener};

/* The wait status of a child behind a filter. */
static int run(int (*enter)(void), void (*work)(pid_t parent))
{
	const struct rlimit no_core = {0};
	pid_t parent = getpid(), pid = fork();
	int status;

	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)sigaction(SIGABRT, &(struct sigaction) {.sa_handler = SIG_DFL}, NULL);
		if (enter() < 0)
			_exit(99);
		work(parent);
		_exit(98);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void signal_parent(pid_t parent)
{
	_exit(syscall(SYS_tgkill, parent, parent, 0) ? errno : 0);
}

static void others_get_no_signal(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		int status = run(filters[i], signal_parent);

		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), EPERM);
	}
}

static void abort_itself(pid_t parent)
{
	(void)parent;
	abort();
}

static void abort_works(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		int status = run(filters[i], abort_itself);

		if (!WIFSIGNALED(status))
			fail_msg("filter %zu: %#x", i, (unsigned)status);
		assert_int_equal(WTERMSIG(status), SIGABRT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_get_no_signal),
		cmocka_unit_test(abort_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
