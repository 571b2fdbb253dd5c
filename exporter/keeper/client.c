/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to open something goes to an opener that is idle; when none is, and few are at work, the keeper is asked for
 * another. One that does not answer in time hangs: it is left alone until its reply comes after all, and its number says
 * how many may hang of each kind, so that a dead file system costs the files on it and no others. The keeper itself is asked
 * in the same way: after one request without an answer it is silent, and every further one fails at once until that answer
 * comes.
 *
 * Invariants:
 *  1. a line's channel is used by the thread that set its state to BUSY, and by the lock's owner in any other state;
 *  2. n_at_work is the number of lines to openers that are BUSY, threads that wait for a new opener included;
 *  3. silent_since_ns is not 0 exactly while the line to the keeper is HANGING.
 */
#include "exporter/keeper/client.h"
#include "exporter/keeper/channel.h"
#include "exporter/keeper/copy.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "lib/base/log.h"
#include <string.h>
#include <time.h>

enum {
	AT_WORK_MAX = 3, /* openers that answer; enough for all threads that ask */
	HANGING_MAX_FILES = 6,
	HANGING_MAX_PATHS = 4,
	HANGING_MAX_OTHERS = 2, /* of each kind */
};
/* After the keeper refused to give an opener. */
#define START_RETRY_NS NS_PER_S

enum line_state { LINE_FREE, LINE_IDLE, LINE_BUSY, LINE_HANGING };

/* To an opener, or to the keeper. */
struct line {
	enum line_state state;
	struct channel channel;
	struct keeper_hanging asked; /* what it works on */
	uint32_t pid;		     /* 0: of an opener that has not started yet */
	uint64_t cpu_ns;	     /* when it was looked at last */
};

struct keeper_client {
	struct keeper keeper;
	int timeout_ms;
	struct lock lock; /* all that follows; a leaf, held for no call */
	pthread_cond_t idle;
	struct line own;		 /* to the keeper: never FREE */
	_Atomic int64_t silent_since_ns; /* written under the lock, read without */
	bool is_back; /* it was silent, and nobody has said yet that it is not any more */
	struct line lines[KEEPER_MAX_HANGING];
	uint32_t n_at_work;
	int64_t start_after_ns; /* no new opener is asked for before */
	struct keeper_stats stats;
};

static uint32_t max_hanging(enum keeper_what what)
{
	return what == KEEPER_MAP_FILE ? HANGING_MAX_FILES
	       : what		       ? HANGING_MAX_OTHERS
				       : HANGING_MAX_PATHS;
}

/* What the opener has used; of one that is gone, what it had when it was looked at last. */
static void measure_locked(const struct keeper_client *c, struct line *l)
{
	struct timespec ts;
	clockid_t id;

	ASSERT_HELD(&c->lock);
	if (l->pid && !clock_getcpuclockid((pid_t)l->pid, &id) && !clock_gettime(id, &ts))
		l->cpu_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void hang_up_locked(struct keeper_client *c, struct line *l)
{
	ASSERT_HELD(&c->lock);
	measure_locked(c, l);
	c->stats.cpu_ns += l->cpu_ns;
	close(l->channel.sock);
	*l = (struct line) {.state = LINE_FREE};
}

/* The reply that the keeper owes has come, or never will, which the next request finds out. */
static void look_at_keeper_locked(struct keeper_client *c)
{
	ASSERT_HELD(&c->lock);
	if (c->own.state != LINE_HANGING || channel_take_late(&c->own.channel) == 0)
		return;
	c->own.state = LINE_IDLE;
	c->silent_since_ns = 0;
	c->is_back = true;
	c->stats.returned++;
}

/* Lines whose replies have come after all can be used again; those that ended are gone. */
static void look_at_hanging_locked(struct keeper_client *c)
{
	ASSERT_HELD(&c->lock);
	look_at_keeper_locked(c);
	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++) {
		struct line *l = &c->lines[i];
		int r = l->state == LINE_HANGING ? channel_take_late(&l->channel) : 0;

		if (r == 0)
			continue;
		l->state = LINE_IDLE;
		if (r < 0)
			hang_up_locked(c, l);
		c->stats.returned++;
	}
}

static uint32_t count_locked(const struct keeper_client *c, enum line_state state)
{
	uint32_t n = 0;

	ASSERT_HELD(&c->lock);
	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++)
		n += c->lines[i].state == state;
	return n;
}

