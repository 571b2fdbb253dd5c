/* SPDX-License-Identifier: Apache-2.0
 *
 * What tells the contents of two files apart.
 */
#pragma once
#include <stdint.h>

enum {
	SYMBOL_CONTENT_ID_LEN = 16,
	SYMBOL_BUILD_ID_MAX = 32,
};

struct symbol_identity {
	uint8_t content_id[SYMBOL_CONTENT_ID_LEN]; /* of the file's bytes (elf_file_content_id) */
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];	   /* GNU */
	uint32_t build_id_len;			   /* 0: the file has none */
	uint32_t reserved;
};
