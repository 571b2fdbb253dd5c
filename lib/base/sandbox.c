/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up privilege, through libcap and libseccomp.
 */
#include "lib/base/sandbox.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/perf_event.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include "lib/base/sandbox_rules.def"

static const struct {
	int cap;
	const char *name;
} cap_names[] = {
	{CAP_BPF, "CAP_BPF"},
	{CAP_PERFMON, "CAP_PERFMON"},
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"},
	{CAP_SYSLOG, "CAP_SYSLOG"},
	{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE"},
	{CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	{CAP_SETUID, "CAP_SETUID"},
	{CAP_SETGID, "CAP_SETGID"},
	{CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE"},
};

static void cap_freep(cap_t *c)
{
	if (*c)
		cap_free(*c);
}

const char *sandbox_cap_name(int cap)
{
	for (size_t i = 0; i < ARRAY_SIZE(cap_names); i++)
		if (cap_names[i].cap == cap)
			return cap_names[i].name;
	return "CAP_?";
}

bool sandbox_has_cap(int cap)
{
	_cleanup_(cap_freep)
	cap_t set = cap_get_proc();
	cap_flag_value_t v = CAP_CLEAR;

	return set && !cap_get_flag(set, cap, CAP_PERMITTED, &v) && v == CAP_SET;
}

/* Best effort: without CAP_SETPCAP the bounding set stays, which matters little under no_new_privs. */
static void drop_bounding(void)
{
	_cleanup_(cap_freep)
	cap_t set = cap_get_proc();
	const cap_value_t setpcap = CAP_SETPCAP;

	/* a change of user has cleared the effective set */
	if (!set || cap_set_flag(set, CAP_EFFECTIVE, 1, &setpcap, CAP_SET) || cap_set_proc(set))
		return;
	for (int cap = 0; cap_get_bound(cap) >= 0; cap++)
		(void)cap_drop_bound(cap);
}

int sandbox_limit_caps(const int *caps, size_t n, struct errbuf *eb)
{
	_cleanup_(cap_freep)
	cap_t set = cap_init();
	cap_value_t v[16];
	int n_v = 0;

	ASSERT(n <= ARRAY_SIZE(v));

	if (!set)
		return err_set(eb, -ENOMEM, "cap_init: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		if (sandbox_has_cap(caps[i]))
			v[n_v++] = caps[i];
	drop_bounding();
	(void)cap_reset_ambient();
	if (n_v && (cap_set_flag(set, CAP_PERMITTED, n_v, v, CAP_SET) ||
			   cap_set_flag(set, CAP_EFFECTIVE, n_v, v, CAP_SET)))
		return err_set(eb, -errno, "cap_set_flag: %s", strerror(errno));
	if (cap_set_proc(set))
		return err_set(eb, -errno, "cannot limit capabilities: %s", strerror(errno));
	return 0;
}

int sandbox_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct errbuf *eb)
{
	const struct passwd *pw = getpwnam(name ? name : "sonde");

	if (!pw && !name)
		pw = getpwnam("nobody");
	if (!pw)
		return err_set(eb, -ENOENT,
			"there is no user %s: create it or name another one with --user",
			name ? name : "sonde or nobody");
	if (pw->pw_uid == 0)
		return err_set(
			eb, -EINVAL, "--user %s is root: name an unprivileged user", pw->pw_name);
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return 0;
}

int sandbox_become_user(uid_t uid, gid_t gid, struct errbuf *eb)
{
	if (!sandbox_has_cap(CAP_SETUID) || !sandbox_has_cap(CAP_SETGID))
		return err_set(eb, -EPERM,
			"cannot become uid %u: CAP_SETUID and CAP_SETGID are missing; grant them, "
			"or start as an "
			"unprivileged user that has the other capabilities (setcap, "
			"AmbientCapabilities=)",
			uid);
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setgroups(0, NULL) || setresgid(gid, gid, gid) ||
		setresuid(uid, uid, uid))
		return err_set(
			eb, -errno, "cannot become uid %u, gid %u: %s", uid, gid, strerror(errno));
	return prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) ? -errno : 0;
}

int sandbox_die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

static int compare_ints(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int sandbox_close_others(const int *keep, size_t n)
{
	_cleanup_free_ int *sorted = calloc(n + 1, sizeof(*sorted));
	int from = 3;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = keep[i];
	qsort(sorted, n, sizeof(*sorted), compare_ints);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i] < from)
			continue;
		if (sorted[i] > from && close_range((unsigned)from, (unsigned)sorted[i] - 1, 0))
			return -errno;
		from = sorted[i] + 1;
	}
	return close_range((unsigned)from, ~0U, 0) ? -errno : 0;
}