/* A process whose memory hangs is not asked for more of it, so that it takes one place. */
static bool may_hang_locked(const struct keeper_client *c, const struct keeper_hanging *asked)
{
	uint32_t n = 0;

	ASSERT_HELD(&c->lock);
	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++) {
		const struct keeper_hanging *other = &c->lines[i].asked;

		if (c->lines[i].state != LINE_HANGING || other->what != asked->what)
			continue;
		if (asked->what == KEEPER_COPY && other->pid == asked->pid)
			return false;
		n++;
	}
	return n < max_hanging(asked->what);
}

static struct line *find_locked(struct keeper_client *c, enum line_state state)
{
	ASSERT_HELD(&c->lock);
	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++)
		if (c->lines[i].state == state)
			return &c->lines[i];
	return NULL;
}

/* The line to the keeper, BUSY then: 0, or -EBUSY when the keeper is silent or has other requests all the time. */
static int take_keeper(struct keeper_client *c)
{
	int64_t until_ns = clock_monotonic_ns(&clock_system) + c->timeout_ms * NS_PER_MS;
	bool in_time = true;
	int r = -EBUSY;

	lock_take(&c->lock);
	look_at_keeper_locked(c);
	while (c->own.state == LINE_BUSY && in_time)
		in_time = lock_wait_until(&c->lock, &c->idle, until_ns);
	if (c->own.state == LINE_IDLE) {
		c->own.state = LINE_BUSY;
		r = 0;
	}
	lock_release(&c->lock);
	return r;
}

static void give_keeper_back(struct keeper_client *c, bool is_silent)
{
	lock_take(&c->lock);
	c->own.state = is_silent ? LINE_HANGING : LINE_IDLE;
	if (is_silent)
		c->silent_since_ns = clock_monotonic_ns(&clock_system);
	pthread_cond_broadcast(&c->idle);
	lock_release(&c->lock);
	if (is_silent)
		LOG_RATED(LOG_WARN,
			"the keeper has not answered within %g s: until it does, names of new "
			"programs are missing",
			c->timeout_ms / 1e3);
}

/* Asks the keeper itself: channel_call's result. Once it did not answer in time, -EBUSY without asking until it has. */
static int ask_keeper(struct keeper_client *c, struct keeper_request *q, int fd,
	int ret_fds[KEEPER_MAX_FDS], struct keeper_reply *ret)
{
	int r = take_keeper(c);

	if (r < 0) {
		*ret = (struct keeper_reply) {.text = "the keeper does not answer"};
		return r;
	}
	r = channel_call(&c->own.channel, q, fd, c->timeout_ms, ret_fds, ret);
	/* A process of its own attaches to files, so that its silence says nothing of the keeper. */
	give_keeper_back(c, r == -ETIMEDOUT && ret->result != r && q->op != KEEPER_OP_ATTACH_FILE);
	return r;
}

/* Asks the keeper for an opener; its socket, or -errno. */
static int start_opener(struct keeper_client *c, uint32_t *ret_pid)
{
	struct keeper_request q = {.op = KEEPER_OP_OPENER};
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS], r = ask_keeper(c, &q, -1, fds, &reply);

	*ret_pid = reply.pid;
	return channel_only_fd(r, fds);
}

/* May one more opener be asked for? */
static bool may_start_locked(const struct keeper_client *c)
{
	ASSERT_HELD(&c->lock);
	return c->n_at_work < AT_WORK_MAX && c->own.state != LINE_HANGING &&
	       clock_monotonic_ns(&clock_system) >= c->start_after_ns;
}

/* Counts a request that was not tried: as many of its kind hang as may, or the keeper is silent. */
static void count_refused_locked(struct keeper_client *c, const struct keeper_hanging *asked)
{
	ASSERT_HELD(&c->lock);
	if (c->own.state == LINE_HANGING && may_hang_locked(c, asked))
		c->stats.silent++;
	else
		c->stats.busy++;
}

/* A line for the request, which is BUSY then; NULL and the error. */
static struct line *take_line(
	struct keeper_client *c, const struct keeper_hanging *asked, int *ret_error)
{
	int64_t until_ns = clock_monotonic_ns(&clock_system) + c->timeout_ms * NS_PER_MS;
	struct line *l = NULL;
	bool is_new = false, in_time = true;
	uint32_t pid;
	int sock;

