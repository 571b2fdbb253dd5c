"""The kernel half on the real kernel: what arrives for workloads whose stacks, time and identity are known."""
import collections
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from kernel_half import COMPAT32, FIRST_IS_RETURN, HAS_ORC, KTHREAD, USER_MODE, KernelOrc, KernelSymbols, Sampler, Workload, expand, kind, sample
from sonde_e2e import build_dir, compile_c, needs_kernel, wait_for

BESIDE_OTHERS = True


def read(path):
    with open(path) as f:
        return f.read()


def cpu_seconds(pid):
    fields = read(f'/proc/{pid}/stat').rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


@needs_kernel
class Stacks(unittest.TestCase):
    """One window over one process of each shape."""

    @classmethod
    def setUpClass(cls):
        modes = (('chain',), ('recurse', 5000), ('mutual', 3001), ('scatter', 5000), ('scatter', 20000), ('kernel',))
        cls.work = {mode: cls.enterClassContext(Workload(*mode)) for mode in modes}
        cls.wait_stacks()
        cls.result = sample(199, *[w.pid for w in cls.work.values()])

    @classmethod
    def wait_stacks(cls):
        """Until each is where it stays: in user code or system calls for more than its start takes."""
        for w in cls.work.values():
            wait_for('the workloads', lambda w=w: cpu_seconds(w.pid) > 0.1)

    def stacks(self, *mode):
        w = self.work[mode]
        samples = [s for s in self.result.of(w.pid) if s['flags'] & USER_MODE]
        self.assertGreater(len(samples), 20)
        for s in samples:
            self.assertLessEqual(len(s['user']), 1026)
        symbols = w.symbols()
        distinct = {tuple(s['user']): s for s in samples}
        self.assertLess(len(distinct), len(samples) / 2)
        return [(s, symbols.names(expand(s['user']))) for s in distinct.values()]

    def test_a_chain_in_order(self):
        want = ['leaf_work', 'chain_c', 'chain_b', 'chain_a', 'call_body', 'stack_root']
        for _, names in self.stacks('chain'):
            self.assertEqual(names, want)

    def test_recursion_is_one_word(self):
        for s, names in self.stacks('recurse', 5000):
            self.assertEqual(names, ['leaf_work'] + ['recurse'] * 5000 + ['start_recurse', 'call_body', 'stack_root'])
            self.assertLess(len(s['user']), 12)

    def test_mutual_recursion_is_one_word(self):
        for s, names in self.stacks('mutual', 3001):
            self.assertEqual(names, ['leaf_work', 'mutual_a'] + ['mutual_b', 'mutual_a'] * 1500
                             + ['start_mutual', 'call_body', 'stack_root'])
            self.assertLess(len(s['user']), 16)

    def test_the_middle_of_a_deep_stack_is_elided(self):
        for s, names in self.stacks('scatter', 5000):
            elided = [f for f in names if isinstance(f, tuple)]
            self.assertEqual([f[0] for f in elided], ['elided'])
            self.assertEqual(len(names) - 1 + elided[0][1], 1 + 5000 + 3)
            self.assertEqual(names[0], 'leaf_work')
            self.assertEqual(names[-3:], ['start_scatter', 'call_body', 'stack_root'])
            self.assertGreater(len(names), 1024)

    def test_a_stack_beyond_the_step_limit_says_so(self):
        for s, names in self.stacks('scatter', 20000):
            self.assertEqual(names[-1], ('truncated', 'depth'))
            self.assertGreater(len(s['user']), 1020)

    def test_kernel_frames_and_the_way_back(self):
        w = self.work[('kernel',)]
        inside = [s for s in self.result.of(w.pid) if not s['flags'] & USER_MODE]
        self.assertGreater(len(inside), 50)
        kernel = KernelSymbols()
        roots = set()
        for s in inside:
            self.assertTrue(s['kernel'])
            self.assertTrue(all(kind(f) == 'kernel' for f in s['kernel']))
            root = kernel.name(s['kernel'][-1])
            # An interrupt, a page fault: the program goes on with the same instruction.
            if not root.startswith('asm_'):
                self.assertTrue(s['flags'] & FIRST_IS_RETURN, root)
            roots.add(root)
        self.assertTrue(any('syscall' in r or 'entry' in r for r in roots), roots)
        # read() in the C library has no frame of its own, kernel_work below it has
        symbols = w.symbols()
        named = [symbols.names(expand(s['user']), first_exact=False) for s in inside]
        self.assertGreater(sum('stack_root' in n for n in named), len(named) / 2)


