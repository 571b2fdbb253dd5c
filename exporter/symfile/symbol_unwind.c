/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwind sections of a symbol file: checked once.
 */
#include "exporter/symfile/symbol_unwind.h"
#include "lib/base/cursor.h"

enum { MAX_REGISTERS = 32 };

static uint32_t word_at(const struct symbol_unwind *u, uint32_t i)
{
	uint32_t v;

	memcpy(&v, u->words.data + (size_t)i * 4, 4);
	return v;
}

bool symbol_unwind_of(const struct symbol_file *s, struct symbol_unwind *ret)
{
	struct cursor c = cursor_of(s->unwind_info.data, s->unwind_info.bytes);

	*ret = (struct symbol_unwind) {.words = s->unwind_words,
		.rules = s->unwind_rules,
		.n_words = (uint32_t)(s->unwind_words.bytes / 4),
		.n_rules = (uint32_t)(s->unwind_rules.bytes / sizeof(struct unwind_rule))};
	for (size_t i = 0; i < SYMBOL_UNWIND_N_INFO; i++)
		ret->info[i] = cursor_u32(&c);
	return !c.error;
}

void symbol_unwind_rule(const struct symbol_unwind *u, uint32_t i, struct unwind_rule *ret)
{
	struct cursor c = cursor_of(u->rules.data + (size_t)i * sizeof(*ret), sizeof(*ret));

	*ret = (struct unwind_rule) {0};
	ret->cfa = cursor_u8(&c);
	ret->reg = cursor_u8(&c);
	ret->ra = cursor_u8(&c);
	ret->fp = cursor_u8(&c);
	ret->bx = cursor_u8(&c);
	ret->flags = cursor_u8(&c);
	ret->reserved = cursor_u16(&c);
	ret->off = (int32_t)cursor_u32(&c);
	ret->d1 = (int32_t)cursor_u32(&c);
	ret->d2 = (int32_t)cursor_u32(&c);
	ret->ra_off = (int32_t)cursor_u32(&c);
	ret->fp_off = (int32_t)cursor_u32(&c);
	ret->bx_off = (int32_t)cursor_u32(&c);
}

static bool slot_is_valid(uint8_t where, int32_t off)
{
	return where <= UNWIND_GONE &&
	       (where != UNWIND_IN_REG || (off >= 0 && off < MAX_REGISTERS));
}

static bool rule_is_valid(const struct unwind_rule *rule)
{
	return rule->cfa < UNWIND_N_CFAS && rule->reg < MAX_REGISTERS && !rule->flags &&
	       !rule->reserved && slot_is_valid(rule->ra, rule->ra_off) &&
	       slot_is_valid(rule->fp, rule->fp_off) && slot_is_valid(rule->bx, rule->bx_off);
}

/* Carry, number and rows lie within the words, behind the page entries, in one slab. */
static bool entry_is_valid(const struct symbol_unwind *u, uint32_t entry)
{
	uint32_t first = UNWIND_PAGE_WORD(entry), n = UNWIND_PAGE_N(entry);

	if (!entry)
		return true;
	if (first < u->info[SYMBOL_UNWIND_N_PAGES] || first >= u->n_words)
		return false;
	if (n == UNWIND_PAGE_MANY) {
		if (++first == u->n_words)
			return false;
		n = word_at(u, first);
	}
	return n < UNWIND_SLAB_WORDS && n < u->n_words - first &&
	       (first & UNWIND_SLAB_MASK) + n < UNWIND_SLAB_WORDS &&
	       (first & UNWIND_SLAB_MASK) >= (UNWIND_PAGE_N(entry) == UNWIND_PAGE_MANY);
}

int symbol_unwind_check(const struct symbol_file *s, struct errbuf *eb)
{
	struct symbol_unwind u;
	uint32_t n_pages;

	if (!symbol_unwind_of(s, &u))
		return s->unwind_words.bytes || s->unwind_rules.bytes
			       ? err_set(eb, -EBADMSG,
					 "symbol file: unwind rows without their sizes")
			       : 0;
	n_pages = u.info[SYMBOL_UNWIND_N_PAGES];
	if (n_pages > u.n_words || n_pages > UNWIND_MAX_PAGES || u.n_words >= 1U << 25 ||
		u.info[SYMBOL_UNWIND_FIRST_PAGE] > UINT32_MAX - UNWIND_MAX_PAGES || !u.n_rules)
		return err_set(eb, -EBADMSG, "symbol file: sizes of the unwind rows");
	for (uint32_t i = 0; i < u.n_rules; i++) {
		struct unwind_rule rule;

		symbol_unwind_rule(&u, i, &rule);
		if (!rule_is_valid(&rule))
			return err_set(eb, -EBADMSG, "symbol file: an unwind rule without meaning");
	}
	for (uint32_t i = 0; i < n_pages; i++)
		if (!entry_is_valid(&u, word_at(&u, i)))
			return err_set(eb, -EBADMSG, "symbol file: an unwind page leads astray");
	for (uint32_t i = n_pages; i < u.n_words; i++)
		if (UNWIND_ROW_RULE(word_at(&u, i)) >= u.n_rules)
			return err_set(eb, -EBADMSG, "symbol file: an unwind row without a rule");
	return 0;
}
