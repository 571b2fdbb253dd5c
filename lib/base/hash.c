/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes over xxhash, nettle and the CPU's CRC32 instruction.
 */
#include "lib/base/hash.h"
#include <nettle/md5.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <string.h>
#include <xxhash.h>

uint64_t hash_xxh3(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

uint64_t hash_xxh3_seed(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

struct hash128 hash_xxh3_128(const void *p, size_t n, uint64_t seed)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(p, n, seed);

	return (struct hash128) {.lo = h.low64, .hi = h.high64};
}

static uint32_t crc32c_bytewise(uint32_t crc, const uint8_t *p, size_t n)
{
	for (; n; n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = (crc >> 1) ^ (0x82f63b78U & (0U - (crc & 1)));
	}
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(
	uint32_t crc, const uint8_t *p, size_t n)
{
	uint64_t c = crc;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		c = __builtin_ia32_crc32di(c, v);
	}
	for (; n; n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
	return (uint32_t)c;
}
#endif

uint32_t hash_crc32c(uint32_t crc, const void *p, size_t n)
{
	crc = ~crc;
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc32c_sse42(crc, p, n);
#endif
	return ~crc32c_bytewise(crc, p, n);
}

void hash_md5(const void *p, size_t n, uint8_t ret_digest[16])
{
	struct md5_ctx ctx;

	md5_init(&ctx);
	md5_update(&ctx, n, p);
	md5_digest(&ctx, 16, ret_digest);
}

void hash_sha1(const void *p, size_t n, uint8_t ret_digest[20])
{
	struct sha1_ctx ctx;

	sha1_init(&ctx);
	sha1_update(&ctx, n, p);
	sha1_digest(&ctx, 20, ret_digest);
}

void hash_sha256(const void *p, size_t n, uint8_t ret_digest[32])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, n, p);
	sha256_digest(&ctx, 32, ret_digest);
}
