/* SPDX-License-Identifier: Apache-2.0
 *
 * DNS lookups over c-ares, driven by the caller's loop. A name is asked for as /etc/resolv.conf says, which is read for
 * each lookup: every server in turn, then every name of the search list; over UDP with EDNS0, and over TCP when an answer
 * was truncated. One thread for a resolver and its lookups.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum dns_type { DNS_SRV, DNS_A, DNS_AAAA, DNS_MX, DNS_NS };

struct dns_record {
	char *target;  /* an address, or a name without its trailing dot */
	uint16_t port; /* of SRV */
};
struct dns_answer {
	int error; /* 0, also when the name does not exist: no records then; -EHOSTUNREACH: no server answered; -EIO: /etc/resolv.conf; -ENOMEM */
	struct errbuf text;
	struct dns_record *records; /* freed after the callback */
	size_t n;
};

struct dns_resolver;
struct dns_lookup;
/* -EIO: c-ares; errno of epoll_create1. Both with a text. */
int dns_resolver_new(struct dns_resolver **ret, struct errbuf *eb) _must_check_;
/* Lookups under way end without their callbacks. */
void dns_resolver_freep(struct dns_resolver **r);
/* Readable when dns_resolver_run has something to do; and in how many ms it has even so (-1: not by itself). */
int dns_resolver_fd(const struct dns_resolver *r);
int dns_resolver_next_ms(struct dns_resolver *r);
/* Handles what is due; the callbacks run inside. */
void dns_resolver_run(struct dns_resolver *r);

/* `done` runs once inside dns_resolver_run, unless the lookup is cancelled first; the lookup is gone afterwards. */
struct dns_lookup *dns_lookup_start(struct dns_resolver *r, const char *name, enum dns_type type,
	void (*done)(struct dns_answer *a, void *arg), void *arg);
void dns_lookup_cancel(struct dns_lookup *l);
