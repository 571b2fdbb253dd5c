/* SPDX-License-Identifier: Apache-2.0
 *
 * Times and numbers as Prometheus writes them.
 */
#include "lib/base/clock.h"
#include "scraper/api/prometheus.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void prometheus_put_time(struct json *j, int64_t ns)
{
	int64_t ms = (ns < 0 ? ns - NS_PER_MS + 1 : ns) / NS_PER_MS;
	int64_t rest = llabs(ms % 1000);
	char text[40];

	if (rest)
		snprintf(text, sizeof(text), "%s%" PRId64 ".%03" PRId64, ms < 0 ? "-" : "",
			(int64_t)llabs(ms / 1000), rest);
	else
		snprintf(text, sizeof(text), "%" PRId64, ms / 1000);
	json_raw(j, text, strlen(text));
}

/* The shortest decimal digits that read back equal: "d.ddde±x" with trailing zeros. */
static void shortest(double v, char ret[40])
{
	/* Below the normal numbers there are fewer digits to keep. */
	for (int digits = v < DBL_MIN ? 0 : 14; digits <= 16; digits++) {
		snprintf(ret, 40, "%.*e", digits, v);
		if (strtod(ret, NULL) == v)
			return;
	}
}

void prometheus_format_value(double v, char ret[400])
{
	char text[40], *e, *end;
	size_t n = 0;
	int exponent, digits;

	if (isnan(v) || isinf(v)) {
		snprintf(ret, 400, "%s", isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (v == 0) {
		snprintf(ret, 400, "%s", signbit(v) ? "-0" : "0");
		return;
	}
	shortest(fabs(v), text);
	e = strchr(text, 'e');
	exponent = (int)strtol(e + 1, NULL, 10);
	for (end = e; end[-1] == '0';)
		end--;
	if (end[-1] == '.')
		end--;
	memmove(text + 1, text + 2,
		(size_t)(end > text + 1 ? end - text - 2 : 0)); /* the point goes */
	digits = end > text + 1 ? (int)(end - text) - 1 : 1;
	if (v < 0)
		ret[n++] = '-';
	if (fabs(v) < 1e-6 || fabs(v) >= 1e21) {
		ret[n++] = text[0];
		if (digits > 1)
			n += (size_t)snprintf(ret + n, 400 - n, ".%.*s", digits - 1, text + 1);
		snprintf(ret + n, 400 - n, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
	} else if (exponent < 0) {
		snprintf(ret + n, 400 - n, "0.%.*s%.*s", -exponent - 1, "000000000", digits, text);
	} else if (digits <= exponent + 1) {
		snprintf(ret + n, 400 - n, "%.*s%.*s", digits, text, exponent + 1 - digits,
			"0000000000000000000000");
	} else {
		snprintf(ret + n, 400 - n, "%.*s.%.*s", exponent + 1, text, digits - exponent - 1,
			text + exponent + 1);
	}
}

void prometheus_put_value(struct json *j, double v)
{
	char text[400];

	prometheus_format_value(v, text);
	json_string(j, text);
}
