/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as pprof: the runs of both sets added up, those of A with negative values and the label by which pprof knows a base.
 */
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/files.h"
#include "lib/net/gzip.h"
#include "lib/prof/merge.h"
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

int cli_compare_pprof(const struct cli_sources *sources, size_t n_a, double factor,
	struct bytes *out, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_cli_profile_ struct cli_profile in;
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes raw = {};
	int r = 0;

	cli_profile_init(&in);
	profile_init(&sum, NULL);
	for (size_t i = 0; r >= 0 && i < sources->n; i++) {
		const struct cli_source *s = &sources->items[i];

		r = cli_source_read(s, &in, eb);
		if (r >= 0 && i < n_a)
			r = make_base(&in.p, factor, eb);
		if (r >= 0)
			r = prof_merge_add(m, &in.p, s->name, eb);
	}
	if (r >= 0)
		r = prof_merge_finish(m, &sum, eb);
	if (r >= 0)
		r = prof_encode(&sum, &raw);
	return r < 0 ? r : gzip_deflate(raw.data, raw.len, 6, out, eb);
}
