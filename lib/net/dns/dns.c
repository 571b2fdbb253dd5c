/* SPDX-License-Identifier: Apache-2.0
 *
 * Each lookup has a c-ares channel of its own, so that it sees resolv.conf as it is now. The order of names and what
 * counts as an answer are those of Prometheus (discovery/dns/dns.go): the first name that exists wins, even without
 * records; "no such name" for all of them is an empty answer; anything else is an error.
 */
#include "lib/net/dns/dns.h"
#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <sys/epoll.h>
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <string.h>

enum {
	SERVER_TIMEOUT_MS = 2000, /* of the first try; the second waits twice that */
	SERVER_TRIES = 2,
	EDNS_BYTES = 1232, /* fits an unfragmented packet: dnsflagday.net/2020 */
	MAX_EVENTS = 32,
	HEADER_BYTES = 12,
	MAX_RESOLV_CONF = 64 << 10,
};

struct dns_lookup {
	struct dns_resolver *resolver;
	struct dns_lookup *next;
	ares_channel channel;
	char **names; /* to ask for, in this order */
	size_t n_names, at;
	enum dns_type type;
	void (*done)(struct dns_answer *a, void *arg);
	void *arg;
	struct dns_answer answer;
	bool has_failed; /* a name whose servers gave no answer: the others cannot prove that nothing exists */
	bool is_over, is_cancelled;
};

struct dns_resolver {
	int epoll_fd;
	struct dns_lookup *lookups;
};

int dns_resolver_new(struct dns_resolver **ret, struct errbuf *eb)
{
	struct dns_resolver *r;
	int fd, e = ares_library_init(ARES_LIB_INIT_ALL);

	if (e != ARES_SUCCESS)
		return err_set(eb, -EIO, "c-ares: %s", ares_strerror(e));
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0) {
		ares_library_cleanup();
		return err_set(eb, -errno, "epoll: %s", strerror(errno));
	}
	r = xcalloc(1, sizeof(*r));
	r->epoll_fd = fd;
	*ret = r;
	return 0;
}

static void records_free(struct dns_answer *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->records[i].target);
	free(a->records);
	a->records = NULL;
	a->n = 0;
}

static void lookup_free(struct dns_lookup *l)
{
	l->is_cancelled = true;
	if (l->channel)
		ares_destroy(l->channel);
	for (size_t i = 0; i < l->n_names; i++)
		free(l->names[i]);
	free(l->names);
	records_free(&l->answer);
	free(l);
}

void dns_resolver_freep(struct dns_resolver **rp)
{
	struct dns_resolver *r = *rp;

	if (!r)
		return;
	while (r->lookups) {
		struct dns_lookup *l = r->lookups;

		r->lookups = l->next;
		lookup_free(l);
	}
	close(r->epoll_fd);
	free(r);
	ares_library_cleanup();
	*rp = NULL;
}

int dns_resolver_fd(const struct dns_resolver *r)
{
	return r->epoll_fd;
}

/* Called by c-ares with a socket and what it waits for there. */
static void on_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns_lookup *l = arg;
	struct epoll_event ev = {.data.fd = fd};

	if (readable)
		ev.events |= EPOLLIN;
	if (writable)
		ev.events |= EPOLLOUT;
	if (!ev.events)
		epoll_ctl(l->resolver->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(l->resolver->epoll_fd, EPOLL_CTL_MOD, fd, &ev) < 0 && errno == ENOENT)
		epoll_ctl(l->resolver->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* ---- answers ---- */

static void put_record(struct dns_answer *a, const char *target, uint16_t port)
{
	a->records = xrealloc(a->records, (a->n + 1) * sizeof(*a->records));
	a->records[a->n++] = (struct dns_record) {.target = xstrdup(target), .port = port};
}

static int parse_srv(const unsigned char *p, int len, struct dns_answer *ret)
{
	struct ares_srv_reply *list = NULL;
	int e = ares_parse_srv_reply(p, len, &list);

	for (const struct ares_srv_reply *s = list; s; s = s->next)
		put_record(ret, s->host, s->port);
	ares_free_data(list);
	return e;
}

static int parse_mx(const unsigned char *p, int len, struct dns_answer *ret)
{
	struct ares_mx_reply *list = NULL;
	int e = ares_parse_mx_reply(p, len, &list);

	for (const struct ares_mx_reply *m = list; m; m = m->next)
		put_record(ret, m->host, 0);
	ares_free_data(list);
	return e;
}

static int parse_ns(const unsigned char *p, int len, struct dns_answer *ret)
{
	struct hostent *host = NULL;
	int e = ares_parse_ns_reply(p, len, &host);

	for (size_t i = 0; host && host->h_aliases[i]; i++)
		put_record(ret, host->h_aliases[i], 0);
	if (host)
		ares_free_hostent(host);
	return e;
}

/* As Go writes it: an IPv4 address within IPv6 as IPv4, everything else in hexadecimal. */
static void put_ipv6(struct dns_answer *a, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED(ip))
		inet_ntop(AF_INET, ip->s6_addr + 12, text, sizeof(text));
	else if (IN6_IS_ADDR_V4COMPAT(ip) && (ip->s6_addr[12] || ip->s6_addr[13]))
		snprintf(text, sizeof(text), "::%x:%x", ip->s6_addr[12] << 8 | ip->s6_addr[13],
			ip->s6_addr[14] << 8 | ip->s6_addr[15]);
	else
		inet_ntop(AF_INET6, ip, text, sizeof(text));
	put_record(a, text, 0);
}

