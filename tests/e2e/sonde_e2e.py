"""What the end-to-end tests share: starting the programs on ephemeral ports, HTTP, pprof decoding, workloads."""
import atexit
import collections
import gzip
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GO = '/usr/bin/go'


def build_dir():
    return os.environ.get('SONDE_BUILD') or f'{TOP}/build/release'


def program(name):
    return f'{build_dir()}/{name}'


def is_sanitized():
    """True for debug and tsan builds: memory and time are not the program's own."""
    return os.path.basename(os.path.normpath(build_dir())) != 'release'


def kernel_missing():
    """Why tests that need the kernel cannot run here, or None."""
    if os.geteuid() != 0:
        return 'kernel: not root'
    if not os.path.exists('/sys/kernel/btf/vmlinux'):
        return 'kernel: no BTF (/sys/kernel/btf/vmlinux)'
    return None


needs_kernel = unittest.skipIf(kernel_missing(), kernel_missing() or '')


port_guards = []


def free_port():
    """A port for a program that is started soon. Below those that the kernel gives out, and no other test process gets it while this one runs."""
    with open('/proc/sys/net/ipv4/ip_local_port_range') as f:
        end = int(f.read().split()[0])
    for port in random.sample(range(end // 2, end), end - end // 2):
        guard, s = socket.socket(socket.AF_UNIX), socket.socket()
        try:
            guard.bind(f'\0sonde-test-port-{port}')
            s.bind(('127.0.0.1', port))
            port_guards.append(guard)
            return port
        except OSError:
            guard.close()
        finally:
            s.close()
    raise AssertionError('no port is free')


def own_mounts(*flags):
    """How a command begins that runs in its own mount namespace, where what it mounts stays.

    In a chroot the root is no mount whose propagation could be changed: there the namespace is made without.
    """
    return ['unshare', '--mount', '--propagation', 'private' if mounts_on('/') else 'unchanged', *flags]


def mounted(fstype, point, script, *flags):
    """The command that runs a shell script in its own mount namespace, with a file system of that type on `point`.

    `point` must be a mount point, whose copy is made private: in a chroot the root is none, so that not all mounts at once can be.
    """
    return ['unshare', '--mount', '--propagation', 'unchanged', *flags, 'sh', '-c',
            f'mount --make-private {point} && mount -t {fstype} none {point} && {script}']


def mounts_on(point):
    """What is mounted there, for this process."""
    with open('/proc/self/mounts') as f:
        return [line for line in f if line.split()[1] == point]


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode(errors='replace')

    @property
    def json(self):
        return json.loads(self.body)


def http_get(url, headers=None, method='GET', body=None, timeout=60):
    """One request on a fresh connection; the body as sent (gzip is not undone)."""
    u = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=timeout)
    try:
        c.request(method, u.path + ('?' + u.query if u.query else ''), body=body, headers=headers or {})
        r = c.getresponse()
        return Response(r.status, r.headers, r.read())
    finally:
        c.close()


def exporter_env(env=None):
    """For the exporter's roles, which are not dumpable: the leak sanitizer of debug builds cannot look into them."""
    env = dict(env or os.environ)
    env['ASAN_OPTIONS'] = 'detect_leaks=0:' + env.get('ASAN_OPTIONS', '')
    return env


class Daemon:
    """A started program; use as a context manager. `url` is its base address."""

    def __init__(self, name, *flags, port=None, wait_ready=True, env=None, prefix=()):
        self.port = port or free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.log = tempfile.NamedTemporaryFile(prefix=f'{name}.', suffix='.log', delete=False)
        if name == 'sonde-exporter':
            env = exporter_env(env)
        self.cmd = [*prefix, program(name), f'--web.listen-address=127.0.0.1:{self.port}', *flags]
        self.p = subprocess.Popen(self.cmd, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                  start_new_session=True, env=env)
        if wait_ready:
            try:
                self.wait_ready()
            except BaseException:
                self.kill()
                raise

    def wait_ready(self, timeout=120):
        end = time.time() + timeout
        while time.time() < end:
            if self.p.poll() is not None:
                raise AssertionError(f'{self.cmd} ended with {self.p.returncode}:\n{self.output()}')
            try:
                if http_get(self.url + '/-/ready', timeout=5).status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f'{self.cmd} not ready after {timeout} s:\n{self.output()}')

    def output(self):
        with open(self.log.name, errors='replace') as f:
            return f.read()

    def get(self, path, **kw):
        return http_get(self.url + path, **kw)

    def metrics(self):
        """{'name{labels}': value} of /metrics."""
        out = {}
        for line in self.get('/metrics').text.splitlines():
            if line and not line.startswith('#'):
                key, _, value = line.rpartition(' ')
                out[key] = float(value)
        return out

    def stop(self, timeout=60):
        """SIGTERM; returns the exit status."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
            try:
                self.p.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f'{self.cmd} did not end on SIGTERM:\n{self.output()}') from None
        return self.p.returncode

    def kill(self):
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            if exc[0] is None:
                self.stop()
        finally:
            self.kill()
            os.unlink(self.log.name)


def exporter(*flags, **kw):
    return Daemon('sonde-exporter', *flags, **kw)


class SampledPrograms(unittest.TestCase):
    """Programs (`loads`, by name) that run while an exporter without a cache of symbol files samples them, in a directory of their own
    below `top`. A subclass makes them in build(), before there is an exporter, and starts them in start(). All end with the class, and
    when either fails."""

    hz, flags, top = 199, (), None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='sonde-programs.', dir=cls.top)
        os.chmod(cls.dir, 0o755)
        cls.loads, cls.exporter = {}, None
        try:
            cls.build()
            cls.exporter = exporter('--symbols.cache-path=', f'--profile.frequency={cls.hz}', '--profile.max-overhead=0', '--symbols.max-cpu=1',
                                    *cls.flags)
            cls.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def build(cls):
        pass

    @classmethod
    def start(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        cls.stop_all()
        if cls.exporter:
            cls.exporter.__exit__(None, None, None)
        shutil.rmtree(cls.dir, ignore_errors=True)

    @classmethod
    def stop_all(cls):
        while cls.loads:
            cls.loads.popitem()[1].__exit__()

    @classmethod
    def write(cls, name, text):
        path = f'{cls.dir}/{name}'
        with open(path, 'w') as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    @classmethod
    def wait_for_tables(cls):
        """Until what is sampled from now on is walked by tables and has names."""
        wait_symbol_files(cls.exporter)
        wait_quiet('the unwind tables', lambda: [(k, v) for k, v in cls.exporter.metrics().items() if k.startswith('sonde_unwind_table_loads_total')])


class WithExporter(unittest.TestCase):
    """Tests that share an exporter (`daemon`) with a cache of symbol files of its own below the directory `top`."""

    mode, flags = 0o755, ()  # of `top`; of the exporter, more than it has anyway

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix='sonde-test.')
        cls.cache = f'{cls.top}/symbols'
        os.chmod(cls.top, cls.mode)
        cls.daemon = exporter(f'--symbols.cache-path={cls.cache}', '--symbols.max-cpu=1', '--profile.max-overhead=0', *cls.flags)

    @classmethod
    def tearDownClass(cls):
        try:
            cls.daemon.__exit__(None, None, None)
        finally:
            shutil.rmtree(cls.top, ignore_errors=True)


class scraper(Daemon):
    """A scraper with its own data directory (removed at the end) and the given configuration text."""

    def __init__(self, config, *flags, data=None, **kw):
        self.dir = tempfile.mkdtemp(prefix='sonde-scraper.')
        self.data = data or f'{self.dir}/data'
        self.config = f'{self.dir}/sonde.yml'
        self.set_config(config)
        super().__init__('sonde-scraper', f'--config.file={self.config}', f'--storage.path={self.data}', *flags, **kw)

    def set_config(self, text):
        with open(self.config, 'w') as f:
            f.write(text)

    def __exit__(self, *exc):
        try:
            super().__exit__(*exc)
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)


def sonde(*args, **kw):
    """Runs the sonde tool; returns the CompletedProcess with text output."""
    return subprocess.run([program('sonde'), *args], capture_output=True, text=kw.pop('text', True), timeout=kw.pop('timeout', 300), **kw)


# --- pprof, decoded independently of Sonde's own codec ---------------------------------------------------------------

def _varint(b, i):
    v = shift = 0
    while True:
        x = b[i]
        i += 1
        v |= (x & 127) << shift
        shift += 7
        if x < 128:
            return v, i


def _fields(b):
    i = 0
    while i < len(b):
        key, i = _varint(b, i)
        if key & 7 == 0:
            v, i = _varint(b, i)
        elif key & 7 == 2:
            n, i = _varint(b, i)
            v, i = b[i:i + n], i + n
        else:
            raise ValueError(f'wire type {key & 7}')
        yield key >> 3, v


def _signed(v):
    return v - (1 << 64) if v >> 63 else v


def _ints(v):
    if isinstance(v, int):
        return [_signed(v)]
    out, i = [], 0
    while i < len(v):
        x, i = _varint(v, i)
        out.append(_signed(x))
    return out


Frame = collections.namedtuple('Frame', 'name mapping file line')  # name is '' where only an address is known


class Pprof:
    """samples: list of (stack of function names leaf first, values, labels dict); types: [(type, unit)]; and the times."""

    def __init__(self, data):
        if data[:2] == b'\x1f\x8b':
            data = gzip.decompress(data)
        strings, types, samples, locs, funcs, files, self.mappings = [], [], [], {}, {}, {}, {}
        self.time_nanos = self.duration_nanos = self.period = 0
        self.comments = []
        for f, v in _fields(data):
            if f == 6:
                strings.append(v.decode(errors='replace'))
        s = strings.__getitem__
        for f, v in _fields(data):
            if f == 1:
                d = dict(_fields(v))
                types.append((s(d.get(1, 0)), s(d.get(2, 0))))
            elif f == 2:
                ids, values, labels = [], [], {}
                for g, w in _fields(v):
                    if g == 1:
                        ids += _ints(w)
                    elif g == 2:
                        values += _ints(w)
                    elif g == 3:
                        d = dict(_fields(w))
                        labels[s(d.get(1, 0))] = s(d[2]) if d.get(2) else _signed(d.get(3, 0))
                samples.append((ids, values, labels))
            elif f == 3:
                d = dict(_fields(v))
                self.mappings[d[1]] = {'file': s(d.get(5, 0)), 'build_id': s(d.get(6, 0)), 'start': d.get(2, 0), 'limit': d.get(3, 0),
                                       'offset': d.get(4, 0), 'has': [bool(d.get(i)) for i in (7, 8, 9, 10)]}
            elif f == 4:
                lid, lines, mapping, address = 0, [], 0, 0
                for g, w in _fields(v):
                    if g == 1:
                        lid = w
                    elif g == 2:
                        mapping = w
                    elif g == 3:
                        address = w
                    elif g == 4:
                        lines.append(dict(_fields(w)))
                locs[lid] = (lines, mapping, address)
            elif f == 5:
                d = dict(_fields(v))
                funcs[d[1]] = s(d.get(2, 0))
                files[d[1]] = (s(d.get(4, 0)), _signed(d.get(5, 0)))
            elif f == 9:
                self.time_nanos = _signed(v)
            elif f == 10:
                self.duration_nanos = _signed(v)
            elif f == 12:
                self.period = _signed(v)
            elif f == 13:
                self.comments += [s(i) for i in (_ints(v))]
        self.types = types
        self.samples = []
        self.frames = []  # of each sample, leaf first
        self._leaves = []
        self.addresses = [(address, mapping, funcs[lines[-1][1]] if lines else '') for lines, mapping, address in locs.values()]
        # Per location: (function, file, line, column, first line), innermost first.
        self.places = [[(funcs[line[1]], files[line[1]][0], _signed(line.get(2, 0)), _signed(line.get(3, 0)), files[line[1]][1])
                        for line in lines] for lines, _, _ in locs.values()]
        for ids, values, labels in samples:
            lines, mapping, address = locs[ids[0]] if ids else ([], 0, 0)
            self._leaves.append((funcs[lines[0][1]] if lines else hex(address), self.mappings.get(mapping, {}).get('file', '')))
            stack, frames = [], []
            for i in ids:
                lines, mapping, address = locs[i]
                stack += [funcs[line[1]] for line in lines] or [hex(address)]
                of = self.mappings.get(mapping, {}).get('file', '')
                frames += [Frame(funcs[line[1]], of, files[line[1]][0], _signed(line.get(2, 0))) for line in lines] or [Frame('', of, '', 0)]
            self.samples.append((stack, values, labels))
            self.frames.append(frames)

    def leaf(self, i):
        """(function, file of the mapping) of the leaf of sample i."""
        return self._leaves[i]

    def total(self, index=-1):
        return sum(v[index] for _, v, _ in self.samples)

    def by_label(self, key, index=-1):
        out = {}
        for _, v, labels in self.samples:
            out[labels.get(key, '')] = out.get(labels.get(key, ''), 0) + v[index]
        return out

    def functions(self, index=-1):
        """Cumulative value by function name."""
        out = {}
        for stack, v, _ in self.samples:
            for name in set(stack):
                out[name] = out.get(name, 0) + v[index]
        return out


# --- workloads -------------------------------------------------------------------------------------------------------

class Workload:
    """A background process in its own session, killed at the end."""

    def __init__(self, *cmd, **kw):
        self.p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True, **kw)
        self.pid = self.p.pid

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()


def program_dir():
    """A directory for a test's programs, gone when the module's tests are."""
    d = tempfile.mkdtemp(prefix='sonde-prog.')
    atexit.register(shutil.rmtree, d, ignore_errors=True)
    return d


def compile_c(source, *flags, name='prog', cc='gcc'):
    """Compiles C (or C++ with cc='g++') text into a temporary program; returns its path."""
    d = program_dir()
    src = f'{d}/{name}.{"cc" if cc.endswith("++") else "c"}'
    with open(src, 'w') as f:
        f.write(source)
    subprocess.run([cc, '-o', f'{d}/{name}', src, *flags], check=True)
    return f'{d}/{name}'


def go_env():
    """For `go build` without modules; what it compiles of the standard library is kept from one test to the next."""
    return dict(os.environ, GOCACHE=f'{TOP}/build/cache/go', GO111MODULE='off', GOTOOLCHAIN='local', GOFLAGS='')


def go_pprof(*args, timeout=300, go=GO):
    """Debian's `go tool pprof`, or another one's."""
    env = dict(os.environ, PPROF_TMPDIR=tempfile.gettempdir(), GOFLAGS='', GOTOOLCHAIN='local')
    return subprocess.run([go, 'tool', 'pprof', *args], capture_output=True, text=True, timeout=timeout, env=env)


def wait_for(what, check, timeout=120, interval=0.1):
    """Polls check() until it gives something true; returns it. `what` is a text, or gives one when the time is over, which is for a machine at
    a fifth of its speed."""
    end = time.time() + timeout
    while True:
        v = check()
        if v:
            return v
        if time.time() > end:
            raise AssertionError(f'{what() if callable(what) else what}: not within {timeout} s')
        time.sleep(interval)


def stays(what, read, seconds):
    """read() gives the same for so long: that nothing happens shows in no event, so time is what is tested. Returns it."""
    first, end = read(), time.time() + seconds
    while time.time() < end:
        time.sleep(0.1)
        now = read()
        if now != first:
            raise AssertionError(f'{what}: {now} after {first}')
    return first


def wait_quiet(what, read, seconds=1.5, timeout=120):
    """Until read() gives the same for so long: for what tells by no event that it is over. `seconds` is more than lies between two changes."""
    seen = {'value': object(), 'since': 0}

    def quiet():
        value = read()
        if value != seen['value']:
            seen.update(value=value, since=time.time())
        return time.time() - seen['since'] >= seconds
    wait_for(f'{what} to come to rest', quiet, timeout=timeout)


def wait_program(pid, path):
    """Until a process that was started runs that program."""
    def runs():
        try:
            return os.path.realpath(f'/proc/{pid}/exe') == os.path.realpath(path)
        except OSError:
            return False
    wait_for(f'process {pid} to run {path}', runs)


def wait_drained(exporter):
    """Until an exporter has read all that its kernel half wrote before this call, and its counters hold that: two drains may be under way or
    too early for what is held back a moment."""
    def rounds():
        return exporter.metrics()['sonde_drain_rounds_total']
    time.sleep(0.06)  # drains may follow each other at once, and leave what is younger than 50 ms
    end = rounds() + 3
    wait_for('three drains', lambda: rounds() >= end)


class Window:
    """What an exporter samples from now on, in whole seconds of its own: `samples` and `frames`, as those of Pprof. The newest second that it answers for
    may be one before now, so it begins with a later one."""

    def __init__(self, exporter, endpoint='profile'):
        self.exporter, self.samples, self.frames, self.path = exporter, [], [], f'/debug/pprof/{endpoint}'
        self.skip()
        self.wait_until_now(self.skip)

    def newest(self):
        return self.exporter.get(f'{self.path}?since=&comm=none').headers['Sonde-Cursor']

    def second(self):
        return int(self.cursor.partition('.')[2])

    def skip(self):
        self.cursor = self.newest()

    def wait_until_now(self, step):
        now = int(self.newest().partition('.')[2])
        wait_for('the seconds until now', lambda: step() or self.second() >= now + 2, interval=0.3)

    def read(self, query=''):
        """Adds what is new, ten seconds of it at most."""
        r = self.exporter.get(f'{self.path}?since={self.cursor}&span=10{query}')
        assert r.status == 200, r.text
        self.cursor = r.headers['Sonde-Cursor']
        profile = Pprof(r.body)
        self.samples += profile.samples
        self.frames += profile.frames

    def wait_for(self, what, check, timeout=240):
        """Reads until check(samples)."""
        wait_for(what, lambda: self.read() or check(self.samples), timeout=timeout, interval=0.5)

    def read_until_now(self, query=''):
        """Reads all that was sampled before this call."""
        self.wait_until_now(lambda: self.read(query))


def wait_symbol_files(exporter, at_most=240):
    """Until no binary waits for its symbol file; where programs start all the time some always do, so for some minutes at most."""
    end = time.time() + at_most
    while time.time() < end and exporter.metrics()['sonde_symbol_queue_length']:
        time.sleep(0.1)


def given_up(exporter):
    """How many stacks were cut because an unwind table did not come in time: on a busy machine some are."""
    return exporter.metrics()['sonde_deferred_stacks_total{result="given_up"}']


def cpu_samples(metrics):
    return sum(v for k, v in metrics.items() if re.match(r'sonde_samples_total\b', k))
