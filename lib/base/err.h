/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors are negative errno values. A text for a person travels in an optional last
 * `struct errbuf *`.
 *
 * What the codes mean in this project:
 *
 *	-EINVAL     the caller's argument or a person's input is wrong; the text says which, and
 *	            what was expected
 *	-EBADMSG    bytes from outside (network, disk, ELF, /proc) do not follow their format
 *	-EPROTO     a peer (target, keeper, parser) broke the protocol
 *	-ENOMEM     a budget or a cap refused; the text names the limit, the flag and the amount
 *	-EFBIG      one item is larger than its cap
 *	-ENOSPC     disk full, or a bounded table is full
 *	-ETIMEDOUT  a deadline passed
 *	-ECANCELED  the person or program that asked went away
 *	-ENOTSUP    a format feature or kind that this version does not know
 *	-EEXIST     an identity is already there
 *	-ENOENT     no such thing
 *	-EAGAIN     nothing now, ask again
 *	-ELIBACC    a shared library that is loaded when needed (lib/base/library.h) is missing
 */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include "lib/base/cleanup.h"

/* No errno is larger (the kernel's MAX_ERRNO): what a peer or a file gives for one and is beyond is none. */
#define ERR_MAX_ERRNO 4095

/* Text of the first error of an operation. Zero-initialise; needs no cleanup. */
struct errbuf {
	char text[512];
};

/* Writes the formatted text into `eb` (NULL is fine) and returns `code`: `return err_set(eb,
 * -EINVAL, "…");`. */
int err_set(struct errbuf *eb, int code, const char *fmt, ...) _printf_(3, 4);
int err_vset(struct errbuf *eb, int code, const char *fmt, va_list ap) _printf_(3, 0);

/* Puts "prefix: " before the text already in `eb`; returns `code`. */
int err_prefix(struct errbuf *eb, int code, const char *fmt, ...) _printf_(3, 4);

/* The text of `eb`, or what strerror says of `code` when nothing was written. */
const char *err_text(const struct errbuf *eb, int code);

/* Our own mistakes only: prints the expression, place and the work in hand (err_set_work) and
 * aborts. Never for input. */
#define ASSERT(e) ((e) ? (void)0 : err_assert_failed(#e, __FILE__, __LINE__))
_Noreturn void err_assert_failed(const char *expr, const char *file, int line);
_Noreturn void err_panic(const char *fmt, ...) _printf_(1, 2);

/* Names the work that this thread has in hand, for panic texts. `what` must outlive the work; NULL
 * clears it. */
void err_set_work(const char *what);
