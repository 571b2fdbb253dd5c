/* SPDX-License-Identifier: Apache-2.0
 *
 * Error texts, assertions and the panic text.
 */
#include "lib/base/err.h"
#include <stdio.h>
#include <string.h>

static _Thread_local const char *work_in_hand;

int err_vset(struct errbuf *eb, int code, const char *fmt, va_list ap)
{
	if (eb)
		vsnprintf(eb->text, sizeof(eb->text), fmt, ap);
	return code;
}

int err_set(struct errbuf *eb, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(eb, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_prefix(struct errbuf *eb, int code, const char *fmt, ...)
{
	char old[sizeof(eb->text)];
	va_list ap;
	size_t n;

	if (!eb)
		return code;
	snprintf(old, sizeof(old), "%s", err_text(eb, code));
	va_start(ap, fmt);
	vsnprintf(eb->text, sizeof(eb->text), fmt, ap);
	va_end(ap);
	n = strlen(eb->text);
	snprintf(eb->text + n, sizeof(eb->text) - n, ": %s", old);
	return code;
}

const char *err_text(const struct errbuf *eb, int code)
{
	return eb && eb->text[0] ? eb->text : strerror(code < 0 ? -code : code);
}

void err_set_work(const char *what)
{
	work_in_hand = what;
}

_Noreturn void err_assert_failed(const char *expr, const char *file, int line)
{
	err_panic("assertion failed: %s at %s:%d", expr, file, line);
}

_Noreturn void err_panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("panic: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (work_in_hand)
		fprintf(stderr, " while %s", work_in_hand);
	fputc('\n', stderr);
	abort();
}
