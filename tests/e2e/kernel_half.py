"""Running the sampler (tests/bpf/sampler.c) beside workloads whose stacks are known, and reading what it saw."""
import bisect
import glob
import json
import os
import re
import struct
import subprocess
import tempfile

from sonde_e2e import build_dir, exporter_env, wait_for

KINDS = {1: 'native', 2: 'kernel', 3: 'raw', 4: 'jit', 5: 'interp', 6: 'repeat', 7: 'elided', 8: 'truncated'}
CUTS = ['none', 'no_user_regs', 'compat32', 'read_fault', 'fp_insane', 'bad_pc', 'depth', 'no_table', 'bad_rule', 'lost_register',
        'cfa_insane', 'interp_lost', 'interp_mismatch']
USER_MODE, KTHREAD, COMPAT32, FIRST_IS_RETURN = 1, 2, 4, 8


def kind(word):
    return KINDS[word >> 60]


def value(word):
    return word & ((1 << 60) - 1)


def expand(words):
    """Frames, leaf first: raw addresses, ('elided', n), ('truncated', reason)."""
    out = []
    for w in words:
        k, v = kind(w), value(w)
        if k == 'repeat':
            period, count = v >> 32, v & 0xffffffff
            assert 1 <= period <= 4 and len(out) >= period, (period, count)
            cycle = out[-period:]
            assert all(isinstance(f, int) for f in cycle), cycle
            out += cycle * count
        elif k == 'elided':
            out.append(('elided', v))
        elif k == 'truncated':
            out.append(('truncated', CUTS[v]))
        else:
            out.append(v)
    return out


class Symbols:
    """Function names of one mapped binary, by nm and the process's maps."""

    def __init__(self, pid, path):
        path = os.path.realpath(path)
        with open(f'/proc/{pid}/maps') as f:
            base = min(int(line.split('-')[0], 16) for line in f if line.rstrip().endswith(path))
        rows = subprocess.run(['nm', '-n', '--defined-only', path], capture_output=True, text=True, check=True).stdout.splitlines()
        self.table = sorted((int(r.split()[0], 16) + base, r.split()[2]) for r in rows if r.split()[1] in 'tT')
        self.starts = [a for a, _ in self.table]

    def name(self, addr):
        i = bisect.bisect_right(self.starts, addr) - 1
        return self.table[i][1] if i >= 0 and addr - self.starts[i] < 65536 else '?'

    def names(self, frames, first_exact=True):
        """Names leaf first; return addresses are looked up one byte lower."""
        return [f if isinstance(f, tuple) else self.name(f - (0 if i == 0 and first_exact else 1)) for i, f in enumerate(frames)]


class KernelSymbols:
    """/proc/kallsyms."""

    def __init__(self):
        with open('/proc/kallsyms') as f:
            self.table = sorted((int(line.split(' ', 2)[0], 16), line.split(' ', 2)[2].split()[0]) for line in f)
        self.starts = [a for a, _ in self.table]

    def name(self, word):
        """Of a kernel frame word, whose top four bits are the kind."""
        i = bisect.bisect_right(self.starts, value(word) | 0xf << 60) - 1
        return self.table[i][1] if i >= 0 else '?'


with open('/proc/kallsyms') as symbols:
    HAS_ORC = ' __start_orc_unwind_ip\n' in symbols.read()


def bpftool(*args):
    return json.loads(subprocess.run(['bpftool', '-j', *map(str, args)], capture_output=True, text=True, check=True).stdout or 'null')


