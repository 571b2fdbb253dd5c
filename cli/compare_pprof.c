/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as pprof: the runs of both sets added up, those of A with negative values and the label by which pprof knows a base.
 */
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/files.h"
#include "cli/filter.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/merge.h"
#include "lib/tree/canon.h"
#include <math.h>
#include <string.h>

static uint32_t add_string(struct profile *p, size_t at, const char *text)
{
	p->strings[at] = (struct prof_str) {.p = text, .len = (uint32_t)strlen(text)};
	return (uint32_t)at;
}

/* Gives each sample one more label, before its own. */
static void label_samples(struct profile *p, struct prof_label *labels, uint64_t *first,
	const struct prof_label *more)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_samples; i++) {
		first[i] = n;
		labels[n++] = *more;
		for (uint64_t k = p->label_first[i]; k < p->label_first[i + 1]; k++)
			labels[n++] = p->labels[k];
	}
	first[p->n_samples] = n;
	p->labels = labels;
	p->label_first = first;
	p->n_labels = n;
}

static int make_base(struct profile *p, double factor, struct errbuf *eb)
{
	struct prof_str *strings = arena_alloc_array(&p->arena, p->n_strings + 2, sizeof(*strings));
	struct prof_label *labels =
		arena_alloc_array(&p->arena, p->n_labels + p->n_samples + 1, sizeof(*labels));
	uint64_t *first = arena_alloc_array(&p->arena, p->n_samples + 1, sizeof(*first));
	struct prof_label base = {};

	if (!strings || !labels || !first)
		return arena_error(&p->arena, eb);
	memcpy(strings, p->strings, p->n_strings * sizeof(*strings));
	p->strings = strings;
	base.key = add_string(p, p->n_strings++, "pprof::base");
	base.str = add_string(p, p->n_strings++, "true");
	label_samples(p, labels, first, &base);
	for (size_t i = 0; i < p->n_samples * p->n_types; i++)
		p->values[i] = -llround((double)p->values[i] * factor);
	return 0;
}

/* Functions with the names by which both sides are joined. */
static int canonize(struct profile *p, unsigned what, struct errbuf *eb)
{
	struct prof_str *strings =
		arena_alloc_array(&p->arena, p->n_strings + p->n_functions + 1, sizeof(*strings));
	char name[TREE_CANON_MAX];

	if (!strings)
		return arena_error(&p->arena, eb);
	memcpy(strings, p->strings, p->n_strings * sizeof(*strings));
	p->strings = strings;
	for (size_t i = 0; i < p->n_functions; i++) {
		struct prof_function *f = &p->functions[i];
		struct prof_str old = profile_str(p, f->name);
		size_t n = tree_canonical_name(old.len ? old.p : "", old.len, what, name);

		if (!n || n == old.len)
			continue;
		strings[p->n_strings] =
			(struct prof_str) {arena_strndup(&p->arena, name, n), (uint32_t)n};
		f->name = f->system_name = (uint32_t)p->n_strings++;
	}
	return arena_error(&p->arena, eb);
}

static int add_source(struct prof_merge *m, const struct cli_source *s,
	const struct cli_runs_options *o, double base, struct errbuf *eb)
{
	_cleanup_cli_profile_ struct cli_profile in;
	_cleanup_profile_ struct profile labelled;
	struct profile *p;
	int r;

	cli_profile_init(&in);
	profile_init(&labelled, NULL);
	r = cli_runs_read(s, o, &in, &labelled, &p, eb);
	if (r >= 0)
		r = cli_profile_filter(p, &o->filter, eb);
	if (r >= 0 && o->canon)
		r = canonize(p, o->canon, eb);
	if (r >= 0 && base > 0)
		r = make_base(p, base, eb);
	return r < 0 ? r : prof_merge_add(m, p, s->name, eb);
}

int cli_compare_pprof(const struct cli_comparison *c, const struct cli_sources *sources,
	struct bytes *out, struct errbuf *eb)
{
	_cleanup_cli_runs_options_ struct cli_runs_options how = {};
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes raw = {};
	size_t column;
	int r = cli_runs_options_make(c->o, &how, eb);

	profile_init(&sum, NULL);
	for (size_t i = 0; r >= 0 && i < sources->n; i++)
		r = add_source(
			m, &sources->items[i], &how, i < c->n_a ? c->scale_a / c->scale_b : 0, eb);
	if (r >= 0)
		r = prof_merge_finish(m, &sum, eb);
	if (r >= 0 && c->o->sample_index) { /* what was compared is what is shown first */
		r = profile_find_type(&sum, c->o->sample_index, &column, eb);
		sum.default_sample_type = r < 0 ? 0 : sum.types[column].type;
	}
	if (r >= 0)
		r = prof_encode(&sum, &raw);
	return r < 0 ? r : gzip_deflate(raw.data, raw.len, 6, out, eb);
}
