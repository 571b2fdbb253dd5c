/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a program and prints on stderr: exit status, wall seconds, CPU seconds, peak RSS in KB. A process starts with the peak
 * of the one that forked it, so this one is small (bench_merge.py compiles it).
 */
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double start = now(), cpu;
	struct rusage u;
	int status;
	pid_t pid;

	if (argc < 2 || posix_spawn(&pid, argv[1], NULL, NULL, argv + 1, environ) != 0 ||
		wait4(pid, &status, 0, &u) < 0)
		return 1;
	cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	fprintf(stderr, "%d %f %f %ld\n", status, now() - start, cpu, u.ru_maxrss);
	return 0;
}
