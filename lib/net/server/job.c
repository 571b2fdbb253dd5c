/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs: parked requests wait for their time in the heap or for http_job_wake, then for a worker in a queue. A worker
 * runs the work function, which replies or parks again; the http thread sends the reply. What watches the program has a
 * worker and queues of its own, so that it waits for nothing that computes.
 */
#include "lib/net/server/impl.h"
#include "lib/base/log.h"
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

void http_job_run(struct http_request *r, http_handler_fn *work)
{
	http_job_run_at(r, HTTP_NEVER, work);
}

void http_job_run_at(struct http_request *r, int64_t monotonic_ns, http_handler_fn *work)
{
	ASSERT(!r->is_parking && !http_is_replied(r));
	r->is_parking = true;
	r->next_work = work;
	r->next_at_ns = monotonic_ns;
}

void http_job_wait(struct http_request *r, http_handler_fn *work)
{
	http_job_run(r, work);
	r->next_waits = true;
}

struct http_ticket http_job_ticket(const struct http_request *r)
{
	return (struct http_ticket) {r->server, r->conn->id, r->id};
}

void http_job_restart(struct http_request *r)
{
	ASSERT(r->state == HTTP_RUNNING);
	r->route->handler(r, r->server->arg);
}

void http_job_set_deadline(struct http_request *r, int64_t monotonic_ns)
{
	r->deadline_ns = monotonic_ns;
}

bool http_job_cancelled(const struct http_request *r)
{
	return atomic_load_explicit(&r->cancelled, memory_order_relaxed);
}

const _Atomic bool *http_job_cancel_flag(const struct http_request *r)
{
	return &r->cancelled;
}

static bool is_monitoring(const struct http_request *r)
{
	return r->route && r->route->flags & HTTP_MONITORING;
}

static enum http_queue_name queue_of(const struct http_request *r)
{
	if (!is_monitoring(r))
		return HTTP_QUEUE_JOBS;
	return r->work == http_guard_verify ? HTTP_QUEUE_PASSWORDS : HTTP_QUEUE_MONITORING;
}

static void set_deadline_locked(struct http_server *s, struct http_request *r)
{
	ASSERT_HELD(&s->lock);
	if (r->deadline_ns == HTTP_NEVER)
		r->deadline_ns = clock_monotonic_ns(s->o.clock) + s->o.job_timeout_ms * NS_PER_MS;
}

static void enqueue_locked(struct http_server *s, struct http_request *r)
{
	struct http_queue *q;

	ASSERT_HELD(&s->lock);
	r->state = HTTP_QUEUED;
	r->queue = queue_of(r);
	r->queue_next = NULL;
	q = &s->queues[r->queue];
	*q->end = r;
	q->end = &r->queue_next;
	set_deadline_locked(s, r);
	http_heap_add_locked(s, r);
	pthread_cond_signal(is_monitoring(r) ? &s->monitoring_ready : &s->job_ready);
}

static void dequeue_locked(struct http_server *s, struct http_request *r)
{
	struct http_queue *q = &s->queues[r->queue];
	struct http_request **at = &q->first;

	ASSERT_HELD(&s->lock);
	ASSERT(r->state == HTTP_QUEUED);
	while (*at && *at != r)
		at = &(*at)->queue_next;
	ASSERT(*at == r);
	*at = r->queue_next;
	if (q->end == &r->queue_next)
		q->end = at;
}

/* The watch is one-shot and level-triggered: a client that has already left shows at once. */
static void watch_locked(struct http_server *s, struct http_conn *c)
{
	struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = c->id};

	ASSERT_HELD(&s->lock);
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
		log_printf(LOG_DEBUG, "cannot watch a parked connection: %d", errno);
}

void http_job_resume_locked(struct http_request *r)
{
	struct http_server *s = r->server;

	ASSERT_HELD(&s->lock);
	ASSERT(http_is_replied(r));
	http_heap_remove_locked(s, r);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, r->conn->fd, NULL);
	r->state = HTTP_REPLIED;
	ASSERT(s->n_parked > 0);
	s->n_parked--;
	s->n_jobs -= !is_monitoring(r);
	metric_set(s->m_parked, (double)s->n_parked);
	MHD_resume_connection(r->mhd);
	if (!s->n_parked)
		pthread_cond_broadcast(&s->drained);
}

void http_job_end_locked(struct http_request *r, unsigned code, const char *why)
{
	ASSERT_HELD(&r->server->lock);
	ASSERT(r->state == HTTP_WAITING || r->state == HTTP_QUEUED);
	if (r->state == HTTP_QUEUED)
		dequeue_locked(r->server, r);
	atomic_store(&r->cancelled, true);
	http_reply_cut(r, code, why);
	http_job_resume_locked(r);
}

/* Waits in the heap: for its time, or for its deadline with http_job_wake before it. */
static void wait_locked(struct http_server *s, struct http_request *r)
{
	ASSERT_HELD(&s->lock);
	r->state = HTTP_WAITING;
	http_heap_add_locked(s, r);
	http_wake_net(s);
}

