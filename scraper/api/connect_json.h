/* SPDX-License-Identifier: Apache-2.0
 *
 * Protobuf messages as JSON and back, by their descriptors (https://protobuf.dev/programming-guides/json). Reading takes both
 * spellings of a field (labelNames, label_names), numbers as texts, enums by name or number, null as unset, and ignores unknown
 * fields; writing leaves default values out, writes 64-bit numbers as texts and enums by name.
 */
#pragma once
#include "lib/json/write.h"
#include "lib/json/read.h"
#include <protobuf-c/protobuf-c.h>

/* Appends the message in wire format. -EINVAL names the field. */
int connect_json_read(const struct json_value *v, const ProtobufCMessageDescriptor *d,
	struct bytes *out, struct errbuf *eb) _must_check_;
void connect_json_write(const ProtobufCMessage *m, struct json *j);
