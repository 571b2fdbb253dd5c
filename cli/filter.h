/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame filters on profiles that stay profiles.
 */
#pragma once
#include "lib/prof/profile.h"
#include "lib/tree/filter.h"

/* Takes frames and samples away in place, with the meaning of lib/tree/filter.h. -ENOMEM with a text when an expression takes too long. */
int cli_profile_filter(
	struct profile *p, const struct tree_filter *filter, struct errbuf *eb) _must_check_;
