/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as text: any bytes are refused or become a profile that our own decoder takes. Those of old formats have a name.
 */
#include "lib/base/bytes.h"
#include "lib/prof/legacy.h"
#include "lib/prof/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct errbuf eb = {.text = ""};
	struct bytes encoded = {0};
	struct prof_text_notes notes;
	struct profile p, again;
	const char *what = prof_legacy_what(data, size);
	int r;

	ASSERT(!what || what[0]);
	profile_init(&p, NULL);
	profile_init(&again, NULL);
	r = prof_text_read(data, size, &p, &notes, &eb);
	ASSERT(r == 0 || (r == -EBADMSG && eb.text[0]));
	if (r == 0) {
		ASSERT(prof_encode(&p, &encoded) == 0);
		/* Texts of labels that are no UTF-8 may be refused. */
		r = prof_decode(encoded.data, encoded.len, &again, &eb);
		ASSERT(r == -EBADMSG || again.n_samples == p.n_samples);
	}
	bytes_done(&encoded);
	profile_done(&again);
	profile_done(&p);
	return 0;
}
