/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for people, and text made safe for markup.
 */
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/render/render.h"
#include <stdio.h>
#include <string.h>

/* A sum that passed 63 bits stands at their limit: prof_add. */
static const char *bound(int64_t value)
{
	return value == INT64_MAX ? "at least " : value == INT64_MIN ? "at most " : "";
}

void render_value(int64_t value, const char *unit, char ret[64])
{
	char text[UNITS_TEXT_MAX];

	units_text((double)value, unit ? unit : "count", text);
	snprintf(ret, 64, "%s%.*s", bound(value),
		(int)str_utf8_fit(text, strlen(text), 63 - strlen(bound(value))), text);
}

void render_escape(struct bytes *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)s[i];
		size_t len = c < 0x80 ? 1 : str_utf8_len(s + i, n - i);

		if (c == '&')
			bytes_put_str(out, "&amp;");
		else if (c == '<')
			bytes_put_str(out, "&lt;");
		else if (c == '>')
			bytes_put_str(out, "&gt;");
		else if (c == '"')
			bytes_put_str(out, "&quot;");
		else if (c == '\'')
			bytes_put_str(out, "&#39;");
		else if (!len || c == 0x7f || (c < ' ' && c != '\n' && c != '\t'))
			bytes_put_str(out, "\xef\xbf\xbd");
		else if (len == 3 && c == 0xef && (unsigned char)s[i + 1] == 0xbf &&
			 (unsigned char)s[i + 2] >=
				 0xbe) /* U+FFFE and U+FFFF are no XML characters */
			bytes_put_str(out, "\xef\xbf\xbd");
		else
			bytes_put(out, s + i, len);
		i += len ? len : 1;
	}
}

void render_escape_str(struct bytes *out, const char *s)
{
	render_escape(out, s, strlen(s));
}
