/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes. XXH3-64 keys are part of the store's format; CRC32C protects every file; MD5 is for
 * hashmod, SHA-1 for names that others chose so, SHA-256 for content.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* XXH3-64 with seed 0. */
uint64_t hash_xxh3(const void *p, size_t n);
uint64_t hash_xxh3_seed(const void *p, size_t n, uint64_t seed);
/* Wide enough that equal hashes are equal content where the seed is secret. Not stored. */
struct hash128 {
	uint64_t lo, hi;
};
struct hash128 hash_xxh3_128(const void *p, size_t n, uint64_t seed);
/* Castagnoli, reflected, initial and final inversion included: crc32c("123456789") = 0xe3069283.
 * `crc` continues a previous one (0 at first). */
uint32_t hash_crc32c(uint32_t crc, const void *p, size_t n);
void hash_md5(const void *p, size_t n, uint8_t ret_digest[16]);
void hash_sha1(const void *p, size_t n, uint8_t ret_digest[20]);
void hash_sha256(const void *p, size_t n, uint8_t ret_digest[32]);

/*
 * Of a few numbers, which may come from outside where the seed is secret: the product of two words, its halves
 * folded together, as in wyhash. A third of XXH3's time for so short a key. Not stored.
 */
static inline uint64_t hash_words(const uint64_t *words, size_t n, uint64_t seed)
{
	uint64_t h = seed ^ n * 0x9e3779b97f4a7c15ULL;

	for (size_t i = 0; i < n; i += 2) {
		uint64_t a = words[i] ^ 0xa0761d6478bd642fULL ^ h;
		uint64_t b = (i + 1 < n ? words[i + 1] : 0) ^ 0xe7037ed1a0b428dbULL ^
			     (h << 32 | h >> 32);
		unsigned __int128 product = (unsigned __int128)a * b;

		h ^= (uint64_t)product ^ (uint64_t)(product >> 64);
	}
	return h;
}

/* A cheap mix of one 64-bit key for tables whose keys are our own ids, not input. */
static inline uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ (x >> 32);
}
