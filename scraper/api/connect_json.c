/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON to wire format field by field, and messages to JSON. Only the kinds that our messages have: no groups, no fixed-size
 * integers, no maps, no oneofs.
 */
#include "scraper/api/connect_json.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/wire.h"
#include <math.h>

enum { MAX_NAME = 64 };

/* "label_names" as "labelNames". */
static void json_name(const char *name, char ret[MAX_NAME])
{
	size_t n = 0;
	bool up = false;

	for (; *name && n + 1 < MAX_NAME; name++) {
		if (*name == '_') {
			up = true;
			continue;
		}
		ret[n++] = up && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
		up = false;
	}
	ret[n] = '\0';
}

/* ---- reading ---- */

static const ProtobufCFieldDescriptor *find_field(
	const ProtobufCMessageDescriptor *d, const char *key)
{
	char name[MAX_NAME];

	for (unsigned i = 0; i < d->n_fields; i++) {
		json_name(d->fields[i].name, name);
		if (!strcmp(key, name) || !strcmp(key, d->fields[i].name))
			return &d->fields[i];
	}
	return NULL;
}

static int wrong(const ProtobufCFieldDescriptor *f, const char *want, const struct json_value *v,
	struct errbuf *eb)
{
	return err_set(
		eb, -EINVAL, "%s: expected %s, not %s", f->name, want, json_value_kind_name(v));
}

/* A number that is one, or a text that is. */
static int read_double(const ProtobufCFieldDescriptor *f, const struct json_value *v, double *ret,
	struct errbuf *eb)
{
	const char *s = json_value_str(v);
	enum json_kind kind = json_value_kind(v);

	*ret = kind == JSON_KIND_INT ? (double)json_value_int(v) : json_value_double(v);
	if (kind == JSON_KIND_INT || kind == JSON_KIND_DOUBLE)
		return 0;
	if (s && !strcmp(s, "NaN"))
		*ret = (double)NAN;
	else if (s && (!strcmp(s, "Infinity") || !strcmp(s, "-Infinity")))
		*ret = *s == '-' ? -(double)INFINITY : (double)INFINITY;
	else if (!s || str_parse_double(s, ret, NULL) < 0)
		return wrong(f, "a number", v, eb);
	return 0;
}

static int read_int(const ProtobufCFieldDescriptor *f, const struct json_value *v, int64_t *ret,
	struct errbuf *eb)
{
	const char *s = json_value_str(v);
	double d;
	int r;

	if (json_value_kind(v) == JSON_KIND_INT) {
		*ret = json_value_int(v);
		return 0;
	}
	if (s && str_parse_i64(s, ret, NULL) == 0)
		return 0;
	r = read_double(f, v, &d, eb);
	if (r)
		return r;
	if (d != floor(d) || !(fabs(d) <= 9007199254740992.0))
		return err_set(eb, -EINVAL, "%s: expected a whole number", f->name);
	*ret = (int64_t)d;
	return 0;
}

static int read_enum(const ProtobufCFieldDescriptor *f, const struct json_value *v, int64_t *ret,
	struct errbuf *eb)
{
	const char *s = json_value_str(v);
	const ProtobufCEnumValue *e =
		s ? protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, s) : NULL;

	if (!s)
		return read_int(f, v, ret, eb);
	if (!e)
		return err_set(eb, -EINVAL, "%s: unknown value \"%.40s\"", f->name, s);
	*ret = e->value;
	return 0;
}

static void put_tag(struct bytes *out, const ProtobufCFieldDescriptor *f, unsigned wire)
{
	bytes_put_varint(out, (uint64_t)f->id << 3 | wire);
}

static int put_text(const ProtobufCFieldDescriptor *f, const struct json_value *v,
	struct bytes *out, struct errbuf *eb)
{
	const char *s = json_value_str(v);

