/* SPDX-License-Identifier: Apache-2.0
 *
 * Relabel rules on labels: a line "name=value,…", then a YAML list of rules. The result is a label
 * set: names sorted, once each, nothing empty.
 */
#include "lib/base/str.h"
#include "scraper/config/config.h"
#include "scraper/relabel/relabel.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_labels(struct labels_builder *b, const char *s, size_t n)
{
	while (n) {
		const char *comma = memchr(s, ',', n), *equals;
		size_t len = comma ? (size_t)(comma - s) : n;

		equals = memchr(s, '=', len);
		if (equals && equals > s && str_is_utf8(s, len))
			labels_builder_set_n(b, s, (size_t)(equals - s), equals + 1,
				len - (size_t)(equals + 1 - s));
		s += len + (comma != NULL);
		n -= len + (comma != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_labels_ struct labels labels = {0};
	const uint8_t *line = memchr(data, '\n', size);
	struct config_rules rules;
	struct errbuf eb = {0};

	labels_builder_init(&b);
	if (!line || memchr(data, 0, (size_t)(line - data)) ||
		config_parse_rules("r", line + 1, size - (size_t)(line + 1 - data), &rules, &eb) <
			0)
		return 0;
	set_labels(&b, (const char *)data, (size_t)(line - data));
	if (relabel_apply(rules.rules, rules.n, &b, NULL, &eb) >= 0) {
		ASSERT(labels_builder_finish(&b, &labels) == 0);
		for (size_t i = 0; i < labels.n; i++) {
			ASSERT(*labels.items[i].name && *labels.items[i].value);
			ASSERT(i == 0 ||
				strcmp(labels.items[i - 1].name, labels.items[i].name) < 0);
			ASSERT(str_is_utf8(labels.items[i].name, strlen(labels.items[i].name)));
		}
	}
	config_rules_free(&rules);
	return 0;
}
