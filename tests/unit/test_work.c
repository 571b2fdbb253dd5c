/* SPDX-License-Identifier: Apache-2.0
 *
 * What the symbol threads do while a parser child hangs, fails or a server answers: a proxy before the real parser keeps
 * the questions of marked files to itself, a thread plays the fetcher, and the registry's clock is set.
 */
#include "exporter/binary/registry.h"
#include "exporter/fetcher/protocol.h"
#include "lib/base/fd_message.h"
#include "tests/unit/names_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <cmocka.h>

enum { MAX_HELD = 8, MARK_BYTES = 4 };

/* Files that end in "hang" have no names until they are let go, those that end in "fail" never, which takes 30 s of CPU. */
struct held {
	struct parser_request request;
	int fds[4];
	size_t n_fds;
};

struct fixture {
	struct fake_keeper keeper;
	struct fake_parser parser;
	struct clock_virtual clock;
	struct binary_registry *registry;
	char *top;
	int proxy, server; /* ends that the registry does not have */
	int fetch;	   /* the fetcher's */
	pthread_t proxy_thread, fetcher_thread, threads[BINARY_THREADS];
	pthread_mutex_t mutex; /* what follows */
	struct held held[MAX_HELD];
	size_t n_held;
	unsigned n_rows;
	uint32_t settled, released; /* by the hooks; the last one */
};

static void send_failure(int reply_fd)
{
	const struct parser_reply reply = {
		.magic = PARSER_MAGIC, .status = PARSER_TIMEOUT, .cpu_ns = 30 * NS_PER_S};

	assert_int_equal(fd_message_send(reply_fd, &reply, sizeof(reply), NULL, 0, 0), 0);
}

static void take_request(struct fixture *f, struct held *h)
{
	char mark[MARK_BYTES] = "";
	struct stat st;
	bool hangs = false;

	if (h->request.op == PARSER_COMPILE && fstat(h->fds[1], &st) == 0)
		(void)!pread(h->fds[1], mark, MARK_BYTES, st.st_size - MARK_BYTES);
	if (memcmp(mark, "fail", MARK_BYTES) == 0)
		send_failure(h->fds[0]);
	else if (memcmp(mark, "hang", MARK_BYTES) == 0)
		hangs = true;
	else
		fd_message_send(f->parser.fd, &h->request, sizeof(h->request), h->fds, h->n_fds, 0);
	for (size_t i = 0; i < h->n_fds && !hangs; i++)
		close(h->fds[i]);
	pthread_mutex_lock(&f->mutex);
	if (hangs)
		f->held[f->n_held++] = *h;
	pthread_mutex_unlock(&f->mutex);
}

static void *proxy_main(void *arg)
{
	struct fixture *f = arg;
	struct held h;

	while (fd_message_receive(f->server, &h.request, sizeof(h.request), h.fds,
		       ARRAY_SIZE(h.fds), &h.n_fds, 0) > 0)
		take_request(f, &h);
	return NULL;
}

static size_t n_held(struct fixture *f)
{
	size_t n;

	pthread_mutex_lock(&f->mutex);
	n = f->n_held;
	pthread_mutex_unlock(&f->mutex);
	return n;
}

static void wait_held(struct fixture *f, size_t n)
{
	for (int i = 0; n_held(f) != n; i++) {
		assert_true(i < 20000);
		usleep(1000);
	}
}

/* The first of those that hang goes on. */
static void let_go(struct fixture *f)
{
	struct held h;

	pthread_mutex_lock(&f->mutex);
	h = f->held[0];
	memmove(f->held, f->held + 1, --f->n_held * sizeof(h));
	pthread_mutex_unlock(&f->mutex);
	assert_int_equal(
		fd_message_send(f->parser.fd, &h.request, sizeof(h.request), h.fds, h.n_fds, 0), 0);
	for (size_t i = 0; i < h.n_fds; i++)
		close(h.fds[i]);
}

static bool has_rows(void *ctx, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	(void)ctx;
	(void)binary;
	(void)content_id;
	return false;
}

static void take_rows(void *ctx, uint32_t binary, const struct symbol_file *rows)
{
	(void)binary;
	(void)rows;
	((struct fixture *)ctx)->n_rows++;
}

/* Nobody uses any id while this is told of one: two minutes of rounds that find it unused. */
static void on_settled(void *ctx, uint32_t binary, bool unreadable)
{
	const uint64_t none = 0;
	struct fixture *f = ctx;

	(void)unreadable;
	for (int i = 0; i < 12; i++) {
		binary_retain(f->registry, &none, binary + 1);
		clock_virtual_advance(&f->clock, 10 * NS_PER_S);
	}
	assert_int_equal(f->released, 0);
	f->settled = binary;
}

