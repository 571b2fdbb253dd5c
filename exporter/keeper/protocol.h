/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between main and keeper over SOCK_SEQPACKET; docs/formats/keeper-protocol.md has the layout. Pure: they
 * travel by lib/base/fd_message.h.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include <stddef.h>
#include <stdint.h>

enum keeper_op {
	KEEPER_OP_OPEN = 1,
	KEEPER_OP_OPEN_AT = 2,
	KEEPER_OP_ATTACH = 3,
	KEEPER_OP_OPENER = 5, /* 4 was that of former versions */
	KEEPER_OP_ATTACH_FILE = 6,
	KEEPER_OP_COPY = 7,
};
/* ATTACH, in place of an event's number. */
#define KEEPER_SIDEBAND 0xffffU

enum {
	KEEPER_MAX_PAYLOAD = 4096,
	KEEPER_REQUEST_BYTES = 40, /* header */
	KEEPER_REPLY_BYTES = 16,
	KEEPER_MAX_TEXT = 512,
	KEEPER_MAX_MESSAGE = KEEPER_REQUEST_BYTES + KEEPER_MAX_PAYLOAD,
	KEEPER_MAX_FDS = 2,
};

struct keeper_request {
	uint32_t seq;
	uint16_t op; /* enum keeper_op */
	uint16_t
		what; /* OPEN: enum keeper_what; OPEN_AT: enum keeper_open_at; ATTACH, ATTACH_FILE: enum abi_event */
	uint32_t id;		       /* OPEN, COPY: pid; ATTACH: cpu */
	uint64_t start_ns, start, end; /* ATTACH_FILE: start is the offset */
	uint32_t payload_len;	       /* OPEN_AT: path; COPY: ranges */
	const uint8_t *payload;
};

struct keeper_reply {
	uint32_t seq;
	int32_t result; /* 0 or -errno */
	uint16_t n_fds;
	uint32_t pid;		    /* OPENER: of the process; else 0 */
	char text[KEEPER_MAX_TEXT]; /* for a person, "" when there is none */
};

/* Bytes written to `buf` (KEEPER_MAX_MESSAGE of them), or -EFBIG. */
int protocol_put_request(const struct keeper_request *q, uint8_t *buf);
/* -EBADMSG, with *ret half filled (seq is right when the message had one). The payload points into buf. */
int protocol_get_request(const uint8_t *buf, size_t len, struct keeper_request *ret);
int protocol_put_reply(const struct keeper_reply *p, uint8_t *buf);
int protocol_get_reply(const uint8_t *buf, size_t len, struct keeper_reply *ret);
