/* SPDX-License-Identifier: Apache-2.0
 *
 * Can the exporter run here? Each refusal names the setting, its value and what to do.
 */
#include "exporter/keeper/check.h"
#include "lib/base/sandbox.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <string.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <unistd.h>

/* Inode of the initial PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h). */
#define HOST_PID_NS 0xeffffffcU
enum { MAX_MOUNTS_BYTES = 4 << 20 };

static const struct {
	int cap;
	bool required;
	int instead; /* also satisfies the kernel, or -1 */
	const char *effect;
} wanted[] = {
	{CAP_BPF, true, -1, "no BPF program can be loaded"},
	{CAP_PERFMON, true, -1, "no CPU can be sampled"},
	{CAP_SYS_PTRACE, false, -1,
		"processes of other users that are already running have no mappings and no names"},
	{CAP_DAC_READ_SEARCH, false, -1, "files that only their owner may read have no names"},
	{CAP_SYSLOG, false, -1, "kernel functions may have no names"},
	{CAP_CHECKPOINT_RESTORE, false, CAP_SYS_ADMIN, "deleted and replaced files have no names"},
};

void check_add_missing(struct check_result *c, const char *cap, const char *effect)
{
	if (c->n_missing < ARRAY_SIZE(c->missing))
		c->missing[c->n_missing++] = (struct keeper_missing) {.cap = cap, .effect = effect};
}

/* A small text file below `dir`, without its newline; -errno when there is none. */
static int read_text(const char *dir, const char *name, char *ret, size_t cap)
{
	_cleanup_bytes_ struct bytes b = {0};
	char path[4096];
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	r = fs_read_file(&fs_system, path, cap - 1, &b, NULL);
	if (r < 0)
		return r;
	memcpy(ret, b.data, b.len);
	ret[b.len] = 0;
	ret[strcspn(ret, "\n")] = 0;
	return 0;
}

int check_read_number(const char *dir, const char *name, int64_t *ret)
{
	char text[64];
	int r = read_text(dir, name, text, sizeof(text));

	return r < 0 ? r : str_parse_i64(text, ret, NULL);
}

static int check_pid_namespace(struct errbuf *eb)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != HOST_PID_NS)
		return err_set(eb, -EPERM,
			"not in the host's PID namespace, so process ids would name nothing: run "
			"with the host's "
			"(docker --pid=host, Kubernetes hostPID: true)");
	return 0;
}

static int check_kernel(const struct role_options *o, struct errbuf *eb)
{
	char path[4096], lockdown[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/kernel/btf/vmlinux", o->sysfs);
	if (stat(path, &st))
		return err_set(eb, -ENOTSUP,
			"%s: %s: the kernel has no BTF, which BPF programs need to fit it; use a "
			"kernel built with "
			"CONFIG_DEBUG_INFO_BTF=y (every distribution's since 2021), or in a "
			"container mount the host's /sys "
			"and name it with --path.sysfs",
			path, strerror(errno));
	if (read_text(o->sysfs, "kernel/security/lockdown", lockdown, sizeof(lockdown)) == 0 &&
		strstr(lockdown, "[confidentiality]"))
		return err_set(eb, -EPERM,
			"the kernel is locked down (%s/kernel/security/lockdown: confidentiality), "
			"so BPF programs may not "
			"read kernel memory: boot with lockdown=integrity or less",
			o->sysfs);
	return 0;
}

static int check_caps(check_has_cap has_cap, struct check_result *c, struct errbuf *eb)
{
	char lacking[128] = "";

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const char *name = sandbox_cap_name(wanted[i].cap);

		if (has_cap(wanted[i].cap)) {
			c->caps[c->n_caps++] = wanted[i].cap;
		} else if (wanted[i].required) {
			snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking),
				"%s%s", lacking[0] ? " and " : "", name);
		} else {
			check_add_missing(c, name, wanted[i].effect);
		}
	}
	if (!lacking[0])
		return 0;
	return err_set(eb, -EPERM,
		"missing %s, without which %s: start as root, or grant CAP_BPF, CAP_PERFMON, "
		"CAP_SYS_PTRACE, "
		"CAP_DAC_READ_SEARCH, CAP_SYSLOG and CAP_CHECKPOINT_RESTORE (setcap, "
		"AmbientCapabilities=, securityContext)",
		lacking, strstr(lacking, "CAP_BPF") ? wanted[0].effect : wanted[1].effect);
}

/* Debian's kernels know a third level, which only CAP_SYS_ADMIN passes. */
static int check_paranoid(const struct role_options *o, check_has_cap has_cap,
	struct check_result *c, struct errbuf *eb)
{
	int64_t level;

	if (check_read_number(o->procfs, "sys/kernel/perf_event_paranoid", &level) < 0)
		return err_set(eb, -ENOTSUP,
			"%s/sys/kernel/perf_event_paranoid cannot be read: the kernel has no perf "
			"events "
			"(CONFIG_PERF_EVENTS), or --path.procfs is wrong",
			o->procfs);
	if (level <= 2)
		return 0;
	if (!has_cap(CAP_SYS_ADMIN))
		return err_set(eb, -EPERM,
			"kernel.perf_event_paranoid is %lld, which refuses perf events without "
			"CAP_SYS_ADMIN: set it to 2 "
			"(sysctl kernel.perf_event_paranoid=2) or grant CAP_SYS_ADMIN",
			(long long)level);
	c->caps[c->n_caps++] = CAP_SYS_ADMIN;
	c->admin_why = "kernel.perf_event_paranoid is above 2 and refuses perf events without it";
	return 0;
}

