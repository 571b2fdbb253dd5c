/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring consumer over memory laid out as the kernel does: busy and discarded records, wrap-around, giving back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/sample/ring.h"

enum { SIZE = 4096 };

struct fake {
	uint64_t consumer, producer;
	_Alignas(8) uint8_t data[2 * SIZE];
	struct ring ring;
};

static void fake_init(struct fake *f, uint64_t at)
{
	memset(f, 0, sizeof(*f));
	f->consumer = f->producer = at;
	f->ring = (struct ring) {.consumer = &f->consumer,
		.producer = &f->producer,
		.data = f->data,
		.size = SIZE,
		.at = at};
}

/* Both mappings show the same bytes. */
static void put_byte(struct fake *f, uint64_t at, uint8_t v)
{
	f->data[at % SIZE] = v;
	f->data[at % SIZE + SIZE] = v;
}

static uint64_t put(struct fake *f, uint32_t len, uint32_t flags, uint8_t fill)
{
	uint64_t at = f->producer;
	uint32_t word = len | flags;

	for (unsigned i = 0; i < 8; i++)
		put_byte(f, at + i, i < 4 ? (uint8_t)(word >> (8 * i)) : 0);
	for (uint32_t i = 0; i < len; i++)
		put_byte(f, at + 8 + i, fill);
	f->producer += (len + 8 + 7) & ~7ULL;
	return at;
}

static void clear_busy(struct fake *f, uint64_t at)
{
	put_byte(f, at + 3, 0);
}

static void next_is(struct fake *f, uint32_t want_len, uint8_t want_fill)
{
	uint32_t len = 0;
	const uint8_t *p = ring_next(&f->ring, &len);

	assert_non_null(p);
	assert_int_equal(len, want_len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(p[i], want_fill);
}

static void order_and_flags(void **state)
{
	static struct fake f;
	uint64_t busy;
	uint32_t len;

	(void)state;
	fake_init(&f, 0);
	assert_null(ring_next(&f.ring, &len));
	put(&f, 10, 0, 1);
	put(&f, 20, 1U << 30, 2); /* given up by its writer */
	put(&f, 17, 0, 3);
	busy = put(&f, 8, 1U << 31, 4);
	put(&f, 9, 0, 5);
	next_is(&f, 10, 1);
	next_is(&f, 17, 3);
	assert_null(
		ring_next(&f.ring, &len)); /* nothing behind a record that is still being written */
	assert_int_equal(f.consumer, 0);
	ring_release(&f.ring);
	assert_int_equal(f.consumer, busy);
	assert_int_equal(ring_used(&f.ring), 16 + 24);
	clear_busy(&f, busy);
	next_is(&f, 8, 4);
	next_is(&f, 9, 5);
	ring_release(&f.ring);
	assert_int_equal(ring_used(&f.ring), 0);
}

static void wraps(void **state)
{
	static struct fake f;

	(void)state;
	fake_init(&f, 7 * SIZE - 16); /* the record begins 16 bytes before the end */
	put(&f, 100, 0, 9);
	put(&f, 3, 0, 8);
	next_is(&f, 100, 9);
	next_is(&f, 3, 8);
	for (unsigned i = 0; i < 10000; i++) {
		put(&f, 1 + i % 900, 0, (uint8_t)i);
		next_is(&f, 1 + i % 900, (uint8_t)i);
		ring_release(&f.ring);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_flags), cmocka_unit_test(wraps)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
