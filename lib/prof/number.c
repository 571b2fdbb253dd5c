/* SPDX-License-Identifier: Apache-2.0
 *
 * Which texts are numbers: those that prof_number_text writes, with a unit that pprof scales.
 */
#include "lib/prof/number.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT_TEXT_MAX = 32 };

void prof_number_text(int64_t num, struct prof_str unit, char ret[PROF_NUMBER_TEXT_MAX])
{
	snprintf(ret, PROF_NUMBER_TEXT_MAX, "%" PRId64 "%.*s", num,
		(int)str_utf8_fit(unit.p, unit.len, UNIT_TEXT_MAX), unit.len ? unit.p : "");
}

static bool is_unit(const char *s)
{
	static const char *const units[] = {"bytes", "byte", "kilobytes", "megabytes",
		"nanoseconds", "microseconds", "milliseconds", "seconds"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(s, units[i]))
			return true;
	return false;
}

/* What has no unit has one by its key. */
static bool implies_unit(const char *key)
{
	return is_unit(key) || !strcmp(key, "alignment") || !strcmp(key, "request");
}

bool prof_number_read(const char *key, const char *text, int64_t *ret, const char **ret_unit)
{
	char digits[PROF_NUMBER_TEXT_MAX], again[PROF_NUMBER_TEXT_MAX];
	size_t n = strspn(text, "-0123456789");
	int64_t num;

	if (!n || n >= sizeof(digits) || (text[n] ? !is_unit(text + n) : !implies_unit(key)))
		return false;
	memcpy(digits, text, n);
	digits[n] = '\0';
	if (str_parse_i64(digits, &num, NULL) < 0 || !num)
		return false;
	prof_number_text(num, (struct prof_str) {.p = ""}, again);
	if (strcmp(again, digits) != 0) /* "007" is a name */
		return false;
	*ret = num;
	*ret_unit = text + n;
	return true;
}

static size_t count_numbers(const struct profile *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_labels; i++)
		n += !p->labels[i].str;
	return n;
}

int prof_number_labels(struct profile *p, struct errbuf *eb)
{
	_cleanup_interner_ struct interner texts;
	size_t n = count_numbers(p);
	struct prof_str *strings =
		arena_alloc_array(&p->arena, p->n_strings + n + 1, sizeof(*strings));
	int r = strings ? 0 : -ENOMEM;

	interner_init(&texts, p->arena.budget);
	if (!r) {
		memcpy(strings, p->strings, p->n_strings * sizeof(*strings));
		memset(strings + p->n_strings, 0, (n + 1) * sizeof(*strings));
	}
	for (size_t i = 0; !r && i < p->n_labels; i++) {
		struct prof_label *l = &p->labels[i];
		char text[PROF_NUMBER_TEXT_MAX];
		uint32_t id;

		if (l->str)
			continue;
		prof_number_text(l->num, profile_str(p, l->num_unit), text);
		id = interner_add(&texts, text, strlen(text), NULL);
		r = id == INTERNER_NONE ? -ENOMEM : 0;
		if (!r && !strings[p->n_strings + id].p) {
			char *copy = arena_strdup(&p->arena, text);

			strings[p->n_strings + id] =
				(struct prof_str) {copy, (uint32_t)strlen(text)};
			r = copy ? 0 : -ENOMEM;
		}
		l->str = (uint32_t)(p->n_strings + id);
	}
	if (r)
		return err_set(eb, r, "out of memory for the labels of %zu samples", p->n_samples);
	p->strings = strings;
	p->n_strings += texts.n;
	return 0;
}
