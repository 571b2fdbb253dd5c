/* SPDX-License-Identifier: Apache-2.0
 *
 * Cursors of exporters. A cursor is "<start id>.<slot>"; its durable key is (job, start id, type, filter parameters), so that a target that
 * moves or has two addresses is stored once. An answer that does not continue what is stored is discarded and asked again from there.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <string.h>

enum { CURSOR_MAX = 256, HEADER_MAX = 4096 };

static bool is_cursor(const char *s)
{
	const char *dot = strrchr(s, '.');

	return strlen(s) <= CURSOR_MAX && dot && dot > s && dot[1];
}

static char *copy_header(const struct http_response *r, const char *name)
{
	const char *value = http_response_header(r, name);

	return value && strlen(value) <= HEADER_MAX ? xstrdup(value) : NULL;
}

static enum scrape_reason read_seconds(struct scrape_request *r, const char *name, double *ret)
{
	const char *text = http_response_header(&r->response, name);

	if (!text)
		return SCRAPE_OK;
	if (str_parse_double(text, ret, NULL) == 0 && *ret >= 0 && *ret < 1e12)
		return SCRAPE_OK;
	err_set(&r->error, -EPROTO, "malformed header %s: \"%.32s\", expected seconds", name, text);
	return SCRAPE_FAIL_PROTOCOL;
}

/* job NUL start id NUL type NUL filter */
static void make_key(struct scrape_request *r, const char *cursor)
{
	size_t n_id = (size_t)(strrchr(cursor, '.') - cursor);
	const char *parts[] = {r->job->name, cursor, r->type->spec.name, r->type->filter};
	size_t lengths[] = {
		strlen(r->job->name), n_id, strlen(r->type->spec.name), strlen(r->type->filter)};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		n += lengths[i] + (i > 0);
	r->cursor_key = xmalloc(n + 1);
	r->cursor_key_len = n;
	n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (i)
			r->cursor_key[n++] = '\0';
		memcpy(r->cursor_key + n, parts[i], lengths[i]);
		n += lengths[i];
	}
}

static bool same_start(const char *a, const char *b)
{
	size_t n = (size_t)(strrchr(a, '.') - a) + 1;

	return !strncmp(a, b, n);
}

/* What is stored under the answer's key, or NULL. */
static char *stored_cursor(struct scrape *s, const struct scrape_request *r)
{
	_cleanup_bytes_ struct bytes b = {0};

	bytes_init(&b, NULL, CURSOR_MAX);
	if (s->o.sink.cursor_get(s->o.sink.arg,
		    (struct store_blob) {.p = r->cursor_key, .len = r->cursor_key_len}, &b) < 0)
		return NULL;
	return xstrndup(b.len ? (const char *)b.data : "", b.len);
}

/*
 * Decides whether the answer continues what is stored. The answer covers (base, next]: base is the cursor that was sent when the exporter
 * still knows its start id, else the beginning of the new start (or, without a cursor, whatever the last window was).
 */
static void check_continuity(struct scrape *s, struct scrape_request *r)
{
	const char *sent = r->cursor_sent;
	bool continues = *sent && same_start(sent, r->cursor_next) && !r->restarted;

	r->cursor_stored = stored_cursor(s, r);
	if (!r->cursor_stored)
		r->discard = false;
	else
		r->discard = !continues || strcmp(r->cursor_stored, sent) != 0;
	r->is_unchanged = continues && !strcmp(sent, r->cursor_next);
	if (r->discard)
		return;
	r->out.cursor_key = (struct store_blob) {.p = r->cursor_key, .len = r->cursor_key_len};
	if (r->cursor_stored)
		r->out.cursor_before = (struct store_blob) {
			.p = r->cursor_stored, .len = strlen(r->cursor_stored)};
	r->out.cursor_after =
		(struct store_blob) {.p = r->cursor_next, .len = strlen(r->cursor_next)};
}

enum scrape_reason scrape_cursor_read(struct scrape *s, struct scrape_request *r)
{
	const struct http_response *a = &r->response;
	enum scrape_reason reason;

	r->is_sonde = http_response_header(a, "sonde-exporter") != NULL;
	if (!r->is_sonde)
		return SCRAPE_OK;
	r->answer_types = copy_header(a, "sonde-types");
	r->answer_labels = copy_header(a, "sonde-labels");
	r->cursor_next = copy_header(a, "sonde-cursor");
	r->restarted = http_response_header(a, "sonde-restarted") != NULL;
	reason = read_seconds(r, "sonde-behind-seconds", &r->behind_s);
	if (!reason)
		reason = read_seconds(r, "sonde-lost-seconds", &r->lost_s);
	if (!reason)
		reason = scrape_vitals_read(r);
	if (reason || !r->cursor_sent)
		return reason;
	if (!r->cursor_next || !is_cursor(r->cursor_next)) {
		err_set(&r->error, -EPROTO, "the exporter sent %s, expected <start id>.<slot>",
			r->cursor_next ? "a malformed Sonde-Cursor" : "no Sonde-Cursor");
		return SCRAPE_FAIL_PROTOCOL;
	}
	make_key(r, r->cursor_next);
	check_continuity(s, r);
	return SCRAPE_OK;
}