	*ret_error = -EBUSY;
	lock_take(&c->lock);
	look_at_hanging_locked(c);
	while (in_time && may_hang_locked(c, asked)) {
		l = find_locked(c, LINE_IDLE);
		is_new = !l && may_start_locked(c);
		if (is_new)
			l = find_locked(c, LINE_FREE);
		if (l || !c->n_at_work)
			break;
		in_time = lock_wait_until(&c->lock, &c->idle, until_ns);
	}
	if (l) {
		l->state = LINE_BUSY;
		l->asked = *asked;
		c->n_at_work++;
	} else {
		c->stats.requests++;
		count_refused_locked(c, asked);
	}
	lock_release(&c->lock);
	if (!l || !is_new)
		return l;
	sock = start_opener(c, &pid);
	lock_take(&c->lock);
	if (sock >= 0) {
		l->channel = (struct channel) {.sock = sock};
		l->pid = pid;
		lock_release(&c->lock);
		return l;
	}
	l->state = LINE_FREE;
	c->n_at_work--;
	c->stats.requests++;
	if (sock == -ETIMEDOUT)
		c->stats.timeouts++;
	else
		c->start_after_ns = clock_monotonic_ns(&clock_system) + START_RETRY_NS;
	if (sock == -EBUSY)
		count_refused_locked(c, asked);
	pthread_cond_broadcast(&c->idle);
	lock_release(&c->lock);
	*ret_error = sock;
	return NULL;
}

/* The opener has ended, or says what is not the protocol. */
static bool is_line_lost(int r)
{
	return r == -EPIPE || r == -EPROTO || r == -ECONNRESET;
}

/* r: of the line itself. is_limited: the opener refused to do more in this second. */
static void give_line_back(struct keeper_client *c, struct line *l, int r, bool is_limited)
{
	lock_take(&c->lock);
	c->stats.limited += is_limited;
	c->n_at_work--;
	c->stats.requests++;
	l->state = LINE_IDLE;
	if (r == -ETIMEDOUT) {
		l->state = LINE_HANGING;
		c->stats.timeouts++;
	} else if (is_line_lost(r)) {
		hang_up_locked(c, l);
	}
	pthread_cond_broadcast(&c->idle);
	lock_release(&c->lock);
}

/* The descriptor that an opener answers with, or -errno. ret_is_lost: the opener ended instead of answering. */
static int ask_one_opener(struct keeper_client *c, struct keeper_request *q, int fd,
	const struct keeper_hanging *asked, bool *ret_is_lost)
{
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS], r, of_line;
	struct line *l = take_line(c, asked, &r);

	*ret_is_lost = false;
	if (!l)
		return r;
	r = channel_call(&l->channel, q, fd, c->timeout_ms, fds, &reply);
	/* The peer's errors are about the file; the line's own end it. */
	of_line = r < 0 && reply.result == r ? 0 : r;
	*ret_is_lost = is_line_lost(of_line);
	give_line_back(c, l, of_line, q->op == KEEPER_OP_COPY && r == -EBUSY && reply.result == r);
	return channel_only_fd(r, fds);
}

/* As ask_one_opener. Where the opener has ended, as one that the kernel killed for want of memory, another is asked: once, for the
 * request may be what ends them. */
static int ask_opener(struct keeper_client *c, struct keeper_request *q, int fd,
	const struct keeper_hanging *asked)
{
	bool is_lost;
	int r = ask_one_opener(c, q, fd, asked, &is_lost);

	return is_lost ? ask_one_opener(c, q, fd, asked, &is_lost) : r;
}

static int client_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct keeper_request q = {.op = KEEPER_OP_OPEN,
		.what = what,
		.id = pid,
		.start_ns = start_ns,
		.start = start,
		.end = end};
	const struct keeper_hanging asked = {
		.what = what, .pid = pid, .since_ns = clock_monotonic_ns(&clock_system)};

	return ask_opener((struct keeper_client *)k, &q, -1, &asked);
}

static int client_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	struct keeper_request q = {.op = KEEPER_OP_OPEN_AT,
		.what = (uint16_t)flags,
		.payload = (const uint8_t *)path,
		.payload_len = (uint32_t)strlen(path)};
	struct keeper_hanging asked = {.since_ns = clock_monotonic_ns(&clock_system)};

	if (root_fd < 0)
		return -EBADF;
	snprintf(asked.path, sizeof(asked.path), "%s", path);
	return ask_opener((struct keeper_client *)k, &q, root_fd, &asked);
}

static int client_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n)
{
	uint8_t payload[KEEPER_COPY_RANGES * COPY_RANGE_BYTES];
	struct keeper_request q = {.op = KEEPER_OP_COPY,
		.id = pid,
		.start_ns = start_ns,
		.payload = payload,
		.payload_len = (uint32_t)n * COPY_RANGE_BYTES};
	const struct keeper_hanging asked = {
		.what = KEEPER_COPY, .pid = pid, .since_ns = clock_monotonic_ns(&clock_system)};
	_cleanup_close_ int fd = -1;

	if (!copy_ranges_fit(ranges, n))
		return -EINVAL;
	copy_put_ranges(ranges, n, payload);
	fd = ask_opener((struct keeper_client *)k, &q, -1, &asked);
	return fd < 0 ? fd : copy_from_file(fd, ranges, n);
}

