"""Names of JIT code: V8 by perf map and jitdump, a JVM by jcmd, Clojure, BEAM; recorded files of .NET and Julia; files of strangers."""
import os
import pwd
import shutil
import struct
import subprocess
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True

BURN_JS = r'''
function shopTill(n) { let s = 1; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
function shopOpen() { let s = 0; for (let i = 0; i < 200; i++) s += shopTill(100000); return s; }
const until = Date.now() + Number(process.argv[2] || 600) * 1000;
let sum = 0;
while (Date.now() < until) sum += shopOpen();
console.log(sum);
'''

BURN_JAVA = r'''
public class Till {
	static volatile long sink;
	static long ring(long n) { long s = 1; for (long i = 0; i < n; i++) s = s * 31 + (i ^ (s >>> 7)); return s; }
	static long open() { long s = 0; for (int i = 0; i < 50; i++) s += ring(200000 + i); return s; }
	public static void main(String[] args) { for (;;) sink += open(); }
}
'''

BURN_CLJ = r'''
(ns till)
(defn ring [^long n] (loop [i 0 s 1] (if (< i n) (recur (inc i) (unchecked-add (unchecked-multiply s 31) i)) s)))
(defn open-shop [] (loop [k 0 s 0] (if (< k 50) (recur (inc k) (unchecked-add s (long (ring 200000)))) s)))
(while true (open-shop))
'''

BURN_ERL = r'''
-module(till).
-export([open/0]).
ring(0, S) -> S;
ring(N, S) -> ring(N - 1, (S * 31 + N) rem 1000003).
open() -> ring(1000000, 1), open().
'''

# Makes code at run time as a JIT does: a page that counts for ever, called through a frame of its own. argv: file to tell of it, as
# `map` or `dump`. The recorded text has %START% and %SIZE% in place of the address.
MAKER_C = r'''
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* push %rbp; mov %rsp,%rbp; mov $N,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x00, 0x00, 0x10, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
int main(int argc, char **argv)
{
	void *page = mmap((void *)0x7e0000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	void (*run)(void) = (void (*)(void))page;
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	if (argc > 1) { /* a jitdump: mapped, so that it is found */
		int fd = open(argv[1], O_RDONLY);
		if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 1;
	}
	for (;;) run();
}
'''
MADE = 0x7e0000000000
LEAST_SAMPLES = 50


def record(kind, body):
    return struct.pack('<IIQ', kind, 16 + len(body), 1) + body


def load(addr, size, name):
    return record(0, struct.pack('<IIQQQQ', 1, 1, addr, addr, size, 1) + name.encode() + b'\0' + b'\x90' * size)


def move(old, new, size):
    return record(1, struct.pack('<IIQQQQQ', 1, 1, new, old, new, size, 1))


def lines(addr, entries):
    return record(2, struct.pack('<QQ', addr, len(entries)) + b''.join(
        struct.pack('<QII', at, line, 0) + (file.encode() if file else b'\xff') + b'\0' for at, line, file in entries))


def jitdump(*records):
    """tools/perf/Documentation/jitdump-specification.txt"""
    return struct.pack('<IIIIIIQQ', 0x4a695444, 1, 40, 62, 0, 1, 1, 0) + b''.join(records) + record(3, b'')


