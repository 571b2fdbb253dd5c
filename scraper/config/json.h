/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as the same tree that YAML gives, without positions.
 */
#pragma once
#include "lib/conf/conf_yaml.h"

/* -EINVAL "FILE: line …, column …: …", -EFBIG, -ENOMEM. Numbers and booleans become plain scalars. Nodes lie in
 * `arena`. */
int config_json_parse(const char *file, const void *text, size_t len, struct arena *arena,
	struct conf_node **ret, struct errbuf *eb) _must_check_;
