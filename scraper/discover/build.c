/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets and labels from foreign data.
 */
#include "scraper/discover/build.h"
#include "lib/base/alloc.h"
#include "lib/net/client/client.h"
#include "scraper/discover/provider.h"
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MAX_JSON_BYTES = 64 << 20, SHOWN_BODY = 120 };

void discover_build_init(struct discover_build *d, const char *source)
{
	*d = (struct discover_build) {.group.source = xstrdup(source)};
}

void discover_build_done(struct discover_build *d)
{
	discover_group_done(&d->group);
}

void discover_build_target(struct discover_build *d, struct labels_builder *labels)
{
	struct discover_group *g = &d->group;

	if (!d->error)
		d->error = alloc_grow(&g->targets, &d->cap, g->n_targets + 1, sizeof(*g->targets));
	if (!d->error)
		d->error = labels_builder_finish(labels, &g->targets[g->n_targets]);
	if (!d->error)
		g->n_targets++;
}

static bool is_complete(struct discover_build *d, struct discover_provider *p)
{
	if (d->error)
		discover_failed(p, "%s: out of memory", p->kind->name);
	return !d->error;
}

void discover_build_add(struct discover_build *d, struct discover_provider *p)
{
	if (!is_complete(d, p))
		return;
	discover_set_group(p, &d->group);
	d->group = (struct discover_group) {0};
}

void discover_build_set(struct discover_build *d, struct discover_provider *p)
{
	struct discover_group *groups;

	if (!is_complete(d, p))
		return;
	groups = xcalloc(1, sizeof(*groups));
	groups[0] = d->group;
	d->group = (struct discover_group) {0};
	discover_set_groups(p, groups, 1);
}

void discover_set_address(struct labels_builder *b, const char *host, uint64_t port)
{
	_cleanup_free_ char *address =
		xasprintf(strchr(host, ':') ? "[%s]:%" PRIu64 : "%s:%" PRIu64, host, port);

	labels_builder_set(b, "__address__", address);
}

void discover_set_named(
	struct labels_builder *b, const char *prefix, const char *name, const char *value)
{
	_cleanup_free_ char *label = xasprintf("%s%s", prefix, name);
	char *to = label + strlen(prefix);

	/* a character, of however many bytes, becomes one underscore */
	for (const unsigned char *from = (unsigned char *)to; *from; from++) {
		if (isascii(*from) && isalnum(*from))
			*to++ = (char)*from;
		else if ((*from & 0xc0) != 0x80)
			*to++ = '_';
	}
	*to = '\0';
	labels_builder_set(b, label, value);
}

/* The value as a label has it, or NULL. */
static const char *text_of(const struct json_value *v, char buf[32])
{
	switch (json_value_kind(v)) {
	case JSON_KIND_STRING: return json_value_str(v);
	case JSON_KIND_BOOL: return json_value_bool(v) ? "true" : "false";
	case JSON_KIND_INT: snprintf(buf, 32, "%" PRId64, json_value_int(v)); return buf;
	case JSON_KIND_DOUBLE: snprintf(buf, 32, "%.17g", json_value_double(v)); return buf;
	default: return NULL;
	}
}

void discover_set_value(struct labels_builder *b, const char *label, const struct json_value *v)
{
	char buf[32];
	const char *text = v ? text_of(v, buf) : NULL;

	if (text)
		labels_builder_set(b, label, text);
}

void discover_set_map(struct labels_builder *b, const char *prefix, const struct json_value *object)
{
	const struct json_value *v;
	const char *key;
	void *pos = NULL;

	while (object && json_value_next(object, &pos, &key, &v)) {
		char buf[32];
		const char *text = text_of(v, buf);

		if (text)
			discover_set_named(b, prefix, key, text);
	}
}

void discover_set_list(struct labels_builder *b, const char *label, const char *separator,
	const struct json_value *array)
{
	_cleanup_bytes_ struct bytes text = {0};

	bytes_put_str(&text, separator);
	for (size_t i = 0; array && i < json_value_len(array); i++) {
		const char *item = json_value_str(json_value_at(array, i));

		bytes_put_str(&text, item ? item : "");
		bytes_put_str(&text, separator);
	}
	/* without items Prometheus writes the separator twice */
	if (!array || !json_value_len(array))
		bytes_put_str(&text, separator);
	bytes_put_u8(&text, 0);
	if (bytes_error(&text) == 0)
		labels_builder_set(b, label, (const char *)text.data);
	else
		b->error = -ENOMEM;
}

const struct json_value *discover_json_at(const struct json_value *v, const char *path)
{
	while (v && *path) {
		size_t n = strcspn(path, ".");
		char key[64];

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		v = json_value_get(v, key);
		path += n + (path[n] == '.');
	}
	return v;
}

const char *discover_json_text(const struct json_value *v, const char *path)
{
	const struct json_value *at = discover_json_at(v, path);
	const char *s = at ? json_value_str(at) : NULL;

	return s ? s : "";
}

/* The first line of a body that says why, for a message. */
static int fail_status(const struct http_response *r, struct errbuf *eb)
{
	const char *body = (const char *)r->body.data;
	size_t n = 0;

	while (n < r->body.len && n < SHOWN_BODY && isprint((unsigned char)body[n]))
		n++;
	return err_set(eb, -EPROTO, "the server answered with status %u%s%.*s", r->status,
		n ? ": " : "", (int)n, n ? body : "");
}

int discover_read_json(const struct http_response *r, enum json_kind kind, struct json_doc **ret,
	struct errbuf *eb)
{
	int e;

	if (r->error < 0)
		return err_set(eb, r->error, "%s", r->text.text);
	if (r->status != 200)
		return fail_status(r, eb);
	e = json_read(r->body.data, r->body.len, MAX_JSON_BYTES, ret, eb);
	if (e < 0)
		return e;
	if (json_value_kind(json_doc_root(*ret)) == kind)
		return 0;
	e = err_set(eb, -EBADMSG, "the answer is %s, expected %s",
		json_value_kind_name(json_doc_root(*ret)),
		kind == JSON_KIND_ARRAY ? "a list" : "an object");
	json_doc_freep(ret);
	return e;
}