static void park_locked(struct http_request *r)
{
	struct http_server *s = r->server;
	bool waits = r->next_waits;

	ASSERT_HELD(&s->lock);
	r->next_waits = false;
	r->work = r->next_work;
	r->at_ns = r->next_at_ns;
	r->is_parking = false;
	if (s->stopping) {
		r->state = HTTP_WAITING;
		http_job_end_locked(r, 503, "the server is shutting down");
		return;
	}
	if (http_job_cancelled(r)) {
		r->state = HTTP_WAITING;
		http_job_end_locked(r, 503, "cancelled");
		return;
	}
	if (waits && !r->is_woken) {
		set_deadline_locked(s, r);
		wait_locked(s, r);
		return;
	}
	if (waits)
		r->is_woken = false;
	if (r->at_ns != HTTP_NEVER && r->at_ns > clock_monotonic_ns(s->o.clock)) {
		wait_locked(s, r);
		return;
	}
	enqueue_locked(s, r);
	http_wake_net(s);
}

void http_job_wake(const struct http_ticket *t)
{
	struct http_server *s = t->server;
	struct http_request *r;
	uint64_t *slot;

	lock_take(&s->lock);
	slot = table_find(&s->conns, t->conn_id);
	r = slot ? ((struct http_conn *)(uintptr_t)*slot)->request : NULL;
	if (r && r->id == t->request_id) {
		/* one that waits for a time of its own has not asked for this yet */
		if (r->state == HTTP_WAITING && r->at_ns == HTTP_NEVER) {
			http_heap_remove_locked(s, r);
			enqueue_locked(s, r);
			http_wake_net(s);
		} else {
			r->is_woken = true;
		}
	}
	lock_release(&s->lock);
}

void http_job_publish(struct http_request *r, bool was_parked)
{
	struct http_server *s = r->server;

	lock_take(&s->lock);
	if (!was_parked) {
		s->n_parked++;
		s->n_jobs += !is_monitoring(r);
		metric_set(s->m_parked, (double)s->n_parked);
		watch_locked(s, r->conn);
	}
	if (r->is_parking && !was_parked && !is_monitoring(r) && s->n_jobs > s->o.max_jobs) {
		r->is_parking = false;
		r->state = HTTP_WAITING;
		http_job_end_locked(r, 503, "too many requests are waiting");
	} else if (r->is_parking)
		park_locked(r);
	else
		http_job_resume_locked(r);
	lock_release(&s->lock);
}

static void run_due_locked(struct http_server *s, struct http_request *r, int64_t now_ns)
{
	bool is_late = r->deadline_ns != HTTP_NEVER && r->deadline_ns <= now_ns;

	ASSERT_HELD(&s->lock);
	if (is_late)
		metric_inc(metric_cell(s->m_cut, "job"));
	if (r->state == HTTP_RUNNING) {
		atomic_store(&r->cancelled, true);
		return;
	}
	if (is_late)
		http_job_end_locked(r, 503, "deadline passed before the request could be answered");
	else
		enqueue_locked(s, r);
}

int64_t http_job_run_due_locked(struct http_server *s, int64_t now_ns)
{
	ASSERT_HELD(&s->lock);
	while (s->n_heap && http_heap_key(s->heap[0]) <= now_ns) {
		struct http_request *r = s->heap[0];

		http_heap_remove_locked(s, r);
		run_due_locked(s, r, now_ns);
	}
	return s->n_heap ? http_heap_key(s->heap[0]) : HTTP_NEVER;
}

static struct http_request *first_locked(const struct http_server *s, bool is_monitor)
{
	ASSERT_HELD(&s->lock);
	if (!is_monitor)
		return s->queues[HTTP_QUEUE_JOBS].first;
	return s->queues[HTTP_QUEUE_MONITORING].first ? s->queues[HTTP_QUEUE_MONITORING].first
						      : s->queues[HTTP_QUEUE_PASSWORDS].first;
}

/* NULL: the server has ended. */
static struct http_request *take_job(struct http_server *s, bool is_monitor)
{
	struct http_request *r;

	lock_take(&s->lock);
	while (!(r = first_locked(s, is_monitor)) && !s->quit)
		lock_wait(&s->lock, is_monitor ? &s->monitoring_ready : &s->job_ready);
	if (r) {
		dequeue_locked(s, r);
		r->state = HTTP_RUNNING;
	}
	lock_release(&s->lock);
	return r;
}

static void run_jobs(struct http_server *s, bool is_monitor)
{
	struct http_request *r;

	while ((r = take_job(s, is_monitor))) {
		err_set_work(r->route->path);
		r->work(r, s->arg);
		err_set_work(NULL);
		ASSERT(http_is_replied(r) != r->is_parking);
		if (r->is_parking) {
			lock_take(&s->lock);
			http_heap_remove_locked(s, r);
			lock_release(&s->lock);
		}
		http_job_publish(r, true);
	}
}

void *http_worker_main(void *arg)
{
	struct http_server *s = arg;

	pthread_setname_np(pthread_self(), "http-worker");
	if (s->o.worker_nice)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), s->o.worker_nice);
	run_jobs(s, false);
	return NULL;
}

void *http_monitor_main(void *arg)
{
	pthread_setname_np(pthread_self(), "http-monitor");
	run_jobs(arg, true);
	return NULL;
}
