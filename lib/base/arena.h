/* SPDX-License-Identifier: Apache-2.0
 *
 * Bump allocation for one request, scrape, window or load. Everything is freed at once. When the
 * budget or memory refuses, the failure sticks: later calls return NULL too and arena_error()
 * reports it, so that a long build-up is checked once at its end. One owner, one thread.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;
struct arena {
	struct budget *budget; /* NULL: none */
	struct arena_chunk *chunks;
	struct arena_adopted *adopted;
	char *next, *end;
	size_t total_bytes;
	int error; /* sticky; 0 or -ENOMEM */
	struct errbuf errbuf;
};

void arena_init(struct arena *a, struct budget *budget);
void arena_done(struct arena *a);
/* Frees everything but the largest chunk up to 16 MiB, which serves again; clears a sticky error. */
void arena_reset(struct arena *a);
#define _cleanup_arena_ _cleanup_(arena_done)

/* 16-byte aligned memory, not cleared; NULL on refusal. n × bytes is checked for overflow. */
void *arena_alloc(struct arena *a, size_t bytes);
void *arena_alloc_array(struct arena *a, size_t n, size_t bytes);
/* The same, zeroed. */
void *arena_zalloc(struct arena *a, size_t bytes);
/*
 * Takes over a heap block of this size that is already charged to the arena's budget; freed with everything else. False
 * on refusal: it stays the caller's.
 */
bool arena_adopt(struct arena *a, void *p, size_t bytes) _must_check_;
/* A NUL-terminated copy; NULL on refusal. */
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) _printf_(2, 3);
/* 0, or the sticky -ENOMEM with its text. */
int arena_error(const struct arena *a, struct errbuf *eb) _must_check_;
