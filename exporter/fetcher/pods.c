/* SPDX-License-Identifier: Apache-2.0
 *
 * The pods of a node: from the API server a list, then a watch from the list's end, limited to the node; from a kubelet its
 * /pods, again and again. Main gets an update when something that counts has changed, and after a failure. A failed request is
 * repeated after a pause that doubles.
 */
#include "exporter/fetcher/pods.h"
#include "exporter/fetcher/protocol.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd_message.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "lib/net/client/lines.h"
#include "lib/net/kubernetes/kubernetes.h"
#include "lib/net/url/url.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum {
	PAGE_PODS = 500,
	LIST_TIMEOUT_MS = 60 * 1000,
	WATCH_S = 300,
	WATCH_GRACE_MS = 30 * 1000, /* by then a server that lives has ended it */
	WATCH_PAUSE_MS = 500,	    /* from the start of one watch to the next, at least */
	FIRST_PAUSE_MS = 1000,
	MAX_PAUSE_MS = 60 * 1000,
};

struct follower {
	const struct fetcher_pods_options *o;
	int sock;
	char *agent, *server;
	struct http_transport transport;
	struct pod_records pods;
	uint64_t list; /* number of the one that is read, or was read last */
	char *version; /* of the last page or event */
	uint64_t sent; /* hash of what main knows */
	bool has_sent; /* it knows that, and not that it fails */
	struct http_lines lines;
	bool is_open; /* the server has taken the watch */
	struct errbuf stream_error;
};

/* ── updates for main ── */

