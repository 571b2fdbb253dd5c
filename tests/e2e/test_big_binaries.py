"""Memory: of many processes, of binaries of hundreds of megabytes, what a file that is too much for its parser costs, and the cache's size."""
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

BURN_C = r'''
static volatile unsigned long sink;
__attribute__((noinline)) void burn_in_big(void) { for (int i = 0; i < 10000; i++) sink += i * sink + 1; }
int main(void) { for (;;) burn_in_big(); }
'''
MB = 1 << 20


def sections(data):
    """{name: (offset of its header, offset, bytes)} of a 64-bit ELF file."""
    off, = struct.unpack_from('<Q', data, 40)
    size, n, names = struct.unpack_from('<HHH', data, 58)
    names_off, = struct.unpack_from('<Q', data, off + names * size + 24)
    out = {}
    for i in range(n):
        at = off + i * size
        name, = struct.unpack_from('<I', data, at)
        start = names_off + name
        out[data[start:data.index(b'\0', start)].decode()] = (at, *struct.unpack_from('<QQ', data, at + 24))
    return out


def grow(path, to, grown):
    """A copy of an ELF file with some sections made longer: {name: how many bytes of its own content follow it}."""
    with open(path, 'rb') as f:
        data = bytearray(f.read())
    end = len(data)
    tails = []
    for name, (content, bytes_more) in grown.items():
        header, off, size = sections(data)[name]
        whole = bytes(data[off:off + size])
        times = bytes_more // len(content)
        end = (end + 15) // 16 * 16
        struct.pack_into('<QQ', data, header + 24, end, size + times * len(content))
        tails.append((end, whole, content, times))
        end += size + times * len(content)
    with open(to, 'wb') as f:
        f.write(data)
        for at, whole, content, times in tails:
            f.seek(at)
            f.write(whole)
            batch = max(1, 4 * MB // len(content))
            for done in range(0, times, batch):
                f.write(content * min(batch, times - done))
    os.chmod(to, 0o755)
    return os.path.getsize(to)


def big(path, to, symbol_bytes, debug_bytes):
    """The symbol table by copies of its functions, .debug_info by copies of its units: all of it valid."""
    with open(path, 'rb') as f:
        data = f.read()
    s = sections(data)
    _, off, size = s['.symtab']
    functions = b''.join(data[i:i + 24] for i in range(off, off + size, 24) if data[i + 4] & 15 == 2 and data[i + 6:i + 8] != b'\0\0')
    _, off, size = s['.debug_info']
    return grow(path, to, {'.symtab': (functions, symbol_bytes), '.debug_info': (data[off:off + size], debug_bytes)})


def roles(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [pid] + [int(p) for p in f.read().split()]


def pss(pid):
    with open(f'/proc/{pid}/smaps_rollup') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('Pss:')) << 10


@e2e.needs_kernel
class BigBinaries(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='sonde-big.', dir='/var/tmp')
        os.chmod(self.top, 0o755)
        self.addCleanup(shutil.rmtree, self.top, True)
        small = e2e.compile_c(BURN_C, '-O1', '-g', '-fno-omit-frame-pointer', '-no-pie', name='small')
        self.addCleanup(shutil.rmtree, os.path.dirname(small), True)
        self.small = small

    def profile(self, daemon, pid):
        return e2e.Pprof(daemon.get(f'/debug/pprof/profile?seconds=1&hz=99&pid={pid}').body)

    def wait_failed(self, daemon, reason):
        """Until a symbol file failed by that reason."""
        key = f'sonde_symbol_file_failures_total{{reason="{reason}"}}'
        e2e.wait_for(key, lambda: daemon.metrics().get(key, 0) > 0)

    @unittest.skipIf(e2e.is_sanitized(), 'sanitizers have no memory limit')
    def test_half_a_gigabyte(self):
        path = f'{self.top}/half'
        self.assertGreater(big(self.small, path, 100 * MB, 400 * MB), 500 * MB)
        with e2e.exporter('--symbols.cache-path=', '--symbols.max-cpu=1') as daemon:
            # What runs beside it has its symbol files by then.
            e2e.wait_for('samples', lambda: e2e.cpu_samples(daemon.metrics()) > 20)
            e2e.wait_for('the symbol files of others', lambda: not daemon.metrics()['sonde_symbol_queue_length'])
            self.check_cost(daemon, path)

    def check_cost(self, daemon, path):
        with e2e.Workload(path) as w:
            others = daemon.metrics()['sonde_symbol_bytes']
            before = sum(pss(p) for p in roles(daemon.p.pid))
            e2e.wait_for('its names', lambda: 'burn_in_big' in self.profile(daemon, w.pid).functions())
            after = sum(pss(p) for p in roles(daemon.p.pid))
            # Its functions are as few as the small one's, so its share is next to nothing.
            self.assertLess(after - before, 16 * MB)
            self.assertLess(daemon.metrics()['sonde_symbol_bytes'] - others, 16 * MB)

    @unittest.skipIf(e2e.is_sanitized(), 'sanitizers have no memory limit')
    def test_too_much_for_its_parser(self):
        """More symbols than fit the child's memory: this file has no names, the next one has, and nobody else notices."""
        path = f'{self.top}/toomuch'
        big(self.small, path, 400 * MB, 0)
        with e2e.exporter('--symbols.cache-path=') as daemon, e2e.Workload(path) as w, e2e.Workload(self.small) as other:
            self.wait_failed(daemon, 'no_memory')
            names = self.profile(daemon, w.pid).functions()
            self.assertNotIn('burn_in_big', names)
            self.assertTrue(any(n.startswith('toomuch+0x') for n in names), names)
            e2e.wait_for("the other's names", lambda: 'burn_in_big' in self.profile(daemon, other.pid).functions())
            self.assertLess(sum(pss(p) for p in roles(daemon.p.pid)), 64 * MB)

    @unittest.skipIf(e2e.is_sanitized(), 'sanitizers: shadow memory')
    def test_memory_with_300_processes(self):
        sleepers = [subprocess.Popen(['sleep', '600']) for _ in range(300)]
        try:
            burn = e2e.compile_c(BURN_C, '-O0', '-g', '-fno-omit-frame-pointer', name='burnm')
            with e2e.exporter() as x, e2e.Workload(burn):
                for _ in range(3):
                    self.assertEqual(x.get('/debug/pprof/profile?seconds=2').status, 200)
                pids = roles(x.p.pid)
                self.assertIn(len(pids), range(3, 7), 'keeper, main, parser and up to three openers')
                self.assertGreaterEqual(x.metrics()['sonde_process_tracked'], 300)
                total = sum(pss(p) for p in pids)
                self.assertLess(total, 64 * MB, pids)
        finally:
            for s in sleepers:
                s.kill()
            for s in sleepers:
                s.wait()

    def test_cache_bytes(self):
        """Symbol files of more than the cap: the directory never holds more, and the metric says what it holds."""
        cache, cap = f'{self.top}/symbols', 1 * MB
        programs = []
        for i in range(8):
            source = ''.join(f'void f{i}_{j}_{"x" * 100}(void) {{}}\n' for j in range(1500)) + BURN_C
            programs.append(e2e.compile_c(source, '-O0', name=f'p{i}'))
            self.addCleanup(shutil.rmtree, os.path.dirname(programs[-1]), True)

        def held():
            total = 0
            for at, _, files in os.walk(cache):
                for name in files:
                    try:
                        total += os.stat(f'{at}/{name}').st_blocks * 512
                    except FileNotFoundError:
                        pass
            return total
        with e2e.exporter(f'--symbols.cache-path={cache}', '--symbols.cache-bytes=1MB', '--symbols.max-cpu=4') as daemon:
            for path in programs:
                with e2e.Workload(path) as w:
                    e2e.wait_for(path, lambda: 'burn_in_big' in self.profile(daemon, w.pid).functions())
                m = daemon.metrics()
                self.assertLessEqual(m['sonde_symbol_cache_bytes'], cap)
                self.assertLessEqual(held(), cap)
            self.assertGreater(daemon.metrics()['sonde_symbol_cache_events_total{event="evicted"}'], 0)


if __name__ == '__main__':
    unittest.main()
