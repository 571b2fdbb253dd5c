/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and sentences of runtimes.
 */
#include "exporter/symfile/runtime.h"
#include "lib/base/cleanup.h"

const char *runtime_name(uint32_t kind)
{
	static const char *const names[N_RUNTIMES] = {
		[RUNTIME_NONE] = "",
		[RUNTIME_PYTHON] = "python",
		[RUNTIME_RUBY] = "ruby",
		[RUNTIME_V8] = "v8",
		[RUNTIME_HOTSPOT] = "hotspot",
	};

	return kind < N_RUNTIMES ? names[kind] : "";
}

const char *runtime_language(uint32_t kind)
{
	switch (kind) {
	case RUNTIME_V8: return "javascript";
	case RUNTIME_HOTSPOT: return "java";
	default: return runtime_name(kind);
	}
}

const char *runtime_refusal_text(uint32_t refusal)
{
	static const char *const texts[N_RUNTIME_REFUSALS] = {
		[RUNTIME_NOT_REFUSED] = "",
		[RUNTIME_UNKNOWN_VERSION] = "this version is not known",
		[RUNTIME_UNLIKE_VERSION] =
			"its structures differ from those of its version, as in debug builds",
		[RUNTIME_NO_STATE] = "it is stripped of what leads to a thread's state",
		[RUNTIME_FREE_THREADED] = "free-threaded builds are not read yet",
		[RUNTIME_NO_INTERPRETER] = "the function of its interpreter is not found",
		[RUNTIME_NO_METADATA] =
			"it does not export the constants that describe its structures",
		[RUNTIME_COMPRESSED] = "builds with compressed pointers are not read",
	};

	return refusal < N_RUNTIME_REFUSALS ? texts[refusal] : "";
}