/* What the keeper attaches: a descriptor, or -errno with its text. */
static int attach(struct keeper *k, struct keeper_request *q, int fd, struct errbuf *eb)
{
	struct keeper_client *c = (struct keeper_client *)k;
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS], r = ask_keeper(c, q, fd, fds, &reply);

	r = channel_only_fd(r, fds);
	return r < 0 ? err_set(eb, r, "%s", reply.text[0] ? reply.text : strerror(-r)) : r;
}

static int client_attach(struct keeper *k, enum abi_event event, uint32_t cpu, struct errbuf *eb)
{
	struct keeper_request q = {.op = KEEPER_OP_ATTACH, .what = (uint16_t)event, .id = cpu};

	return attach(k, &q, -1, eb);
}

static int client_attach_sideband(struct keeper *k, uint32_t cpu, struct errbuf *eb)
{
	struct keeper_request q = {.op = KEEPER_OP_ATTACH, .what = KEEPER_SIDEBAND, .id = cpu};

	return attach(k, &q, -1, eb);
}

static int client_attach_file(
	struct keeper *k, enum abi_event event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	struct keeper_request q = {
		.op = KEEPER_OP_ATTACH_FILE, .what = (uint16_t)event, .start = offset};

	return file_fd < 0 ? -EBADF : attach(k, &q, file_fd, eb);
}

static void client_stats(struct keeper *k, struct keeper_stats *ret)
{
	struct keeper_client *c = (struct keeper_client *)k;
	bool is_back;

	lock_take(&c->lock);
	look_at_hanging_locked(c);
	is_back = c->is_back;
	c->is_back = false;
	*ret = c->stats;
	ret->silent_since_ns = c->silent_since_ns;
	ret->openers = (uint32_t)ARRAY_SIZE(c->lines) - count_locked(c, LINE_FREE);
	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++) {
		measure_locked(c, &c->lines[i]);
		ret->cpu_ns += c->lines[i].cpu_ns;
		if (c->lines[i].state == LINE_HANGING)
			ret->hanging[ret->n_hanging++] = c->lines[i].asked;
	}
	lock_release(&c->lock);
	if (is_back)
		log_printf(LOG_INFO, "the keeper answers again");
}

static int64_t client_silent_since_ns(const struct keeper *k)
{
	return ((const struct keeper_client *)k)->silent_since_ns;
}

static void client_close(struct keeper *k)
{
	struct keeper_client *c = (struct keeper_client *)k;

	for (size_t i = 0; i < ARRAY_SIZE(c->lines); i++)
		if (c->lines[i].state != LINE_FREE)
			close(c->lines[i].channel.sock);
	close(c->own.channel.sock);
	pthread_cond_destroy(&c->idle);
	lock_done(&c->lock);
	free(c);
}

struct keeper *keeper_client_new(int sock, int timeout_ms)
{
	struct keeper_client *c = xcalloc(1, sizeof(*c));

	c->keeper = (struct keeper) {.open = client_open,
		.open_at = client_open_at,
		.copy = client_copy,
		.attach = client_attach,
		.attach_sideband = client_attach_sideband,
		.attach_file = client_attach_file,
		.stats = client_stats,
		.silent_since_ns = client_silent_since_ns,
		.close = client_close};
	c->own = (struct line) {.state = LINE_IDLE, .channel = {.sock = sock}};
	c->timeout_ms = timeout_ms;
	lock_cond_init(&c->idle);
	lock_init(&c->lock);
	return &c->keeper;
}

void keeper_stats(struct keeper *k, struct keeper_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (k && k->stats)
		k->stats(k, ret);
}

int keeper_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n)
{
	return k->copy ? k->copy(k, pid, start_ns, ranges, n) : -ENOTSUP;
}

int64_t keeper_silent_since_ns(const struct keeper *k)
{
	return k && k->silent_since_ns ? k->silent_since_ns(k) : 0;
}

const char *keeper_what_name(enum keeper_what what)
{
	switch (what) {
	case KEEPER_MAPS: return "maps";
	case KEEPER_MAP_FILE: return "mapped file";
	case KEEPER_ROOT: return "root";
	case KEEPER_MNT_NS: return "mount namespace";
	case KEEPER_KALLSYMS: return "kallsyms";
	case KEEPER_MODULES: return "modules";
	case KEEPER_EXE: return "executable";
	case KEEPER_COPY: return "memory";
	}
	return "file";
}
