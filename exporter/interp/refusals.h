/* SPDX-License-Identifier: Apache-2.0
 *
 * Why no frame of a runtime is shown: reasons of its file (enum runtime_refusal, exporter/symfile/runtime.h), and behind them those of a
 * process that maps the file. Each is a word for metrics and a sentence for people.
 */
#pragma once
#include "exporter/symfile/runtime.h"

enum interp_refusal {
	INTERP_REFUSED_SECOND = N_RUNTIME_REFUSALS, /* another runtime came first */
	INTERP_REFUSED_KEYS,	/* where threads keep the value of that pthread key is not known */
	INTERP_REFUSED_UNLIKE,	/* no thread's state is where the file says */
	INTERP_REFUSED_LAYOUTS, /* more versions at once than kernel memory has room for */
	INTERP_REFUSED_MEMORY,	/* the process's memory cannot be read */
	INTERP_REFUSED_MACHINE, /* its frames are not walked on such processors */
	INTERP_REFUSED_PROCESSES, /* more Java VMs at once than kernel memory has room for */
	N_INTERP_REFUSALS
};

/* "unknown_version"; "" for RUNTIME_NOT_REFUSED and for a number that is none. */
const char *interp_refusal_name(uint32_t refusal);
/* A sentence without its full stop; "" likewise. */
const char *interp_refusal_text(uint32_t refusal);
