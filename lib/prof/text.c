/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the texts it is, and what their readers share.
 */
#include "lib/prof/text.h"
#include "lib/base/bytes.h"
#include "lib/base/str.h"
#include "lib/prof/text_internal.h"
#include <string.h>

/* At most one of so many bytes of a text is a control character. */
enum { PEEK_BYTES = 4096, MIN_BYTES_PER_CONTROL = 4 };
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static bool is_control(char c)
{
	return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

static size_t count_controls(const char *p, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += is_control(p[i]) && p[i] != '\n' && p[i] != '\r';
	return count;
}

bool prof_text_is(const void *data, size_t len)
{
	return !count_controls(data, MIN(len, (size_t)PEEK_BYTES));
}

bool prof_text_may_be(const void *data, size_t len)
{
	size_t n = MIN(len, (size_t)PEEK_BYTES);

	return count_controls(data, n) <= n / MIN_BYTES_PER_CONTROL;
}

bool prof_text_next(const char *p, size_t n, size_t *at, struct prof_text_line *line)
{
	const char *end;

	if (*at >= n)
		return false;
	line->p = p + *at;
	end = memchr(line->p, '\n', n - *at);
	line->n = end ? (size_t)(end - line->p) : n - *at;
	*at += line->n + 1;
	line->number++;
	line->n -= line->n && line->p[line->n - 1] == '\r';
	return true;
}

int prof_text_check(const struct prof_text_line *line, size_t n_frames, struct errbuf *eb)
{
	if (line->n > PROF_TEXT_MAX_LINE)
		return err_set(eb, -EBADMSG, "line %zu has %zu bytes: expected stacks, at most %d",
			line->number, line->n, PROF_TEXT_MAX_LINE);
	if (n_frames > PROF_TEXT_MAX_FRAMES)
		return err_set(eb, -EBADMSG,
			"line %zu: a stack of more than %d frames: expected fewer", line->number,
			PROF_TEXT_MAX_FRAMES);
	return 0;
}

/* ---- names ---- */

static uint32_t add_cleaned(
	struct prof_builder *b, struct arena *arena, const char *p, size_t n, bool is_label)
{
	char *text = arena_alloc_array(arena, n, strlen(REPLACEMENT));
	size_t n_text = 0;

	for (size_t i = 0, len; text && i < n; i += len ? len : 1) {
		bool is_bad;

		len = is_label ? str_utf8_len(p + i, n - i) : 1;
		is_bad = !len || is_control(p[i]);
		memcpy(text + n_text, is_bad ? REPLACEMENT : p + i,
			is_bad ? strlen(REPLACEMENT) : len);
		n_text += is_bad ? strlen(REPLACEMENT) : len;
	}
	return text ? prof_builder_string(b, text, n_text) : 0;
}

uint32_t prof_text_name(struct prof_builder *b, struct arena *arena, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_control(p[i]))
			return add_cleaned(b, arena, p, n, false);
	return prof_builder_string(b, p, n);
}

uint32_t prof_text_label(struct prof_builder *b, struct arena *arena, const char *p, size_t n)
{
	return str_is_utf8(p, n) ? prof_text_name(b, arena, p, n)
				 : add_cleaned(b, arena, p, n, true);
}

/* ---- notes ---- */

void prof_text_note_controls(struct prof_text_notes *notes, const struct prof_text_line *line)
{
	for (size_t i = 0; i < line->n; i++) {
		if (!is_control(line->p[i]))
			continue;
		if (!notes->n_controls++) {
			notes->first_control = line->number;
			notes->control = (unsigned char)line->p[i];
		}
	}
}

void prof_text_note_skipped(struct prof_text_notes *notes, size_t line_number)
{
	if (!notes->n_skipped++)
		notes->first_skipped = line_number;
}

static void begin_note(struct bytes *out, size_t start)
{
	if (out->len > start)
		bytes_put_str(out, "; ");
}

void prof_text_notes_print(const struct prof_text_notes *notes, struct bytes *out)
{
	const size_t start = out->len;

	if (notes->n_skipped)
		bytes_printf(out, "left out %zu %s%s that %s, the first at line %zu",
			notes->n_skipped, notes->is_perf ? "sample" : "line",
			notes->n_skipped == 1 ? "" : "s",
			notes->is_perf		? "cannot be read"
			: notes->n_skipped == 1 ? "is no stack"
						: "are no stacks",
			notes->first_skipped);
	if (notes->n_controls) {
		begin_note(out, start);
		bytes_printf(out, "replaced %zu control character%s, the first 0x%02x in line %zu",
			notes->n_controls, notes->n_controls == 1 ? "" : "s", notes->control,
			notes->first_control);
	}
	if (notes->scale > 1) {
		begin_note(out, start);
		bytes_printf(out, "values have decimals and were multiplied by %u", notes->scale);
	}
	if (notes->n_vanished) {
		begin_note(out, start);
		bytes_printf(out, "%zu value%s too small beside the others became 0",
			notes->n_vanished, notes->n_vanished == 1 ? "" : "s");
	}
}

int prof_text_read(const void *data, size_t len, struct profile *ret,
	struct prof_text_notes *ret_notes, struct errbuf *eb)
{
	int r;

	*ret_notes = (struct prof_text_notes) {.scale = 1};
	if (!prof_text_is_perf(data, len))
		return prof_text_read_folded(data, len, ret, ret_notes, eb);
	r = prof_text_read_perf(data, len, ret, ret_notes, eb);
	if (r != -EBADMSG)
		return r;
	/* Folded stacks of odd names look like heads. */
	profile_reset(ret);
	*ret_notes = (struct prof_text_notes) {.scale = 1};
	if (prof_text_read_folded(data, len, ret, ret_notes, NULL) == 0 && !ret_notes->n_skipped)
		return 0;
	profile_reset(ret);
	return r;
}
