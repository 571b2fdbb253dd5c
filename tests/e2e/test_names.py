"""Names of real programs: C, C++, Rust, Go, stripped, deleted while running, living 20 ms; kernel and vdso."""
import os
import shutil
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True

BURN_C = r'''
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void burn_in_c(void) { for (int i = 0; i < 10000; i++) sink += i * sink + 1; }
int main(void) { for (;;) burn_in_c(); }
'''

BURN_CXX = r'''
#include <vector>
static volatile unsigned long sink;
namespace shop {
template <typename Key, int N> struct counter {
  __attribute__((noinline)) void count(const Key &key) { for (int i = 0; i < N; i++) sink += key[i % key.size()]; }
};
}
int main() { shop::counter<std::vector<int>, 1000> c; std::vector<int> key(7, 3); for (;;) c.count(key); }
'''

BURN_RS = r'''
mod shop {
    pub struct Till { pub sum: u64 }
    impl Till {
        #[inline(never)]
        pub fn ring(&mut self, n: u64) { for i in 0..n { unsafe { std::ptr::write_volatile(&mut self.sum, self.sum.wrapping_mul(31) + i) } } }
    }
}
fn main() { let mut t = shop::Till { sum: 1 }; loop { t.ring(10000); } }
'''

BURN_GO = r'''
package main

type till struct{ sum uint64 }

//go:noinline
func (t *till) ring(n uint64) {
	for i := uint64(0); i < n; i++ {
		t.sum = t.sum*31 + i
	}
}

func main() {
	t := &till{}
	for {
		t.ring(10000)
	}
}
'''

BURN_BPF = r'''
#define SEC(name) __attribute__((section(name), used))

SEC("socket") int FUNCTION(void *context)
{
	unsigned long long x = 1;

	for (int i = 0; i < 20000; i++) {
		x = x * 31 + i;
		__asm__ volatile("" : "+r"(x));
	}
	return x & 1;
}
char license_text[] SEC("license") = "GPL";
'''

VDSO_C = r'''
#include <time.h>
int main(void) { struct timespec ts; for (;;) clock_gettime(CLOCK_MONOTONIC, &ts); }
'''

KERNEL_C = r'''
#include <fcntl.h>
#include <sys/syscall.h>
static char buffer[65536];
/* The system call itself, so that no frame of libc's assembly stands between. */
__attribute__((noinline, optimize("O0"))) long read_zeros(long fd)
{
	register long n __asm__("rax") = SYS_read, a __asm__("rdi") = fd, b __asm__("rsi") = (long)buffer, c __asm__("rdx") = sizeof(buffer);
	__asm__ volatile("syscall" : "+r"(n) : "r"(a), "r"(b), "r"(c) : "rcx", "r11", "memory");
	return n;
}
int main(void) { int fd = open("/dev/zero", O_RDONLY); for (;;) if (read_zeros(fd) < 0) return 1; }
'''

# Starts its own file again and again, each time as a process that works for 20 ms.
STORM_C = r'''
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static double now(void) { struct timespec ts; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts); return ts.tv_sec + ts.tv_nsec / 1e9; }
__attribute__((noinline)) void burn_briefly(void) { while (now() < 0.02) for (int i = 0; i < 10000; i++) sink += i; }
int main(int argc, char **argv)
{
	if (argc > 2) { burn_briefly(); return 0; }
	for (;;) {
		pid_t pid = fork();
		if (pid == 0) { execl(argv[1], "child", "child", "now", (char *)0); _exit(1); }
		waitpid(pid, 0, 0);
	}
}
'''

FLAGS = ('-O1', '-g', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer')


def remove(path):
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)


