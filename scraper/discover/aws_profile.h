/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of profiles that AWS's tools share: ~/.aws/credentials ([NAME]) and ~/.aws/config ([profile NAME], [default]), or those of
 * AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"

struct fs;

/* Heap; NULL: not there. */
struct aws_profile {
	char *access_key, *secret_key, *session, *region;
	/* a role, and whose credentials may assume it */
	char *role_arn, *external_id, *role_session_name, *mfa_serial;
	char *source_profile, *credential_source, *web_identity_token_file;
	/* IAM Identity Center */
	char *sso_session, *sso_start_url, *sso_region, *sso_account_id, *sso_role_name;
	char *credential_process;
};
void aws_profile_done(struct aws_profile *p);
#define _cleanup_aws_profile_ _cleanup_(aws_profile_done)
/* Reads both files, and the [sso-session NAME] that the profile names. -ENOENT: neither has the profile. -EACCES …, -EFBIG above 1 MiB, with the path. */
int aws_profile_load(
	struct fs *fs, const char *name, struct aws_profile *ret, struct errbuf *eb) _must_check_;
/* Adds what a file's text says of the section; false when it has no such section. What is there already stays. */
bool aws_profile_read(const char *text, size_t n, const char *section, struct aws_profile *ret);
