/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of runtimes that are detected.
 */
#include "exporter/parser/runtime/runtime.h"
#include "exporter/parser/runtime/hotspot.h"
#include "exporter/parser/runtime/python.h"
#include "exporter/parser/runtime/ruby.h"
#include "exporter/parser/runtime/v8.h"

static bool (*const detectors[])(const struct elf_file *f, struct runtime_record *ret) = {
	python_detect,
	ruby_detect,
	v8_detect,
	hotspot_detect,
};

bool runtime_read(const struct elf_file *f, struct runtime_record *ret)
{
	*ret = (struct runtime_record) {0};
	for (size_t i = 0; i < ARRAY_SIZE(detectors); i++)
		if (detectors[i](f, ret))
			return true;
	return false;
}