@e2e.needs_kernel
class Names(e2e.WithExporter):
    def profile(self, query, seconds=2, hz=199):
        def window():
            r = self.daemon.get(f'/debug/pprof/profile?seconds={seconds}&hz={hz}&{query}')
            self.assertEqual(r.status, 200, r.text[:200])
            p = e2e.Pprof(r.body)
            return p if p.samples else None
        return e2e.wait_for(f'samples for {query}', window, interval=0)

    def named(self, query, want, at_least=0.9, **kw):
        """A window in which that share of samples has a wanted name; on a busy machine the file's turn may come after the first."""
        def window():
            nonlocal p
            p = self.profile(query, **kw)
            return sum(v[-1] for stack, v, _ in p.samples if any(want in f for f in stack)) > at_least * p.total()
        p = None
        try:
            e2e.wait_for(want, window, interval=0)
        except AssertionError as e:
            raise AssertionError(f'{e}: {self.leaves(p)}') from None
        return p

    def share(self, profile, *names):
        """Of the value of all samples: those whose leaf is one of these names."""
        good = sum(v[-1] for stack, v, _ in profile.samples if stack[0] in names)
        return good / profile.total()

    def leaves(self, profile):
        out = {}
        for stack, v, _ in profile.samples:
            out[stack[0]] = out.get(stack[0], 0) + v[-1]
        return dict(sorted(out.items(), key=lambda kv: -kv[1])[:8])

    def check_program(self, path, want, at_least=0.9):
        with e2e.Workload(path) as w:
            p = self.named(f'pid={w.pid}', want, at_least)
        self.assertEqual(set(p.by_label('executable')), {path})
        files = {m['file']: m for m in p.mappings.values()}
        self.assertIn(path, files)
        return p, files[path]

    def test_c(self):
        prog = e2e.compile_c(BURN_C, *FLAGS)
        self.addCleanup(remove, prog)
        _, mapping = self.check_program(prog, 'burn_in_c')
        note = subprocess.run(['readelf', '-n', prog], capture_output=True, text=True, check=True).stdout
        self.assertIn(mapping['build_id'], note)
        self.assertEqual(len(mapping['build_id']), 40)

    def test_stripped_is_named_by_offset(self):
        prog = e2e.compile_c(BURN_C, *FLAGS, '-s', name='bare')
        self.addCleanup(remove, prog)
        p, _ = self.check_program(prog, 'bare+0x')
        address = int(next(f for stack, _, _ in p.samples for f in stack if f.startswith('bare+')).split('+')[1], 16)
        # An address of the file's own: objdump finds code there.
        text = subprocess.run(['objdump', '-d', f'--start-address={address}', f'--stop-address={address + 16}', prog],
                              capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, rf'\n\s+{address:x}:')
        self.assertGreater(sum(v for k, v in self.daemon.metrics().items() if 'bare"' in k and 'unsymbolized' in k.lower() or
                               ('bare"' in k and 'unnamed' in k)), 0)

    def test_a_function_without_a_name_is_one_frame(self):
        """Wherever in it the program is, and whichever call it is in: by the offset where the unwind information says that it starts."""
        prog = e2e.compile_c(BURN_C, *FLAGS, name='bare')
        self.addCleanup(remove, prog)
        nm = subprocess.run(['nm', prog], capture_output=True, text=True, check=True).stdout
        starts = {name: f'bare+{int(addr, 16):#x}' for addr, kind, name in (line.split() for line in nm.splitlines() if line[:16].strip()) if kind in 'tT'}
        subprocess.run(['strip', '--strip-all', prog], check=True)
        p, _ = self.check_program(prog, starts['burn_in_c'])
        own = {f for stack, _, _ in p.samples for f in stack if f.startswith('bare+')}
        self.assertLessEqual({starts['burn_in_c'], starts['main']}, own)
        self.assertLessEqual(own, set(starts.values()))

    def test_cxx_templates(self):
        prog = e2e.compile_c(BURN_CXX, *FLAGS, cc='g++')
        self.addCleanup(remove, prog)
        self.check_program(prog, 'shop::counter<std::vector<int, std::allocator<int> >, 1000>::count('
                                 'std::vector<int, std::allocator<int> > const&)')

    def test_rust(self):
        rustc = shutil.which('rustc')
        if not rustc:
            self.skipTest('no rustc')
        d = e2e.program_dir()
        with open(f'{d}/till.rs', 'w') as f:
            f.write(BURN_RS)
        for scheme, want in (('legacy', 'till::shop::Till::ring'), ('v0', '<till::shop::Till>::ring')):
            with self.subTest(scheme):
                flags = ['-C', 'symbol-mangling-version=' + scheme]
                if scheme == 'legacy':
                    flags += ['-Z', 'unstable-options']
                r = subprocess.run([rustc, '-O', '-C', 'force-frame-pointers=yes', *flags, '-o', f'{d}/{scheme}', f'{d}/till.rs'],
                                   capture_output=True, text=True)
                if r.returncode and scheme == 'legacy':
                    # The option is unstable in this compiler; the default is one of the two.
                    continue
                self.assertEqual(r.returncode, 0, r.stderr)
                self.check_program(f'{d}/{scheme}', want)

    def test_go(self):
        if not os.path.exists(e2e.GO):
            self.skipTest('no go')
        d = e2e.program_dir()
        with open(f'{d}/till.go', 'w') as f:
            f.write(BURN_GO)
        subprocess.run([e2e.GO, 'build', '-o', f'{d}/till', f'{d}/till.go'], check=True, env=e2e.go_env())
        self.check_program(f'{d}/till', 'main.(*till).ring')

    def test_stripped_go(self):
        # Only the runtime's own table is left.
        d = e2e.program_dir()
        os.chmod(d, 0o755)
        with open(f'{d}/till.go', 'w') as f:
            f.write(BURN_GO)
        tools = {os.path.realpath(go): go for go in (e2e.GO, shutil.which('go')) if go and os.path.exists(go)}
        for i, go in enumerate(tools.values()):
            for mode in ('exe', 'pie') if i == 0 else ('exe',):
                with self.subTest(f'{go} {mode}'):
                    prog = f'{d}/till{i}{mode}'
                    subprocess.run([go, 'build', f'-buildmode={mode}', '-ldflags=-s -w', '-o', prog, f'{d}/till.go'], check=True, env=e2e.go_env())
                    self.check_program(prog, 'main.(*till).ring')

    def test_deleted_while_running(self):
        prog = e2e.compile_c(BURN_C, *FLAGS, name='gone')
        with e2e.Workload(prog) as w:
            remove(prog)
            p = self.named(f'pid={w.pid}', 'burn_in_c')
        self.assertGreater(self.share(p, 'burn_in_c'), 0.9, self.leaves(p))

    def test_kernel(self):
        prog = e2e.compile_c(KERNEL_C, *FLAGS)
        self.addCleanup(remove, prog)
        with e2e.Workload(prog) as w:
            p = self.named(f'pid={w.pid}', 'read_zeros', 0.3)
        names = p.functions()
        self.assertIn('vfs_read', names)
        self.assertTrue(any(m['file'] == '[kernel.kallsyms]' and len(m['build_id']) == 40 for m in p.mappings.values()), p.mappings)
        # The path from main into the kernel is whole.
        self.assertTrue(any('vfs_read' in stack and stack.index('vfs_read') < stack.index('read_zeros') < stack.index('main')
                            for stack, _, _ in p.samples if 'read_zeros' in stack and 'main' in stack), self.leaves(p))

    def test_kernel_modules(self):
        """Where functions of this kernel are a module's, as kallsyms has those: it is a mapping of its own."""
        d = e2e.program_dir()
        prog = e2e.compile_c(KERNEL_C, *FLAGS)
        self.addCleanup(remove, prog)
        with open('/proc/kallsyms') as f, open(f'{d}/kallsyms', 'w') as to:
            to.writelines(line[:-1] + '\t[some_module]\n' if line.split()[2] == 'vfs_read' else line for line in f)
        os.chmod(d, 0o755)
        prefix = [*e2e.own_mounts(), 'sh', '-c', f'mount --bind {d}/kallsyms /proc/kallsyms && exec "$@"', 'sh']
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', prefix=prefix) as x, e2e.Workload(prog) as w:
            def module():
                p = e2e.Pprof(x.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={w.pid}').body)
                return p if 'vfs_read' in p.functions() else None
            p = e2e.wait_for('samples', module, interval=0)
        files = {m['file'] for m in p.mappings.values()}
        self.assertLessEqual({'[some_module]', '[kernel.kallsyms]', prog}, files)

    def bpf_programs(self, *names):
        """Objects of programs that burn time, in a directory with a packet for them; and where they may be pinned."""
        top = tempfile.mkdtemp(prefix='sonde-bpf.')
        self.addCleanup(shutil.rmtree, top, True)
        with open(f'{top}/burn.c', 'w') as f:
            f.write(BURN_BPF)
        with open(f'{top}/packet', 'wb') as f:
            f.write(bytes(64))
        for name in names:
            subprocess.run(['clang', '-O2', '-g', '-target', 'bpf', f'-DFUNCTION={name}', '-c', f'{top}/burn.c', '-o', f'{top}/{name}.o'], check=True)
        if not os.path.ismount('/sys/fs/bpf'):
            subprocess.run(['mount', '-t', 'bpf', 'bpf', '/sys/fs/bpf'], check=True)
            self.addCleanup(subprocess.run, ['umount', '/sys/fs/bpf'])
        pin = f'/sys/fs/bpf/sonde-test-{os.getpid()}'
        self.addCleanup(lambda: os.path.exists(pin) and os.unlink(pin))
        return top, pin

    def test_bpf_programs(self):
        """Loaded after the exporter read kallsyms, which it does not read again."""
        top, pin = self.bpf_programs('burn_in_bpf')
        script = f'bpftool prog load {top}/burn_in_bpf.o {pin}; while bpftool prog run pinned {pin} data_in {top}/packet repeat 20000; do :; done'
        before = self.daemon.metrics()
        with e2e.Workload('sh', '-c', script) as w:
            p = self.named(f'pid={w.pid}&children=1', '_burn_in_bpf', 0)
        self.assertTrue(any(n.startswith('bpf_prog_') and n.endswith('_burn_in_bpf') for n in p.functions()), self.leaves(p))
        self.assertIn('[bpf]', {m['file'] for m in p.mappings.values()})
        after = self.daemon.metrics()
        self.assertEqual(before['sonde_kallsyms_reads_total'], after['sonde_kallsyms_reads_total'])
        self.assertGreater(after['sonde_kernel_code_records_total'], before['sonde_kernel_code_records_total'])

    def test_bpf_programs_in_turn(self):
        """Loaded where one that is gone lay: each has its own name, though they are asked for when all are gone."""
        turns = [f'burn_in_turn_{i}' for i in range(3)]
        top, pin = self.bpf_programs(*turns)

        def address(name):
            with open('/proc/kallsyms') as f:
                return next((int(line.split()[0], 16) for line in f if f'_{name}\t[bpf]' in line), None)

        def run_until_one_is_reused():
            where, pids = {}, {}
            for i in range(30):
                name = turns[i % 3]
                subprocess.run(['bpftool', 'prog', 'load', f'{top}/{name}.o', pin], check=True)
                # They begin anywhere in a piece of memory that they fill.
                where.setdefault(address(name) >> 7, set()).add(name)
                with e2e.Workload('bpftool', 'prog', 'run', 'pinned', pin, 'data_in', f'{top}/packet', 'repeat', '30000') as w:
                    w.p.wait(60)
                    pids[str(w.pid)] = name
                os.unlink(pin)
                e2e.wait_for('the end of the program', lambda: not address(name))
                if any(len(names) == 3 for names in where.values()):
                    break
            self.assertTrue(any(len(names) > 1 for names in where.values()), where)
            return pids

        # The kernel's records differ by who gets them first.
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as other:
            windows = [e2e.Window(self.daemon), e2e.Window(other)]
            pids = run_until_one_is_reused()
            for window in windows:
                window.read_until_now('&' + '&'.join(f'pid={pid}' for pid in pids))
                found = {}
                for stack, _, labels in window.samples:
                    for function in stack:
                        if 'burn_in_turn' in function:
                            found.setdefault(labels['pid'], set()).add('burn' + function.partition('_burn')[2])
                self.assertGreater(len(found), 1)
                self.assertEqual(found, {pid: {pids[pid]} for pid in found})
                # Where records were lost, who it was is not known of all.
                if not window.exporter.metrics()['sonde_sideband_lost_total']:
                    self.assertEqual(set(found), set(pids))

    def test_vdso(self):
        prog = e2e.compile_c(VDSO_C, *FLAGS)
        self.addCleanup(remove, prog)
        with e2e.Workload(prog) as w:
            p = self.profile(f'pid={w.pid}')
        self.assertIn('[vdso]', {m['file'] for m in p.mappings.values()})
        self.assertTrue(any('vdso' in f for stack, _, _ in p.samples for f in stack), self.leaves(p))

    def test_processes_of_20_ms(self):
        prog = e2e.compile_c(STORM_C, *FLAGS, name='storm')
        self.addCleanup(remove, prog)
        child = os.path.dirname(prog) + '/shortlived'
        shutil.copy(prog, child)
        of_child = []

        def pids():
            of_child.extend(self.named(f'pid={w.pid}&children=1&comm=shortlived', 'burn_briefly', seconds=4).samples)
            return {labels['pid'] for stack, _, labels in of_child if 'burn_briefly' in stack}
        with e2e.Workload(prog, child) as w:
            e2e.wait_for('samples of twenty processes', lambda: len(pids()) > 20, interval=0)
        for stack, _, labels in of_child:
            if 'burn_briefly' in stack:
                self.assertEqual((labels['comm'], labels['executable']), ('shortlived', child), labels)
        # What the children did after their exec has names, whoever was gone when they were asked for.
        total = sum(v[-1] for _, v, _ in of_child)
        named = sum(v[-1] for stack, v, _ in of_child if '+0x' not in stack[0])
        self.assertGreater(named / total, 0.95)

    def test_short_processes_in_a_mount_namespace(self):
        # Their files are on a file system that only that namespace has, and they are gone before they are asked for.
        prog = e2e.compile_c(STORM_C, *FLAGS, name='storm')
        self.addCleanup(remove, prog)
        before = e2e.mounts_on('/sys')
        script = (f'cp {prog} /sys/storm && cp {prog} /sys/inner && printf unlike >> /sys/inner && '
                  'exec /sys/storm /sys/inner')
        with e2e.Workload(*e2e.mounted('tmpfs', '/sys', script)) as w:
            p = self.named(f'pid={w.pid}&children=1&comm=inner', 'burn_briefly', 0.8, seconds=4)
        inner = [(stack, v) for stack, v, labels in p.samples if labels['comm'] == 'inner']
        total = sum(v[-1] for _, v in inner)
        self.assertGreater(sum(v[-1] for stack, v in inner if 'burn_briefly' in stack) / total, 0.8, self.leaves(p))
        self.assertEqual(e2e.mounts_on('/sys'), before)

    def test_short_processes_in_a_chroot(self):
        # In the exporter's mount namespace, but their paths are below another root than the exporter's.
        prog = e2e.compile_c(STORM_C, '-static', *FLAGS, name='storm')
        self.addCleanup(remove, prog)
        shutil.copy(prog, os.path.dirname(prog) + '/inner')
        with open(os.path.dirname(prog) + '/inner', 'a') as f:
            f.write('unlike')
        with e2e.Workload('chroot', os.path.dirname(prog), '/storm', '/inner') as w:
            p = self.named(f'pid={w.pid}&children=1&comm=inner', 'burn_briefly', 0.8, seconds=4)
        inner = [(stack, v, labels) for stack, v, labels in p.samples if labels['comm'] == 'inner']
        total = sum(v[-1] for _, v, _ in inner)
        self.assertGreater(sum(v[-1] for stack, v, _ in inner if 'burn_briefly' in stack) / total, 0.8, self.leaves(p))
        # The kernel sets the name first, in execve, which is still the old program's.
        self.assertEqual({labels['executable'] for stack, _, labels in inner if 'burn_briefly' in stack}, {'/inner'})

    def test_cache_survives_restart(self):
        prog = e2e.compile_c(BURN_C, *FLAGS)
        self.addCleanup(remove, prog)
        self.check_program(prog, 'burn_in_c')
        self.assertTrue([f for f in os.listdir(self.cache) if f.endswith('.sym')])
        with e2e.exporter(f'--symbols.cache-path={self.cache}') as again, e2e.Workload(prog) as w:
            e2e.wait_for('its names', lambda: 'burn_in_c' in e2e.Pprof(again.get(f'/debug/pprof/profile?seconds=2&hz=99&pid={w.pid}').body).functions())
            m = again.metrics()
        self.assertGreater(m['sonde_symbol_files_total{source="cache"}'], 0)


if __name__ == '__main__':
    unittest.main()