static bool has_uprobes(const struct role_options *o)
{
	uint32_t events = o->events ? o->events : event_default_set();
	struct keeper_programs p;

	programs_of_events(events, 1, &p);
	if (o->programs)
		p = *o->programs;
	return programs_have(&p, EVENT_PER_FILE);
}

/* perf_uprobe_event_init (kernel/events/core.c) asks for CAP_SYS_ADMIN (seen on 6.18), older kernels for CAP_PERFMON. */
static void check_uprobes(
	const struct role_options *o, check_has_cap has_cap, struct check_result *c)
{
	if (c->admin_why || !has_uprobes(o) || !has_cap(CAP_SYS_ADMIN))
		return;
	c->caps[c->n_caps++] = CAP_SYS_ADMIN;
	c->admin_why = "a profile type that is on attaches to places in files (uprobes)";
}

static int check_rate(const struct role_options *o, struct errbuf *eb)
{
	const struct {
		const char *flag;
		uint32_t hz;
	} rates[] = {{"--profile.frequency", o->frequency_hz},
		{"--profile.max-frequency", o->max_frequency_hz}};
	int64_t limit;

	if (check_read_number(o->procfs, "sys/kernel/perf_event_max_sample_rate", &limit) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
		if (rates[i].hz > limit)
			return err_set(eb, -EINVAL,
				"%s %u is above the kernel's limit of %lld: lower it, or raise "
				"kernel.perf_event_max_sample_rate (the kernel lowers it when "
				"samples take long)",
				rates[i].flag, rates[i].hz, (long long)limit);
	if (o->frequency_hz == 0)
		return err_set(eb, -EINVAL, "--profile.frequency must be at least 1");
	return 0;
}

int check_start(const struct role_options *o, check_has_cap has_cap, struct check_result *ret,
	struct errbuf *eb)
{
	struct check_result c = {0};
	int r = check_pid_namespace(eb);

	if (r == 0)
		r = check_caps(has_cap, &c, eb);
	if (r == 0)
		r = check_paranoid(o, has_cap, &c, eb);
	if (r == 0)
		check_uprobes(o, has_cap, &c);
	if (r == 0)
		r = check_kernel(o, eb);
	if (r == 0)
		r = check_rate(o, eb);
	if (r == 0)
		*ret = c;
	return r;
}

/* Do the options of a /proc hide processes from those of other users and groups? */
static bool is_hiding(const char *options)
{
	const char *level = strstr(options, "hidepid="), *group = strstr(options, "gid=");
	int64_t gid;
	char text[24];

	if (!level || str_starts_with(level, "hidepid=0") || str_starts_with(level, "hidepid=off"))
		return false;
	snprintf(text, sizeof(text), "%.*s", group ? (int)strcspn(group + 4, ", \n") : 0,
		group ? group + 4 : "");
	return str_parse_i64(text, &gid, NULL) < 0 || gid != (int64_t)getegid();
}

/* Main reads /proc/PID as an unprivileged user. */
static void check_hidepid(const struct role_options *o, struct check_result *c)
{
	_cleanup_bytes_ struct bytes b = {0};
	char path[4096], point[4096], type[64], options[1024];
	bool hides = false;

	snprintf(path, sizeof(path), "%s/self/mounts", o->procfs);
	if (fs_read_file(&fs_system, path, MAX_MOUNTS_BYTES, &b, NULL) < 0)
		return;
	bytes_put_u8(&b, 0);
	/* Of several mounts at one point the last one counts. */
	for (const char *line = (const char *)b.data; line && *line;
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (sscanf(line, "%*s %4095s %63s %1023s", point, type, options) == 3 &&
			strcmp(point, o->procfs) == 0 && strcmp(type, "proc") == 0)
			hides = is_hiding(options);
	if (hides)
		check_add_missing(c, "hidepid",
			"processes that were running before have no parents, and none has a "
			"command line, a control group, a container or a unit (/proc is mounted "
			"with hidepid: mount it with gid= of the exporter's group, or without)");
}

/* Some lines at the start are zero anyway (per-CPU offsets), so a fair part is looked at: whole lines. */
void check_final(const struct role_options *o, struct check_result *c)
{
	char path[4096], text[16384];
	FILE *f;
	size_t n;

	check_hidepid(o, c);
	snprintf(path, sizeof(path), "%s/kallsyms", o->procfs);
	f = fopen(path, "re");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		if (strspn(line, "0") < 16)
			return;
	check_add_missing(c, "kallsyms",
		n ? "kernel functions have no names (kernel.kptr_restrict hides addresses: set it "
		    "to 0 or 1, with CAP_SYSLOG)"
		  : "kernel functions have no names (no /proc/kallsyms)");
}

void check_kernel_walk(enum kernel_walk_by by, struct check_result *c)
{
	if (by == KERNEL_WALK_HIDDEN)
		check_add_missing(c, "orc",
			"samples in kernel mode cost more (kernel.kptr_restrict hides where the "
			"kernel's unwind table is: set it to 0 or 1, with CAP_SYSLOG)");
	else if (by == KERNEL_WALK_LAYOUT)
		check_add_missing(c, "orc",
			"samples in kernel mode cost more (this kernel's unwind table is of a "
			"layout that is not known)");
	else if (by == KERNEL_WALK_FAILED)
		check_add_missing(c, "orc",
			"samples in kernel mode cost more (the program that finds the kernel's "
			"unwind table could not be run)");
}
