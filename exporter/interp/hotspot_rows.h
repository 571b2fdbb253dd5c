/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel half reads of a Java VM (bpf/interp/rows.h). Layouts are few, whatever a process says of itself.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/interp/hotspot_vm.h"

/* False: it has fields where no version has them. */
bool hotspot_rows_of(const struct hotspot_vm *vm, struct interp_layout *ret_layout,
	struct interp_hotspot *ret_hotspot);
