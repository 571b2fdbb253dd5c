/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the reader of entries (cfi.c) and the interpreter of their instructions (cfi_run.c).
 */
#pragma once
#include "exporter/parser/unwind/cfi.h"

/* Runs a CIE's initial instructions into cie->rule. False: they are malformed. */
bool cfi_run_initial(const struct cfi_machine *machine, struct cfi_cie *cie);
