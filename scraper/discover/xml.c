/* SPDX-License-Identifier: Apache-2.0
 *
 * expat's callbacks build the tree.
 */
#include "scraper/discover/xml.h"
#include "lib/base/bytes.h"
#include <expat.h>
#include <limits.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

struct reader {
	XML_Parser parser;
	struct arena *arena;
	struct xml_node *open[MAX_DEPTH], *last[MAX_DEPTH]; /* by depth; the last child so far */
	unsigned depth;
	struct xml_node *root;
	struct bytes text; /* of the element that was opened last */
	const char *refused;
};

static void refuse(struct reader *r, const char *why)
{
	if (!r->refused)
		r->refused = why;
	XML_StopParser(r->parser, XML_FALSE);
}

static void on_start(void *arg, const char *name, const char **attributes)
{
	struct reader *r = arg;
	const char *colon = strrchr(name, ':');
	struct xml_node *n;

	(void)attributes;
	if (r->depth == MAX_DEPTH) {
		refuse(r, "nested too deep");
		return;
	}
	n = arena_zalloc(r->arena, sizeof(*n));
	if (n)
		n->name = arena_strdup(r->arena, colon ? colon + 1 : name);
	if (!n || !n->name) {
		refuse(r, "out of memory");
		return;
	}
	n->text = "";
	if (!r->depth)
		r->root = n;
	else if (r->last[r->depth - 1])
		r->last[r->depth - 1]->next = n;
	else
		r->open[r->depth - 1]->children = n;
	if (r->depth)
		r->last[r->depth - 1] = n;
	r->last[r->depth] = NULL;
	r->open[r->depth++] = n;
	bytes_reset(&r->text);
}

static void on_end(void *arg, const char *name)
{
	struct reader *r = arg;
	struct xml_node *n = r->open[--r->depth];

	(void)name;
	if (n->children || !r->text.len)
		return;
	n->text = bytes_error(&r->text) < 0
			  ? NULL
			  : arena_strndup(r->arena, (const char *)r->text.data, r->text.len);
	bytes_reset(&r->text);
	if (!n->text) {
		n->text = "";
		refuse(r, "out of memory");
	}
}

static void on_text(void *arg, const char *s, int n)
{
	struct reader *r = arg;

	bytes_put(&r->text, s, (size_t)n);
}

static void on_doctype(
	void *arg, const char *name, const char *sysid, const char *pubid, int has_subset)
{
	(void)name, (void)sysid, (void)pubid, (void)has_subset;
	refuse(arg, "a document type is not accepted");
}

static int read_all(struct reader *r, const void *p, size_t n, struct errbuf *eb)
{
	XML_SetUserData(r->parser, r);
	XML_SetElementHandler(r->parser, on_start, on_end);
	XML_SetCharacterDataHandler(r->parser, on_text);
	XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
	if (n <= INT_MAX && XML_Parse(r->parser, p, (int)n, 1) == XML_STATUS_OK)
		return 0;
	return err_set(eb, -EBADMSG, "line %lu, column %lu: %s",
		(unsigned long)XML_GetCurrentLineNumber(r->parser),
		(unsigned long)XML_GetCurrentColumnNumber(r->parser) + 1,
		n > INT_MAX  ? "too long"
		: r->refused ? r->refused
			     : XML_ErrorString(XML_GetErrorCode(r->parser)));
}

int xml_read(
	const void *p, size_t n, struct arena *arena, struct xml_node **ret_root, struct errbuf *eb)
{
	struct reader r = {.parser = XML_ParserCreate(NULL), .arena = arena};
	int e;

	if (!r.parser)
		return err_set(eb, -ENOMEM, "out of memory");
	e = read_all(&r, n ? p : "", n, eb);
	XML_ParserFree(r.parser);
	bytes_done(&r.text);
	if (e == 0)
		*ret_root = r.root;
	return e;
}

const struct xml_node *xml_at(const struct xml_node *node, const char *path)
{
	while (node && *path) {
		size_t n = strcspn(path, ".");

		for (node = node->children; node; node = node->next)
			if (strlen(node->name) == n && !memcmp(node->name, path, n))
				break;
		path += n + (path[n] == '.');
	}
	return node;
}

const char *xml_text(const struct xml_node *node, const char *path)
{
	const struct xml_node *at = xml_at(node, path);

	return at ? at->text : NULL;
}
