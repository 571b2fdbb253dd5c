/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a pprof message. What is accepted must be accepted by protobuf-c too (strings aside), survive encoding and
 * decoding unchanged, and merge with itself; so must what drop_frames leaves of it. The budget holds the promise of prof_decode: 16 bytes a byte.
 */
#include "lib/prof/merge.h"
#include "lib/prof/prune.h"
#include "tests/prof_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_merge(const struct profile *p)
{
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_profile_ struct profile sum;

	profile_init(&sum, NULL);
	ASSERT(prof_merge_add(m, p, "a", NULL) == 0);
	ASSERT(prof_merge_add(m, p, "b", NULL) == 0);
	ASSERT(prof_merge_finish(m, &sum, NULL) == 0);
	ASSERT(sum.n_samples <= p->n_samples);
}

static void check_encoding(const struct profile *p)
{
	_cleanup_bytes_ struct bytes b;
	_cleanup_profile_ struct profile back;

	bytes_init(&b, NULL, 0);
	profile_init(&back, NULL);
	ASSERT(prof_encode(p, &b) == 0);
	ASSERT(prof_decode(b.data, b.len, &back, NULL) == 0);
	ASSERT(!oracle_difference(p, &back));
}

/* Lines of inlined functions that are left out stay in the array: what it encodes to has none of them. */
static void check_pruned(const struct profile *p)
{
	_cleanup_bytes_ struct bytes b;
	_cleanup_profile_ struct profile back;

	bytes_init(&b, NULL, 0);
	profile_init(&back, NULL);
	ASSERT(prof_encode(p, &b) == 0);
	ASSERT(prof_decode(b.data, b.len, &back, NULL) == 0);
	ASSERT(back.n_samples == p->n_samples && back.n_stack_words == p->n_stack_words);
	check_encoding(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct budget budget;
	_cleanup_profile_ struct profile p;
	struct errbuf eb = {.text = ""};
	int r;

	budget_init(&budget, NULL, "fuzz", NULL, 16 * size + (16 << 10));
	profile_init(&p, &budget);
	r = prof_decode(data, size, &p, &eb);
	ASSERT(!r || (r == -EBADMSG && eb.text[0]));
	if (!r) {
		Pprof__Profile *t = pprof__profile__unpack(NULL, size, data);

		ASSERT(!t || t->n_sample == p.n_samples);
		if (t)
			pprof__profile__free_unpacked(t, NULL);
		check_encoding(&p);
		check_merge(&p);
		eb.text[0] = 0;
		r = prof_prune(&p, &eb);
		ASSERT(!r || (r == -EBADMSG && eb.text[0]));
		check_pruned(&p);
	}
	return 0;
}
