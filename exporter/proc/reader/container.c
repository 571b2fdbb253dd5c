/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of docker, containerd, k3s, CRI-O and podman.
 */
#include "exporter/proc/reader/container.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/str.h"
#include "lib/json/read.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 4 << 20 };

/* `%s`: the id. What the daemons' packages and distributions use; docker's directory may be any (docker_root). */
static const struct place {
	enum container_format format;
	const char *path;
} places[] = {
	{CONTAINER_DOCKER, "/var/lib/docker/containers/%s/config.v2.json"},
	{CONTAINER_DOCKER, "/var/snap/docker/common/var-lib-docker/containers/%s/config.v2.json"},
	{CONTAINER_OCI, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json"},
	{CONTAINER_OCI, "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json"},
	{CONTAINER_OCI, "/run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json"},
	{CONTAINER_OCI, "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/"
			"k8s.io/%s/config.json"},
	{CONTAINER_OCI, "/run/containerd/io.containerd.runtime.v2.task/default/%s/config.json"},
	{CONTAINER_OCI, "/run/containers/storage/overlay-containers/%s/userdata/config.json"},
};
static const char docker_settings[] = "/etc/docker/daemon.json";

/* podman's: below its storage, by driver; the second one has those that are gone after a restart. */
static const char *const podman_files[] = {
	"overlay-containers/containers.json",
	"overlay-containers/volatile-containers.json",
	"vfs-containers/containers.json",
	"vfs-containers/volatile-containers.json",
	"btrfs-containers/containers.json",
	"btrfs-containers/volatile-containers.json",
	"zfs-containers/containers.json",
	"zfs-containers/volatile-containers.json",
};
static const char *const storage_settings[] = {
	"/etc/containers/storage.conf", "/usr/share/containers/storage.conf"};

static bool take(char *ret, size_t cap, const struct json_value *v)
{
	const char *s = json_value_str(v);

	if (!s || !s[0] || strlen(s) >= cap)
		return false;
	memcpy(ret, s, strlen(s) + 1);
	return true;
}

/* Labels and annotations: the same facts under each runtime's own keys. */
static void take_annotations(const struct json_value *from, struct container_info *ret)
{
	const struct {
		char *to;
		size_t cap;
		const char *keys[4];
	} facts[] = {
		{ret->name, sizeof(ret->name),
			{"io.kubernetes.cri.container-name", "io.kubernetes.container.name",
				"nerdctl/name", NULL}},
		{ret->image, sizeof(ret->image),
			{"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName",
				"io.kubernetes.cri-o.Image", NULL}},
		{ret->pod, sizeof(ret->pod),
			{"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name", NULL}},
		{ret->namespace_, sizeof(ret->namespace_),
			{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace",
				NULL}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		for (const char *const *key = facts[i].keys; *key; key++)
			if (take(facts[i].to, facts[i].cap, json_value_get(from, *key)))
				break;
}

static void parse_docker(const struct json_value *root, struct container_info *ret)
{
	const struct json_value *config = json_value_get(root, "Config");
	const char *name = json_value_str(json_value_get(root, "Name"));

	if (name && strlen(name) < sizeof(ret->name))
		snprintf(ret->name, sizeof(ret->name), "%s", name + (name[0] == '/'));
	take(ret->image, sizeof(ret->image), json_value_get(config, "Image"));
	take_annotations(json_value_get(config, "Labels"), ret);
}

/* The image's name is in a text of JSON of its own. */
static void parse_podman_metadata(const char *text, struct container_info *ret)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;

	if (text && json_read(text, strlen(text), MAX_FILE_BYTES, &doc, NULL) == 0)
		take(ret->image, sizeof(ret->image),
			json_value_get(json_doc_root(doc), "image-name"));
}

static void parse_podman(const struct json_value *root, const char *id, struct container_info *ret)
{
	for (size_t i = 0; i < json_value_len(root); i++) {
		const struct json_value *c = json_value_at(root, i);
		const char *its_id = json_value_str(json_value_get(c, "id"));

		if (!its_id || strcmp(its_id, id) != 0)
			continue;
		take(ret->name, sizeof(ret->name), json_value_at(json_value_get(c, "names"), 0));
		parse_podman_metadata(json_value_str(json_value_get(c, "metadata")), ret);
	}
}

bool container_parse(enum container_format format, const char *id, const void *p, size_t n,
	struct container_info *ret)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *root;

	*ret = (struct container_info) {{0}, {0}, {0}, {0}};
	if (json_read(p, n, MAX_FILE_BYTES, &doc, NULL) < 0)
		return false;
	root = json_doc_root(doc);
	switch (format) {
	case CONTAINER_DOCKER: parse_docker(root, ret); break;
	case CONTAINER_OCI: take_annotations(json_value_get(root, "annotations"), ret); break;
	case CONTAINER_PODMAN: parse_podman(root, id, ret); break;
	}
	return ret->name[0] || ret->image[0] || ret->pod[0];
}

static bool read_all(int fd, struct bytes *out)
{
	ssize_t n;

	do {
		if (!bytes_reserve(out, 64 << 10))
			return false;
		n = read(fd, out->data + out->len, out->cap - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	} while (n > 0 && out->len <= MAX_FILE_BYTES);
	return n == 0;
}

/* The text of a file below `root`; false when there is none. */
static bool read_file(struct keeper *k, int root, const char *path, struct bytes *out)
{
	_cleanup_close_ int fd = k->open_at(k, root, path, 0);

	return fd >= 0 && read_all(fd, out);
}

static bool read_place(struct keeper *k, int root, const struct place *place, const char *id,
	struct container_info *ret)
{
	const char *mark = strstr(place->path, "%s");
	int before = mark ? (int)(mark - place->path) : (int)strlen(place->path);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	char path[PATH_MAX];

	bytes_init(&text, NULL, 0);
	if (snprintf(path, sizeof(path), "%.*s%s%s", before, place->path, mark ? id : "",
		    mark ? mark + 2 : "") >= (int)sizeof(path))
		return false;
	return read_file(k, root, path, &text) &&
	       container_parse(place->format, id, text.data, text.len, ret);
}

/* Where docker's settings say that its files are: `data-root`, `graph` before docker 17.05. */
static bool read_docker_root(struct keeper *k, int root, const char *id, struct container_info *ret)
{
	static const char *const keys[] = {"data-root", "graph"};
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	bool found = false;

	bytes_init(&text, NULL, 0);
	if (!read_file(k, root, docker_settings, &text) ||
		json_read(text.data, text.len, MAX_FILE_BYTES, &doc, NULL) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(keys) && !found; i++) {
		const char *dir = json_value_str(json_value_get(json_doc_root(doc), keys[i]));
		_cleanup_free_ char *path =
			dir ? xasprintf("%s/containers/%%s/config.v2.json", dir) : NULL;

		found = path && !strchr(dir, '%') &&
			read_place(k, root, &(struct place) {CONTAINER_DOCKER, path}, id, ret);
	}
	return found;
}

/* Of a line of /etc/passwd. */
struct user {
	char *name, *id, *home;
};

static bool read_user(
	struct keeper *k, int root, uint32_t uid, struct bytes *text, struct user *ret)
{
	char want[16], *lines;

	snprintf(want, sizeof(want), "%u", uid);
	if (!read_file(k, root, "/etc/passwd", text))
		return false;
	bytes_put_u8(text, 0);
	lines = (char *)text->data;
	for (char *line; (line = strsep(&lines, "\n"));) {
		char *fields[6] = {NULL};

		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			fields[i] = strsep(&line, ":");
		*ret = (struct user) {.name = fields[0], .id = fields[2], .home = fields[5]};
		if (ret->home && ret->home[0] == '/' && strcmp(ret->id, want) == 0)
			return true;
	}
	return false;
}

/* A setting of storage.conf, with what it says of the user filled in; NULL when there is none. */
static char *storage_setting(struct bytes *text, const char *key, const struct user *user)
{
	const struct {
		const char *name, *value;
	} variables[] = {{"$HOME", user->home}, {"$USER", user->name}, {"$UID", user->id}};
	char *lines, *value = NULL;
	_cleanup_bytes_ struct bytes out = {.data = NULL};

	bytes_init(&out, NULL, 0);
	bytes_put_u8(text, 0);
	lines = (char *)text->data;
	for (char *line; !value && (line = strsep(&lines, "\n"));) {
		line += strspn(line, " \t");
		if (!str_starts_with(line, key))
			continue;
		line += strlen(key);
		line += strspn(line, " \t");
		if (*line++ != '=')
			continue;
		line += strspn(line, " \t");
		if (*line == '"' || *line == '\'') {
			const char quote[] = {*line++, 0};

			value = strsep(&line, quote);
		}
	}
	while (value && *value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(variables) && !str_starts_with(value, variables[i].name))
			i++;
		if (i == ARRAY_SIZE(variables)) {
			bytes_put_u8(&out, (uint8_t)*value++);
		} else {
			bytes_put_str(&out, variables[i].value ? variables[i].value : "");
			value += strlen(variables[i].name);
		}
	}
	bytes_put_u8(&out, 0);
	return out.data[0] == '/' ? xstrdup((char *)out.data) : NULL;
}

static bool read_storage(
	struct keeper *k, int root, const char *dir, const char *id, struct container_info *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(podman_files) && !strchr(dir, '%'); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", dir, podman_files[i]);

		if (read_place(k, root, &(struct place) {CONTAINER_PODMAN, path}, id, ret))
			return true;
	}
	return false;
}