static void on_released(void *ctx, uint32_t binary)
{
	((struct fixture *)ctx)->released = binary;
}

enum { ID_BYTES = 20 };

/* A program with that build id. */
static void read_program(const uint8_t id[ID_BYTES], struct bytes *ret)
{
	static const uint8_t note[16] = {4, 0, 0, 0, ID_BYTES, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U'};
	uint8_t *at;

	bytes_init(ret, NULL, 0);
	assert_int_equal(fs_read_file(&fs_system, "/bin/ls", 64 << 20, ret, NULL), 0);
	at = memmem(ret->data, ret->len, note, sizeof(note));
	assert_non_null(at);
	memcpy(at + sizeof(note), id, ID_BYTES);
}

/* The fetcher's answer: a file with that build id. */
static void *fetcher_main(void *arg)
{
	struct fetcher_reply reply = {.magic = FETCHER_MAGIC, .status = FETCHER_OK};
	struct fixture *f = arg;
	struct fetcher_request q;
	struct bytes self;
	int fds[2];
	size_t n;

	while (fd_message_receive(f->fetch, &q, sizeof(q), fds, 2, &n, 0) > 0) {
		read_program(q.id, &self);
		assert_int_equal(write(fds[1], self.data, self.len), self.len);
		bytes_done(&self);
		assert_int_equal(fd_message_send(fds[0], &reply, sizeof(reply), NULL, 0, 0), 0);
		close(fds[0]);
		close(fds[1]);
	}
	return NULL;
}

static void setup(struct fixture *f)
{
	int pair[2], fetch[2];

	*f = (struct fixture) {.parser = fake_parser_start(), .top = temp_dir()};
	fake_keeper_init(&f->keeper);
	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	pthread_mutex_init(&f->mutex, NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fetch), 0);
	f->proxy = pair[0];
	f->server = pair[1];
	f->fetch = fetch[1];
	pthread_create(&f->proxy_thread, NULL, proxy_main, f);
	pthread_create(&f->fetcher_thread, NULL, fetcher_main, f);
	f->registry = binary_registry_new(&(struct binary_options) {.keeper = &f->keeper.keeper,
						  .fs = &fs_system,
						  .clock = &f->clock.clock,
						  .parser_fd = f->proxy,
						  .fetcher_fd = fetch[0],
						  .cache_path = f->top,
						  .cache_bytes = 64 << 20,
						  .max_cpu = 0.1,
						  .hook_ctx = f,
						  .has_rows = has_rows,
						  .rows = take_rows,
						  .released = on_released},
		NULL);
}

static void teardown(struct fixture *f)
{
	int fetcher_fd = f->registry->o.fetcher_fd;

	binary_registry_freep(&f->registry);
	close(f->proxy);
	pthread_join(f->proxy_thread, NULL);
	close(f->server);
	close(fetcher_fd);
	pthread_join(f->fetcher_thread, NULL);
	close(f->fetch);
	pthread_mutex_destroy(&f->mutex);
	assert_int_equal(fake_parser_stop(&f->parser), 0);
	temp_dir_done(&f->top);
}

/* A program of that name and mark, wanted. */
static uint32_t want(struct fixture *f, const char *name, bool large, const char *mark)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", f->top, name);
	uint8_t build_id[ID_BYTES] = {0};
	_cleanup_bytes_ struct bytes self;
	_cleanup_close_ int fd = -1;
	struct stat st;
	uint32_t id;

	memcpy(build_id, name, strlen(name));
	read_program(build_id, &self);
	assert_int_equal(fs_write_file(&fs_system, path, self.data, self.len, 0755, NULL), 0);
	fd = open(path, O_WRONLY);
	assert_int_equal(ftruncate(fd, large ? BINARY_SLOW_BYTES : (off_t)self.len), 0);
	lseek(fd, 0, SEEK_END);
	assert_int_equal(write(fd, mark, MARK_BYTES), MARK_BYTES);
	assert_int_equal(fstat(fd, &st), 0);
	id = binary_get(f->registry, &(struct binary_identity) {.dev_major = major(st.st_dev),
					     .dev_minor = minor(st.st_dev),
					     .ino = st.st_ino,
					     .path = path});
	binary_want(f->registry, id, &(struct binary_source) {.pid = (uint32_t)getpid()});
	return id;
}

static bool has_names(struct fixture *f, uint32_t id)
{
	const struct symbol_file *s = binary_symbols_get(f->registry, id, 0);
	bool has = s && s->n_functions;

	binary_symbols_put(f->registry, s);
	return has;
}

static void *work_main(void *arg)
{
	binary_work(arg, 0);
	return NULL;
}