/* Later children have another id: where they are to abort, the rule is theirs. */
static int allow_own_pid(scmp_filter_ctx ctx, int nr, unsigned arg)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
		SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)getpid()));
}

static int add_rule(scmp_filter_ctx ctx, const struct sandbox_rule *r)
{
	int nr = seccomp_syscall_resolve_name(r->call);

	if (nr == __NR_SCMP_ERROR) /* unknown to this architecture or libseccomp */
		return 0;
	if (r->value == OWN_PID_VALUE && r->mask == UINT32_MAX)
		return allow_own_pid(ctx, nr, r->arg);
	if (!r->mask)
		return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
		SCMP_CMP(r->arg, SCMP_CMP_MASKED_EQ, r->mask, r->value));
}

static int add_rules(
	scmp_filter_ctx ctx, const struct sandbox_rule *rules, size_t n, struct errbuf *eb)
{
	for (size_t i = 0; i < n; i++) {
		int r = add_rule(ctx, &rules[i]);

		if (r < 0 && r != -EEXIST)
			return err_set(
				eb, r, "seccomp rule for %s: %s", rules[i].call, strerror(-r));
	}
	return 0;
}

static void filter_freep(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

int sandbox_enter(enum sandbox_role role, struct errbuf *eb)
{
	static const struct {
		const struct sandbox_rule *rules;
		size_t n;
	} tables[] = {
		[SANDBOX_KEEPER] = {sandbox_keeper, ARRAY_SIZE(sandbox_keeper)},
		[SANDBOX_OPENER] = {sandbox_opener, ARRAY_SIZE(sandbox_opener)},
		[SANDBOX_MAIN] = {sandbox_main, ARRAY_SIZE(sandbox_main)},
		[SANDBOX_PARSER] = {sandbox_parser, ARRAY_SIZE(sandbox_parser)},
		[SANDBOX_FETCHER] = {sandbox_fetcher, ARRAY_SIZE(sandbox_fetcher)},
		[SANDBOX_ATTACHER] = {sandbox_attacher, ARRAY_SIZE(sandbox_attacher)},
	};
	_cleanup_(filter_freep)
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!ctx)
		return err_set(eb, -ENOMEM, "seccomp_init failed");
	r = add_rules(ctx, sandbox_common, ARRAY_SIZE(sandbox_common), eb);
	if (r == 0)
		r = add_rules(ctx, tables[role].rules, tables[role].n, eb);
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == -EEXIST)
		r = 0;
	if (r < 0)
		return r;
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* decide by binary search */
	r = seccomp_load(ctx);					  /* sets no_new_privs */
	return r < 0 ? err_set(eb, r, "cannot load the seccomp filter: %s", strerror(-r)) : 0;
}

int sandbox_allow_only(const int *calls, size_t n, bool allow_exec, struct errbuf *eb)
{
	_cleanup_(filter_freep)
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = 0;

	if (!ctx)
		return err_set(eb, -ENOMEM, "seccomp_init failed");
	for (size_t i = 0; i < n && r >= 0; i++) {
		bool maps = calls[i] == SCMP_SYS(mmap) || calls[i] == SCMP_SYS(mprotect);

		if (maps && !allow_exec)
			r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 1,
				SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
		else if (calls[i] == SCMP_SYS(tgkill))
			r = allow_own_pid(ctx, calls[i], 0);
		else
			r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
	}
	if (r >= 0)
		r = seccomp_load(ctx);
	return r < 0 ? err_set(eb, r, "cannot load the seccomp filter: %s", strerror(-r)) : 0;
}