/* As many as the header announces, each of at least 12 bytes on the wire. */
static int n_answers(const unsigned char *p, int len)
{
	return len < HEADER_BYTES ? 0 : MIN(p[6] << 8 | p[7], len / HEADER_BYTES);
}

static int parse_a(const unsigned char *p, int len, struct dns_answer *ret)
{
	int n = n_answers(p, len), e;
	_cleanup_free_ struct ares_addrttl *list = xcalloc((size_t)n + 1, sizeof(*list));
	char text[INET6_ADDRSTRLEN];

	n++;
	e = ares_parse_a_reply(p, len, NULL, list, &n);
	for (int i = 0; e == ARES_SUCCESS && i < n; i++)
		put_record(ret, inet_ntop(AF_INET, &list[i].ipaddr, text, sizeof(text)), 0);
	return e;
}

static int parse_aaaa(const unsigned char *p, int len, struct dns_answer *ret)
{
	int n = n_answers(p, len), e;
	_cleanup_free_ struct ares_addr6ttl *list = xcalloc((size_t)n + 1, sizeof(*list));

	n++;
	e = ares_parse_aaaa_reply(p, len, NULL, list, &n);
	for (int i = 0; e == ARES_SUCCESS && i < n; i++) {
		struct in6_addr ip;

		memcpy(&ip, &list[i].ip6addr, sizeof(ip));
		put_ipv6(ret, &ip);
	}
	return e;
}

static const struct {
	int number;
	int (*parse)(const unsigned char *p, int len, struct dns_answer *ret);
} types[] = {
	[DNS_SRV] = {ns_t_srv, parse_srv},
	[DNS_A] = {ns_t_a, parse_a},
	[DNS_AAAA] = {ns_t_aaaa, parse_aaaa},
	[DNS_MX] = {ns_t_mx, parse_mx},
	[DNS_NS] = {ns_t_ns, parse_ns},
};

/* ---- a lookup ---- */

static void ask(struct dns_lookup *l);

static void on_answer(void *arg, int status, int timeouts, unsigned char *p, int len)
{
	struct dns_lookup *l = arg;
	int e = status;

	(void)timeouts;
	if (l->is_cancelled)
		return;
	if (status == ARES_SUCCESS)
		e = types[l->type].parse(p, len, &l->answer);
	/* the name exists, with records of this type or with others only */
	if (e == ARES_SUCCESS || e == ARES_ENODATA) {
		l->is_over = true;
		return;
	}
	if (e != ARES_ENOTFOUND && !l->has_failed) {
		l->has_failed = true;
		/* c-ares has no other word for servers that all refuse or fail */
		err_set(&l->answer.text, -EHOSTUNREACH, "%s: %s", l->names[l->at],
			e == ARES_ECONNREFUSED ? "no server gave an answer (none reached, or "
						 "each refused or failed)"
					       : ares_strerror(e));
	}
	l->at++;
	ask(l);
}

static void ask(struct dns_lookup *l)
{
	if (l->at < l->n_names) {
		ares_query(
			l->channel, l->names[l->at], ns_c_in, types[l->type].number, on_answer, l);
		return;
	}
	l->is_over = true;
	if (l->has_failed)
		l->answer.error = -EHOSTUNREACH;
}

static size_t count_dots(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '.';
	return n;
}

static void add_name(struct dns_lookup *l, char *name)
{
	l->names = xrealloc(l->names, (l->n_names + 1) * sizeof(*l->names));
	l->names[l->n_names++] = name;
}

/*
 * Adds `name` below each domain of the search list: of the last line that sets one. c-ares takes one from the environment and from the
 * name of this machine too, and so would find other targets than Prometheus does.
 */
static int add_searched(struct dns_lookup *l, const char *name)
{
	_cleanup_bytes_ struct bytes text = {0};
	char *lines, *line, *word, *in_line;
	size_t first = l->n_names;
	int e = fs_read_file(&fs_system, "/etc/resolv.conf", MAX_RESOLV_CONF, &text, NULL);

	if (e < 0)
		return e == -ENOENT ? 0 : e;
	bytes_put_u8(&text, '\0');
	lines = (char *)text.data;
	while ((line = strsep(&lines, "\n"))) {
		bool is_search;

		word = strtok_r(line, " \t\r", &in_line);
		is_search = word && !strcmp(word, "search");
		if (!word || (!is_search && strcmp(word, "domain") != 0))
			continue;
		while (l->n_names > first)
			free(l->names[--l->n_names]);
		while ((word = strtok_r(NULL, " \t\r", &in_line))) {
			const char *dot = str_ends_with(word, ".") ? "" : ".";

			add_name(l, xasprintf("%s.%s%s", name, word, dot));
			if (!is_search)
				break;
		}
	}
	return 0;
}

