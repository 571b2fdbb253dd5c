/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for people, and text made safe for markup.
 */
#include "lib/base/str.h"
#include "lib/render/render.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct step {
	double factor;
	const char *suffix;
};

static const struct step time_steps[] = {
	{3600e9, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
static const struct step size_steps[] = {{1ULL << 50, "PB"}, {1ULL << 40, "TB"}, {1 << 30, "GB"},
	{1 << 20, "MB"}, {1 << 10, "kB"}, {1, "B"}};

/* What one of the unit is in nanoseconds or bytes, in `ret_scale`; NULL steps for units that are neither. */
static const struct step *steps_of(const char *unit, size_t *ret_n, double *ret_scale)
{
	static const struct {
		const char *unit;
		double scale;
		bool is_time;
	} known[] = {{"nanoseconds", 1, true}, {"ns", 1, true}, {"microseconds", 1e3, true},
		{"us", 1e3, true}, {"milliseconds", 1e6, true}, {"ms", 1e6, true},
		{"seconds", 1e9, true}, {"s", 1e9, true}, {"bytes", 1, false}, {"byte", 1, false},
		{"b", 1, false}, {"kilobytes", 1024, false}, {"kb", 1024, false}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(unit, known[i].unit) != 0)
			continue;
		*ret_scale = known[i].scale;
		*ret_n = known[i].is_time ? ARRAY_SIZE(time_steps) : ARRAY_SIZE(size_steps);
		return known[i].is_time ? time_steps : size_steps;
	}
	return NULL;
}

/* A sum that passed 63 bits stands at their limit: prof_add. */
static const char *bound(int64_t value)
{
	return value == INT64_MAX ? "at least " : value == INT64_MIN ? "at most " : "";
}

void render_value(int64_t value, const char *unit, char ret[64])
{
	const struct step *steps;
	double scale = 1, v;
	size_t n = 0;

	steps = steps_of(unit ? unit : "count", &n, &scale);
	if (!steps) {
		bool plain = !unit || !*unit || !strcmp(unit, "count");

		snprintf(ret, 64, "%s%" PRId64 "%s%.32s", bound(value), value, plain ? "" : " ",
			plain ? "" : unit);
		return;
	}
	v = (double)value * scale;
	for (size_t i = 0; i < n; i++) {
		double shown = v / steps[i].factor;

		if (fabs(shown) < 0.9995 && i + 1 < n)
			continue;
		if (shown == 0)
			snprintf(ret, 64, "0%s", i + 1 < n ? steps[i].suffix : "");
		else if (fabs(shown) >= 999.5 || shown == floor(shown))
			snprintf(ret, 64, "%s%.0f%s", bound(value), shown, steps[i].suffix);
		else
			snprintf(ret, 64, "%.*f%s", fabs(shown) < 100 ? 2 : 1, shown,
				steps[i].suffix);
		return;
	}
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
