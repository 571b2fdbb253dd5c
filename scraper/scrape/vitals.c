/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exporter says of itself with each answer, in the header Sonde-Health: "overhead=0.0012, hz=19, samples=8231, ring_full=0". It is
 * stored as series of the target beside `up`, so that the health of the profiling has a history without scraping anything else. Amounts
 * are totals since the exporter started; stored is what came since the answer before. Beside it stands which time the answer is of, and
 * how much of it the exporter had dropped before it was asked.
 */
#include "lib/base/str.h"
#include "scraper/scrape/scrape_impl.h"
#include <string.h>

/* Known of the answer itself: no key of the header is empty. */
enum { WATCHED = SCRAPE_VITALS - 2, LOST };

static const struct {
	const char *key, *name, *reason;
	bool is_total;
} rows[SCRAPE_VITALS] = {
	{"overhead", "sonde_overhead_ratio", NULL, false},
	{"coverage", "sonde_sampling_coverage_ratio", NULL, false},
	{"hz", "sonde_profile_frequency_hz", NULL, false},
	{"cpus", "sonde_cpus_online", NULL, false},
	{"samples", "sonde_samples_taken", NULL, true},
	{"ring_full", "sonde_samples_dropped", "ring_full", true},
	{"scratch_busy", "sonde_samples_dropped", "scratch_busy", true},
	{"held_full", "sonde_samples_dropped", "held_full", true},
	{"log_full", "sonde_samples_dropped", "log_full", true},
	[WATCHED] = {"", "sonde_scrape_watched_seconds", NULL, false},
	[LOST] = {"", "sonde_scrape_lost_seconds", NULL, false},
};

/* "key=number" of `n` bytes. Keys that are not known are of a newer exporter. */
static bool read_pair(struct scrape_request *r, const char *text, size_t n)
{
	const char *equals = memchr(text, '=', n);
	char number[40];
	size_t n_key = equals ? (size_t)(equals - text) : 0;
	double v;

	if (!n_key || n - n_key - 1 >= sizeof(number))
		return false;
	memcpy(number, equals + 1, n - n_key - 1);
	number[n - n_key - 1] = 0;
	if (str_parse_double(number, &v, NULL) < 0 || !(v >= 0 && v < 1e18))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strlen(rows[i].key) == n_key && !memcmp(rows[i].key, text, n_key)) {
			r->vitals.value[i] = v;
			r->vitals.known |= 1U << i;
		}
	return true;
}

enum scrape_reason scrape_vitals_read(struct scrape_request *r)
{
	const char *text = http_response_header(&r->response, "sonde-health");

	while (text && *text) {
		size_t n = strcspn(text, ", ");

		if (n && !read_pair(r, text, n)) {
			err_set(&r->error, -EPROTO,
				"malformed header Sonde-Health near \"%.32s\", expected "
				"name=number, separated by commas",
				text);
			return SCRAPE_FAIL_PROTOCOL;
		}
		text += n + strspn(text + n, ", ");
	}
	return SCRAPE_OK;
}

/* A total below what it was: the exporter started anew, and all of them are of that start. */
static bool has_restarted(const struct scrape_vitals *before, const struct scrape_vitals *now)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].is_total && before->known & now->known & 1U << i &&
			now->value[i] < before->value[i])
			return true;
	return false;
}

void scrape_vitals_watch(struct scrape_request *r)
{
	double *sums = r->type->live.vitals.value;

	sums[WATCHED] += (double)r->out.duration_ns / 1e9;
	sums[LOST] += r->lost_s;
}

uint32_t scrape_vitals_take(struct scrape_request *r)
{
	struct scrape_vitals *before = &r->type->live.vitals, *now = &r->vitals;
	bool anew = has_restarted(before, now);
	uint32_t ready = 0;

	if (now->is_taken)
		return now->known;
	for (size_t i = WATCHED; i <= LOST && now->known; i++) {
		now->value[i] = before->value[i];
		now->known |= 1U << i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		double v = now->value[i];
		uint32_t bit = 1U << i;

		if (!(now->known & bit))
			continue;
		if (!rows[i].is_total || before->known & bit)
			ready |= bit;
		if (rows[i].is_total && !anew)
			now->value[i] -= before->value[i];
		before->value[i] = v;
		before->known |= bit;
	}
	before->value[WATCHED] = before->value[LOST] = 0;
	now->known = ready;
	now->is_taken = true;
	return ready;
}

uint32_t scrape_vitals_cpus(const struct scrape_vitals *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].key, "cpus") && v->known & 1U << i)
			return v->value[i] <= UINT32_MAX ? (uint32_t)v->value[i] : 0;
	return 0;
}

const char *scrape_vitals_name(size_t i, const char **ret_reason)
{
	*ret_reason = rows[i].reason;
	return rows[i].name;
}
