/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks on an answer before it is decoded: status, size, compression and whether it looks like a profile at all. Pure.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/net/client/client.h"
#include "scraper/scrape/reason.h"

/* SCRAPE_OK, or why the transfer as such failed, with a text for the target's lastError. */
enum scrape_reason scrape_check_transfer(
	const struct http_response *r, struct errbuf *eb) _must_check_;

/*
 * Turns the body into uncompressed pprof bytes: a gzip body (with or without Content-Encoding, also gzipped twice) is inflated into
 * `inflated`; *ret_p and *ret_n name the bytes, in `body` or `inflated`. `max_bytes` bounds each decompression.
 */
enum scrape_reason scrape_check_body(const struct http_response *r, const struct bytes *body,
	size_t max_bytes, struct bytes *inflated, const uint8_t **ret_p, size_t *ret_n,
	struct errbuf *eb) _must_check_;
