/* SPDX-License-Identifier: Apache-2.0
 *
 * The words and sentences of refusals.
 */
#include "exporter/interp/refusals.h"

const char *interp_refusal_name(uint32_t refusal)
{
	static const char *const names[N_INTERP_REFUSALS] = {
		[RUNTIME_UNKNOWN_VERSION] = "unknown_version",
		[RUNTIME_UNLIKE_VERSION] = "unlike_version",
		[RUNTIME_NO_STATE] = "no_state",
		[RUNTIME_FREE_THREADED] = "free_threaded",
		[RUNTIME_NO_INTERPRETER] = "no_interpreter",
		[RUNTIME_NO_METADATA] = "no_metadata",
		[RUNTIME_COMPRESSED] = "compressed",
		[INTERP_REFUSED_SECOND] = "second_runtime",
		[INTERP_REFUSED_KEYS] = "thread_keys",
		[INTERP_REFUSED_UNLIKE] = "unlike_process",
		[INTERP_REFUSED_LAYOUTS] = "layouts",
		[INTERP_REFUSED_MEMORY] = "memory",
		[INTERP_REFUSED_MACHINE] = "machine",
		[INTERP_REFUSED_PROCESSES] = "processes",
	};

	return refusal < N_INTERP_REFUSALS && names[refusal] ? names[refusal] : "";
}

const char *interp_refusal_text(uint32_t refusal)
{
	switch (refusal) {
	case INTERP_REFUSED_SECOND: return "the process has another runtime too, which came first";
	case INTERP_REFUSED_KEYS:
		return "where threads keep values of this thread key is not known";
	case INTERP_REFUSED_UNLIKE:
		return "no thread of the process has its state where it should be";
	case INTERP_REFUSED_LAYOUTS:
		return "more versions than there is room for have run since the exporter began";
	case INTERP_REFUSED_MEMORY: return "the memory of the process cannot be read";
	case INTERP_REFUSED_MACHINE: return "its frames are walked on x86-64 only";
	case INTERP_REFUSED_PROCESSES: return "more Java VMs run at once than there is room for";
	default: return runtime_refusal_text(refusal);
	}
}
