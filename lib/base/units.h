/* SPDX-License-Identifier: Apache-2.0
 *
 * Units of values: how each reads to a person, and what an amount of one a second is. ui/src/units.ts is the same; tests/data/units.txt
 * holds them together.
 */
#pragma once
#include <stdbool.h>

enum { UNITS_TEXT_MAX = 64, UNITS_NAME_MAX = 64 };

/*
 * A value with its unit, in three digits: 1234567890 "nanoseconds" is "1.23s", 1536 "bytes" is "1.50KiB", 500000000 "nanocores" is
 * "0.5 cores". Whole counts below 100,000 keep all digits, other counts end in k, M, G or T. "/second" behind a unit ends the text in "/s". Zero
 * is "0" without a suffix, but for "0%" and "0 cores". An unknown unit is named after the number. The text is ASCII but for a name that is not, without a blank before known suffixes.
 */
void units_text(double value, const char *unit, char ret[UNITS_TEXT_MAX]);
/* Is a sample type in this unit CPU time? Time spent waiting has the same unit and is none. */
bool units_is_cpu_time(const char *sample_type, const char *unit);
/*
 * The unit of a value per second: of CPU time "nanocores", of anything else the unit and "/second". What is in use (`is_state`: an
 * instant type) is no rate and keeps its unit.
 */
void units_rate(const char *sample_type, const char *unit, bool is_state, char ret[UNITS_NAME_MAX]);
/* The unit's name in a sentence: values in "nanocores" are shown in "cores", shares are kept in "ppm". */
const char *units_name(const char *unit);
