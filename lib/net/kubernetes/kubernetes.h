/* SPDX-License-Identifier: Apache-2.0
 *
 * What every client of a Kubernetes API server needs: where the server is for a pod of its cluster, pages of lists, events of
 * watches, and why an answer is an error. Source: Kubernetes API concepts.
 */
#pragma once
#include "lib/net/client/client.h"
#include "lib/json/read.h"

#define KUBERNETES_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
enum {
	KUBERNETES_MAX_TEXT_BYTES = 1 << 30
}; /* of a page or an event; who asks sets the real limit */

/* The server by the pod's environment ("https://10.0.0.1:443", heap) and, in *ret, the credentials of its service account.
 * -ENOENT: not inside a cluster. */
int kubernetes_in_cluster(
	struct http_transport *ret, char **ret_server, struct errbuf *eb) _must_check_;

/* Text of a member; "" when it is none. */
const char *kubernetes_text(const struct json_value *object, const char *key);

/* A page of a list; everything belongs to the document, which the caller frees. *ret_doc is NULL before the call. Errors of json_read. */
struct kubernetes_page {
	const struct json_value *items;
	const char *resource_version, *next; /* `next` is "" at the last page */
};
int kubernetes_read_page(const void *text, size_t n, struct json_doc **ret_doc,
	struct kubernetes_page *ret, struct errbuf *eb) _must_check_;

enum kubernetes_change { KUBERNETES_PUT, KUBERNETES_DELETE, KUBERNETES_BOOKMARK };
struct kubernetes_event {
	enum kubernetes_change change;
	const struct json_value *object;
	const char *resource_version;
};
/* A line of a watch; *ret_doc as above, and there may be one after an error too. -ESTALE: what it would say next is lost, list again; -EPROTO: the server's own error; -EBADMSG: no event. */
int kubernetes_read_event(const char *line, size_t n, struct json_doc **ret_doc,
	struct kubernetes_event *ret, struct errbuf *eb) _must_check_;

/* Why an answer is no 200: the error of the transport, or -EPROTO with the status and the Status object in the body. */
int kubernetes_error(const struct http_response *r, struct errbuf *eb);
