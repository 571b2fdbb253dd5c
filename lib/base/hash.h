/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes. XXH3-64 keys are part of the store's format; CRC32C protects every file; MD5 is for
 * hashmod, SHA-1 for names that others chose so, SHA-256 for content.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

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

/* A cheap mix of one 64-bit key for tables whose keys are our own ids, not input. */
static inline uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ (x >> 32);
}