class KernelOrc:
    """What the sampling program that the keeper `pid` holds knows of the kernel's unwind table (bpf/kernel/orc.h), to be changed under it."""

    KEY = ('key', 0, 0, 0, 0)
    LAYOUT = struct.Struct('=5Q3Q5I')
    FIELDS = ('text', 'text_bytes', 'ips', 'entries', 'lookup', 'hook0', 'hook1', 'hook2', 'n', 'stack_bytes', 'max_frames', 'check_each', 'is_on')

    def __init__(self, pid):
        fds = glob.glob(f'/proc/{pid}/fdinfo/*')
        programs = set()
        for fd in fds:
            with open(fd) as f:
                programs |= {int(i) for i in re.findall(r'(?m)^prog_type:\t7\n(?:.*\n)*?prog_id:\t(\d+)', f.read())}
        maps = [i for p in programs for i in bpftool('prog', 'show', 'id', p)['map_ids']]
        self.id = next(i for i in maps if bpftool('map', 'show', 'id', i)['name'] == 'kernel_orc')

    def __enter__(self):
        value = bytes(int(x, 16) for x in bpftool('map', 'lookup', 'id', self.id, *self.KEY)['value'])
        self.rest = value[self.LAYOUT.size:]
        self.__dict__.update(zip(self.FIELDS, self.LAYOUT.unpack_from(value)))
        return self

    def __exit__(self, *exc):
        value = self.LAYOUT.pack(*(getattr(self, f) for f in self.FIELDS)) + self.rest
        bpftool('map', 'update', 'id', self.id, *self.KEY, 'value', *value)


class Workload:
    def __init__(self, *args, prefix=()):
        self.path = f'{build_dir()}/tests/e2e/stacks'
        self.p = subprocess.Popen([*prefix, self.path, *map(str, args)], stdin=subprocess.DEVNULL)
        self.pid = self.p.pid

    def symbols(self):
        return Symbols(self.pid, self.path)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.p.kill()
        self.p.wait()


class Sampler:
    """The sampler from its first drain on; result() ends it. It writes to a file: a full pipe would stop its drains."""

    def __init__(self, *hz):
        cmd = [f'{build_dir()}/tests/bpf/sampler', *map(str, hz)]
        self.out, self.err = tempfile.TemporaryFile('w+'), tempfile.TemporaryFile('w+')
        env = exporter_env()
        self.p = subprocess.Popen(cmd, stdout=self.out, stderr=self.err, stdin=subprocess.PIPE, env=env)
        try:
            wait_for('the sampler', lambda: self.p.poll() is not None or os.fstat(self.out.fileno()).st_size, interval=0.02)
            if self.p.poll() is not None:
                raise AssertionError(f'sampler did not start: {self.read(self.err)}')
        except BaseException:
            self.__exit__()
            raise

    @staticmethod
    def read(f):
        # Not by its own offset, which the sampler writes at.
        return os.pread(f.fileno(), os.fstat(f.fileno()).st_size, 0).decode()

    def so_far(self):
        return Result(self.read(self.out).rpartition('\n')[0])

    def wait_for(self, what, check):
        """Until check(result so far) is true."""
        wait_for(what, lambda: check(self.so_far()), interval=0.3)

    def wait_samples(self, *pids, n=100):
        """Until there are so many samples of each process: as many as a share needs, however long this machine takes for them."""
        self.wait_for(f'{n} samples each', lambda r: all(len(r.of(pid)) >= n for pid in pids))

    def raise_rate(self):
        self.p.stdin.write(b'+')
        self.p.stdin.flush()

    def result(self):
        self.p.stdin.close()
        if self.p.wait(120):
            raise AssertionError(f'sampler ended with {self.p.returncode}: {self.read(self.err)}')
        return Result(self.read(self.out))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        self.p.stdin.close()
        self.out.close()
        self.err.close()


class Result:
    def __init__(self, text):
        self.samples, self.sideband, self.stats = [], [], None
        for line in text.splitlines():
            o = json.loads(line)
            if 'sample' in o:
                o['kernel'] = [int(w, 16) for w in o['kernel']]
                o['user'] = [int(w, 16) for w in o['user']]
                self.samples.append(o)
            elif 'sideband' in o:
                self.sideband.append(o)
            elif 'stats' in o:
                self.stats = o

    def of(self, pid):
        return [s for s in self.samples if s['pid'] == pid]


def sample(hz, *pids, n=100):
    """The result once there are so many samples of each process."""
    with Sampler(hz) as s:
        s.wait_samples(*pids, n=n)
        return s.result()
