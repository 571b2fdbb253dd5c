/* SPDX-License-Identifier: Apache-2.0
 *
 * Character classes of Go's regexp/syntax: brackets, \d \s \w, [:name:], \p{…} and single-character
 * escapes. Ranges are folded and negated here; Unicode properties stay names that PCRE2 knows.
 */
#include "lib/base/re2.h"
#include "lib/base/str.h"
#include "lib/base/ucase.h"
#include <string.h>

enum { RUNE_MAX = 0x10ffff, SURROGATE_MIN = 0xd800, SURROGATE_MAX = 0xdfff };

/* Scripts that both Go and PCRE2 10.42 know. */
static const char *const scripts[] = {"Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic",
	"Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah", "Batak", "Bengali", "Bhaiksuki",
	"Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian",
	"Caucasian_Albanian", "Chakma", "Cham", "Cherokee", "Chorasmian", "Common", "Coptic",
	"Cuneiform", "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret", "Devanagari", "Dives_Akuru",
	"Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian",
	"Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han",
	"Hangul", "Hanifi_Rohingya", "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Imperial_Aramaic",
	"Inherited", "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi",
	"Kannada", "Katakana", "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer", "Khojki",
	"Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Linear_A", "Linear_B", "Lisu", "Lycian",
	"Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen",
	"Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive",
	"Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian", "Mro", "Multani", "Myanmar",
	"Nabataean", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu", "Nyiakeng_Puachue_Hmong",
	"Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic",
	"Old_Persian", "Old_Sogdian", "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya",
	"Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician",
	"Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian",
	"Siddham", "SignWriting", "Sinhala", "Sogdian", "Sora_Sompeng", "Soyombo", "Sundanese",
	"Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri",
	"Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta",
	"Toto", "Ugaritic", "Vai", "Vithkuqi", "Wancho", "Warang_Citi", "Yezidi", "Yi",
	"Zanabazar_Square"};

/* Categories: the name, Unicode's long name, and what PCRE2 calls it. */
static const struct {
	const char *name, *alias, *pcre;
} categories[] = {
	{"Any", NULL, "Any"},
	{"C", "Other", "C"},
	{"Cc", "Control", "Cc"},
	{"Cc", "cntrl", "Cc"},
	{"Cf", "Format", "Cf"},
	{"Cn", "Unassigned", "Cn"},
	{"Co", "PrivateUse", "Co"},
	{"Cs", "Surrogate", "Cs"},
	{"L", "Letter", "L"},
	{"LC", "CasedLetter", "L&"},
	{"Ll", "LowercaseLetter", "Ll"},
	{"Lm", "ModifierLetter", "Lm"},
	{"Lo", "OtherLetter", "Lo"},
	{"Lt", "TitlecaseLetter", "Lt"},
	{"Lu", "UppercaseLetter", "Lu"},
	{"M", "Mark", "M"},
	{"M", "CombiningMark", "M"},
	{"Mc", "SpacingMark", "Mc"},
	{"Me", "EnclosingMark", "Me"},
	{"Mn", "NonspacingMark", "Mn"},
	{"N", "Number", "N"},
	{"Nd", "DecimalNumber", "Nd"},
	{"Nd", "digit", "Nd"},
	{"Nl", "LetterNumber", "Nl"},
	{"No", "OtherNumber", "No"},
	{"P", "Punctuation", "P"},
	{"P", "punct", "P"},
	{"Pc", "ConnectorPunctuation", "Pc"},
	{"Pd", "DashPunctuation", "Pd"},
	{"Pe", "ClosePunctuation", "Pe"},
	{"Pf", "FinalPunctuation", "Pf"},
	{"Pi", "InitialPunctuation", "Pi"},
	{"Po", "OtherPunctuation", "Po"},
	{"Ps", "OpenPunctuation", "Ps"},
	{"S", "Symbol", "S"},
	{"Sc", "CurrencySymbol", "Sc"},
	{"Sk", "ModifierSymbol", "Sk"},
	{"Sm", "MathSymbol", "Sm"},
	{"So", "OtherSymbol", "So"},
	{"Z", "Separator", "Z"},
	{"Zl", "LineSeparator", "Zl"},
	{"Zp", "ParagraphSeparator", "Zp"},
	{"Zs", "SpaceSeparator", "Zs"},
};

