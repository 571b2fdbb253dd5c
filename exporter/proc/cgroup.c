/* SPDX-License-Identifier: Apache-2.0
 *
 * Cgroup paths. Each component is looked at from the root on, so that what is innermost wins: a
 * container in a container.
 */
#include "exporter/proc/cgroup.h"
#include "lib/base/cleanup.h"
#include <stdio.h>
#include <string.h>

struct part {
	const char *s;
	size_t n;
};

static bool part_is(struct part p, const char *text)
{
	return p.n == strlen(text) && memcmp(p.s, text, p.n) == 0;
}

static bool starts(struct part p, const char *prefix)
{
	size_t n = strlen(prefix);

	return p.n > n && memcmp(p.s, prefix, n) == 0;
}

static bool ends(struct part p, const char *suffix)
{
	size_t n = strlen(suffix);

	return p.n > n && memcmp(p.s + p.n - n, suffix, n) == 0;
}

static struct part without(struct part p, const char *prefix, const char *suffix)
{
	size_t a = strlen(prefix), b = strlen(suffix);

	return (struct part) {.s = p.s + a, .n = p.n - a - b};
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_run(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && is_hex(s[i]))
		i++;
	return i;
}

/* 64 hex digits; or those of ECS on Fargate, 32 and a number. */
static bool is_container_id(struct part p)
{
	size_t run = hex_run(p.s, p.n);

	if (run == 64)
		return p.n == 64;
	if (run != 32 || p.n < 34 || p.n > 43 || p.s[32] != '-')
		return false;
	for (size_t i = 33; i < p.n; i++)
		if (p.s[i] < '0' || p.s[i] > '9')
			return false;
	return true;
}

static void put(char *ret, size_t cap, struct part p)
{
	snprintf(ret, cap, "%.*s", (int)MIN(p.n, cap - 1), p.s);
}

