/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes in ELF files of strangers: the record of whatever is detected has a version, states and offsets within their range, or a
 * refusal.
 */
#include "exporter/parser/runtime/runtime.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("in", MFD_CLOEXEC);
	struct runtime_record r;
	struct elf_file f = {.fd = -1};

	if (write(fd, data, size) == (ssize_t)size && elf_file_open(fd, &f, NULL) == 0) {
		bool found = runtime_read(&f, &r);

		if (found != (r.kind != RUNTIME_NONE) || r.kind >= N_RUNTIMES ||
			r.refusal >= N_RUNTIME_REFUSALS)
			abort();
		/* HotSpot 8 writes its version when it starts. */
		if (found && !r.refusal && !r.version && r.kind != RUNTIME_HOTSPOT)
			abort();
		/* V8 and HotSpot walk frames without a thread's state. */
		if (found && !r.refusal && r.kind == RUNTIME_PYTHON && !r.states[0].by)
			abort();
	}
	elf_file_done(&f);
	close(fd);
	return 0;
}
