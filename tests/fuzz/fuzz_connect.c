/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of calls: the first byte chooses message and encoding. What is read as JSON must be a message, and what any message
 * prints as JSON must be read again as an equal message.
 */
#include "lib/base/arena.h"
#include "lib/base/err.h"
#include "proto/querier.pb-c.h"
#include "proto/settings.pb-c.h"
#include "scraper/api/connect_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *in_arena(void *arena, size_t n)
{
	return arena_alloc(arena, n);
}

static void no_free(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

static const ProtobufCMessageDescriptor *const messages[] = {
	&querier__v1__select_merge_stacktraces_request__descriptor,
	&querier__v1__select_series_request__descriptor, &querier__v1__diff_request__descriptor,
	&querier__v1__series_request__descriptor, &querier__v1__select_heatmap_request__descriptor,
	&types__v1__label_values_request__descriptor,
	&settings__v1__set_settings_request__descriptor, &pprof__profile__descriptor,
	&querier__v1__flame_graph__descriptor};

static int read_json(
	const void *p, size_t n, const ProtobufCMessageDescriptor *d, struct bytes *wire)
{
	struct json_doc *doc = NULL;
	struct errbuf eb = {};
	int r = json_read(p, n, 1 << 20, &doc, &eb);

	if (!r)
		r = connect_json_read(json_doc_root(doc), d, wire, &eb);
	ASSERT(!r || eb.text[0]);
	json_doc_freep(&doc);
	return r;
}

/* False when a text has bytes that JSON cannot carry: they change on the way. */
static bool is_printable(const ProtobufCMessage *m, struct bytes *packed)
{
	uint8_t *to = bytes_reserve(packed, protobuf_c_message_get_packed_size(m));

	ASSERT(to);
	packed->len = protobuf_c_message_pack(m, to);
	for (size_t i = 0; i < packed->len; i++)
		if (packed->data[i] >= 0x80)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_bytes_ struct bytes wire = {}, text = {}, again = {}, first = {}, second = {};
	_cleanup_arena_ struct arena arena;
	ProtobufCAllocator allocator = {in_arena, no_free, &arena};
	const ProtobufCMessageDescriptor *d;
	struct json j = json_to(&text);
	ProtobufCMessage *m;

	arena_init(&arena, NULL);
	if (!size)
		return 0;
	d = messages[data[0] / 2 % ARRAY_SIZE(messages)];
	if (data[0] % 2 && read_json(data + 1, size - 1, d, &wire) < 0)
		return 0;
	m = data[0] % 2 ? protobuf_c_message_unpack(d, &allocator, wire.len, wire.data)
			: protobuf_c_message_unpack(d, &allocator, size - 1, data + 1);
	ASSERT(m || !(data[0] % 2));
	if (!m)
		return 0;
	connect_json_write(m, &j);
	ASSERT(!bytes_error(&text));
	if (!is_printable(m, &first) || m->n_unknown_fields)
		return 0;
	if (read_json(text.data, text.len, d, &again) < 0)
		return 0; /* bytes fields and NUL characters */
	m = protobuf_c_message_unpack(d, &allocator, again.len, again.data);
	ASSERT(m);
	(void)is_printable(m, &second);
	return 0;
}
