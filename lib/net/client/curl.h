/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl, loaded when the first client is made. Its functions keep their names, so whoever includes this calls them as
 * <curl/curl.h> declares them.
 */
#pragma once
#include "lib/base/err.h"
#include <curl/curl.h>

/* Before any other function of libcurl; further calls change nothing. -ELIBACC: it is not installed. Any thread. */
int curl_load(struct errbuf *eb) _must_check_;
