/* SPDX-License-Identifier: Apache-2.0
 *
 * lib/base/lock: who holds it, waits by a condition, and that each misuse aborts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/lock.h"

struct shared {
	struct lock lock;
	pthread_cond_t changed;
	int n;
	bool is_held_by_other;
};

static void *other(void *arg)
{
	struct shared *s = arg;

	s->is_held_by_other = lock_is_held(&s->lock);
	for (int i = 0; i < 1000; i++) {
		lock_take(&s->lock);
		s->n++;
		pthread_cond_signal(&s->changed);
		lock_release(&s->lock);
	}
	return NULL;
}

static void test_owner(void **state)
{
	struct shared s = {.lock = LOCK_INITIALIZER, .is_held_by_other = true};
	pthread_t t;

	(void)state;
	lock_cond_init(&s.changed);
	assert_false(lock_is_held(&s.lock));
	lock_take(&s.lock);
	assert_true(lock_is_held(&s.lock));
	assert_int_equal(pthread_create(&t, NULL, other, &s), 0);
	while (s.n < 1000) {
		lock_wait(&s.lock, &s.changed);
		assert_true(lock_is_held(&s.lock));
	}
	lock_release(&s.lock);
	assert_false(lock_is_held(&s.lock));
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_false(s.is_held_by_other);
	pthread_cond_destroy(&s.changed);
	lock_done(&s.lock);
}

static void test_wait_until(void **state)
{
	int64_t until_ns = clock_monotonic_ns(&clock_system) + 20 * NS_PER_MS;
	pthread_cond_t never;
	struct lock l;

	(void)state;
	lock_init(&l);
	lock_cond_init(&never);
	lock_take(&l);
	while (lock_wait_until(&l, &never, until_ns))
		;
	assert_true(lock_is_held(&l));
	assert_true(clock_monotonic_ns(&clock_system) >= until_ns);
	assert_false(lock_wait_until(&l, &never, -1));
	lock_release(&l);
	pthread_cond_destroy(&never);
	lock_done(&l);
}

static void take_twice(struct lock *l, pthread_cond_t *c)
{
	(void)c;
	lock_take(l);
	lock_take(l);
}

static void release_free(struct lock *l, pthread_cond_t *c)
{
	(void)c;
	lock_release(l);
}

static void wait_free(struct lock *l, pthread_cond_t *c)
{
	lock_wait(l, c);
}

static void wait_until_free(struct lock *l, pthread_cond_t *c)
{
	lock_wait_until(l, c, 0);
}

static void destroy_held(struct lock *l, pthread_cond_t *c)
{
	(void)c;
	lock_take(l);
	lock_done(l);
}

static void need_held(struct lock *l, pthread_cond_t *c)
{
	(void)c;
	ASSERT_HELD(l);
}

/* Each in a process of its own, which must end by SIGABRT, not by the alarm. */
static void test_misuse_aborts(void **state)
{
	static void (*const misuse[])(struct lock *, pthread_cond_t *) = {
		take_twice, release_free, wait_free, wait_until_free, destroy_held, need_held};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(misuse); i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			struct lock l = LOCK_INITIALIZER;
			pthread_cond_t c = PTHREAD_COND_INITIALIZER;

			signal(SIGABRT, SIG_DFL);
			alarm(10);
			dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
			misuse[i](&l, &c);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGABRT);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_wait_until),
		cmocka_unit_test(test_misuse_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