	if (!s)
		return wrong(f, "a string", v, eb);
	put_tag(out, f, WIRE_BYTES);
	bytes_put_varint(out, strlen(s));
	bytes_put_str(out, s);
	return 0;
}

static int put_message(const ProtobufCFieldDescriptor *f, const struct json_value *v,
	struct bytes *out, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes inner = {};
	int r = connect_json_read(v, f->descriptor, &inner, eb);

	if (r)
		return err_prefix(eb, r, "%s", f->name);
	put_tag(out, f, WIRE_BYTES);
	bytes_put_varint(out, inner.len);
	bytes_put(out, inner.data, inner.len);
	return 0;
}

static int put_value(const ProtobufCFieldDescriptor *f, const struct json_value *v,
	struct bytes *out, struct errbuf *eb)
{
	union {
		double d;
		uint64_t bits;
	} u;
	int64_t i = 0;
	int r = 0;

	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: return put_text(f, v, out, eb);
	case PROTOBUF_C_TYPE_MESSAGE: return put_message(f, v, out, eb);
	case PROTOBUF_C_TYPE_DOUBLE:
		r = read_double(f, v, &u.d, eb);
		if (r)
			return r;
		put_tag(out, f, WIRE_64);
		bytes_put_u64(out, u.bits);
		return 0;
	case PROTOBUF_C_TYPE_BOOL:
		if (json_value_kind(v) != JSON_KIND_BOOL)
			return wrong(f, "true or false", v, eb);
		i = json_value_bool(v);
		break;
	case PROTOBUF_C_TYPE_ENUM: r = read_enum(f, v, &i, eb); break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_UINT32: r = read_int(f, v, &i, eb); break;
	default: return err_set(eb, -EINVAL, "%s: cannot be given as JSON", f->name);
	}
	if (r)
		return r;
	if (i < 0 && (f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_UINT32))
		return err_set(eb, -EINVAL, "%s: is negative", f->name);
	if (f->type == PROTOBUF_C_TYPE_UINT32 && i > UINT32_MAX)
		return err_set(eb, -EINVAL, "%s: is too large", f->name);
	put_tag(out, f, WIRE_VARINT);
	bytes_put_varint(out, (uint64_t)i);
	return 0;
}

static int put_field(const ProtobufCFieldDescriptor *f, const struct json_value *v,
	struct bytes *out, struct errbuf *eb)
{
	int r = 0;

	if (json_value_kind(v) == JSON_KIND_NULL)
		return 0;
	if (f->label != PROTOBUF_C_LABEL_REPEATED)
		return put_value(f, v, out, eb);
	if (json_value_kind(v) != JSON_KIND_ARRAY)
		return wrong(f, "an array", v, eb);
	for (size_t i = 0; !r && i < json_value_len(v); i++)
		r = put_value(f, json_value_at(v, i), out, eb);
	return r;
}

int connect_json_read(const struct json_value *v, const ProtobufCMessageDescriptor *d,
	struct bytes *out, struct errbuf *eb)
{
	const struct json_value *value;
	const char *key;
	void *pos = NULL;

	if (json_value_kind(v) != JSON_KIND_OBJECT)
		return err_set(eb, -EINVAL, "expected an object, not %s", json_value_kind_name(v));
	while (json_value_next(v, &pos, &key, &value)) {
		const ProtobufCFieldDescriptor *f = find_field(d, key);
		int r = f ? put_field(f, value, out, eb) : 0;

		if (r)
			return r;
	}
	return bytes_error(out) ? err_set(eb, -ENOMEM, "out of memory for the request") : 0;
}

/* ---- writing ---- */

static void write_double(struct json *j, double v)
{
	if (isnan(v))
		json_string(j, "NaN");
	else if (isinf(v))
		json_string(j, v > 0 ? "Infinity" : "-Infinity");
	else
		json_double(j, v);
}