FLAGS = ('-O1', '-g', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer')
# A map is of one moment: C1 alone compiles a function once, and V8 keeps it apart from its callers.
JVM = ('java', '-XX:+PreserveFramePointer', '-XX:TieredStopAtLevel=1')
NOT_INLINED = '--no-turbo-inlining'


def need(program):
    return unittest.skipUnless(shutil.which(program), f'no {program}')


class Programs(e2e.WithExporter):
    mode = 0o777  # programs of other users write there

    def write(self, name, text, mode='w'):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode) as f:
            f.write(text)
        return path

    def profile(self, pid, seconds=3, extra=''):
        r = self.daemon.get(f'/debug/pprof/profile?seconds={seconds}&hz=199&pid={pid}{extra}')
        self.assertEqual(r.status, 200, r.text[:300])
        return e2e.Pprof(r.body)

    @staticmethod
    def jit_leaves(p):
        """(leaf, samples) of those whose leaf lies in JIT code."""
        return [(p.leaf(i), v[0]) for i, (_, v, _) in enumerate(p.samples) if p.leaf(i)[1] in ('[jit]', '[unknown]')]

    def long_profile(self, pid, more=''):
        """A window with as many samples in JIT code as a share needs: four seconds, more on a busy machine."""
        for seconds in (4, 16, 64):
            p = self.profile(pid, seconds, more)
            if sum(n for _, n in self.jit_leaves(p)) > LEAST_SAMPLES:
                break
        return p

    def jit_share(self, p, at_least_samples=LEAST_SAMPLES):
        """Of the samples whose leaf lies in JIT code: those that have a name there."""
        jit = self.jit_leaves(p)
        total = sum(n for _, n in jit)
        self.assertGreater(total, at_least_samples, 'too few samples in JIT code')
        named = sum(n for leaf, n in jit if '+0x' not in leaf[0])
        print(f'{self.id().split(".")[-1]}: {100 * named / total:.1f} % of {total} JIT samples named')
        return named / total

    def wait_named(self, pid, want, before=lambda: None):
        """Profiles of a second until that function is in one: runtimes warm up in their own time."""
        def look():
            before()
            p = self.profile(pid, 1)
            return p if any(want in f for f in p.functions()) else None
        return e2e.wait_for(want, look)

    def check(self, pid, *want, share=0.95):
        for name in want:
            self.wait_named(pid, name)
        p = self.long_profile(pid)
        names = p.functions()
        for name in want:
            self.assertTrue(any(name in f for f in names), (name, sorted(names)[:40]))
        self.assertGreaterEqual(self.jit_share(p), share, sorted(names, key=lambda n: -names[n])[:20])
        return p


@e2e.needs_kernel
class Node(Programs):
    """What node writes for profilers, where its frames are not walked anyway."""

    flags = ('--interp=none',)

    @need('node')
    def test_node_perf_map(self):
        js = self.write('burn.js', BURN_JS)
        with e2e.Workload('node', '--perf-basic-prof', NOT_INLINED, js, cwd=self.top) as w:
            self.addCleanup(lambda: os.path.exists(f'/tmp/perf-{w.pid}.map') and os.unlink(f'/tmp/perf-{w.pid}.map'))
            self.check(w.pid, 'shopTill')

    @need('node')
    def test_node_jitdump(self):
        # V8 writes its dump in blocks of 2 MB: the last one when it ends.
        js = self.write('burn.js', BURN_JS)
        # A window over its whole life: a longer one on a busy machine, where it starts late and runs little.
        for seconds in (6, 12, 24, 48):
            with e2e.Workload('node', '--perf-prof', NOT_INLINED, js, str(seconds / 2), cwd=self.top) as w:
                p = self.profile(w.pid, seconds)
            if any('shopTill' in f for f in p.functions()) and sum(n for _, n in self.jit_leaves(p)) > LEAST_SAMPLES:
                break
        self.assertTrue(any('shopTill' in f for f in p.functions()), sorted(p.functions()))
        self.assertGreaterEqual(self.jit_share(p), 0.95)