/* The next one on a thread of its own, where it hangs. */
static void work_aside(struct fixture *f, unsigned thread)
{
	size_t n = n_held(f);

	pthread_create(&f->threads[thread], NULL, work_main, f->registry);
	wait_held(f, n + 1);
}

static void test_small_files_do_not_wait_for_one_that_hangs(void **state)
{
	struct fixture f;
	uint32_t first, second, good, last;

	(void)state;
	setup(&f);
	first = want(&f, "first", false, "hang");
	work_aside(&f, 0);
	good = want(&f, "good", false, "....");
	binary_work(f.registry, 0);
	assert_false(has_names(&f, good));
	clock_virtual_advance(&f.clock, BINARY_FRESH_PATIENCE_NS);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, good));
	assert_true(binary_is_coming(f.registry, first));
	/* A second one; then no more are tried. */
	clock_virtual_advance(&f.clock, BINARY_FRESH_PATIENCE_NS);
	second = want(&f, "second", false, "hang");
	work_aside(&f, 1);
	last = want(&f, "last", false, "....");
	clock_virtual_advance(&f.clock, 20 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_false(has_names(&f, last));
	let_go(&f);
	pthread_join(f.threads[0], NULL);
	assert_true(has_names(&f, first));
	binary_work(f.registry, 0);
	assert_true(has_names(&f, last));
	let_go(&f);
	pthread_join(f.threads[1], NULL);
	assert_true(has_names(&f, second));
	teardown(&f);
}

/* No other file of a device that hangs is asked for until what hung has come back. */
static void test_a_device_that_hangs_is_asked_once(void **state)
{
	struct binary_stats stats;
	struct fixture f;
	uint32_t first, second;

	(void)state;
	setup(&f);
	f.keeper.hang = true;
	first = want(&f, "first", false, "....");
	binary_work(f.registry, 0);
	assert_int_equal(f.keeper.n_opens, 1);
	second = want(&f, "second", false, "....");
	binary_work(f.registry, 0);
	clock_virtual_advance(&f.clock, BINARY_RETRY_OPEN_NS);
	binary_want(f.registry, first, &(struct binary_source) {.pid = (uint32_t)getpid()});
	binary_work(f.registry, 0);
	assert_int_equal(f.keeper.n_opens, 1);
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.open_hung, 3);
	assert_int_equal(stats.open_failed, 0);
	f.keeper.hang = false;
	f.keeper.n_returned++;
	clock_virtual_advance(&f.clock, BINARY_RETRY_OPEN_NS);
	binary_want(f.registry, first, &(struct binary_source) {.pid = (uint32_t)getpid()});
	binary_want(f.registry, second, &(struct binary_source) {.pid = (uint32_t)getpid()});
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, first));
	assert_true(has_names(&f, second));
	teardown(&f);
}

/* The id is not given away while the hook has it, and is afterwards. */
static void test_a_hook_has_its_id_to_itself(void **state)
{
	const uint64_t none = 0;
	struct fixture f;
	uint32_t id;

	(void)state;
	setup(&f);
	f.registry->o.settled = on_settled;
	id = want(&f, "good", false, "....");
	binary_work(f.registry, 0);
	assert_int_equal(f.settled, id);
	assert_int_equal(f.released, 0);
	for (int i = 0; i < 12; i++) {
		binary_retain(f.registry, &none, id + 1);
		clock_virtual_advance(&f.clock, 10 * NS_PER_S);
	}
	assert_int_equal(f.released, id);
	teardown(&f);
}

/* Of ids that came after the bitmap was made nothing is known. */
static void test_ids_beyond_the_bitmap_stay(void **state)
{
	const uint64_t none = 0;
	struct fixture f;
	uint32_t first;

	(void)state;
	setup(&f);
	first = want(&f, "first", false, "....");
	binary_work(f.registry, 0);
	(void)want(&f, "second", false, "....");
	binary_work(f.registry, 0);
	for (int i = 0; i < 12; i++) {
		binary_retain(f.registry, &none, first + 1);
		clock_virtual_advance(&f.clock, 10 * NS_PER_S);
	}
	assert_int_equal(f.released, first);
	teardown(&f);
}

static void test_large_files_do_not_wait_for_one_that_hangs(void **state)
{
	struct fixture f;
	uint32_t bad, small, large;

	(void)state;
	setup(&f);
	bad = want(&f, "bad", true, "hang");
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 1);
	work_aside(&f, 0);
	/* Another queue, whose first begins at once: names of small files, rows of large ones. */
	small = want(&f, "small", false, "....");
	binary_work(f.registry, 0);
	assert_true(has_names(&f, small));
	large = want(&f, "large", true, "....");
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 2);
	binary_work(f.registry, 0);
	assert_false(has_names(&f, large));
	clock_virtual_advance(&f.clock, BINARY_PACED_PATIENCE_NS);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, large));
	assert_true(binary_is_coming(f.registry, bad));
	let_go(&f);
	pthread_join(f.threads[0], NULL);
	assert_true(has_names(&f, bad));
	teardown(&f);
}