/* Ranges of the named classes, as pairs ended by an empty string's NUL. */
static const struct {
	const char *name;
	const char *ranges; /* pairs of first and last character */
} named_classes[] = {
	{"alnum", "09AZaz"},
	{"alpha", "AZaz"},
	{"ascii", NULL},
	{"blank", "\t\t  "},
	{"cntrl", NULL},
	{"digit", "09"},
	{"graph", "!~"},
	{"lower", "az"},
	{"print", " ~"},
	{"punct", "!/:@[`{~"},
	{"space", "\t\r  "},
	{"upper", "AZ"},
	{"word", "09AZ__az"},
	{"xdigit", "09AFaf"},
};

static bool same_loosely(const char *name, size_t len, const char *known)
{
	size_t i = 0;

	for (; *known; known++) {
		if (*known == '_')
			continue;
		while (i < len && (name[i] == '_' || name[i] == '-' || name[i] == ' '))
			i++;
		if (i == len || (name[i] | 32) != (*known | 32))
			return false;
		i++;
	}
	while (i < len && (name[i] == '_' || name[i] == '-' || name[i] == ' '))
		i++;
	return i == len;
}

static struct re2_class *class_new(struct re2_parser *p)
{
	return arena_zalloc(p->tree->arena, sizeof(struct re2_class));
}

static int class_add_range(struct re2_parser *p, struct re2_class *c, uint32_t lo, uint32_t hi)
{
	if (++p->n_ranges > RE2_MAX_RANGES)
		return re2_fail(p, p->pos, "character classes too large");
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 4;
		struct re2_range *ranges = arena_alloc_array(p->tree->arena, cap, sizeof(*ranges));

		if (!ranges)
			return -ENOMEM;
		if (c->n)
			memcpy(ranges, c->ranges, c->n * sizeof(*ranges));
		c->ranges = ranges;
		c->cap = cap;
	}
	c->ranges[c->n++] = (struct re2_range) {lo, hi};
	return 0;
}

/* Adds the range and, when case is ignored, what equals its members. */
static int class_add_folded(struct re2_parser *p, struct re2_class *c, uint32_t lo, uint32_t hi)
{
	size_t pos = 0;
	uint32_t from, to;
	int r = class_add_range(p, c, lo, hi);

	while (r == 0 && p->fold && ucase_next_range(&pos, &from, &to)) {
		for (uint32_t x = MAX(lo, from); x <= MIN(hi, to) && r == 0; x++) {
			for (uint32_t y = ucase_next_fold(x); y != x && r == 0;
				y = ucase_next_fold(y)) {
				/* Most often the partner lies in the range or continues the last
				 * one. */
				struct re2_range *last = &c->ranges[c->n - 1];

				if (y >= lo && y <= hi)
					continue;
				if (c->n > 1 && last->hi + 1 == y)
					last->hi = y;
				else
					r = class_add_range(p, c, y, y);
			}
		}
	}
	return r;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct re2_range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Sorts, joins what touches. */
static void class_clean(struct re2_class *c)
{
	size_t n = 0;

	if (!c->n)
		return;
	qsort(c->ranges, c->n, sizeof(*c->ranges), compare_ranges);
	for (size_t i = 1; i < c->n; i++) {
		if (c->ranges[i].lo <= c->ranges[n].hi + 1)
			c->ranges[n].hi = MAX(c->ranges[n].hi, c->ranges[i].hi);
		else
			c->ranges[++n] = c->ranges[i];
	}
	c->n = n + 1;
}

/* Appends to `c` what the clean class `other` does not hold. */
static int class_add_negated(
	struct re2_parser *p, struct re2_class *c, const struct re2_class *other)
{
	uint32_t next = 0;
	int r = 0;

	for (size_t i = 0; i < other->n && r == 0; i++) {
		if (other->ranges[i].lo > next)
			r = class_add_range(p, c, next, other->ranges[i].lo - 1);
		next = other->ranges[i].hi + 1;
	}
	if (r == 0 && next <= RUNE_MAX)
		r = class_add_range(p, c, next, RUNE_MAX);
	return r;
}

/* Surrogates occur in no text and PCRE2 refuses them in patterns. */
static int class_drop_surrogates(struct re2_parser *p, struct re2_class *c)
{
	size_t n = c->n;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct re2_range range = c->ranges[i];

		if (range.lo > SURROGATE_MAX || range.hi < SURROGATE_MIN)
			continue;
		if (range.lo < SURROGATE_MIN && range.hi > SURROGATE_MAX)
			r = class_add_range(p, c, SURROGATE_MAX + 1, range.hi);
		if (range.lo < SURROGATE_MIN)
			c->ranges[i].hi = SURROGATE_MIN - 1;
		else if (range.hi > SURROGATE_MAX)
			c->ranges[i].lo = SURROGATE_MAX + 1;
		else
			c->ranges[i] = (struct re2_range) {1, 0};
	}
	for (size_t i = n = 0; i < c->n; i++) {
		if (c->ranges[i].lo <= c->ranges[i].hi)
			c->ranges[n++] = c->ranges[i];
	}
	c->n = n;
	class_clean(c);
	return r;
}