/* Where the settings in `path` say that the storage is. */
static bool read_set_storage(struct keeper *k, int root, const char *path, const char *key,
	const struct user *user, const char *id, struct container_info *ret)
{
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	_cleanup_free_ char *dir = NULL;

	bytes_init(&text, NULL, 0);
	if (read_file(k, root, path, &text))
		dir = storage_setting(&text, key, user);
	return dir && read_storage(k, root, dir, id, ret);
}

static bool read_storage_of_root(
	struct keeper *k, int root, const char *id, struct container_info *ret)
{
	static const struct user nobody;

	for (size_t i = 0; i < ARRAY_SIZE(storage_settings); i++)
		if (read_set_storage(k, root, storage_settings[i], "graphroot", &nobody, id, ret))
			return true;
	return false;
}

/* Of a user's own podman: in the home directory, if neither the user's settings nor the host's say otherwise. */
static bool read_storage_of_user(
	struct keeper *k, int root, uint32_t uid, const char *id, struct container_info *ret)
{
	_cleanup_bytes_ struct bytes passwd = {.data = NULL};
	_cleanup_free_ char *usual = NULL, *settings = NULL;
	struct user user;

	bytes_init(&passwd, NULL, 0);
	if (!read_user(k, root, uid, &passwd, &user))
		return false;
	usual = xasprintf("%s/.local/share/containers/storage", user.home);
	settings = xasprintf("%s/.config/containers/storage.conf", user.home);
	if (read_storage(k, root, usual, id, ret) ||
		read_set_storage(k, root, settings, "graphroot", &user, id, ret))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(storage_settings); i++)
		if (read_set_storage(
			    k, root, storage_settings[i], "rootless_storage_path", &user, id, ret))
			return true;
	return false;
}

static bool read_below(
	struct keeper *k, int root, const char *id, uint32_t uid, struct container_info *ret)
{
	for (size_t i = 0; root >= 0 && i < ARRAY_SIZE(places); i++)
		if (read_place(k, root, &places[i], id, ret))
			return true;
	return root >= 0 && (read_docker_root(k, root, id, ret) ||
				    read_storage(k, root, "/var/lib/containers/storage", id, ret) ||
				    read_storage_of_root(k, root, id, ret) ||
				    (uid && read_storage_of_user(k, root, uid, id, ret)));
}

bool container_read(struct keeper *k, const char *id, uint32_t uid, struct container_info *ret)
{
	const uint32_t pids[] = {1, (uint32_t)getpid()};

	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		_cleanup_close_ int root = k->open(k, pids[i], 0, KEEPER_ROOT, 0, 0);

		if (read_below(k, root, id, uid, ret))
			return true;
	}
	return false;
}
