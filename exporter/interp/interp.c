/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of runtimes.
 */
#include "exporter/interp/interp.h"
#include "exporter/interp/hotspot.h"
#include "exporter/interp/python.h"
#include "exporter/interp/ruby.h"
#include "exporter/interp/v8.h"

static const struct interp_runtime runtimes[] = {
	{RUNTIME_PYTHON, python_read_code, python_line, 0, NULL},
	{RUNTIME_RUBY, ruby_read_code, ruby_line, 0, NULL},
	{RUNTIME_V8, v8_read_code, v8_line, 0, &v8_machine},
	{RUNTIME_HOTSPOT, hotspot_read_code, hotspot_line, HOTSPOT_KEEP_NS, &hotspot_machine},
};

const struct interp_runtime *interp_runtime_of(enum runtime_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++)
		if (runtimes[i].kind == kind)
			return &runtimes[i];
	return NULL;
}