/* A name with a trailing dot is whole. One with fewer dots than ndots is tried within the search list first. */
static int fill_names(struct dns_lookup *l, const char *name)
{
	struct ares_options o = {0};
	int mask = 0, e = ares_save_options(l->channel, &o, &mask);
	bool is_whole = str_ends_with(name, "."), is_first = false;

	if (e == ARES_SUCCESS)
		is_first = count_dots(name) >= (size_t)MAX(o.ndots, 0);
	ares_destroy_options(&o);
	if (e != ARES_SUCCESS)
		return e;
	if (is_whole || is_first)
		add_name(l, xstrdup(name));
	if (!is_whole && add_searched(l, name) < 0)
		return ARES_EFILE;
	if (!is_whole && !is_first)
		add_name(l, xstrdup(name));
	return ARES_SUCCESS;
}

struct dns_lookup *dns_lookup_start(struct dns_resolver *r, const char *name, enum dns_type type,
	void (*done)(struct dns_answer *a, void *arg), void *arg)
{
	struct dns_lookup *l = xcalloc(1, sizeof(*l));
	struct ares_options o = {.flags = ARES_FLAG_EDNS,
		.timeout = SERVER_TIMEOUT_MS,
		.tries = SERVER_TRIES,
		.ednspsz = EDNS_BYTES,
		.sock_state_cb = on_socket,
		.sock_state_cb_data = l};
	int e;

	*l = (struct dns_lookup) {.resolver = r, .type = type, .done = done, .arg = arg};
	l->next = r->lookups;
	r->lookups = l;
	e = ares_init_options(&l->channel, &o,
		ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
			ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE);
	if (e == ARES_SUCCESS)
		e = fill_names(l, name);
	if (e == ARES_SUCCESS) {
		ask(l);
		return l;
	}
	l->is_over = true;
	l->answer.error = err_set(&l->answer.text, e == ARES_ENOMEM ? -ENOMEM : -EIO,
		"/etc/resolv.conf: %s", ares_strerror(e));
	return l;
}

static void unlink_lookup(struct dns_lookup *l)
{
	struct dns_lookup **at = &l->resolver->lookups;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
}

void dns_lookup_cancel(struct dns_lookup *l)
{
	unlink_lookup(l);
	lookup_free(l);
}

int dns_resolver_next_ms(struct dns_resolver *r)
{
	int64_t next_ms = -1;

	for (struct dns_lookup *l = r->lookups; l; l = l->next) {
		struct timeval tv;
		int64_t ms;

		if (l->is_over)
			return 0;
		if (!ares_timeout(l->channel, NULL, &tv))
			continue;
		ms = (int64_t)tv.tv_sec * 1000 + tv.tv_usec / 1000 + 1;
		next_ms = next_ms < 0 ? ms : MIN(next_ms, ms);
	}
	return (int)next_ms;
}

/* One that is over, or NULL. */
static struct dns_lookup *find_over(struct dns_resolver *r)
{
	struct dns_lookup *l = r->lookups;

	while (l && !l->is_over)
		l = l->next;
	return l;
}

/* Events by the lookup that has the socket: there are few of either. */
static void process(struct dns_resolver *r, const struct epoll_event *ev)
{
	bool in = ev->events & (EPOLLIN | EPOLLERR | EPOLLHUP), out = ev->events & EPOLLOUT;

	for (struct dns_lookup *l = r->lookups; l; l = l->next) {
		ares_socket_t fds[ARES_GETSOCK_MAXNUM];
		int mask = l->is_over ? 0 : ares_getsock(l->channel, fds, ARES_GETSOCK_MAXNUM);

		for (unsigned i = 0; mask && i < ARES_GETSOCK_MAXNUM; i++) {
			if (!ARES_GETSOCK_READABLE(mask, i) && !ARES_GETSOCK_WRITABLE(mask, i))
				break;
			if (fds[i] != ev->data.fd)
				continue;
			ares_process_fd(l->channel, in ? fds[i] : ARES_SOCKET_BAD,
				out ? fds[i] : ARES_SOCKET_BAD);
			return;
		}
	}
}

void dns_resolver_run(struct dns_resolver *r)
{
	struct epoll_event events[MAX_EVENTS];
	int n = epoll_wait(r->epoll_fd, events, MAX_EVENTS, 0);
	struct dns_lookup *l;

	for (int i = 0; i < n; i++)
		process(r, &events[i]);
	for (l = r->lookups; l; l = l->next) {
		if (!l->is_over)
			ares_process_fd(l->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	}
	while ((l = find_over(r))) {
		unlink_lookup(l);
		l->done(&l->answer, l->arg);
		lookup_free(l);
	}
}
