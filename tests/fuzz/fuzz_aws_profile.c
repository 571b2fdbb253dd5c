/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of AWS profiles. What is read of a section is free of line ends and of white space around it, and is read again from a file made
 * of it.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "scraper/discover/aws_profile.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *key, const char *value)
{
	_cleanup_bytes_ struct bytes text = {};
	_cleanup_aws_profile_ struct aws_profile again = {};

	if (!value || !*value)
		return;
	ASSERT(!strpbrk(value, "\n") && !strchr(" \t\r", *value));
	bytes_printf(&text, "[x]\n%s=%s\n", key, value);
	ASSERT(aws_profile_read((const char *)text.data, text.len, "x", &again));
	ASSERT(again.region && !strcmp(again.region, value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_aws_profile_ struct aws_profile p = {};
	char *copy = xmalloc(size ? size : 1); /* with its end where the sanitizer sees it */

	memcpy(copy, data, size);
	if (size)
		(void)aws_profile_read(copy, size, "x", &p);
	check("region", p.region);
	check("region", p.session);
	check("region", p.access_key);
	check("region", p.secret_key);
	free(copy);
	return 0;
}
