/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages with descriptors over SOCK_SEQPACKET, the way the exporter's roles talk.
 */
#pragma once
#include <stddef.h>
#include <sys/socket.h>

enum { FD_MESSAGE_MAX_FDS = 64 };

/* One message of len > 0 bytes with up to FD_MESSAGE_MAX_FDS descriptors, which stay the caller's. `flags` as for sendmsg; MSG_NOSIGNAL is
 * added. 0 or -errno. */
int fd_message_send(int sock, const void *p, size_t len, const int *fds, size_t n_fds, int flags);
/*
 * How many bytes came; 0 when the peer is gone; -errno of recvmsg(2). Received descriptors are O_CLOEXEC and the caller's, unused entries of ret_fds
 * become -1. -EPROTO with every descriptor closed when the message was longer than `cap` or had more than max_fds.
 */
int fd_message_receive(int sock, void *buf, size_t cap, int *ret_fds, size_t max_fds,
	size_t *ret_n_fds, int flags);