/* Pairs of characters, folded when case is ignored, negated or not. */
static int class_add_pairs(
	struct re2_parser *p, struct re2_class *c, const char *pairs, bool negated)
{
	struct re2_class tmp = {0};
	int r = 0;

	for (size_t i = 0; pairs[i] && r == 0; i += 2)
		r = class_add_folded(p, &tmp, (uint8_t)pairs[i], (uint8_t)pairs[i + 1]);
	if (r < 0)
		return r;
	class_clean(&tmp);
	if (negated)
		return class_add_negated(p, c, &tmp);
	for (size_t i = 0; i < tmp.n && r == 0; i++)
		r = class_add_range(p, c, tmp.ranges[i].lo, tmp.ranges[i].hi);
	return r;
}

/* \d \D \s \S \w \W: 1, or 0 when it is something else. */
static int parse_perl_escape(struct re2_parser *p, struct re2_class *c)
{
	const char *pairs;
	bool negated;
	int r;

	if (p->end - p->pos < 2 || p->pos[0] != '\\')
		return 0;
	switch (p->pos[1]) {
	case 'd':
	case 'D': pairs = "09"; break;
	case 's':
	case 'S': pairs = "\t\n\f\r  "; break;
	case 'w':
	case 'W': pairs = "09AZ__az"; break;
	default: return 0;
	}
	negated = p->pos[1] < 'a';
	p->pos += 2;
	r = class_add_pairs(p, c, pairs, negated);
	return r < 0 ? r : 1;
}

static int class_add_property(
	struct re2_parser *p, struct re2_class *c, const char *name, bool negated)
{
	struct re2_property *property;

	if (++p->n_ranges > RE2_MAX_RANGES)
		return re2_fail(p, p->pos, "character classes too large");
	property = arena_zalloc(p->tree->arena, sizeof(*property));
	if (!property)
		return -ENOMEM;
	property->name = name;
	property->negated = negated;
	property->folded = p->fold;
	property->next = c->properties;
	c->properties = property;
	return 0;
}

/* Adds the property called name[0 .. len) or fails at `at`. */
static int class_add_named_property(struct re2_parser *p, struct re2_class *c, const char *at,
	const char *name, size_t len, bool negated)
{
	const char *pcre = NULL;

	if (same_loosely(name, len, "Ascii"))
		return negated ? class_add_range(p, c, 0x80, RUNE_MAX)
			       : class_add_folded(p, c, 0, 0x7f);
	if (same_loosely(name, len, "Assigned")) {
		pcre = "Cn";
		negated = !negated;
	}
	for (size_t i = 0; i < ARRAY_SIZE(categories) && !pcre; i++) {
		if (same_loosely(name, len, categories[i].name) ||
			(categories[i].alias && same_loosely(name, len, categories[i].alias)))
			pcre = categories[i].pcre;
	}
	for (size_t i = 0; i < ARRAY_SIZE(scripts) && !pcre; i++) {
		if (same_loosely(name, len, scripts[i]))
			pcre = arena_printf(p->tree->arena, "sc:%s", scripts[i]);
	}
	if (!pcre)
		return re2_fail(p, at, "unknown Unicode category or script \"%.*s\"",
			(int)MIN(len, 64), name);
	return class_add_property(p, c, pcre, negated);
}

