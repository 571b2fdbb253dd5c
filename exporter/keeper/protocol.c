/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between main and keeper.
 */
#include "exporter/keeper/protocol.h"
#include "lib/base/cursor.h"
#include <string.h>
#include <sys/socket.h>

static uint8_t *put_le(uint8_t *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		*p++ = (uint8_t)(v >> (8 * i));
	return p;
}

int protocol_put_request(const struct keeper_request *q, uint8_t *buf)
{
	uint8_t *p = buf;

	if (q->payload_len > KEEPER_MAX_PAYLOAD)
		return -EFBIG;
	p = put_le(p, q->seq, 4);
	p = put_le(p, q->op, 2);
	p = put_le(p, q->what, 2);
	p = put_le(p, q->id, 4);
	p = put_le(p, q->payload_len, 4);
	p = put_le(p, q->start_ns, 8);
	p = put_le(p, q->start, 8);
	p = put_le(p, q->end, 8);
	if (q->payload_len)
		memcpy(p, q->payload, q->payload_len);
	return (int)(KEEPER_REQUEST_BYTES + q->payload_len);
}

int protocol_get_request(const uint8_t *buf, size_t len, struct keeper_request *ret)
{
	struct cursor c = cursor_of(buf, len);

	ret->seq = cursor_u32(&c);
	ret->op = cursor_u16(&c);
	ret->what = cursor_u16(&c);
	ret->id = cursor_u32(&c);
	ret->payload_len = cursor_u32(&c);
	ret->start_ns = cursor_u64(&c);
	ret->start = cursor_u64(&c);
	ret->end = cursor_u64(&c);
	ret->payload = cursor_take(&c, ret->payload_len);
	return c.error || cursor_left(&c) ? -EBADMSG : 0;
}

int protocol_put_reply(const struct keeper_reply *r, uint8_t *buf)
{
	size_t n = strnlen(r->text, sizeof(r->text));
	uint8_t *p = buf;

	p = put_le(p, r->seq, 4);
	p = put_le(p, (uint32_t)r->result, 4);
	p = put_le(p, r->n_fds, 2);
	p = put_le(p, n, 2);
	p = put_le(p, r->pid, 4);
	memcpy(p, r->text, n);
	return (int)(KEEPER_REPLY_BYTES + n);
}

int protocol_get_reply(const uint8_t *buf, size_t len, struct keeper_reply *ret)
{
	struct cursor c = cursor_of(buf, len);
	const uint8_t *text;
	uint16_t n;

	ret->seq = cursor_u32(&c);
	ret->result = (int32_t)cursor_u32(&c);
	ret->n_fds = cursor_u16(&c);
	n = cursor_u16(&c);
	ret->pid = cursor_u32(&c);
	text = cursor_take(&c, n);
	if (c.error || cursor_left(&c) || n >= sizeof(ret->text) || ret->n_fds > KEEPER_MAX_FDS ||
		ret->result > 0 || ret->result < -ERR_MAX_ERRNO)
		return -EBADMSG;
	memcpy(ret->text, text, n);
	ret->text[n] = 0;
	return 0;
}
