/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed records of any bytes: what is taken has the size and the number of words that its head says, and packed again it comes
 * back.
 */
#include "exporter/sample/unpack.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static union unpacked first, second, again;

static size_t pack_again(uint32_t n)
{
	memcpy(&again, &first, sizeof(first));
	again.record.type = ABI_RECORD_PACKED_SAMPLE;
	return sizeof(again.record) + frame_pack(again.record.frames, n) * sizeof(uint32_t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int n = unpack_sample(data, size, &first);
	size_t words;

	if (n < 0)
		return 0;
	words = (size_t)first.record.n_kernel + first.record.n_user;
	if ((size_t)n != sizeof(first.record) + words * sizeof(first.record.frames[0]))
		abort();
	if (unpack_sample(&again, pack_again((uint32_t)words), &second) != n ||
		memcmp(&first, &second, (size_t)n) != 0)
		abort();
	return 0;
}
