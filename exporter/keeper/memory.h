/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of BPF maps that main reads and writes in place.
 */
#pragma once
#include "exporter/keeper/keeper.h"

/* Maps one, readable and writable, until keeper_memory_unmap; NULL with a text, or without one when the setup has no such map. */
void *keeper_memory_map(const struct keeper_setup *s, enum keeper_map which, struct errbuf *eb);
void keeper_memory_unmap(const struct keeper_setup *s, enum keeper_map which, void *memory);