@e2e.needs_kernel
class Jit(Programs):
    """Of the JVM its map alone: by itself the exporter names its code without one (test_unwind_java.py)."""
    flags = ('--interp=none',)

    def jcmd(self, pid):
        subprocess.run(['jcmd', str(pid), 'Compiler.perfmap'], capture_output=True, check=False)

    @need('java')
    def test_java_by_jcmd(self):
        src = self.write('java/Till.java', BURN_JAVA)
        subprocess.run(['javac', src], check=True)
        with e2e.Workload(*JVM, '-cp', os.path.dirname(src), 'Till') as w:
            path = f'/tmp/perf-{w.pid}.map'
            self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
            self.wait_named(w.pid, 'Till.ring', lambda: self.jcmd(w.pid))
            self.check(w.pid, 'Till.ring')

    @need('java')
    def test_java_by_itself(self):
        """--jit.java-perfmap: nobody runs jcmd; the JVM is another user's, with a control: a process that dies by SIGQUIT."""
        src = self.write('javaself/Till.java', BURN_JAVA)
        subprocess.run(['javac', src], check=True)
        user = pwd.getpwnam('games')
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--interp=none', '--jit.java-perfmap') as daemon:
            with e2e.Workload(*JVM, '-cp', os.path.dirname(src), 'Till',
                              user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd='/') as w:
                path = f'/tmp/perf-{w.pid}.map'
                self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
                before, self.daemon = self.daemon, daemon
                try:
                    self.wait_named(w.pid, 'Till.ring')
                    self.check(w.pid, 'Till.ring')
                finally:
                    self.daemon = before
                self.assertEqual(os.stat(path).st_uid, user.pw_uid)
                self.assertFalse(os.path.exists(f'/tmp/.attach_pid{w.pid}'))
                results = daemon.metrics()
                self.assertGreater(results['sonde_jit_java_perfmaps_total{result="ok"}'], 0)

    @need('java')
    def test_java_that_must_not_be_asked(self):
        """SIGQUIT would end a JVM with -Xrs; one with -XX:+DisableAttachMechanism prints its threads."""
        src = self.write('javanot/Till.java', BURN_JAVA)
        subprocess.run(['javac', src], check=True)
        log = os.path.join(self.top, 'javanot/log')
        command = (*JVM, '-cp', os.path.dirname(src))
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--interp=none', '--jit.java-perfmap') as daemon, \
                open(log, 'w') as out, e2e.Workload(*command, '-Xrs', 'Till') as fragile:
            silent = subprocess.Popen([*command, '-XX:+DisableAttachMechanism', 'Till'], stdout=out, stderr=out)
            try:
                e2e.wait_for('refusals', lambda: daemon.metrics()['sonde_jit_java_perfmaps_total{result="no_jvm"}'] >= 2)
                self.assertIsNone(fragile.p.poll())
                self.assertIsNone(silent.poll())
                self.assertEqual(os.path.getsize(log), 0)
            finally:
                silent.kill()
                silent.wait()

    @need('clojure')
    def test_clojure(self):
        src = self.write('till.clj', BURN_CLJ)
        with e2e.Workload(*JVM, '-cp', '/usr/share/java/clojure.jar:/usr/share/java/core.specs.alpha.jar:'
                          '/usr/share/java/spec.alpha.jar', 'clojure.main', src) as w:
            path = f'/tmp/perf-{w.pid}.map'
            self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
            self.wait_named(w.pid, 'till$ring', lambda: self.jcmd(w.pid))
            self.check(w.pid, 'till$ring')

    @need('erlc')
    def test_erlang(self):
        src = self.write('till.erl', BURN_ERL)
        subprocess.run(['erlc', '-o', self.top, src], check=True)
        with e2e.Workload('erl', '+JPperf', 'true', '-noshell', '-pa', self.top, '-s', 'till', 'open') as w:
            # erl execs erlexec, which execs beam.smp.
            e2e.wait_for('beam', lambda: os.path.exists(f'/tmp/perf-{w.pid}.map'))
            self.addCleanup(lambda: [os.unlink(f'/tmp/{n}') for n in (f'perf-{w.pid}.map', f'jit-{w.pid}.dump') if os.path.exists(f'/tmp/{n}')])
            self.check(w.pid, 'till:ring/2')

    # --- recorded files, and files of strangers: a program with code at a known place ---

    def maker(self, *args, **kw):
        if not hasattr(Jit, 'maker_path'):
            Jit.maker_path = e2e.compile_c(MAKER_C, '-static', *FLAGS, name='maker')
            os.chmod(os.path.dirname(Jit.maker_path), 0o755)
            self.addClassCleanup(shutil.rmtree, os.path.dirname(Jit.maker_path))
        w = e2e.Workload(Jit.maker_path, *args, **kw)
        path = f'/tmp/perf-{w.pid}.map'
        self.addCleanup(lambda: os.path.lexists(path) and os.unlink(path))
        return w, path

    def counter(self, name, **labels):
        inner = ','.join(f'{k}="{v}"' for k, v in labels.items())
        return self.daemon.metrics()[f'{name}{{{inner}}}' if inner else name]

    def test_dotnet_perf_map(self):
        w, path = self.maker()
        with w:
            shutil.copy(f'{e2e.TOP}/tests/data/jit/dotnet.map', path)
            self.check(w.pid, 'instance int64 [till] Shop.Till::Ring(int64)[Tier1-OSR]')

    def test_dump_as_julia_writes_it(self):
        # LLVM's PerfJITEventListener: lines first, then the code.
        dump = self.write('jit-4711.dump', jitdump(
            lines(MADE, [(MADE, 7, 'till.jl'), (MADE + 4, 8, 'till.jl'), (MADE + 9, 9, None), (MADE + 13, 10, None)]),
            load(MADE, 15, 'julia_ring_123'), load(MADE + 4096, 64, 'jfptr_ring_124')), 'wb')
        w, _ = self.maker(dump)
        with w:
            self.check(w.pid, 'julia_ring_123')

    def test_code_that_moved(self):
        dump = self.write('jit-4712.dump', jitdump(load(0x7d0000000000, 15, 'moved_here'), move(0x7d0000000000, MADE, 15)), 'wb')
        w, _ = self.maker(dump)
        with w:
            self.check(w.pid, 'moved_here')

    def test_a_container_of_its_own(self):
        # Its /tmp is below its root, its pid is that of its namespace.
        prog = e2e.compile_c(MAKER_C, '-static', *FLAGS, name='boxed')
        root = os.path.dirname(prog)
        self.addCleanup(shutil.rmtree, root)
        os.makedirs(f'{root}/tmp')
        self.write(f'{root}/tmp/perf-1.map', f'{MADE:x} f boxed_code\n')
        with e2e.Workload('unshare', '--pid', '--fork', '--kill-child', 'chroot', root, '/boxed') as w:
            e2e.wait_for('boxed_code', lambda: 'boxed_code' in self.profile(w.pid, 1, '&children=1').functions())
            p = self.long_profile(w.pid, '&children=1')
        self.assertGreaterEqual(self.jit_share(p), 0.95)

    def test_files_of_strangers(self):
        def by_another(path):
            self.write(path, f'{MADE:x} f stolen\n')
            os.chown(path, 65534, 65534)

        def by_link(path):
            os.symlink(self.write('target', f'{MADE:x} f stolen\n'), path)

        def fifo(path):
            os.mkfifo(path)

        for make, counted in ((by_another, ('sonde_jit_files_refused_total', {'reason': 'owner'})), (by_link, None), (fifo, None)):
            with self.subTest(make.__name__):
                before = self.counter(counted[0], **counted[1]) if counted else 0
                w, path = self.maker()
                with w:
                    make(path)
                    p = self.profile(w.pid, 2)
                    p = self.profile(w.pid, 2)
                self.assertNotIn('stolen', p.functions())
                self.assertTrue(any(f.startswith('maker+0x') for f in p.functions()), p.functions())
                if counted:
                    self.assertGreater(self.counter(counted[0], **counted[1]), before)

    def test_hostile_files(self):
        w, path = self.maker()
        with w:
            with open(path, 'wb') as f:  # 8 MB without a line, then lines of nonsense, then the right one
                f.write(b'\xff' * (8 << 20) + b'\n')
                for i in range(100000):
                    f.write(b'zz %d\n' % i)
                f.write(f'{MADE:x} f behind_all_that\n'.encode())
            self.check(w.pid, 'behind_all_that')
        self.assertGreaterEqual(self.counter('sonde_jit_bad_lines_total'), 100000)
        w, path = self.maker()
        with w:
            with open(path, 'wb') as f:
                f.truncate(5 << 30)
            refused = self.counter('sonde_jit_files_refused_total', reason='size')
            e2e.wait_for('refused', lambda: self.profile(w.pid, 1) and
                         self.counter('sonde_jit_files_refused_total', reason='size') > refused)
        malformed = self.counter('sonde_jit_files_refused_total', reason='malformed')
        w, _ = self.maker(self.write('jit-4713.dump', b'DTiJ' + b'\xff' * 4096, 'wb'))
        with w:
            e2e.wait_for('malformed', lambda: self.profile(w.pid, 1) and
                         self.counter('sonde_jit_files_refused_total', reason='malformed') > malformed)

    def test_a_million_pieces_hold_the_cap(self):
        w, path = self.maker()
        with w:
            with open(path, 'w') as f:
                for i in range(1000000):
                    f.write(f'{0x10000000 + i * 64:x} 40 piece_{i}\n')
                f.write(f'{MADE:x} f newest\n')
            self.check(w.pid, 'newest')
            m = self.daemon.metrics()
        self.assertLessEqual(m['sonde_memory_used_bytes{budget="jit"}'], 16 << 20)
        self.assertGreater(m['sonde_jit_dropped_codes_total'], 0)


if __name__ == '__main__':
    unittest.main()
