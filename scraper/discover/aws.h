/* SPDX-License-Identifier: Apache-2.0
 *
 * Region and credentials for AWS's services, found where its SDKs find them: in the configuration, a profile, the environment (keys, or the
 * token of a web identity), the default profile, the container's agent, the metadata service of the instance (version 2); and those of the
 * roles that a profile and role_arn name. What expires is kept until five minutes before.
 */
#pragma once
#include "lib/base/err.h"
#include <stdint.h>

struct config_ec2_sd;
struct discover_provider;

struct aws_credentials {
	char *access_key, *secret_key, *session; /* session NULL: none */
	int64_t expires_ns;			 /* realtime; 0: to be looked up each time */
};

/* Each role is assumed with the credentials of the last level below it that has some. */
enum aws_level { AWS_BASE, AWS_PROFILE_ROLE, AWS_ROLE, AWS_LEVELS };
struct aws_role {
	char *arn, *external_id, *session_name; /* heap; arn NULL: no such role */
};

struct aws {
	struct discover_provider *p;
	const struct config_ec2_sd *sd;
	char *region;
	struct aws_credentials levels[AWS_LEVELS];
	struct aws_role roles[AWS_LEVELS];
	enum aws_level level; /* the one being requested */
	char *metadata_token;
	int64_t metadata_token_until_ns; /* monotonic */
	void (*done)(struct discover_provider *p, const char *error);
};

void aws_init(struct aws *a, struct discover_provider *p, const struct config_ec2_sd *sd);
void aws_free(struct aws *a);
/* Calls `done` once, at once or later: error NULL when region and credentials are there. Not while it runs already. */
void aws_obtain(struct aws *a, void (*done)(struct discover_provider *p, const char *error));
/* Those to sign with, after aws_obtain. */
const struct aws_credentials *aws_credentials(const struct aws *a);
/* The service refused them: the next aws_obtain requests all of them anew. */
void aws_forget(struct aws *a);
/* "https://SERVICE.REGION.amazonaws.com/"; heap. */
char *aws_url(const char *service, const char *region);
