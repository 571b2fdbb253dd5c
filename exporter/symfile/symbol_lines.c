/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and inlined calls: two binary searches over the block indexes, at most 16 rows of each
 * decoded, then the chain of scopes outwards.
 */
#include "exporter/symfile/symbol_lines.h"
#include "lib/base/cursor.h"

struct row {
	uint32_t file, line, column;
};

static uint32_t u32_at(const struct symbol_range *r, size_t off)
{
	uint32_t v;

	memcpy(&v, r->data + off, 4);
	return v;
}

static int check_index(
	const struct symbol_range *index, const struct symbol_range *stream, struct errbuf *eb)
{
	size_t n = index->bytes / SYMBOL_BLOCK_BYTES;

	for (size_t i = 0; i < n; i++) {
		uint32_t start = u32_at(index, i * SYMBOL_BLOCK_BYTES),
			 from = u32_at(index, i * SYMBOL_BLOCK_BYTES + 4);
		bool last = i + 1 == n;
		uint64_t to =
			last ? stream->bytes : u32_at(index, (i + 1) * SYMBOL_BLOCK_BYTES + 4);

		if (from > to || to > stream->bytes ||
			to - from > SYMBOL_BLOCK_ROWS * SYMBOL_ROW_MAX_BYTES)
			return err_set(eb, -EBADMSG,
				"symbol file: block %zu of lines or scopes has bytes %u to %llu "
				"of %zu, but has at most %d bytes",
				i, from, (unsigned long long)to, stream->bytes,
				SYMBOL_BLOCK_ROWS * SYMBOL_ROW_MAX_BYTES);
		if (!last && start > u32_at(index, (i + 1) * SYMBOL_BLOCK_BYTES))
			return err_set(eb, -EBADMSG,
				"symbol file: block %zu of lines or scopes is out of order", i);
	}
	return 0;
}

int symbol_lines_check(const struct symbol_file *s, struct errbuf *eb)
{
	int r = check_index(&s->line_index, &s->lines, eb);

	return r < 0 ? r : check_index(&s->scope_index, &s->scope_ranges, eb);
}

/* The stream's bytes of the block that holds `rel`; false when it is before the first. */
static bool find_block(const struct symbol_range *index, const struct symbol_range *stream,
	uint32_t rel, uint32_t *ret_start, struct cursor *ret)
{
	size_t low = 0, n = index->bytes / SYMBOL_BLOCK_BYTES, left = n;
	uint64_t from, to;

	if (!n || u32_at(index, 0) > rel)
		return false;
	/* In four, as three places that are read at once cost what one does. */
	while (left > 3) {
		size_t quarter = left / 4, at = (low + quarter) * SYMBOL_BLOCK_BYTES,
		       step = quarter * SYMBOL_BLOCK_BYTES;

		low += u32_at(index, at) <= rel ? quarter : 0;
		low += u32_at(index, at + step) <= rel ? quarter : 0;
		low += u32_at(index, at + 2 * step) <= rel ? quarter : 0;
		left -= 3 * quarter;
	}
	while (left > 1) {
		size_t half = left / 2;

		low += u32_at(index, (low + half) * SYMBOL_BLOCK_BYTES) <= rel ? half : 0;
		left -= half;
	}
	*ret_start = u32_at(index, low * SYMBOL_BLOCK_BYTES);
	from = u32_at(index, low * SYMBOL_BLOCK_BYTES + 4);
	to = low + 1 < n ? u32_at(index, (low + 1) * SYMBOL_BLOCK_BYTES + 4) : stream->bytes;
	if (from > to || to > stream->bytes)
		return false;
	*ret = cursor_of(stream->data + from, to - from);
	return true;
}

static bool find_row(const struct symbol_file *s, uint32_t rel, struct row *ret)
{
	struct row row = {0};
	uint64_t addr;
	bool found = false;
	struct cursor c;
	uint32_t start;

	if (!find_block(&s->line_index, &s->lines, rel, &start, &c))
		return false;
	addr = start;
	for (int n = 0; cursor_left(&c); n++) {
		if (n == SYMBOL_BLOCK_ROWS)
			return false;
		uint64_t head = cursor_varint(&c);

		addr += head >> 2;
		if (c.error || addr > rel)
			break;
		found = !(head & SYMBOL_ROW_END);
		if (!found)
			continue;
		row.line += (uint32_t)cursor_svarint(&c);
		row.column = (uint32_t)cursor_varint(&c);
		if (head & SYMBOL_ROW_NEW_FILE)
			row.file = (uint32_t)cursor_varint(&c);
	}
	*ret = row;
	return found && !c.error;
}

