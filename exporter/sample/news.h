/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the kernel half cannot wait for the next drain: an epoll set of rings, of which the program wakes who waits for them when a
 * sample asks for it (bpf/event/cpu.bpf.c), and of side-band buffers, of which the kernel does when one is half full. A ring is seldom
 * empty, so only being woken counts (EPOLLET).
 */
#pragma once
#include "lib/base/err.h"

/* A set, a descriptor that is readable while there is news; closed with close(). Negative errno with a text. */
int news_open(struct errbuf *eb) _must_check_;
/* Puts a descriptor into the set; it leaves when it is closed. */
int news_watch(int news_fd, int fd, struct errbuf *eb) _must_check_;
/* From now on only what comes later is news. */
void news_take(int news_fd);
