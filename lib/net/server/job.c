/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs: parked requests wait for their time in the heap, then for a worker in the queue. A worker
 * runs the work function, which replies or parks again; the http thread sends the reply.
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

static void enqueue_locked(struct http_server *s, struct http_request *r)
{
	r->state = HTTP_QUEUED;
	r->queue_next = NULL;
	*s->queue_tail = r;
	s->queue_tail = &r->queue_next;
	s->n_queued++;
	if (r->deadline_ns == HTTP_NEVER)
		r->deadline_ns = clock_monotonic_ns(s->o.clock) + s->o.job_timeout_ms * NS_PER_MS;
	http_heap_put_locked(s, r);
	pthread_cond_signal(&s->job_ready);
}

static void dequeue_locked(struct http_server *s, struct http_request *r)
{
	struct http_request **at = &s->queue;

	while (*at && *at != r)
		at = &(*at)->queue_next;
	ASSERT(*at == r);
	*at = r->queue_next;
	if (s->queue_tail == &r->queue_next)
		s->queue_tail = at;
	s->n_queued--;
}

/* The watch is one-shot and level-triggered: a client that has already left shows at once. */
static void watch_locked(struct http_server *s, struct http_conn *c)
{
	struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = c->id};

	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
		log_printf(LOG_DEBUG, "cannot watch a parked connection: %d", errno);
}

void http_job_resume_locked(struct http_request *r)
{
	struct http_server *s = r->server;

	ASSERT(http_is_replied(r));
	http_heap_remove_locked(s, r);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, r->conn->fd, NULL);
	r->state = HTTP_REPLIED;
	s->n_parked--;
	metric_set(s->m_parked, (double)s->n_parked);
	MHD_resume_connection(r->mhd);
	if (!s->n_parked)
		pthread_cond_broadcast(&s->drained);
}

void http_job_end_locked(struct http_request *r, unsigned code, const char *why)
{
	ASSERT(r->state == HTTP_WAITING || r->state == HTTP_QUEUED);
	if (r->state == HTTP_QUEUED)
		dequeue_locked(r->server, r);
	atomic_store(&r->cancelled, true);
	http_reply_cut(r, code, why);
	http_job_resume_locked(r);
}

static void park_locked(struct http_request *r)
{
	struct http_server *s = r->server;

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
	if (r->at_ns != HTTP_NEVER && r->at_ns > clock_monotonic_ns(s->o.clock)) {
		r->state = HTTP_WAITING;
		http_heap_put_locked(s, r);
		http_net_wake(s);
		return;
	}
	enqueue_locked(s, r);
	http_net_wake(s);
}

void http_job_publish(struct http_request *r, bool was_parked)
{
	struct http_server *s = r->server;

	pthread_mutex_lock(&s->lock);
	if (!was_parked) {
		s->n_parked++;
		metric_set(s->m_parked, (double)s->n_parked);
		watch_locked(s, r->conn);
	}
	if (r->is_parking && !was_parked && s->n_parked > s->o.max_jobs) {
		r->is_parking = false;
		r->state = HTTP_WAITING;
		http_job_end_locked(r, 503, "too many requests are waiting");
	} else if (r->is_parking)
		park_locked(r);
	else
		http_job_resume_locked(r);
	pthread_mutex_unlock(&s->lock);
}

static void run_due(struct http_server *s, struct http_request *r, int64_t now_ns)
{
	bool is_late = r->deadline_ns != HTTP_NEVER && r->deadline_ns <= now_ns;

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
	while (s->n_heap && http_heap_key(s->heap[0]) <= now_ns) {
		struct http_request *r = s->heap[0];

		http_heap_remove_locked(s, r);
		run_due(s, r, now_ns);
	}
	return s->n_heap ? http_heap_key(s->heap[0]) : HTTP_NEVER;
}

static struct http_request *take_job(struct http_server *s)
{
	struct http_request *r = NULL;

	pthread_mutex_lock(&s->lock);
	while (!s->queue && !s->quit)
		pthread_cond_wait(&s->job_ready, &s->lock);
	r = s->queue;
	if (r) {
		dequeue_locked(s, r);
		r->state = HTTP_RUNNING;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

void *http_worker_main(void *arg)
{
	struct http_server *s = arg;
	struct http_request *r;

	pthread_setname_np(pthread_self(), "http-worker");
	if (s->o.worker_nice)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), s->o.worker_nice);
	while ((r = take_job(s))) {
		err_set_work(r->route->path);
		r->work(r, s->arg);
		err_set_work(NULL);
		ASSERT(http_is_replied(r) != r->is_parking);
		if (r->is_parking) {
			pthread_mutex_lock(&s->lock);
			http_heap_remove_locked(s, r);
			pthread_mutex_unlock(&s->lock);
		}
		http_job_publish(r, true);
	}
	return NULL;
}