static int hex_value(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* systemd writes bytes that a unit's name may not hold as \xNN. */
static void put_unescaped(char *ret, size_t cap, struct part p)
{
	size_t out = 0;

	for (size_t i = 0; i < p.n && out + 1 < cap; i++) {
		if (p.s[i] == '\\' && i + 3 < p.n && p.s[i + 1] == 'x' && is_hex(p.s[i + 2]) &&
			is_hex(p.s[i + 3])) {
			ret[out++] = (char)(hex_value(p.s[i + 2]) << 4 | hex_value(p.s[i + 3]));
			i += 3;
		} else {
			ret[out++] = p.s[i];
		}
	}
	ret[out] = '\0';
}

/* `docker-ID.scope`, `crio-ID.scope`, `cri-containerd-ID.scope`, `libpod-ID.scope`, `libpod-ID`,
 * `nerdctl-ID.scope`; `SLICE:cri-containerd:ID` (systemd's names under the cgroupfs driver). The
 * monitors `crio-conmon-ID.scope` and `libpod-conmon-ID.scope` are not the container. */
static bool take_container_id(struct part p, struct cgroup_info *ret)
{
	struct part id = ends(p, ".scope") ? without(p, "", ".scope") : p;
	const char *cut = memrchr(id.s, ':', id.n);
	size_t dash;

	if (!cut && !is_container_id(id)) {
		for (dash = id.n; dash && id.s[dash - 1] != '-'; dash--)
			;
		cut = dash ? id.s + dash - 1 : NULL;
		if (cut && ends((struct part) {id.s, dash}, "-conmon-"))
			return false;
	}
	if (cut)
		id = (struct part) {cut + 1, id.n - (size_t)(cut + 1 - id.s)};
	if (!is_container_id(id) || (cut && id.n != 64))
		return false;
	put(ret->container_id, sizeof(ret->container_id), id);
	ret->container_name[0] = '\0';
	return true;
}

static void take_container_name(struct part p, struct part before, struct cgroup_info *ret)
{
	struct part name = {0};

	if (starts(p, "lxc.payload."))
		name = without(p, "lxc.payload.", "");
	else if (part_is(before, "lxc") || part_is(before, "lxc.payload"))
		name = p;
	else if (starts(p, "systemd-nspawn@") && ends(p, ".service"))
		name = without(p, "systemd-nspawn@", ".service");
	else if (starts(p, "machine-") && ends(p, ".scope"))
		name = without(p, "machine-", ".scope");
	if (!name.n)
		return;
	put_unescaped(ret->container_name, sizeof(ret->container_name), name);
	ret->container_id[0] = '\0';
}

/* `podUID` or `kubepods-burstable-podUID.slice`, where dashes of the UID became underscores. */
static void take_pod(struct part p, struct cgroup_info *ret)
{
	struct part uid;

	if (starts(p, "kubepods") && memchr(p.s, ':', p.n)) /* SLICE:cri-containerd:ID */
		p.n = (size_t)((const char *)memchr(p.s, ':', p.n) - p.s);
	if (starts(p, "kubepods") && ends(p, ".slice"))
		p = without(p, "", ".slice");
	if (p.n >= 39 && memcmp(p.s + p.n - 39, "pod", 3) == 0)
		uid = (struct part) {p.s + p.n - 36, 36};
	else if (starts(p, "pod") && hex_run(p.s + 3, p.n - 3) == p.n - 3 &&
		 p.n == 35) /* static pods: a hash */
		uid = without(p, "pod", "");
	else
		return;
	for (size_t i = 0; i < uid.n; i++)
		if (!is_hex(uid.s[i]) && uid.s[i] != '-' && uid.s[i] != '_')
			return;
	put(ret->pod_uid, sizeof(ret->pod_uid), uid);
	for (char *c = ret->pod_uid; *c; c++)
		*c = *c == '_' ? '-' : *c;
}

static void take_unit(struct part p, struct cgroup_info *ret)
{
	bool precise = ends(p, ".service") || ends(p, ".scope");
	struct part had = {ret->systemd_unit, strlen(ret->systemd_unit)};

	if (precise || (ends(p, ".slice") && !ends(had, ".service") && !ends(had, ".scope")))
		put(ret->systemd_unit, sizeof(ret->systemd_unit), p);
}

/* `user-UID.slice` */
static void take_user(struct part p, struct cgroup_info *ret)
{
	struct part id;
	uint64_t n = 0;

	if (!starts(p, "user-") || !ends(p, ".slice"))
		return;
	id = without(p, "user-", ".slice");
	if (id.n > 10)
		return;
	for (size_t i = 0; i < id.n; i++) {
		if (id.s[i] < '0' || id.s[i] > '9')
			return;
		n = n * 10 + (uint64_t)(id.s[i] - '0');
	}
	ret->user_id = n <= UINT32_MAX ? (uint32_t)n : 0;
}

void cgroup_parse(const char *path, struct cgroup_info *ret)
{
	struct part before = {"", 0};

	*ret = (struct cgroup_info) {.user_id = 0};
	for (const char *s = path; *s;) {
		struct part p = {s, strcspn(s, "/")};

		if (p.n) {
			take_unit(p, ret);
			take_pod(p, ret);
			take_user(p, ret);
			if (!take_container_id(p, ret))
				take_container_name(p, before, ret);
			before = p;
		}
		s += p.n;
		s += *s == '/';
	}
}

size_t cgroup_select(const char *text, size_t n, const char **ret_path, bool *ret_v2)
{
	const char *end = text + n;
	size_t best = 0;

	for (const char *line = text; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line)),
			   *stop = newline ? newline : end;
		const char *first = memchr(line, ':', (size_t)(stop - line));
		const char *second =
			first ? memchr(first + 1, ':', (size_t)(stop - first - 1)) : NULL;
		size_t len = second ? (size_t)(stop - second - 1) : 0;
		struct part path = {second ? second + 1 : line, len};
		bool v2 = second == line + 2 && line[0] == '0';

		if (ends(path, " (deleted)"))
			path.n -= strlen(" (deleted)");
		if (path.n > best || (v2 && path.n > 1)) {
			best = path.n;
			*ret_path = path.s;
			*ret_v2 = v2;
			if (v2 && path.n > 1)
				return best;
		}
		line = stop + 1;
	}
	return best;
}
