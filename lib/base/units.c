/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of units. Each is a multiple of the unit of its family; a family is the steps that its values are shown in.
 */
#include "lib/base/units.h"
#include "lib/base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DECIMALS = 15 };

struct step {
	double size;
	const char *suffix;
};

struct family {
	const struct step *steps; /* the last one is the unit */
	size_t n;
	double exact; /* whole values below it keep all digits */
};

static const struct step time_steps[] = {{86400e9, "d"}, {3600e9, "h"}, {60e9, "min"}, {1e9, "s"},
	{1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
static const struct step size_steps[] = {{0x1p50, "PiB"}, {0x1p40, "TiB"}, {0x1p30, "GiB"},
	{0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};
static const struct step count_steps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
static const struct step core_steps[] = {{1, " cores"}};
static const struct step percent_steps[] = {{1, "%"}};

static const struct family times = {time_steps, ARRAY_SIZE(time_steps), 1e3};
static const struct family sizes = {size_steps, ARRAY_SIZE(size_steps), 1024};
static const struct family counts = {count_steps, ARRAY_SIZE(count_steps), 1e5};
static const struct family cores = {core_steps, ARRAY_SIZE(core_steps), 0};
static const struct family percents = {percent_steps, ARRAY_SIZE(percent_steps), 0};

static const struct unit {
	const char *name;
	const struct family *family;
	double factor;
} units[] = {{"nanoseconds", &times, 1}, {"ns", &times, 1}, {"microseconds", &times, 1e3},
	{"us", &times, 1e3}, {"milliseconds", &times, 1e6}, {"ms", &times, 1e6},
	{"seconds", &times, 1e9}, {"s", &times, 1e9}, {"bytes", &sizes, 1}, {"byte", &sizes, 1},
	{"b", &sizes, 1}, {"kilobytes", &sizes, 0x1p10}, {"kb", &sizes, 0x1p10},
	{"megabytes", &sizes, 0x1p20}, {"mb", &sizes, 0x1p20}, {"gigabytes", &sizes, 0x1p30},
	{"gb", &sizes, 0x1p30}, {"count", &counts, 1}, {"", &counts, 1},
	{"thousandths", &counts, 1e-3}, {"millionths", &counts, 1e-6},
	{"billionths", &counts, 1e-9}, {"nanocores", &cores, 1e-9}, {"cores", &cores, 1},
	{"ppm", &percents, 1e-4}};

static const char per_second[] = "/second";

static const struct unit *find_unit(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == n && !memcmp(units[i].name, name, n))
			return &units[i];
	return NULL;
}

/* Three digits, halves away from 0, no exponent; below 1 without zeros at the end. */
static void put_digits(double v, char ret[32])
{
	double size = fabs(v), power = 1, rounded;
	int decimals = 0;

	while (size > 0 && size * power < 99.95 && decimals < MAX_DECIMALS) {
		power *= 10;
		decimals++;
	}
	rounded = floor(size * power + 0.5) / power;
	if (rounded == 0)
		decimals = 0;
	snprintf(ret, 32, "%.*f", decimals, rounded && v < 0 ? -rounded : rounded);
	if (rounded > 0 && size < 0.9995)
		for (size_t n = strlen(ret); ret[n - 1] == '0'; n--)
			ret[n - 1] = '\0';
}

/* In the largest step that it reaches, rounded. */
static void put_number(double v, const struct family *f, char ret[UNITS_TEXT_MAX])
{
	const struct step *step = f->steps;
	char number[32];

	while (step < f->steps + f->n - 1 && fabs(v) < step->size * 0.9995)
		step++;
	if (fabs(v) < f->exact && v == floor(v)) {
		step = f->steps + f->n - 1;
		snprintf(number, sizeof(number), "%.0f", v == 0 ? 0.0 : v);
	} else
		put_digits(v / step->size, number);
	snprintf(ret, UNITS_TEXT_MAX, "%s%s", number, v == 0 && f->n > 1 ? "" : step->suffix);
}

void units_text(double value, const char *unit, char ret[UNITS_TEXT_MAX])
{
	bool is_rate = str_ends_with(unit, per_second);
	size_t n = strlen(unit) - (is_rate ? strlen(per_second) : 0), len;
	const struct unit *u = find_unit(unit, n);
	int room;

	put_number(value * (u ? u->factor : 1), u ? u->family : &counts, ret);
	len = strlen(ret);
	room = (int)str_utf8_fit(unit, n, UNITS_TEXT_MAX - len - sizeof(" /s"));
	snprintf(ret + len, UNITS_TEXT_MAX - len, "%s%.*s%s", u ? "" : " ", u ? 0 : room, unit,
		is_rate ? "/s" : "");
}

bool units_is_cpu_time(const char *sample_type, const char *unit)
{
	return !strcmp(sample_type, "cpu") && !strcmp(unit, "nanoseconds");
}

void units_rate(const char *sample_type, const char *unit, bool is_state, char ret[UNITS_NAME_MAX])
{
	size_t n = str_utf8_fit(unit, strlen(unit), UNITS_NAME_MAX - sizeof(per_second));

	if (!is_state && units_is_cpu_time(sample_type, unit))
		snprintf(ret, UNITS_NAME_MAX, "nanocores");
	else
		snprintf(ret, UNITS_NAME_MAX, "%.*s%s", (int)n, unit, is_state ? "" : per_second);
}

const char *units_name(const char *unit)
{
	return !strcmp(unit, "nanocores") ? "cores" : !strcmp(unit, "ppm") ? "shares" : unit;
}
