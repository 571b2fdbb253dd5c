/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable cursors: key → opaque value, changed by the record that holds the rows up to it.
 * Thread-safe.
 */
#pragma once
#include "lib/base/lock.h"
#include "lib/base/table.h"
#include "scraper/store/wal/record.h"

enum { CURSOR_MAX_BYTES = 4096 }; /* of key and of value; who takes them in checks it */

struct cursors {
	struct lock lock;
	struct table by_key; /* hash of the key → index */
	struct cursors_entry {
		struct store_blob key, value; /* one allocation, owned: key.p */
		int64_t time_ns;
		bool present; /* false: prepared, not yet committed */
	} * items;
	size_t n, cap;
};

void cursors_init(struct cursors *c);
void cursors_done(struct cursors *c);
/* Key and value are copied. -ENOMEM. */
int cursors_set(struct cursors *c, struct store_blob key, struct store_blob value,
	int64_t time_ns) _must_check_;
/*
 * The same in two steps, for a write in between: prepare does all that can fail, commit cannot. abort ends what was prepared; a place that
 * it had in the table is given back by the next cursors_expire. One pending at a time, of one thread.
 */
struct cursors_pending {
	struct cursors_entry entry;
};
int cursors_prepare(struct cursors *c, struct store_blob key, struct store_blob value,
	int64_t time_ns, struct cursors_pending *ret) _must_check_;
void cursors_commit(struct cursors *c, struct cursors_pending *p);
void cursors_abort(struct cursors_pending *p);
/* Appends the value. -ENOENT: no such cursor; errors of `ret`. */
int cursors_get(struct cursors *c, struct store_blob key, struct bytes *ret) _must_check_;
/* 0 when the stored value is `before` or none is stored, else -ESTALE. */
int cursors_check(struct cursors *c, struct store_blob key, struct store_blob before) _must_check_;
/* Forgets what did not change since `oldest_ns` (unix time). Nothing is pending. */
void cursors_expire(struct cursors *c, int64_t oldest_ns);
/* Appends the group that restates all of them; *ret_n entries. */
void cursors_put_all(struct cursors *c, struct bytes *out, size_t *ret_n);
/* Applies the cursor groups of a record. -EBADMSG, -ENOMEM. */
int cursors_apply(struct cursors *c, const struct record *r, struct errbuf *eb) _must_check_;
/* Without the one that is pending. */
size_t cursors_count(struct cursors *c);
