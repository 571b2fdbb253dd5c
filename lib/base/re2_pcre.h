/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of lib/base/regex: the only user of PCRE2. Patterns are UTF, DOTALL, newline LF, no JIT
 * (the programs run where memory cannot become executable); memory comes from the allocation seam.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/base/regex.h"
#include <stdbool.h>
#include <stdint.h>

struct re2_pcre;

/* `pattern` comes from re2_emit. -EINVAL when PCRE2 finds it too large, -ENOMEM. */
int re2_pcre_new(
	const void *pattern, size_t n, struct re2_pcre **ret, struct errbuf *eb) _must_check_;
void re2_pcre_free(struct re2_pcre *p);
static inline void re2_pcre_freep(struct re2_pcre **p)
{
	re2_pcre_free(*p);
}

/* As regex_match_groups; `s` must be valid UTF-8. Any number of threads at once. */
int re2_pcre_match(const struct re2_pcre *p, const char *s, size_t n, size_t from,
	struct regex_span *spans, size_t n_spans, struct errbuf *eb) _must_check_;
