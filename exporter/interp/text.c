/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8.
 */
#include "exporter/interp/text.h"
#include "lib/base/alloc.h"
#include <string.h>

static const char ELLIPSIS[] = "\xe2\x80\xa6";
enum { MAX_UTF8_BYTES = 4, REPLACEMENT = 0xfffd };

static size_t put_utf8(uint32_t c, char *to)
{
	if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = REPLACEMENT;
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

void interp_text_clip(struct interp_text *t)
{
	if (t->is_full)
		return;
	memcpy(t->bytes + t->n, ELLIPSIS, strlen(ELLIPSIS));
	t->n += strlen(ELLIPSIS);
	t->is_full = true;
}

bool interp_text_put(struct interp_text *t, uint32_t c)
{
	if (t->is_full)
		return false;
	if (t->n + MAX_UTF8_BYTES + strlen(ELLIPSIS) > sizeof(t->bytes)) {
		interp_text_clip(t);
		return false;
	}
	t->n += put_utf8(c, t->bytes + t->n);
	return true;
}

char *interp_text_take(const struct interp_text *t)
{
	return xstrndup(t->bytes, t->n);
}
