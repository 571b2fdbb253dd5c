/* SPDX-License-Identifier: Apache-2.0
 *
 * The builds that each function's code comes from. Functions of one module mostly have the same ones, so each set is said once.
 */
#include "lib/base/alloc.h"
#include "lib/render/render_internal.h"
#include <string.h>

struct build {
	uint32_t frame;
	const char *id;
};

static int compare(const void *pa, const void *pb)
{
	const struct build *a = pa, *b = pb;

	if (a->frame != b->frame)
		return a->frame < b->frame ? -1 : 1;
	return strcmp(a->id, b->id);
}

/* The set of the n builds of one frame. */
static uint32_t set_of(
	struct render_builds *b, const struct build *builds, size_t n, struct bytes *text)
{
	bytes_reset(text);
	for (size_t i = 0; i < n; i++) {
		bytes_put_str(text, i ? ", " : "");
		bytes_put_str(text, builds[i].id);
	}
	return tree_symbols_string(&b->sets, (const char *)text->data, text->len);
}

int render_find_builds(
	const struct render_input *in, const struct render_used *u, struct render_builds *ret)
{
	const struct tree_symbols *s = in->symbols;
	_cleanup_free_ struct build *builds = try_realloc(NULL, s->n_builds + 1, sizeof(*builds));
	_cleanup_bytes_ struct bytes text = {};

	tree_symbols_init(&ret->sets, NULL);
	ret->of = try_realloc(NULL, u->n + 1, sizeof(*ret->of));
	if (!builds || !ret->of)
		return -ENOMEM;
	memset(ret->of, 0, (u->n + 1) * sizeof(*ret->of));
	for (size_t i = 0; i < s->n_builds; i++)
		builds[i] = (struct build) {
			s->builds[i].frame, tree_symbols_text(s, s->builds[i].build_id, NULL)};
	qsort(builds, s->n_builds, sizeof(*builds), compare);
	for (size_t i = 0, n; i < s->n_builds; i += n) {
		uint32_t number = u->number[builds[i].frame];

		for (n = 1; i + n < s->n_builds && builds[i + n].frame == builds[i].frame; n++)
			;
		if (number)
			ret->of[number - 1] = set_of(ret, &builds[i], n, &text);
	}
	return text.error ? text.error : tree_symbols_error(&ret->sets, NULL);
}

void render_builds_done(struct render_builds *b)
{
	tree_symbols_done(&b->sets);
	free(b->of);
}
