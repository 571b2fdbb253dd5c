/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the reader of entries and the one that runs their instructions.
 */
#pragma once
#include "exporter/parser/unwind/cfi.h"

/* Runs a CIE's initial instructions into cie->rule. False: they are malformed. */
bool cfi_run_initial(const struct cfi_machine *machine, struct cfi_cie *cie);
