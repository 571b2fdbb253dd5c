/* SPDX-License-Identifier: Apache-2.0
 *
 * deletion.json: one deletion on its way into the meta.json of several blocks (docs/formats/store.md, "Deletions"). With it a deletion
 * that was interrupted is carried out as a whole at the next start.
 */
#pragma once
#include "scraper/store/block/meta.h"

struct deletion_log {
	struct tombstones what; /* one */
	struct meta_ulids blocks;
	bool withdrawn; /* it could not be written: it must not stay, and may be there */
};
static inline bool deletion_log_is_open(const struct deletion_log *l)
{
	return l->blocks.n || l->withdrawn;
}

void deletion_log_done(struct deletion_log *l);
/* Appends the text with its checksum line. Errors of `out`. */
int deletion_log_write(const struct deletion_log *l, struct bytes *out) _must_check_;
/* -EBADMSG (damaged), -ENOTSUP (a version that is not known), -ENOMEM; *ret is empty then. */
int deletion_log_read(
	const void *p, size_t n, struct deletion_log *ret, struct errbuf *eb) _must_check_;
