/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of a step of a merge, shared by the threads of a query.
 */
#include "scraper/query/merge.h"
#include "scraper/query/workers.h"

struct step {
	struct merger *m;
	size_t n;
	merge_piece_fn *fn;
};

static void work(void *ctx, unsigned slot)
{
	struct step *s = ctx;
	struct merger *m = s->m;
	size_t piece;

	(void)slot;
	while (!m->failed && (piece = atomic_fetch_add(&m->next, 1)) < s->n) {
		struct errbuf eb = {.text = ""};
		int r = s->fn(m, piece, &eb);

		if (!r)
			continue;
		lock_take(&m->lock);
		if (!m->error) {
			m->error = r;
			m->error_text = eb;
		}
		lock_release(&m->lock);
		m->failed = true;
	}
}

int merge_run(struct merger *m, size_t n, merge_piece_fn *fn, struct errbuf *eb)
{
	struct step s = {m, n, fn};

	m->next = 0;
	query_workers_run(m->scan.env->workers, (unsigned)MIN(n, (size_t)1024), work, &s);
	return m->error ? err_set(eb, m->error, "%s", m->error_text.text) : 0;
}
