/* SPDX-License-Identifier: Apache-2.0
 *
 * What this build is: for --version, /metrics, User-Agent and the Server's own header.
 */
#pragma once

/* "0.1.0" (file VERSION). */
const char *version_number(void);
/* Abbreviated commit, with "-dirty" when the tree had changes; "" when built outside a checkout. */
const char *version_revision(void);
/* "gcc 12.2.0". */
const char *version_compiler(void);
