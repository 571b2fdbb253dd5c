/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipe that says when to record: lines "start", "stop", "mark NAME" and "end". Both of its sides: `sonde record
 * --window` reads, `sonde mark` writes.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>

/* Of a line, which is cut to it. Several of them fit into one atomic write to a pipe. */
enum { WINDOW_MAX_LINE = 1024 };
/* The command of a recording finds the pipe in this variable: "fifo:" and its absolute path. */
#define WINDOW_VARIABLE "SONDE_WINDOW"

struct window {
	char *path; /* absolute; NULL: none */
	int fd;
	bool was_made; /* by us, who remove it */
	char line[WINDOW_MAX_LINE];
	size_t n;
};
#define WINDOW_NONE ((struct window) {.fd = -1})

/* PATH of "fifo:PATH"; -EINVAL with a text. */
int window_parse(const char *spec, const char **ret_path, struct errbuf *eb) _must_check_;
/* Makes the pipe where there is none; `w` is WINDOW_NONE before. -EINVAL: it is no pipe, or no fifo:PATH; errno of mkfifo(3) and open(2). After
 * a failure too, window_close. */
int window_open(struct window *w, const char *spec, struct errbuf *eb) _must_check_;
/* True: the next whole line; false: there is none now. Does not wait. */
bool window_read(struct window *w, char ret_line[WINDOW_MAX_LINE]);
void window_close(struct window *w);

/* Writes whole lines, at once. -ENXIO: no recording reads them; -ENOENT, -EINVAL: it is no pipe; -EAGAIN: the pipe is full of what was
 * not read yet. */
int window_write(const char *spec, const char *lines, struct errbuf *eb) _must_check_;
