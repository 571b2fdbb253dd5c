/* SPDX-License-Identifier: Apache-2.0
 *
 * Protobuf's JSON: both spellings, numbers as texts, enums, unknown fields, and what is refused with its field named.
 */
#include "scraper/api/connect_json.h"
#include "proto/querier.pb-c.h"
#include "proto/settings.pb-c.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#define STACKS &querier__v1__select_merge_stacktraces_request__descriptor
#define SERIES &querier__v1__select_series_request__descriptor
#define STATS &types__v1__get_profile_stats_response__descriptor
#define MERGED &querier__v1__select_merge_stacktraces_response__descriptor
#define PROFILE &pprof__profile__descriptor

static int read_text(const char *text, const ProtobufCMessageDescriptor *d, struct bytes *wire,
	struct errbuf *eb)
{
	struct json_doc *doc = NULL;
	int r = json_read(text, strlen(text), 1 << 20, &doc, eb);

	if (!r)
		r = connect_json_read(json_doc_root(doc), d, wire, eb);
	json_doc_freep(&doc);
	return r;
}

/* In, to the wire, and out again. */
static void test_round_trips(void **state)
{
	static const struct {
		const ProtobufCMessageDescriptor *d;
		const char *in, *out; /* out NULL: as in */
	} cases[] = {
		{STACKS, "{}", NULL},
		{STACKS, "{\"profileTypeID\":\"a\",\"labelSelector\":\"{}\",\"start\":\"1\"}",
			NULL},
		{STACKS, "{\"profile_typeID\":\"a\",\"label_selector\":\"{}\",\"start\":1}",
			"{\"profileTypeID\":\"a\",\"labelSelector\":\"{}\",\"start\":\"1\"}"},
		{STACKS, "{\"start\":-9223372036854775808,\"end\":\"9223372036854775807\"}",
			"{\"start\":\"-9223372036854775808\",\"end\":\"9223372036854775807\"}"},
		{STACKS, "{\"start\":1e3,\"end\":\"2000\",\"maxNodes\":null,\"unknown\":[{}]}",
			"{\"start\":\"1000\",\"end\":\"2000\"}"},
		{STACKS, "{\"format\":\"PROFILE_FORMAT_DOT\"}", NULL},
		{STACKS, "{\"format\":3}", "{\"format\":\"PROFILE_FORMAT_DOT\"}"},
		{STACKS, "{\"format\":99}", NULL},
		{STACKS, "{\"stackTraceSelector\":{\"call_site\":[{\"name\":\"a\"},{}]}}",
			"{\"stackTraceSelector\":{\"callSite\":[{\"name\":\"a\"},{}]}}"},
		{STACKS, "{\"stackTraceSelector\":{}}", NULL},
		{SERIES, "{\"groupBy\":[\"a\",\"b\"],\"step\":15.5}", NULL},
		{SERIES, "{\"step\":\"NaN\"}", NULL},
		{SERIES, "{\"step\":\"-Infinity\"}", NULL},
		{SERIES, "{\"step\":\"2.5\"}", "{\"step\":2.5}"},
		{STATS, "{\"dataIngested\":true,\"oldest_profile_time\":7}",
			"{\"dataIngested\":true,\"oldestProfileTime\":\"7\"}"},
		{PROFILE,
			"{\"sampleType\":[{\"type\":\"1\"}],\"stringTable\":[\"\",\"a\\\"\\u00e9\"]"
			"}",
			"{\"sampleType\":[{\"type\":\"1\"}],\"stringTable\":[\"\",\"a\\\"é\"]}"},
		{PROFILE, "{\"location\":[{\"id\":\"18446744073709551\",\"isFolded\":true}]}",
			NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes wire = {}, out = {};
		struct json j = json_to(&out);
		struct errbuf eb = {};
		ProtobufCMessage *m;

		if (read_text(cases[i].in, cases[i].d, &wire, &eb) < 0)
			fail_msg("%s: %s", cases[i].in, eb.text);
		m = protobuf_c_message_unpack(cases[i].d, NULL, wire.len, wire.data);
		assert_non_null(m);
		connect_json_write(m, &j);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].out ? cases[i].out : cases[i].in);
		protobuf_c_message_free_unpacked(m, NULL);
	}
}

static void test_bytes(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {"\xff\xfe\xfd\xfc", "//79/A=="}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Querier__V1__SelectMergeStacktracesResponse m;
		uint8_t data[8];
		_cleanup_bytes_ struct bytes out = {}, want = {};
		struct json j = json_to(&out);

		querier__v1__select_merge_stacktraces_response__init(&m);
		memcpy(data, cases[i].in, strlen(cases[i].in));
		m.tree = (ProtobufCBinaryData) {strlen(cases[i].in), data};
		connect_json_write(&m.base, &j);
		bytes_printf(&want, "{\"tree\":\"%s\"}", cases[i].out);
		assert_int_equal(out.len, want.len);
		assert_memory_equal(out.data, want.data, want.len);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const ProtobufCMessageDescriptor *d;
		const char *in, *text;
	} cases[] = {
		{STACKS, "[]", "expected an object, not an array"},
		{STACKS, "{\"start\":1.5}", "start: expected a whole number"},
		{STACKS, "{\"start\":\"soon\"}", "start: expected a number, not a string"},
		{STACKS, "{\"start\":1e300}", "start: expected a whole number"},
		{STACKS, "{\"start\":{}}", "start: expected a number, not an object"},
		{STACKS, "{\"profileTypeID\":1}",
			"profile_typeID: expected a string, not an integer"},
		{STACKS, "{\"format\":\"SVG\"}", "format: unknown value \"SVG\""},
		{STACKS, "{\"profileIdSelector\":\"a\"}",
			"profile_id_selector: expected an array, not a string"},
		{STACKS, "{\"stackTraceSelector\":{\"callSite\":[{\"name\":7}]}}",
			"stack_trace_selector: call_site: name: expected a string, not an integer"},
		{STACKS, "{\"stackTraceSelector\":{\"goPgo\":{\"keepLocations\":-1}}}",
			"stack_trace_selector: go_pgo: keep_locations: is negative"},
		{STACKS, "{\"stackTraceSelector\":{\"goPgo\":{\"keepLocations\":4294967296}}}",
			"stack_trace_selector: go_pgo: keep_locations: is too large"},
		{STATS, "{\"dataIngested\":1}",
			"data_ingested: expected true or false, not an integer"},
		{MERGED, "{\"tree\":\"YQ==\"}", "tree: cannot be given as JSON"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes wire = {};
		struct errbuf eb = {};

		assert_int_equal(read_text(cases[i].in, cases[i].d, &wire, &eb), -EINVAL);
		assert_string_equal(eb.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