/* The offset of the innermost scope's record. */
static bool find_scope(const struct symbol_file *s, uint32_t rel, uint32_t *ret)
{
	struct cursor c;
	uint64_t addr;
	uint32_t start, scope = 0;

	if (!find_block(&s->scope_index, &s->scope_ranges, rel, &start, &c))
		return false;
	addr = start;
	for (int n = 0; cursor_left(&c); n++) {
		if (n == SYMBOL_BLOCK_ROWS)
			return false;
		addr += cursor_varint(&c);
		if (c.error || addr > rel)
			break;
		scope += (uint32_t)cursor_svarint(&c);
	}
	*ret = scope - 1;
	return scope && !c.error;
}

static const char *string_at(const struct symbol_file *s, uint32_t off)
{
	return off < s->debug_strings.bytes ? (const char *)s->debug_strings.data + off : "";
}

static const char *file_at(const struct symbol_file *s, uint32_t file)
{
	if (file >= s->files.bytes / 4)
		return "";
	return string_at(s, u32_at(&s->files, (size_t)file * 4));
}

static void describe_function(const struct symbol_file *s, uint64_t i, struct symbol_place *ret)
{
	struct cursor c;

	if (i >= s->debug_functions.bytes / SYMBOL_DEBUG_FUNCTION_BYTES)
		return;
	c = cursor_of(s->debug_functions.data + i * SYMBOL_DEBUG_FUNCTION_BYTES,
		SYMBOL_DEBUG_FUNCTION_BYTES);
	ret->function = string_at(s, cursor_u32(&c));
	if (!*ret->file) /* a line that no program gives: that of the function */
		ret->file = file_at(s, cursor_u32(&c));
	else
		cursor_skip(&c, 4);
	ret->start_line = cursor_u32(&c);
	ret->name_wins = cursor_u32(&c) & SYMBOL_NAME_WINS;
}

/* From the innermost scope outwards: each one's function, at the place where the one inside it
 * was called. Each distance leads back, so the chain ends, but only a limit makes it short. */
static size_t add_scopes(
	const struct symbol_file *s, uint32_t scope, struct row at, struct symbol_place *ret)
{
	size_t n = 0;

	for (int nesting = 0; nesting < SYMBOL_MAX_NESTING; nesting++) {
		struct cursor c = cursor_of(s->scopes.data, s->scopes.bytes);
		uint64_t distance;

		cursor_skip(&c, scope);
		distance = cursor_varint(&c);
		/* Too many: the last one is the function itself. */
		n = n < SYMBOL_MAX_PLACES ? n + 1 : n;
		ret[n - 1] = (struct symbol_place) {.function = "",
			.file = file_at(s, at.file),
			.line = at.line,
			.column = at.column};
		describe_function(s, cursor_varint(&c), &ret[n - 1]);
		if (!distance || distance > scope || c.error)
			return n;
		at.file = (uint32_t)cursor_varint(&c);
		at.line = (uint32_t)cursor_varint(&c);
		at.column = (uint32_t)cursor_varint(&c);
		scope -= (uint32_t)distance;
	}
	return 0;
}

size_t symbol_file_places(
	const struct symbol_file *s, uint64_t vaddr, struct symbol_place ret[SYMBOL_MAX_PLACES])
{
	uint64_t rel = vaddr - s->debug_base;
	struct row row = {0};
	uint32_t scope;
	bool has_row;

	if (vaddr < s->debug_base || rel >= UINT32_MAX)
		return 0;
	has_row = find_row(s, (uint32_t)rel, &row);
	if (!has_row)
		row = (struct row) {0};
	if (find_scope(s, (uint32_t)rel, &scope))
		return add_scopes(s, scope, row, ret);
	if (!has_row)
		return 0;
	ret[0] = (struct symbol_place) {.function = "",
		.file = file_at(s, row.file),
		.line = row.line,
		.column = row.column};
	return 1;
}