@needs_kernel
class Records(unittest.TestCase):
    def test_weights_add_up_to_cpu_time_at_two_rates(self):
        with Workload('chain') as w, Sampler(99, 499) as s:
            before = cpu_seconds(w.pid)
            s.wait_samples(w.pid)
            s.raise_rate()
            s.wait_samples(w.pid, n=400)
            # It uses no more from here on, and what it used until now has been sampled.
            w.p.send_signal(signal.SIGSTOP)
            used = cpu_seconds(w.pid) - before
            r = s.result()
        samples = r.of(w.pid)
        self.assertEqual({s['weight'] for s in samples}, {10**9 // 99, 10**9 // 499})
        self.assertAlmostEqual(sum(s['weight'] for s in samples) / 1e9, used, delta=0.15 * used + 0.1)
        self.assertEqual(r.stats['late'], 0)
        self.assertEqual(r.stats['bad'], 0)

    def test_every_run_is_accounted_for(self):
        def idle_of_cpu0():
            return int(read('/proc/stat').splitlines()[1].split()[4]) / os.sysconf('SC_CLK_TCK')
        with Workload('chain') as w, Sampler(199) as sampler:
            before = idle_of_cpu0()
            sampler.wait_samples(w.pid, n=200)
            idle = idle_of_cpu0() - before
            r = sampler.result()
        s = r.stats
        # The counters are read while a CPU can be in the middle of a run.
        self.assertAlmostEqual(s['RUNS'], s['IDLE'] + s['SAMPLES'] + s['RING_FULL'] + s['SCRATCH_BUSY'], delta=s['attached'])
        self.assertEqual(s['SCRATCH_BUSY'], 0)
        self.assertFalse([x for x in r.samples if x['pid'] == 0])
        self.assertGreater(s['COST_RUNS'], 0)
        self.assertAlmostEqual(s['COST_RUNS'], s['RUNS'] / 64, delta=1 + s['attached'])
        if idle > 0.5:
            self.assertGreater(s['IDLE'], 0)

    def test_threads_and_exec_are_told_apart(self):
        with Workload('threads') as w, Workload('chain', prefix=['sh', '-c', 'exec "$0" "$@"']) as shell:
            for started in (w, shell):
                wait_for('its name', lambda pid=started.pid: read(f'/proc/{pid}/comm') == 'stacks\n')
            wait_for('the thread', lambda: 'second-thread\n' in [read(p) for p in glob.glob(f'/proc/{w.pid}/task/*/comm')])
            r = sample(99, w.pid, shell.pid, n=20)
            tids = {s['tid'] for s in r.of(w.pid)}
            self.assertEqual(len(tids), 1)
            self.assertNotEqual(tids, {w.pid})
            s = r.of(w.pid)[0]
            self.assertEqual((s['comm'], s['leader']), ('second-thread', 'stacks'))
            self.assertGreater(r.of(shell.pid)[0]['exec_id'], s['exec_id'])
            ticks = int(read(f'/proc/{w.pid}/stat').rsplit(')', 1)[1].split()[19])
            boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC) + s['start_ns']
            self.assertAlmostEqual(ticks / os.sysconf('SC_CLK_TCK'), boot_ns / 1e9, delta=0.011)

    def test_cgroup_ids(self):
        base = next((line.split()[1] for line in read('/proc/mounts').splitlines() if line.split()[2] == 'cgroup2'), None)
        if base is None:
            self.skipTest('kernel: no cgroup v2 hierarchy')
        path = tempfile.mkdtemp(prefix='sonde-test-', dir=base)
        try:
            with Workload('chain') as w:
                with open(f'{path}/cgroup.procs', 'w') as f:
                    f.write(str(w.pid))
                r = sample(99, w.pid, n=20)
                self.assertEqual({s['cgroup'] for s in r.of(w.pid)}, {os.stat(path).st_ino})
        finally:
            os.rmdir(path)

    def test_kernel_threads(self):
        def of_threads(r):
            return [x for x in r.samples if x['flags'] & KTHREAD]

        with tempfile.NamedTemporaryFile(dir='/var/tmp') as f, Sampler(999) as s:
            for _ in range(20):
                f.seek(0)
                f.write(os.urandom(1 << 20) * 64)
                f.flush()
                os.fsync(f.fileno())
                if of_threads(s.so_far()):
                    break
            threads = of_threads(s.result())
        if not threads:
            self.skipTest('no kernel thread took CPU time while files were written')
        for x in threads:
            self.assertEqual(x['user'], [])
            self.assertTrue(x['kernel'])
            self.assertEqual(os.readlink(f'/proc/{x["pid"]}/exe') if os.path.exists(f'/proc/{x["pid"]}/exe') else '', '')

    def test_32_bit_code(self):
        with tempfile.TemporaryDirectory() as d:
            cmd = ['gcc', '-m32', '-nostdlib', '-static', '-fno-pie', '-no-pie', '-x', 'c', '-', '-o', f'{d}/spin']
            if subprocess.run(cmd, input=b'void _start(void) { for (;;); }', capture_output=True, check=False).returncode:
                self.skipTest('no compiler for 32-bit code')
            try:
                p = subprocess.Popen([f'{d}/spin'])
            except OSError as e:
                self.skipTest(f'kernel: runs no 32-bit code: {e}')
            try:
                samples = sample(99, p.pid).of(p.pid)
            finally:
                p.kill()
                p.wait()
            self.assertGreater(len(samples), 20)
            for s in samples:
                self.assertTrue(s['flags'] & COMPAT32)
                running, *rest = expand(s['user'])
                self.assertTrue(0x8048000 <= running < 0x804b000, hex(running))  # where such programs are linked to
                self.assertEqual(rest, [('truncated', 'compat32')])

    def test_side_band_of_a_short_process(self):
        with Sampler(19) as s:
            p = subprocess.Popen([sys.executable, '-c', 'pass'])
            p.wait()
            r = s.result()
        mine = [e for e in r.sideband if e['pid'] == p.pid]
        self.assertEqual([e['sideband'] for e in mine][0], 2)
        self.assertEqual(mine[0]['ppid'], os.getpid())
        execs = [e for e in mine if e['sideband'] == 4 and e['exec']]
        self.assertEqual(len(execs), 1)
        self.assertTrue(execs[0]['comm'].startswith('python3'))
        maps = [e for e in mine if e['sideband'] == 1 and 'libc.so' in e['path']]
        self.assertEqual(len(maps), 1)
        self.assertEqual(maps[0]['ino'], os.stat(maps[0]['path']).st_ino)
        self.assertEqual(mine[-1]['sideband'], 3)
        self.assertEqual(sorted(e['t'] for e in mine), [e['t'] for e in mine])


    def test_records_of_other_programs_stay_theirs(self):
        """Our events must not make the kernel say of another event's records that they hold a build id."""
        program = compile_c(MAPPINGS)
        if '4000' in subprocess.check_output([program], text=True):
            self.skipTest('another profiler on this machine asks the kernel for build ids')
        with Sampler(19) as s:
            self.assertRegex(subprocess.check_output([program], text=True), r'(?m)^0 .*/libc\.so\.6$')
            s.result()


# Prints of each MMAP2 record of its own event whether the bit for a build id is set, and the path.
MAPPINGS = r'''
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .mmap = 1, .mmap2 = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	struct perf_event_mmap_page *meta = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *data = (char *)meta + 4096;

	if (meta == MAP_FAILED)
		return 1;
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY), 0);
	for (__u64 at = 0; at < meta->data_head;) {
		struct perf_event_header *h = (void *)(data + at);

		if (h->type == PERF_RECORD_MMAP2)
			printf("%x %s\n", h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID, data + at + 72);
		at += h->size;
	}
	return 0;
}
'''


# Whole system calls, copies from and to user memory, page faults, interrupts and softirqs, new and ending processes.
KERNEL_LOADS = (
    'while :; do dd if=/dev/zero of=/dev/null bs=4k count=200000; done',
    'while :; do find /usr /proc /sys -type f -size +1000000; done',
    'while :; do openssl speed -seconds 1 sha256; done',
    'while :; do i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; done',
    'while :; do echo "int main(void) { return 0; }" | gcc -O2 -S -o - -x c -; done',
    r"""python3 -c 'import socket, threading
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
a, _ = s.accept()
def drink():
    while a.recv(65536): pass
threading.Thread(target=drink, daemon=True).start()
while True: c.send(b"x" * 20000)'""",
    r"""python3 -c 'import mmap
while True:
    m = mmap.mmap(-1, 64 << 20)
    for i in range(0, 64 << 20, 4096): m[i] = 1
    m.close()'""")


class KernelLoad:
    def __enter__(self):
        self.procs = [subprocess.Popen(['sh', '-c', c], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in KERNEL_LOADS]
        return self

    def __exit__(self, *exc):
        for p in self.procs:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


@needs_kernel
@unittest.skipUnless(HAS_ORC, 'the kernel has no ORC table')
class KernelWalk(unittest.TestCase):
    """Kernel stacks by the kernel's unwind table, and by the kernel itself."""

    def test_both_walks_find_the_same(self):
        """Each stack is walked by both; what is refused for being walked by us is little."""
        n = {'KERNEL_MATCH': 0, 'KERNEL_ORC': 0, 'KERNEL_ASKED': 0}
        while n['KERNEL_MATCH'] < 10000:
            with Sampler(1999, 0, 1) as s:
                with KernelLoad():
                    time.sleep(6)  # sampled for so long
                # Without the load, or a CPU may be between its two counters while they are read.
                stats = s.result().stats
            self.assertEqual(stats['KERNEL_MISMATCH'], 0)
            self.assertEqual(stats['KERNEL_MATCH'], stats['KERNEL_ORC'])
            self.assertGreater(stats['KERNEL_ORC'], 0)
            for k in n:
                n[k] += stats[k]
        self.assertGreater(n['KERNEL_ORC'], 19 * n['KERNEL_ASKED'], n)

    def test_a_difference_ends_it(self):
        """Told in the running kernel half that the table lies one entry further on, it walks to wrong frames, and none arrives."""
        kernel = KernelSymbols()
        with KernelLoad(), Sampler(1999, 0, 1) as s:
            with KernelOrc(s.p.pid) as orc:
                self.assertIn((orc.entries, '__start_orc_unwind'), kernel.table)
                orc.entries += 6
            time.sleep(6)  # sampled for so long
            r = s.result()
        # One a CPU at most: all CPUs stop at the first.
        self.assertIn(r.stats['KERNEL_MISMATCH'], range(1, os.cpu_count() + 1))
        self.assertGreater(r.stats['KERNEL_ASKED'], 0)
        # In a retpoline the kernel's walk ends where it begins: its table says nothing of them.
        stacks = [[kernel.name(f) for f in s['kernel']] for s in r.samples if s['kernel']]
        roots = collections.Counter(s[-1] for s in stacks if not (len(s) == 1 and s[0].startswith('__x86_')))
        known = sum(n for name, n in roots.items() if re.search(r'entry|asm_|ret_from_fork', name))
        self.assertGreater(known, 0.99 * sum(roots.values()), roots)


@needs_kernel
class Load(unittest.TestCase):
    def test_the_program_stays_small(self):
        with Sampler(19) as s:
            out = subprocess.run(['bpftool', '-j', 'prog', 'list'], capture_output=True, text=True, check=True).stdout
            s.result()
        sizes = [p['bytes_xlated'] for p in json.loads(out) if p.get('name') == 'sample_cpu']
        self.assertTrue(sizes)
        self.assertLess(min(sizes), 32768)

    def test_the_verifier_is_soon_through(self):
        """A loop whose states it must follow one by one costs ten times as many instructions, and load time."""
        # Without languages, with those of CPython's kind, with V8, with HotSpot too: the more an exporter walks, the more is loaded (enum abi_interp_walks).
        for interp, limit, most_bytes in ('0', 32000, 70000), ('1', 40000, 72000), ('3', 45000, 85000), ('7', 54000, 110000):
            with self.subTest(interp=interp):
                out = subprocess.run([f'{build_dir()}/tests/bpf/peers', f'{build_dir()}/bpf/sonde.bpf.all.o', '0', interp], capture_output=True,
                                     text=True, check=True).stdout
                lines = [line.split() for line in out.splitlines()]
                verified = {line[0]: int(line[1]) for line in lines if line[2] == 'verified'}
                self.assertIn('sample_cpu', verified)
                self.assertLess(max(verified.values()), limit, verified)
                self.assertLess(max(int(line[1]) for line in lines if line[2] == 'bytes'), most_bytes, out)


if __name__ == '__main__':
    unittest.main()
