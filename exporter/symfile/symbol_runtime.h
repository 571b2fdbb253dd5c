/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of a language in a symbol file: one record, written and read here.
 */
#pragma once
#include "exporter/symfile/runtime.h"
#include "exporter/symfile/symbol_file.h"
#include "lib/base/bytes.h"

/* SYMBOL_RUNTIME_BYTES of it. */
void symbol_runtime_put(const struct runtime_record *r, struct bytes *b);
/* False: the file holds no runtime; ret is empty then. */
bool symbol_runtime_of(const struct symbol_file *s, struct runtime_record *ret);

/* Part of symbol_file_parse: there is one record at most, and its numbers are of our tables. -EBADMSG. */
int symbol_runtime_check(const struct symbol_file *s, struct errbuf *eb) _must_check_;