static int open_records(const struct bytes *records)
{
	_cleanup_close_ int fd = memfd_create("pods", MFD_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < records->len) {
		ssize_t n = write(fd, records->data + done, records->len - done);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fd < 0 ? -errno : TAKE_FD(fd);
}

static void tell(struct follower *f)
{
	struct fetcher_pods_update update = {.magic = FETCHER_MAGIC, .left_out = f->pods.left_out};
	_cleanup_bytes_ struct bytes records = {0};
	_cleanup_close_ int fd = -1;
	uint64_t hash;

	pod_records_print(&f->pods, &records);
	hash = hash_xxh3(records.data, records.len);
	if (f->has_sent && hash == f->sent)
		return;
	fd = open_records(&records);
	update.bytes = records.len;
	if (fd < 0 || fd_message_send(f->sock, &update, sizeof(update), &fd, 1, 0) < 0)
		return;
	f->has_sent = true;
	f->sent = hash;
}

static enum fetcher_pods_status status_of(int error)
{
	switch (error) {
	case -EACCES: return FETCHER_PODS_DENIED;
	case -EFBIG: return FETCHER_PODS_TOO_LARGE;
	case -ETIMEDOUT: return FETCHER_PODS_TIMEOUT;
	case -EBADMSG: return FETCHER_PODS_MALFORMED;
	default: return FETCHER_PODS_ERROR;
	}
}

static void tell_failure(struct follower *f, int error, const char *text)
{
	struct fetcher_pods_update update = {
		.magic = FETCHER_MAGIC, .status = status_of(error), .left_out = f->pods.left_out};

	snprintf(update.text, sizeof(update.text), "%s", text);
	f->has_sent = false;
	(void)!fd_message_send(f->sock, &update, sizeof(update), NULL, 0, 0);
}

/* ── requests ── */

static bool exists(const char *path)
{
	struct fs_stat st;

	return *path && fs_system.stat(&fs_system, path, &st) == 0;
}

/* Where to ask, and with what: a token goes out encrypted or not at all. */
static int connect_server(struct follower *f, struct errbuf *eb)
{
	const char *url = *f->o->kubelet ? f->o->kubelet : f->o->server;
	size_t n = strlen(url);

	free(TAKE(f->server));
	f->transport = (struct http_transport) {.enable_http2 = true};
	if (!n) {
		int r = kubernetes_in_cluster(&f->transport, &f->server, eb);

		if (r < 0)
			return r;
	} else {
		while (n && url[n - 1] == '/')
			n--;
		f->server = xstrndup(url, n);
	}
	if (str_starts_with(f->server, "https://")) {
		f->transport.auth_credentials_file =
			exists(f->o->token_file) ? f->o->token_file : NULL;
		f->transport.tls.ca_file = exists(f->o->ca_file) ? f->o->ca_file : NULL;
		f->transport.tls.insecure_skip_verify = f->o->insecure_skip_verify;
	}
	return 0;
}

static int answer_error(const struct http_response *r, struct errbuf *eb)
{
	int e = kubernetes_error(r, eb);

	if (r->error < 0)
		return e;
	return r->status == 410 ? -ESTALE : r->status == 401 || r->status == 403 ? -EACCES : e;
}

/* 0 with a response of status 200. */
static int ask(struct follower *f, const struct http_fetch *what, struct http_response *ret,
	struct errbuf *eb)
{
	static const char *const headers[] = {"Accept: application/json", NULL};
	struct http_fetch fetch = *what;
	struct errbuf own = {0};
	int r;

	fetch.headers = headers;
	fetch.transport = &f->transport;
	fetch.max_body_bytes = f->o->max_bytes;
	r = http_client_fetch(&fetch, f->agent, ret, &own);
	if (r < 0 && !ret->error)
		return err_set(eb, r, "%s", err_text(&own, r));
	return r < 0 || ret->status != 200 ? answer_error(ret, eb) : 0;
}

static int put_items(struct follower *f, const struct kubernetes_page *page, struct errbuf *eb)
{
	int r = json_value_kind(page->items) == JSON_KIND_ARRAY
			? 0
			: err_set(eb, -EBADMSG, "an answer without items");

	for (size_t i = 0; r == 0 && json_value_at(page->items, i); i++)
		r = pod_records_set(&f->pods, json_value_at(page->items, i), f->list, eb);
	return r;
}

/* One answer with a list, or a page of one; its continuation goes to *ret_next ("" at the end). */
static int get_page(struct follower *f, const char *url, char **ret_next, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response response = {0};
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct kubernetes_page page;
	int r = ask(
		f, &(struct http_fetch) {.url = url, .timeout_ms = LIST_TIMEOUT_MS}, &response, eb);

	if (r == 0)
		r = kubernetes_read_page(response.body.data, response.body.len, &doc, &page, eb);
	if (r == 0)
		r = put_items(f, &page, eb);
	if (r < 0)
		return r;
	free(f->version);
	f->version = xstrdup(page.resource_version);
	free(*ret_next);
	*ret_next = xstrdup(page.next);
	return 0;
}

static void put_parameter(struct bytes *url, const char *name, const char *value)
{
	bytes_printf(url, "&%s=", name);
	url_escape_query(url, value, strlen(value));
}

static void put_url(const struct follower *f, const char *query, struct bytes *url)
{
	_cleanup_free_ char *selector = xasprintf("spec.nodeName=%s", f->o->node);

	bytes_printf(url, "%s/api/v1/pods?%s", f->server, query);
	put_parameter(url, "fieldSelector", selector);
}

static int list_api(struct follower *f, struct errbuf *eb)
{
	_cleanup_free_ char *next = xstrdup("");
	int r;

	do {
		_cleanup_bytes_ struct bytes url = {0};
		char query[32];

		snprintf(query, sizeof(query), "limit=%d", PAGE_PODS);
		put_url(f, query, &url);
		if (*next)
			put_parameter(&url, "continue", next);
		bytes_put_u8(&url, '\0');
		r = get_page(f, (const char *)url.data, &next, eb);
	} while (r == 0 && *next);
	return r;
}

static int list_kubelet(struct follower *f, struct errbuf *eb)
{
	_cleanup_free_ char *url = xasprintf("%s/pods", f->server), *next = xstrdup("");

	return get_page(f, url, &next, eb);
}

static int list(struct follower *f, struct errbuf *eb)
{
	int r = connect_server(f, eb);

	f->list++;
	if (r == 0)
		r = *f->o->kubelet ? list_kubelet(f, eb) : list_api(f, eb);
	if (r < 0)
		return r;
	pod_records_sweep(&f->pods, f->list);
	tell(f);
	return 0;
}

/* ── the watch ── */

static int on_line(void *arg, const char *line, size_t n)
{
	struct follower *f = arg;
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	struct kubernetes_event event;
	int r = kubernetes_read_event(line, n, &doc, &event, &f->stream_error);

	if (r == 0 && event.change == KUBERNETES_PUT)
		r = pod_records_set(&f->pods, event.object, f->list, &f->stream_error);
	if (r < 0)
		return r;
	if (event.change == KUBERNETES_DELETE)
		pod_records_delete(&f->pods, event.object);
	free(f->version);
	f->version = xstrdup(event.resource_version);
	return 0;
}

static int on_piece(const void *p, size_t n, void *arg)
{
	struct follower *f = arg;
	int r = n ? http_lines_put(&f->lines, p, n, on_line, f, &f->stream_error) : 0;

	f->is_open = true;
	if (r == 0)
		tell(f);
	return r;
}

/* 0 when the server ended it; -ESTALE when a list must come first. */
static int watch(struct follower *f, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response response = {0};
	_cleanup_bytes_ struct bytes url = {0};
	char query[96];
	int r;

	snprintf(query, sizeof(query), "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d",
		WATCH_S);
	put_url(f, query, &url);
	put_parameter(&url, "resourceVersion", f->version);
	bytes_put_u8(&url, '\0');
	http_lines_reset(&f->lines);
	f->stream_error = (struct errbuf) {0};
	f->is_open = false;
	r = ask(f,
		&(struct http_fetch) {.url = (const char *)url.data,
			.timeout_ms = WATCH_S * 1000 + WATCH_GRACE_MS,
			.piece = on_piece,
			.arg = f},
		&response, eb);
	if (r < 0 && f->stream_error.text[0])
		return err_set(eb, r, "%s", f->stream_error.text);
	return f->is_open && r != -ESTALE ? 0 : r; /* one that broke off goes on from there */
}

static void pause_until(int64_t at_ns)
{
	clock_system.sleep_until_ns(&clock_system, at_ns);
}

/* Until something fails, or the server has forgotten where we were. */
static int follow(struct follower *f, struct errbuf *eb)
{
	int r = list(f, eb);

	while (r == 0) {
		int64_t start_ns = clock_monotonic_ns(&clock_system);

		if (*f->o->kubelet) {
			pause_until(start_ns + f->o->interval_ms * NS_PER_MS);
			r = list(f, eb);
		} else {
			r = watch(f, eb);
			pause_until(start_ns + WATCH_PAUSE_MS * NS_PER_MS);
		}
	}
	return r;
}

static void *follow_main(void *arg)
{
	struct follower *f = arg;
	unsigned n_failures = 0;

	prctl(PR_SET_NAME, "pods");
	for (;;) {
		struct errbuf eb = {0};
		int r = follow(f, &eb);

		n_failures = f->has_sent ? 0 : n_failures + 1;
		if (r != -ESTALE)
			tell_failure(f, r, err_text(&eb, r));
		pause_until(clock_monotonic_ns(&clock_system) +
			    MIN((int64_t)FIRST_PAUSE_MS << MIN(n_failures, 10U),
				    (int64_t)MAX_PAUSE_MS) *
				    NS_PER_MS);
	}
	return NULL;
}

void pods_follow(const struct fetcher_pods_options *o, int sock)
{
	struct follower *f = xcalloc(1, sizeof(*f));
	pthread_t thread;

	f->o = f->pods.o = o;
	f->sock = sock;
	f->agent = xasprintf("sonde-exporter/%s", version_number());
	http_lines_init(&f->lines, o->max_bytes);
	if (pthread_create(&thread, NULL, follow_main, f) == 0) {
		pthread_detach(thread);
		return;
	}
	tell_failure(f, -EAGAIN, "the thread that follows pods cannot be started");
	close(sock);
	http_lines_done(&f->lines);
	free(f->agent);
	free(f);
}