/* \pN \p{Name} \p{^Name} \PN …: 1, or 0 when it is something else. */
static int parse_property(struct re2_parser *p, struct re2_class *c)
{
	const char *at = p->pos, *name, *end;
	bool negated;
	int r;

	if (p->end - p->pos < 2 || at[0] != '\\' || (at[1] != 'p' && at[1] != 'P'))
		return 0;
	negated = at[1] == 'P';
	p->pos += 2;
	name = p->pos;
	if (p->pos == p->end)
		return re2_fail(p, at, "\\%c needs a category, as in \\p{Greek}", at[1]);
	if (*name == '{') {
		end = memchr(name, '}', (size_t)(p->end - name));
		if (!end)
			return re2_fail(p, at, "missing } of \\%c{", at[1]);
		name++;
		p->pos = end + 1;
	} else {
		re2_next_rune(p);
		end = p->pos;
	}
	if (name < end && *name == '^') {
		negated = !negated;
		name++;
	}
	r = class_add_named_property(p, c, at, name, (size_t)(end - name), negated);
	return r < 0 ? r : 1;
}

/* [:name:] and [:^name:] inside brackets: 1, or 0 when it is something else. */
static int parse_named_class(struct re2_parser *p, struct re2_class *c)
{
	const char *at = p->pos, *name = at + 2, *end;
	bool negated = false;
	int r = -EINVAL;

	if (p->end - at < 3 || at[0] != '[' || at[1] != ':')
		return 0;
	end = memmem(name, (size_t)(p->end - name), ":]", 2);
	if (!end)
		return 0;
	if (*name == '^') {
		negated = true;
		name++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(named_classes); i++) {
		const char *known = named_classes[i].name;

		if (strlen(known) != (size_t)(end - name) ||
			memcmp(known, name, (size_t)(end - name)))
			continue;
		p->pos = end + 2;
		if (named_classes[i].ranges) {
			r = class_add_pairs(p, c, named_classes[i].ranges, negated);
		} else { /* those that hold NUL */
			struct re2_class tmp = {0};

			r = class_add_folded(p, &tmp, 0, *known == 'a' ? 0x7f : 0x1f);
			if (r == 0 && *known == 'c')
				r = class_add_range(p, &tmp, 0x7f, 0x7f);
			class_clean(&tmp);
			for (size_t k = 0; k < tmp.n && r == 0 && !negated; k++)
				r = class_add_range(p, c, tmp.ranges[k].lo, tmp.ranges[k].hi);
			if (r == 0 && negated)
				r = class_add_negated(p, c, &tmp);
		}
		return r < 0 ? r : 1;
	}
	return re2_fail(p, at, "unknown class \"%.*s\"", (int)MIN(end + 2 - at, 64), at);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* After "\x": two digits, or any number of them in braces. */
static int parse_hex(struct re2_parser *p, const char *at, uint32_t *ret)
{
	bool braced = p->pos < p->end && *p->pos == '{';
	uint32_t v = 0;
	int n = 0;

	p->pos += braced;
	while (p->pos < p->end && hex_value(*p->pos) >= 0 && (braced || n < 2)) {
		v = v * 16 + (uint32_t)hex_value(*p->pos++);
		n++;
		if (v > RUNE_MAX)
			return re2_fail(p, at, "character above 10FFFF");
	}
	if (braced ? !n || p->pos == p->end || *p->pos != '}' : n != 2)
		return re2_fail(p, at, "\\x needs two hexadecimal digits or {…}");
	p->pos += braced;
	*ret = v;
	return 0;
}

static int fail_escape(struct re2_parser *p, const char *at)
{
	static const struct {
		char c;
		const char *what;
	} known[] = {
		{'C', "a single byte"},
		{'G', "the start of the search"},
		{'Z', "the end before a newline (use \\z)"},
		{'R', "any newline"},
		{'X', "a grapheme"},
		{'K', "a reset of the start"},
		{'h', "blanks"},
		{'H', "non-blanks"},
		{'N', "non-newline (use .)"},
		{'V', "non-vertical space"},
		{'k', "a backreference"},
		{'g', "a backreference"},
		{'e', "escape (use \\x1b)"},
		{'c', "a control character"},
		{'u', "a character by number (use \\x{…})"},
		{'E', "the end of \\Q without it"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (at[1] == known[i].c)
			return re2_fail(p, at, "\\%c, %s, is not supported", at[1], known[i].what);
	}
	if (at[1] >= '1' && at[1] <= '9')
		return re2_fail(p, at, "backreferences are not supported");
	return re2_fail(p, at, "unknown escape \"%.*s\"",
		(int)(1 + str_utf8_len(at + 1, (size_t)(p->end - at - 1))), at);
}

int re2_parse_escape(struct re2_parser *p, uint32_t *ret)
{
	static const char from[] = "afnrtv", to[] = "\a\f\n\r\t\v";
	const char *at = p->pos++, *simple;
	char c;

	if (p->pos == p->end)
		return re2_fail(p, at, "backslash at the end");
	c = *p->pos;
	simple = memchr(from, c, sizeof(from) - 1);
	if (simple) {
		p->pos++;
		*ret = (uint8_t)to[simple - from];
		return 0;
	}
	if (c == 'x') {
		p->pos++;
		return parse_hex(p, at, ret);
	}
	if (c == '0' || (c >= '1' && c <= '7' && p->end - p->pos > 1 && p->pos[1] >= '0' &&
				p->pos[1] <= '7')) {
		uint32_t v = 0;

		for (int i = 0; i < 3 && p->pos < p->end && *p->pos >= '0' && *p->pos <= '7'; i++)
			v = v * 8 + (uint32_t)(*p->pos++ - '0');
		*ret = v;
		return 0;
	}
	if ((uint8_t)c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
		return fail_escape(p, at);
	p->pos++;
	*ret = (uint8_t)c;
	return 0;
}

int re2_parse_class_escape(struct re2_parser *p, struct re2_class **ret)
{
	struct re2_class *c = class_new(p);
	int r;

	if (!c)
		return -ENOMEM;
	r = parse_property(p, c);
	if (r == 0)
		r = parse_perl_escape(p, c);
	if (r > 0) {
		class_clean(c);
		if (class_drop_surrogates(p, c) < 0)
			r = -ENOMEM;
	}
	*ret = c;
	return r;
}

/* A single character or a range inside brackets that begin at `open`. */
static int parse_class_range(struct re2_parser *p, const char *open, struct re2_class *c)
{
	const char *at = p->pos;
	uint32_t ends[2];
	int n = 0;

	do {
		if (n) /* the '-' */
			p->pos++;
		if (p->pos == p->end)
			return re2_fail(p, open, "missing ] of this class");
		if (*p->pos == '\\') {
			int r = re2_parse_escape(p, &ends[n]);

			if (r < 0)
				return r;
		} else {
			ends[n] = re2_next_rune(p);
		}
		n++;
	} while (n < 2 && p->end - p->pos >= 2 && p->pos[0] == '-' && p->pos[1] != ']');
	if (n == 1)
		ends[1] = ends[0];
	if (ends[1] < ends[0])
		return re2_fail(p, at, "range \"%.*s\" in the wrong order", (int)(p->pos - at), at);
	return class_add_folded(p, c, ends[0], ends[1]);
}

int re2_parse_class(struct re2_parser *p, struct re2_class **ret)
{
	const char *open = p->pos++;
	struct re2_class *c = class_new(p);
	bool first = true;

	if (!c)
		return -ENOMEM;
	if (p->pos < p->end && *p->pos == '^') {
		c->negated = true;
		p->pos++;
	}
	while (p->pos == p->end || *p->pos != ']' || first) {
		int r = parse_named_class(p, c);

		first = false;
		if (r == 0)
			r = parse_property(p, c);
		if (r == 0)
			r = parse_perl_escape(p, c);
		if (r == 0)
			r = parse_class_range(p, open, c);
		if (r < 0)
			return r;
	}
	p->pos++;
	class_clean(c);
	if (c->negated && !c->properties) {
		struct re2_class *inverse = class_new(p);
		int r = inverse ? class_add_negated(p, inverse, c) : -ENOMEM;

		if (r < 0)
			return r;
		c = inverse;
	}
	*ret = c;
	return class_drop_surrogates(p, c);
}

bool re2_class_is_plain(const struct re2_class *c)
{
	return !c->properties;
}
