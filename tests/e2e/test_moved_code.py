"""Programs that move their own code to memory of no file, as for huge pages: their stacks and names are as before, whenever the exporter began."""
import os
import shutil
import unittest

import sonde_e2e as e2e

BURN_C = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile unsigned long n;
__attribute__((noinline, section("near"), aligned(4096))) static unsigned long burn(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
__attribute__((noinline, section("near"))) static void middle(void) { for (int i = 0; i < 1000; i++) n += burn(n); }
__attribute__((noinline, section("near"))) static void outer(void) { for (;;) { middle(); n++; } }
__attribute__((used, section("near"))) static void pad(void) { __asm__ volatile(".fill 8192, 1, 0x90"); }
/* With calls of the kernel alone: the C library's would jump through a table in the code that is replaced. */
__attribute__((always_inline)) static inline long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}
__attribute__((noinline, section("far"), aligned(4096))) static void fill(char *to, const char *from, long size, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	call(SYS_mmap, (long)to, size, PROT_READ | PROT_WRITE | PROT_EXEC, flags | MAP_FIXED, fd, 0);
	for (long i = 0; i < size; i++)
		((volatile char *)to)[i] = from[i];
	call(SYS_mprotect, (long)to, size, PROT_READ | PROT_EXEC, 0, 0, 0);
}
int main(int argc, char **argv)
{
	char *code = (char *)((unsigned long)burn & ~4095UL), how = argc > 1 ? *argv[1] : 0;
	long size = 8192;
	char *copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(copy, code, size);
	if (how == 'r') {
		mprotect(copy, size, PROT_READ | PROT_EXEC);
		mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, code);
	} else if (how) {
		int fd = how == 'm' ? memfd_create("text", 0) : -1;

		if (fd >= 0 && ftruncate(fd, size))
			return 1;
		fill(code, copy, size, fd);
	}
	outer();
}
"""
HOW = {'filled': 'f', 'remapped': 'r', 'memfd': 'm'}
LINKERS = {'': 'ld', 'lld': 'ld.lld'}


@e2e.needs_kernel
class MovedCode(e2e.SampledPrograms):
    @classmethod
    def build(cls):
        cls.programs = {linker: e2e.compile_c(BURN_C, '-O2', *([f'-fuse-ld={linker}'] if linker else []), name='moving' + linker)
                        for linker, program in LINKERS.items() if shutil.which(program)}
        # These run before there is an exporter; the others begin when it is there.
        cls.early = {f'{how} {linker} early': e2e.Workload(path, HOW[how]) for how in HOW for linker, path in cls.programs.items()}
        cls.loads = dict(cls.early)
        for name, load in cls.early.items():
            e2e.wait_for(f'the code of {name} to be moved', lambda pid=load.pid: has_moved(pid))

    @classmethod
    def start(cls):
        for how in HOW:
            for linker, path in cls.programs.items():
                cls.loads[f'{how} {linker}'] = e2e.Workload(path, HOW[how])
        window = e2e.Window(cls.exporter)
        window.wait_for('samples of all', lambda samples: cls.pids() <= {int(s[2]['pid']) for s in samples if 'pid' in s[2]})
        cls.wait_for_tables()

    @classmethod
    def pids(cls):
        return {load.pid for load in cls.loads.values()}

    def test_stacks(self):
        for name, load in self.loads.items():
            with self.subTest(name):
                path = os.readlink(f'/proc/{load.pid}/exe')

                def whole(load=load):
                    samples = e2e.Pprof(self.exporter.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={load.pid}').body).samples
                    # What was sampled while the mappings were read again may be cut.
                    return samples if samples and all(s[2]['stack'] == 'complete' for s in samples) else None
                samples = e2e.wait_for(f'whole stacks of {name}', whole)
                for stack, _, labels in samples:
                    at = stack.index('outer')
                    self.assertEqual(stack[at + 1], 'main')
                    self.assertEqual((labels['executable'], labels.get('language')), (path, 'c'))
                self.assertTrue(any(stack[stack.index('outer') - 2:][:2] == ['burn', 'middle'] for stack, _, _ in samples))


def has_moved(pid):
    """Does memory of no file, or of a memfd, lie between mappings of the program's file, executable and not writable any more?"""
    with open(f'/proc/{pid}/maps') as f:
        lines = [line.split() for line in f]
    path = os.readlink(f'/proc/{pid}/exe')
    own = [i for i, line in enumerate(lines) if line[-1] == path]
    return bool(own) and any(line[1].startswith('r-x') and line[-1] != path for line in lines[own[0]:own[-1]])


if __name__ == '__main__':
    unittest.main()