static void test_a_failure_is_its_own_debt(void **state)
{
	struct binary_stats stats;
	struct fixture f;
	uint32_t large;

	(void)state;
	setup(&f);
	want(&f, "bad", true, "fail");
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.parse_failed[PARSER_TIMEOUT], 1);
	assert_true(stats.cpu_ns >= 30 * NS_PER_S);
	large = want(&f, "large", true, "....");
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, large));
	/* One after the other costs more than is allowed. */
	want(&f, "worse", true, "fail");
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	large = want(&f, "later", true, "....");
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	assert_false(has_names(&f, large));
	/* Small ones are made at once all the same. */
	assert_true(f.registry->debt_ns > 29 * NS_PER_S);
	binary_work(f.registry, 0);
	large = want(&f, "small", false, "....");
	binary_work(f.registry, 0);
	assert_true(has_names(&f, large));
	teardown(&f);
}

static uint64_t n_used(struct fixture *f)
{
	struct binary_stats stats;

	binary_stats(f->registry, &stats);
	assert_int_equal(stats.fetched[FETCHER_OK], 1);
	return stats.debug_files[BINARY_DEBUG_USED];
}

static void test_debug_file_comes_while_names_wait(void **state)
{
	struct fixture f;
	uint32_t id;

	(void)state;
	setup(&f);
	f.registry->debt_ns = 20 * NS_PER_S; /* 200 s */
	id = want(&f, "large", true, "....");
	binary_work(f.registry, 0);
	binary_fetch_work(f.registry, 0);
	for (int i = 0; i < 190; i++) {
		clock_virtual_advance(&f.clock, NS_PER_S);
		binary_work(f.registry, 0);
		binary_fetch_work(f.registry, 0);
	}
	assert_false(has_names(&f, id));
	clock_virtual_advance(&f.clock, 20 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, id));
	assert_int_equal(n_used(&f), 1);
	assert_int_equal(f.registry->fetches.n_done, 0);
	teardown(&f);
}

static void test_debug_file_comes_while_names_are_made(void **state)
{
	const struct symbol_file *s;
	struct fixture f;
	uint32_t id;

	(void)state;
	setup(&f);
	id = want(&f, "small", false, "hang");
	work_aside(&f, 0);
	binary_fetch_work(f.registry, 0);
	let_go(&f);
	pthread_join(f.threads[0], NULL);
	assert_int_equal(n_used(&f), 0);
	work_aside(&f, 0); /* once more */
	let_go(&f);
	pthread_join(f.threads[0], NULL);
	assert_int_equal(n_used(&f), 1);
	s = binary_symbols_get(f.registry, id, 0);
	assert_true(s->flags & SYMBOL_HAS_DEBUG_FILE);
	binary_symbols_put(f.registry, s);
	assert_false(binary_is_coming(f.registry, id));
	teardown(&f);
}

static void test_debug_file_comes_while_names_are_read(void **state)
{
	const struct symbol_file *s;
	struct fixture f;
	uint32_t id;

	(void)state;
	setup(&f);
	id = want(&f, "small", false, "....");
	binary_work(f.registry, 0);
	s = binary_symbols_get(f.registry, id, 0);
	assert_non_null(s);
	binary_fetch_work(f.registry, 0);
	clock_virtual_advance(&f.clock, 100 * NS_PER_S);
	binary_work(f.registry, 0);
	binary_fetch_work(f.registry, 0);
	assert_true(has_names(&f, id));
	assert_int_equal(n_used(&f), 0);
	binary_symbols_put(f.registry, s);
	assert_true(binary_is_coming(f.registry, id));
	binary_work(f.registry, 0);
	assert_true(has_names(&f, id));
	assert_int_equal(n_used(&f), 1);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_files_do_not_wait_for_one_that_hangs),
		cmocka_unit_test(test_a_device_that_hangs_is_asked_once),
		cmocka_unit_test(test_a_hook_has_its_id_to_itself),
		cmocka_unit_test(test_ids_beyond_the_bitmap_stay),
		cmocka_unit_test(test_large_files_do_not_wait_for_one_that_hangs),
		cmocka_unit_test(test_a_failure_is_its_own_debt),
		cmocka_unit_test(test_debug_file_comes_while_names_wait),
		cmocka_unit_test(test_debug_file_comes_while_names_are_made),
		cmocka_unit_test(test_debug_file_comes_while_names_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
