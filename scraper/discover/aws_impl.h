/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that find credentials for AWS share: aws.c (the chain, roles, the instance's metadata) and aws_token.c (credentials
 * that are given for a token). Each step ends in the next one or in aws_finish; aws_failed ends the chain too.
 */
#pragma once
#include "scraper/discover/aws.h"
#include <stddef.h>

struct bytes;
struct http_response;

enum {
	AWS_MAX_ANSWER_BYTES = 1 << 20,
	AWS_STS_TIMEOUT_MS = 30000,
	AWS_LOCAL_TIMEOUT_MS = 5000,
};

/* Of the environment; NULL: unset or empty. */
const char *aws_variable(const char *name);
void aws_failed(struct aws *a, const char *fmt, ...) _printf_(2, 3);
/* The base credentials are there: roles come next. */
void aws_step_roles(struct aws *a, enum aws_level level);
/* -ENOENT: one of both is missing. `session` may be NULL. */
int aws_set(struct aws_credentials *to, const char *key, const char *secret, const char *session,
	int64_t expires_ns) _must_check_;
/* "2026-01-31T23:59:59Z"; 0 when it is no such time. */
int64_t aws_read_time(const char *text);
/* Why an answer is no 200, for a person, in `r` or `eb`; "" when it is one. */
const char *aws_answer_error(const struct http_response *r, struct errbuf *eb);
void aws_put_param(struct bytes *b, const char *name, const char *value);
/* The name of a session of a role: `given` unless NULL. */
void aws_put_session_name(struct aws *a, struct bytes *b, const char *given);
char *aws_sts_url(const struct aws *a);
/* Credentials from the answer of an action of STS; else the chain has failed and this is false. `what` begins the error. */
bool aws_take_sts(struct aws *a, const struct http_response *r, const char *what, const char *path,
	struct aws_credentials *to);

/* aws_token.c */
bool aws_has_container(void);
void aws_step_container(struct aws *a);
void aws_step_web_identity(
	struct aws *a, const char *token_file, const char *role_arn, const char *session_name);
struct aws_profile;
void aws_step_sso(struct aws *a, const struct aws_profile *profile);
