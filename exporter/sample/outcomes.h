/* SPDX-License-Identifier: Apache-2.0
 *
 * How user stacks ended: in total by event, and of one event by program and by binary: shares of several would say nothing together. A
 * binary counts the stacks that it has a frame in, and those that were cut at one of its frames. Pure. The drain thread adds; readers hold the pipeline's lock with it.
 */
#pragma once
#include "bpf/abi.h"
#include <stddef.h>
#include <stdint.h>

struct outcomes;

/* `event`: whose stacks are counted by program and by binary. */
struct outcomes *outcomes_new(enum abi_event event);
void outcomes_freep(struct outcomes **o);

/* One stack of a sample of `event`: its user words root first, resolved; n may be 0. `comm`: the process's name. */
void outcomes_add(struct outcomes *o, enum abi_event event, const char *comm, const uint64_t *words,
	uint32_t n);
enum abi_event outcomes_event(const struct outcomes *o);
/* The cut that the words say. */
enum abi_cut outcomes_cut(const uint64_t *words, uint32_t n);

struct outcome {
	char comm[ABI_COMM_LEN];  /* of a program */
	uint32_t binary;	  /* of a binary */
	uint64_t stacks;	  /* with a frame there */
	uint64_t cut[ABI_N_CUTS]; /* [ABI_CUT_NONE] is 0 */
};
/* Since the start. */
void outcomes_total(const struct outcomes *o, enum abi_event event, uint64_t ret[ABI_N_CUTS]);
/* Row i of the programs or of the binaries; NULL past the last. Order of first sight; program 0 is all above a cap. */
const struct outcome *outcomes_program(const struct outcomes *o, uint32_t i);
const struct outcome *outcomes_binary(const struct outcomes *o, uint32_t i);
/* Binary ids given to other files from now on: those whose bit is not set. */
void outcomes_retain(struct outcomes *o, const uint64_t *used_bitmap, uint32_t n_bits);
