/* SPDX-License-Identifier: Apache-2.0
 *
 * Resource limits and system calls of parser children. Sanitizer builds keep neither the memory
 * limit nor the filter: their shadow memory and their reports need more.
 */
#include "exporter/parser/limits.h"
#include "lib/base/cleanup.h"
#include "lib/base/sandbox.h"
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZER_BUILD 1
#endif
#endif
#ifndef SANITIZER_BUILD
#define SANITIZER_BUILD 0
#endif

static int limit(int what, uint64_t value)
{
	struct rlimit l = {.rlim_cur = value, .rlim_max = value};

	return setrlimit(what, &l) < 0 ? -errno : 0;
}

int parser_limit_child(
	uint32_t timeout_ms, const int *inputs, size_t n_inputs, bool links, struct errbuf *eb)
{
	static const int calls[] = {
		SYS_read, SYS_pread64, SYS_write, SYS_pwrite64, SYS_lseek, SYS_fstat,
		SYS_newfstatat, SYS_close, SYS_fcntl, SYS_mmap, SYS_munmap, SYS_mprotect,
		SYS_madvise, SYS_mremap, SYS_brk, SYS_futex, SYS_getrandom, SYS_rt_sigreturn,
		SYS_rt_sigprocmask, SYS_restart_syscall, SYS_exit, SYS_exit_group, SYS_gettid,
		SYS_getpid, SYS_tgkill,	  /* abort() */
		SYS_sendmsg, SYS_recvmsg, /* the last two: to ask for files */
	};
	uint64_t input_bytes = 0;
	int r;

	for (size_t i = 0; i < n_inputs; i++) {
		struct stat st;

		if (fstat(inputs[i], &st) < 0)
			return err_set(eb, -EBADMSG, "cannot stat the input");
		input_bytes += (uint64_t)st.st_size;
	}
	r = limit(RLIMIT_CPU, timeout_ms / 1000 + 1);
	if (r == 0)
		r = limit(RLIMIT_CORE, 0);
	if (r == 0)
		r = limit(RLIMIT_FSIZE, PARSER_OUTPUT_BYTES);
	if (r == 0 && !SANITIZER_BUILD)
		r = limit(RLIMIT_DATA, PARSER_MEMORY_BYTES);
	if (r == 0 && !SANITIZER_BUILD)
		r = limit(RLIMIT_AS, 2ULL * PARSER_MEMORY_BYTES + PARSER_OUTPUT_BYTES +
					     input_bytes + (links ? PARSER_LINKED_BYTES : 0));
	if (r < 0)
		return err_set(eb, r, "cannot limit the child");
	if (SANITIZER_BUILD)
		return 0;
	return sandbox_allow_only(calls, ARRAY_SIZE(calls) - (links ? 0 : 2), false, eb);
}
