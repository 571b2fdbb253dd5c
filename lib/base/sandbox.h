/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up privilege: capabilities, user, descriptors, system calls. Used once per role, before
 * any thread exists; nothing here can be undone. What each role may call is a table in
 * sandbox_rules.def.
 */
#pragma once
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum sandbox_role {
	SANDBOX_KEEPER,
	SANDBOX_OPENER,
	SANDBOX_MAIN,
	SANDBOX_PARSER,
	SANDBOX_FETCHER,
	SANDBOX_ATTACHER,
};

/* Whether this process has the capability (CAP_BPF …) in its permitted set. */
bool sandbox_has_cap(int cap);
/* "CAP_BPF"; "CAP_?" for one that the programs never use. */
const char *sandbox_cap_name(int cap);

/* Permitted and effective become exactly `caps` (those not permitted now are left out); inheritable
 * and ambient become empty, and so does the bounding set where CAP_SETPCAP allows. At most 16. Negative errno with a text. */
int sandbox_limit_caps(const int *caps, size_t n, struct errbuf *eb) _must_check_;

/* uid and gid of `name`; of "sonde", else "nobody" when it is NULL. -ENOENT: no such user; -EINVAL:
 * its uid is 0. */
int sandbox_find_user(
	const char *name, uid_t *ret_uid, gid_t *ret_gid, struct errbuf *eb) _must_check_;
/* Real, effective and saved ids become these, supplementary groups go, permitted capabilities stay.
 * -EPERM: CAP_SETUID or CAP_SETGID is missing. */
int sandbox_become_user(uid_t uid, gid_t gid, struct errbuf *eb) _must_check_;

/* SIGKILL when the process `parent` (our parent, single-threaded) ends; -ESRCH when it already has.
 * After changes of user. */
int sandbox_die_with(pid_t parent) _must_check_;

/* Closes every descriptor above 2 that is not in `keep` (n of them, any order, -1 ignored). */
int sandbox_close_others(const int *keep, size_t n) _must_check_;

/* no_new_privs and the role's seccomp filter: what is neither in its table nor in the common one fails with EPERM, clone3 with
 * ENOSYS so that glibc falls back. Negative errno with a text. */
int sandbox_enter(enum sandbox_role role, struct errbuf *eb) _must_check_;
/* The same with a list of one's own (SCMP_SYS numbers), on top of filters already there. PROT_EXEC stays refused
 * unless allow_exec, and so does tgkill to other processes. */
int sandbox_allow_only(const int *calls, size_t n, bool allow_exec, struct errbuf *eb) _must_check_;