static void write_bytes(struct json *j, const ProtobufCBinaryData *b)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	_cleanup_bytes_ struct bytes out = {};

	for (size_t i = 0; i < b->len; i += 3) {
		size_t n = MIN(b->len - i, (size_t)3);
		uint32_t v = (uint32_t)b->data[i] << 16;

		v |= n > 1 ? (uint32_t)b->data[i + 1] << 8 : 0;
		v |= n > 2 ? b->data[i + 2] : 0;
		for (unsigned k = 0; k < 4; k++)
			bytes_put_u8(&out,
				k <= n ? (uint8_t)digits[v >> (18 - 6 * k) & 63] : (uint8_t)'=');
	}
	json_string_n(j, out.len ? (const char *)out.data : "", out.len);
}

static void write_enum(struct json *j, const ProtobufCFieldDescriptor *f, int v)
{
	const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(f->descriptor, v);

	if (e)
		json_string(j, e->name);
	else
		json_int(j, v);
}

/* One value at `p`. */
static void write_value(struct json *j, const ProtobufCFieldDescriptor *f, const void *p)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: json_string(j, *(const char *const *)p); break;
	case PROTOBUF_C_TYPE_BYTES: write_bytes(j, p); break;
	case PROTOBUF_C_TYPE_MESSAGE:
		connect_json_write(*(const ProtobufCMessage *const *)p, j);
		break;
	case PROTOBUF_C_TYPE_DOUBLE: write_double(j, *(const double *)p); break;
	case PROTOBUF_C_TYPE_BOOL: json_bool(j, *(const protobuf_c_boolean *)p); break;
	case PROTOBUF_C_TYPE_ENUM: write_enum(j, f, *(const int *)p); break;
	case PROTOBUF_C_TYPE_INT64: json_int_string(j, *(const int64_t *)p); break;
	case PROTOBUF_C_TYPE_UINT64: json_uint_string(j, *(const uint64_t *)p); break;
	case PROTOBUF_C_TYPE_UINT32: json_uint(j, *(const uint32_t *)p); break;
	case PROTOBUF_C_TYPE_INT32: json_int(j, *(const int32_t *)p); break;
	default: ASSERT(!"a field kind that no message of ours has");
	}
}

static bool is_default(const ProtobufCFieldDescriptor *f, const void *p)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: return !**(const char *const *)p;
	case PROTOBUF_C_TYPE_BYTES: return !((const ProtobufCBinaryData *)p)->len;
	case PROTOBUF_C_TYPE_MESSAGE: return !*(const void *const *)p;
	case PROTOBUF_C_TYPE_DOUBLE: return *(const double *)p == 0;
	case PROTOBUF_C_TYPE_BOOL: return !*(const protobuf_c_boolean *)p;
	case PROTOBUF_C_TYPE_ENUM: return !*(const int *)p;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32: return !*(const uint32_t *)p;
	default: return !*(const uint64_t *)p;
	}
}

static size_t item_size(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_ENUM: return sizeof(int);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32: return sizeof(uint32_t);
	default: return sizeof(uint64_t);
	}
}

static void write_field(
	struct json *j, const ProtobufCFieldDescriptor *f, const ProtobufCMessage *m)
{
	const char *base = (const char *)m, *p = base + f->offset;
	bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
	size_t n = repeated ? *(const size_t *)(const void *)(base + f->quantifier_offset) : 0;
	char name[MAX_NAME];

	if (repeated ? !n : is_default(f, p))
		return;
	json_name(f->name, name);
	json_key(j, name);
	if (!repeated) {
		write_value(j, f, p);
		return;
	}
	p = *(const char *const *)(const void *)p;
	json_array_begin(j);
	for (size_t i = 0; i < n; i++)
		write_value(j, f, p + i * item_size(f));
	json_array_end(j);
}

void connect_json_write(const ProtobufCMessage *m, struct json *j)
{
	json_object_begin(j);
	for (unsigned i = 0; i < m->descriptor->n_fields; i++)
		write_field(j, &m->descriptor->fields[i], m);
	json_object_end(j);
}
