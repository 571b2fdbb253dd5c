/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates from the fetcher → a table of pods → the process table.
 */
#include "exporter/proc/reader/pods.h"
#include "exporter/proc/pod_table.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/log.h"
#include <string.h>

#define RESUBSCRIBE_NS (5 * NS_PER_S)

struct pods {
	struct pods_options o;
	int sock; /* negative: not subscribed */
	int64_t retry_ns;
	pthread_mutex_t lock; /* of the statistics; a leaf */
	struct pods_stats stats;
};

struct pods *pods_new(const struct pods_options *o)
{
	struct pods *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->sock = -1;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void pods_freep(struct pods **pp)
{
	struct pods *p = *pp;

	if (!p)
		return;
	if (p->sock >= 0)
		close(p->sock);
	pthread_mutex_destroy(&p->lock);
	free(p);
	*pp = NULL;
}

static void count_failure(struct pods *p, unsigned status, const char *text)
{
	LOG_RATED(LOG_WARN, "kubernetes: %s", text);
	pthread_mutex_lock(&p->lock);
	p->stats.failures[status]++;
	p->stats.works = false;
	pthread_mutex_unlock(&p->lock);
}

static int read_records(
	struct pods *p, int fd, uint64_t n, struct pod_table **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text;
	ssize_t got = 0;

	bytes_init(&text, p->o.budget, 0);
	/* Records of which each fits, and the head of their file. */
	if (n > p->o.max_bytes + 64)
		return err_set(eb, -EFBIG, "%llu bytes of pods, above --kubernetes.max-bytes",
			(unsigned long long)n);
	if (!bytes_reserve(&text, n))
		return err_set(
			eb, -ENOMEM, "no memory for %llu bytes of pods", (unsigned long long)n);
	do {
		got = pread(fd, text.data + text.len, n - text.len, (off_t)text.len);
		text.len += got > 0 ? (size_t)got : 0;
	} while (got > 0 && text.len < n);
	return pod_table_read(text.data, text.len, p->o.n_values, p->o.budget, ret, eb);
}

static void take_update(struct pods *p, const struct fetcher_pods_update *u, int fd)
{
	struct pod_table *table = NULL;
	struct errbuf eb = {0};
	size_t n, n_containers;
	int r = read_records(p, fd, u->bytes, &table, &eb);

	if (r < 0) {
		count_failure(p, r == -EBADMSG ? FETCHER_PODS_MALFORMED : FETCHER_PODS_TOO_LARGE,
			err_text(&eb, r));
		return;
	}
	n = pod_table_count(table, &n_containers);
	lock_take(p->o.procs_lock);
	proc_table_set_pods(p->o.procs, table);
	lock_release(p->o.procs_lock);
	pthread_mutex_lock(&p->lock);
	p->stats.updates++;
	p->stats.pods = n;
	p->stats.containers = n_containers;
	p->stats.left_out = u->left_out;
	p->stats.updated_ns = clock_realtime_ns(p->o.clock);
	p->stats.works = true;
	pthread_mutex_unlock(&p->lock);
}

/* At most one attempt every few seconds. */
static void subscribe(struct pods *p, int timeout_ms)
{
	int64_t now = clock_monotonic_ns(p->o.clock);

	if (now >= p->retry_ns)
		p->sock = fetcher_pods_subscribe(p->o.fetcher_fd);
	if (p->sock >= 0)
		return;
	p->retry_ns = now >= p->retry_ns ? now + RESUBSCRIBE_NS : p->retry_ns;
	p->o.clock->sleep_until_ns(p->o.clock, now + timeout_ms * NS_PER_MS);
}

void pods_round(struct pods *p, int timeout_ms)
{
	struct fetcher_pods_update u;
	_cleanup_close_ int fd = -1;
	int r;

	if (p->sock < 0)
		subscribe(p, timeout_ms);
	if (p->sock < 0)
		return;
	r = fetcher_pods_next(p->sock, timeout_ms, &u, &fd);
	if (r > 0 && u.status == FETCHER_PODS_OK) {
		take_update(p, &u, fd);
	} else if (r > 0) {
		count_failure(p, u.status, u.text);
	} else if (r < 0) {
		count_failure(p, FETCHER_PODS_ERROR, "the fetcher does not answer");
		close(TAKE_FD(p->sock));
	}
}

void pods_stats(struct pods *p, struct pods_stats *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = p->stats;
	pthread_mutex_unlock(&p->lock);
}
