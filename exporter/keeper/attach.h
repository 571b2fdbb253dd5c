/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacher: a role that is there only with --jit.java-perfmap. It asks a JVM for one thing, to write its perf map, by
 * HotSpot's attach protocol (jdk/src/jdk.attach/linux/classes/sun/tools/attach/VirtualMachineImpl.java;
 * hotspot/os/posix/attachListener_posix.cpp): a file /tmp/.attach_pidN and SIGQUIT make the JVM listen on
 * /tmp/.java_pidN, which answers its own user and root only. So each request is served by a forked helper that becomes the
 * JVM's user, with no capability left, before it touches anything. What may be asked for is a pid.
 */
#pragma once
#include <stdint.h>

enum attach_status {
	ATTACH_OK,
	ATTACH_GONE,   /* no such process any more */
	ATTACH_NO_JVM, /* maps no libjvm.so, or SIGQUIT would end it, or it must not be attached to */
	ATTACH_DENIED,	/* cannot become its user, or reach its files */
	ATTACH_TIMEOUT, /* it does not listen or answer */
	ATTACH_REFUSED, /* it knows no Compiler.perfmap (before JDK 17), or failed */
	ATTACH_N_STATUS,
};

/* A request and its reply over SOCK_SEQPACKET. */
struct attach_message {
	uint32_t magic, pid;
	uint64_t start_ns; /* as in abi_record */
	uint32_t status;   /* of a reply */
	uint32_t reserved;
};
enum { ATTACH_MAGIC = 0x4d564a53, ATTACH_TIMEOUT_S = 10 };

/* The role: serves until the socket is closed. */
int attach_serve(const char *procfs, int sock);
/* The helper's work, as what it is after it was forked. */
enum attach_status attach_perfmap(const char *procfs, uint32_t pid, uint64_t start_ns);

/* main's side; neither waits. 0, or -errno (-EAGAIN: too many wait). */
int attach_ask(int sock, uint32_t pid, uint64_t start_ns);
/* A status that came in, or -EAGAIN. */
int attach_next_status(int sock);
