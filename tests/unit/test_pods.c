/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of pods as API servers give them → records → the table that main looks into.
 */
#include "exporter/fetcher/pods.h"
#include "exporter/proc/pod_table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const char shop[] =
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"till-5f6d\","
	"\"namespace\":\"shop\",\"uid\":\"1f2e3d4c-5b6a-4798-8a9b-acbdcedfe0f1\","
	"\"labels\":{\"app.kubernetes.io/name\":\"till\",\"x\":7},"
	"\"annotations\":{\"team\":\"cash\"}},"
	"\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"till\","
	"\"image\":\"reg/till:7\"},{\"name\":\"side\",\"image\":\"reg/side:1\"}],"
	"\"initContainers\":[{\"name\":\"init\",\"image\":\"reg/init:2\"}]},"
	"\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"till\","
	"\"containerID\":\"containerd://" ID_A "\",\"image\":\"sha256:00\"},{\"name\":\"side\"}],"
	"\"initContainerStatuses\":[{\"name\":\"init\",\"containerID\":\"cri-o://" ID_B "\"}]}}";
static const char fixed[] = "{\"metadata\":{\"name\":\"etcd\",\"namespace\":\"kube-system\","
			    "\"uid\":\"u\",\"annotations\":{\"kubernetes.io/config.hash\":"
			    "\"0123456789abcdef0123456789abcdef\"}}}";

static const char *const labels[] = {"app.kubernetes.io/name", "x"}, *const annotations[] = {
									     "team"};
static const struct fetcher_pods_options options = {.labels = labels,
	.n_labels = 2,
	.annotations = annotations,
	.n_annotations = 1,
	.max_bytes = 1 << 16};

static int put(struct pod_records *p, const char *text, uint64_t list, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;

	assert_int_equal(json_read(text, strlen(text), 1 << 20, &doc, NULL), 0);
	return pod_records_set(p, json_doc_root(doc), list, eb);
}

static struct pod_table *table_of(const struct pod_records *p)
{
	_cleanup_bytes_ struct bytes text = {0};
	struct pod_table *t = NULL;

	pod_records_print(p, &text);
	assert_int_equal(pod_table_read(text.data, text.len, 3, NULL, &t, NULL), 0);
	return t;
}

static void test_pods_are_found(void **state)
{
	struct pod_records p = {.o = &options};
	const struct pod_container *c;
	const struct pod *pod;
	struct pod_table *t;
	size_t n;

	(void)state;
	assert_int_equal(put(&p, shop, 1, NULL), 0);
	assert_int_equal(put(&p, fixed, 1, NULL), 0);
	t = table_of(&p);
	assert_int_equal(pod_table_count(t, &n), 2);
	assert_int_equal(n, 2);
	c = pod_table_find_container(t, ID_A);
	assert_non_null(c);
	assert_string_equal(c->name, "till");
	assert_string_equal(c->image, "reg/till:7");
	assert_string_equal(c->pod->name, "till-5f6d");
	assert_string_equal(c->pod->namespace_, "shop");
	assert_string_equal(c->pod->values[0], "till");
	assert_string_equal(c->pod->values[1], ""); /* no text */
	assert_string_equal(c->pod->values[2], "cash");
	c = pod_table_find_container(t, ID_B);
	assert_string_equal(c->image, "reg/init:2");
	pod = pod_table_find(t, "1f2e3d4c-5b6a-4798-8a9b-acbdcedfe0f1");
	assert_string_equal(pod->name, "till-5f6d");
	pod = pod_table_find(t, "0123456789abcdef0123456789abcdef");
	assert_string_equal(pod->name, "etcd");
	assert_null(pod_table_find(t, "u"));
	assert_null(pod_table_find(t, ""));
	assert_null(pod_table_find_container(t, ""));
	assert_null(pod_table_find_container(t, "other"));
	pod_table_freep(&t);
	pod_records_done(&p);
}

static void test_lists_and_events(void **state)
{
	struct pod_records p = {.o = &options};
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;

	(void)state;
	assert_int_equal(put(&p, shop, 1, NULL), 0);
	assert_int_equal(put(&p, fixed, 1, NULL), 0);
	assert_int_equal(put(&p, shop, 2, NULL), 0); /* again: one pod */
	assert_int_equal(p.n, 2);
	pod_records_sweep(&p, 2);
	assert_int_equal(p.n, 1);
	assert_string_equal(p.items[0].key, "shop/till-5f6d");
	assert_int_equal(json_read(shop, strlen(shop), 1 << 20, &doc, NULL), 0);
	pod_records_delete(&p, json_doc_root(doc));
	pod_records_delete(&p, json_doc_root(doc));
	assert_int_equal(p.n, 0);
	assert_int_equal(p.total_bytes, 0);
	pod_records_done(&p);
}

static void test_limits(void **state)
{
	struct fetcher_pods_options small = options;
	struct pod_records p = {.o = &small}, q = {.o = &options};
	char long_text[FETCHER_MAX_VALUE + 256] = "";
	struct errbuf eb = {.text = ""};
	struct pod_table *t;

	(void)state;
	small.max_bytes = 200;
	assert_int_equal(put(&p, fixed, 1, &eb), 0);
	assert_int_equal(put(&p, shop, 1, &eb), -EFBIG);
	assert_non_null(strstr(eb.text, "--kubernetes.max-bytes=200"));
	assert_int_equal(put(&p, fixed, 2, &eb), 0); /* takes its own place */
	assert_int_equal(p.n, 1);
	pod_records_done(&p);
	assert_int_equal(put(&q, "{\"metadata\":{}}", 1, &eb), -EBADMSG);
	assert_int_equal(put(&q, "[1]", 1, &eb), -EBADMSG);
	snprintf(long_text, sizeof(long_text),
		"{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"labels\":{\"x\":\"%01100d\"}}}", 7);
	assert_int_equal(put(&q, long_text, 1, &eb), 0);
	assert_int_equal(q.left_out, 1);
	t = table_of(&q);
	assert_string_equal(pod_table_find(t, "u")->values[1], "");
	pod_table_freep(&t);
	pod_records_done(&q);
}

static void test_malformed_records(void **state)
{
	struct pod_records p = {.o = &options};
	_cleanup_bytes_ struct bytes text = {0};
	struct pod_table *t = NULL;
	struct budget budget;
	struct errbuf eb = {.text = ""};

	(void)state;
	assert_int_equal(put(&p, shop, 1, NULL), 0);
	pod_records_print(&p, &text);
	for (size_t n = 0; n < text.len; n++)
		assert_int_equal(pod_table_read(text.data, n, 3, NULL, &t, &eb), -EBADMSG);
	assert_int_equal(pod_table_read(text.data, text.len, 2, NULL, &t, &eb), -EBADMSG);
	bytes_put_u8(&text, 0);
	assert_int_equal(pod_table_read(text.data, text.len, 3, NULL, &t, &eb), -EBADMSG);
	text.len--;
	budget_init(&budget, NULL, "pods", "--kubernetes.max-bytes", 64);
	assert_int_equal(pod_table_read(text.data, text.len, 3, &budget, &t, &eb), -ENOMEM);
	assert_null(t);
	pod_records_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pods_are_found),
		cmocka_unit_test(test_lists_and_events),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_malformed_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
