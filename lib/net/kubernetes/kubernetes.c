/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what API servers say.
 */
#include "lib/net/kubernetes/kubernetes.h"
#include "lib/base/alloc.h"
#include <string.h>

int kubernetes_in_cluster(struct http_transport *ret, char **ret_server, struct errbuf *eb)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT");

	if (!host || !*host || !port || !*port)
		return err_set(eb, -ENOENT,
			"not inside a cluster: KUBERNETES_SERVICE_HOST and _PORT are not set");
	*ret = (struct http_transport) {
		.auth_credentials_file =
			KUBERNETES_ACCOUNT "token", /* it is renewed: read each time */
		.tls.ca_file = KUBERNETES_ACCOUNT "ca.crt",
		.enable_http2 = true,
	};
	*ret_server =
		xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
	return 0;
}

const char *kubernetes_text(const struct json_value *object, const char *key)
{
	const char *text = json_value_str(json_value_get(object, key));

	return text ? text : "";
}

int kubernetes_read_page(const void *text, size_t n, struct json_doc **ret_doc,
	struct kubernetes_page *ret, struct errbuf *eb)
{
	int r = json_read(text, n, KUBERNETES_MAX_TEXT_BYTES, ret_doc, eb);
	const struct json_value *root, *meta;

	if (r < 0)
		return r;
	root = json_doc_root(*ret_doc);
	meta = json_value_get(root, "metadata");
	*ret = (struct kubernetes_page) {
		.items = json_value_get(root, "items"),
		.resource_version = kubernetes_text(meta, "resourceVersion"),
		.next = kubernetes_text(meta, "continue"),
	};
	return 0;
}

/* An ERROR's object is a Status. */
static int error_event(const struct json_value *status, struct errbuf *eb)
{
	int64_t code = json_value_int(json_value_get(status, "code"));

	return err_set(eb, code == 410 ? -ESTALE : -EPROTO,
		"the watch ended with error %lld: %.200s", (long long)code,
		kubernetes_text(status, "message"));
}

static int change_of(const char *type, enum kubernetes_change *ret, struct errbuf *eb)
{
	static const struct {
		const char *name;
		enum kubernetes_change change;
	} types[] = {
		{"ADDED", KUBERNETES_PUT},
		{"MODIFIED", KUBERNETES_PUT},
		{"DELETED", KUBERNETES_DELETE},
		{"BOOKMARK", KUBERNETES_BOOKMARK},
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(type, types[i].name)) {
			*ret = types[i].change;
			return 0;
		}
	return err_set(eb, -EBADMSG, "an event of unknown type \"%.40s\"", type);
}

int kubernetes_read_event(const char *line, size_t n, struct json_doc **ret_doc,
	struct kubernetes_event *ret, struct errbuf *eb)
{
	int r = json_read(line, n, KUBERNETES_MAX_TEXT_BYTES, ret_doc, eb);
	const struct json_value *root;
	const char *type;

	if (r < 0)
		return -EBADMSG;
	root = json_doc_root(*ret_doc);
	type = kubernetes_text(root, "type");
	ret->object = json_value_get(root, "object");
	if (!strcmp(type, "ERROR"))
		return error_event(ret->object, eb);
	ret->resource_version =
		kubernetes_text(json_value_get(ret->object, "metadata"), "resourceVersion");
	if (!*ret->resource_version)
		return err_set(eb, -EBADMSG, "an event without metadata.resourceVersion");
	return change_of(type, &ret->change, eb);
}

/* Appends the message of a Status object, if the text is one. */
static void put_status(const void *text, size_t n, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	size_t used = strlen(eb->text);
	const char *message;

	if (!n || json_read(text, n, KUBERNETES_MAX_TEXT_BYTES, &doc, NULL) < 0)
		return;
	message = kubernetes_text(json_doc_root(doc), "message");
	if (*message)
		snprintf(eb->text + used, sizeof(eb->text) - used, ": %.300s", message);
}

int kubernetes_error(const struct http_response *r, struct errbuf *eb)
{
	if (r->error < 0)
		return err_set(eb, r->error, "%s", r->text.text);
	err_set(eb, -EPROTO, "the server answered with status %u", r->status);
	put_status(r->body.data, r->body.len, eb);
	return -EPROTO;
}
