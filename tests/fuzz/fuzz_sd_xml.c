/* SPDX-License-Identifier: Apache-2.0
 *
 * XML of discoveries: whatever arrives gives a tree whose texts can all be read, or an error that says where.
 */
#include "scraper/discover/xml.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_DEPTH = 64 };

static size_t walk(const struct xml_node *n, unsigned depth)
{
	size_t bytes = 0;

	ASSERT(depth <= MAX_DEPTH);
	for (; n; n = n->next) {
		ASSERT(n->name && n->text);
		ASSERT(!n->children || !n->text[0]);
		bytes += strlen(n->name) + strlen(n->text) + walk(n->children, depth + 1);
	}
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_arena_ struct arena arena;
	struct xml_node *root = NULL;
	struct errbuf eb = {0};

	arena_init(&arena, NULL);
	if (xml_read(data, size, &arena, &root, &eb) < 0) {
		ASSERT(eb.text[0] && !root);
		return 0;
	}
	ASSERT(root && !root->next);
	walk(root, 1);
	if (root->children && !strchr(root->children->name, '.'))
		ASSERT(xml_at(root, root->children->name) == root->children);
	return 0;
}
