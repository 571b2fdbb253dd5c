/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree that every sample log's stacks live in. A node = (parent, frame); a stack is its leaf node. Node 0 is the
 * empty stack. Parents have smaller ids than their children.
 */
#pragma once
#include "lib/base/budget.h"
#include <stdint.h>

struct stacks;
struct stacks *stacks_new(struct budget *budget);
void stacks_freep(struct stacks **s);
/* Interns a stack: user frames then kernel frames as in an abi_record are given ROOT FIRST here. -ENOMEM when refused. */
int stacks_add(struct stacks *s, const uint64_t *frames_root_first, uint32_t n, uint32_t *ret_id);
uint64_t stacks_frame(const struct stacks *s, uint32_t id);
uint32_t stacks_parent(const struct stacks *s, uint32_t id);
uint32_t stacks_count(const struct stacks *s);
