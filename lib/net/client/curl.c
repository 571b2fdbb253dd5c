/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl's functions, passed on to the library once it is loaded: with OpenSSL, Kerberos and LDAP it brings twenty others,
 * which commands that ask no server and roles without the network do without. No library that our programs are linked
 * with asks for these names, so the programs export none of them.
 */
#include "lib/net/client/curl.h"
#include "lib/base/cleanup.h"
#include "lib/base/library.h"
#include <stdarg.h>
#include <stdbool.h>

/* macros that check arguments, and call what is defined here */
#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

#define FUNCTIONS(X)                \
	X(curl_easy_cleanup)        \
	X(curl_easy_getinfo)        \
	X(curl_easy_init)           \
	X(curl_easy_reset)          \
	X(curl_easy_setopt)         \
	X(curl_easy_strerror)       \
	X(curl_global_init)         \
	X(curl_multi_add_handle)    \
	X(curl_multi_assign)        \
	X(curl_multi_cleanup)       \
	X(curl_multi_info_read)     \
	X(curl_multi_init)          \
	X(curl_multi_remove_handle) \
	X(curl_multi_setopt)        \
	X(curl_multi_socket_action) \
	X(curl_slist_append)        \
	X(curl_slist_free_all)

static const char *const names[] = {FUNCTIONS(LIBRARY_NAME)};
static struct {
	FUNCTIONS(LIBRARY_POINTER)
} real;
_Static_assert(sizeof(real) == ARRAY_SIZE(names) * sizeof(void *), "one pointer for each name");

static bool start(void)
{
	return real.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int curl_load(struct errbuf *eb)
{
	static struct library library = {
		.soname = "libcurl.so.4",
		.package = "libcurl4",
		.names = names,
		.n_names = ARRAY_SIZE(names),
		.functions = &real,
		.start = start,
	};

	return library_load(&library, eb);
}

void curl_easy_cleanup(CURL *easy)
{
	real.curl_easy_cleanup(easy);
}

/* What follows the number of an information is a pointer in any case. */
CURLcode curl_easy_getinfo(CURL *easy, CURLINFO info, ...)
{
	void *ret;
	va_list ap;

	va_start(ap, info);
	ret = va_arg(ap, void *);
	va_end(ap);
	return real.curl_easy_getinfo(easy, info, ret);
}

CURL *curl_easy_init(void)
{
	return real.curl_easy_init();
}

void curl_easy_reset(CURL *easy)
{
	real.curl_easy_reset(easy);
}

/* An option's number says of what type its value is. */
CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
	CURLcode r;
	va_list ap;

	va_start(ap, option);
	if (option < CURLOPTTYPE_OBJECTPOINT)
		r = real.curl_easy_setopt(easy, option, va_arg(ap, long));
	else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
		r = real.curl_easy_setopt(easy, option, va_arg(ap, curl_off_t));
	else
		r = real.curl_easy_setopt(easy, option, va_arg(ap, void *));
	va_end(ap);
	return r;
}

const char *curl_easy_strerror(CURLcode code)
{
	return real.curl_easy_strerror(code);
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy)
{
	return real.curl_multi_add_handle(multi, easy);
}

CURLMcode curl_multi_assign(CURLM *multi, curl_socket_t fd, void *p)
{
	return real.curl_multi_assign(multi, fd, p);
}

CURLMcode curl_multi_cleanup(CURLM *multi)
{
	return real.curl_multi_cleanup(multi);
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *ret_left)
{
	return real.curl_multi_info_read(multi, ret_left);
}

CURLM *curl_multi_init(void)
{
	return real.curl_multi_init();
}

CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *easy)
{
	return real.curl_multi_remove_handle(multi, easy);
}

CURLMcode curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
	CURLMcode r;
	va_list ap;

	va_start(ap, option);
	if (option < CURLOPTTYPE_OBJECTPOINT)
		r = real.curl_multi_setopt(multi, option, va_arg(ap, long));
	else
		r = real.curl_multi_setopt(multi, option, va_arg(ap, void *));
	va_end(ap);
	return r;
}

CURLMcode curl_multi_socket_action(CURLM *multi, curl_socket_t fd, int what, int *ret_running)
{
	return real.curl_multi_socket_action(multi, fd, what, ret_running);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
	return real.curl_slist_append(list, text);
}

void curl_slist_free_all(struct curl_slist *list)
{
	real.curl_slist_free_all(list);
}
