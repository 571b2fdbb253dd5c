"""sonde merge and sonde fold: the same totals as go tool pprof, pipes, errors that name the file and leave the old output alone."""
import gzip
import os
import random
import subprocess
import tempfile
import unittest

from sonde_e2e import GO, build_dir, program

BESIDE_OTHERS = True

MB = 1 << 20


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def num(field, v):
    return varint(field << 3) + varint(v)


def blob(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def address_of(name):
    return 0x400000 + 16 * (sum(name.encode()) % 65536)


def encode(rows, types=(('samples', 'count'), ('cpu', 'nanoseconds')), period_type=('cpu', 'nanoseconds'), aslr=0, time_ns=0, duration_ns=10**9, comments=()):
    """rows: (stack, values, labels); a frame is a function's name, or (name, file, line); a location is a (function, mapping offset)."""
    strings = {'': 0}

    def place(f):
        return f if isinstance(f, tuple) else (f, 'app.c', len(f))

    def s(x):
        return strings.setdefault(x, len(strings))
    out, funcs, locs = bytearray(), {}, {}
    for a, b in types:
        out += blob(1, num(1, s(a)) + num(2, s(b)))
    for stack, values, labels in rows:
        ids = [locs.setdefault(f, len(locs) + 1) for f in stack]
        out += blob(2, blob(1, b''.join(map(varint, ids))) + blob(2, b''.join(map(varint, values))) +
                    b''.join(blob(3, num(1, s(k)) + num(2, s(v))) for k, v in labels.items()))
    out += blob(3, num(1, 1) + num(2, 0x400000 + aslr) + num(3, 0x800000 + aslr) + num(5, s('/usr/bin/app')) + num(6, s('b1d')) + num(7, 1))
    for f, i in locs.items():
        name, file, line = place(f)
        fn = funcs.setdefault((name, file), len(funcs) + 1)
        out += blob(4, num(1, i) + num(2, 1) + num(3, address_of(name) + aslr) + blob(4, num(1, fn) + num(2, line)))
    for (name, file), i in funcs.items():
        out += blob(5, num(1, i) + num(2, s(name)) + num(3, s(name)) + num(4, s(file)))
    tail = num(9, time_ns) + num(10, duration_ns) + blob(11, num(1, s(period_type[0])) + num(2, s(period_type[1]))) + num(12, 1000)
    tail += b''.join(num(13, s(c)) for c in comments)
    return bytes(out) + b''.join(blob(6, x.encode()) for x in strings) + tail


def random_rows(rnd, n):
    names = [f'app::module_{i // 7}::function_{i}' for i in range(300)]
    rows = []
    for _ in range(n):
        stack = ['main'] + [names[min(int(rnd.paretovariate(.7)) - 1, 299)] for _ in range(rnd.randrange(1, 30))]
        count = 1 + int(rnd.expovariate(1))
        rows.append((stack[::-1], (count, count * 1000), {'comm': rnd.choice(['a', 'b', 'c']), 'thread': str(rnd.randrange(3))}))
    return rows


def sonde(*args, stdin=None, check=True):
    p = subprocess.run([program('sonde'), *args], input=stdin, capture_output=True)
    if check and p.returncode != 0:
        raise AssertionError(f'sonde {args[0]}: exit {p.returncode}: {p.stderr.decode()}')
    return p


def go_top(path, *flags):
    """function → (flat, cum) in the sample's own unit, and the total."""
    out = subprocess.run([GO, 'tool', 'pprof', '-top', '-nodecount=100000', '-nodefraction=0', '-unit=nanoseconds', *flags, path],
                         capture_output=True, text=True, check=True).stdout
    rows, total = {}, None
    for line in out.split('\n'):
        if 'accounting for' in line:
            total = line.split(' of ')[1].split()[0]
        parts = line.split(None, 5)
        if len(parts) == 6 and parts[1].endswith('%') and parts[0] != 'flat':
            rows[parts[5]] = (parts[0], parts[3])
    return rows, total


@unittest.skipUnless(os.path.exists(GO), 'no Go')
class MergeBesideGo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        rnd = random.Random(3)
        cls.files = []
        for i in range(20):
            raw = encode(random_rows(rnd, 150), aslr=4096 * rnd.randrange(1000), time_ns=1_700_000_000_000_000_000 + i * 10**9)
            path = f'{cls.dir.name}/{i:02}.pb.gz'
            with open(path, 'wb') as f:
                f.write(gzip.compress(raw) if i % 3 else raw)
            cls.files.append(path)
        cls.ours, cls.theirs = f'{cls.dir.name}/ours.pb.gz', f'{cls.dir.name}/theirs.pb.gz'
        sonde('merge', '-o', cls.ours, *cls.files)
        subprocess.run([GO, 'tool', 'pprof', '-proto', f'-output={cls.theirs}', *cls.files], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_per_function_totals(self):
        for flags in ((), ('-sample_index=samples', '-unit=count'), ('-tagfocus=comm=b',), ('-focus=module_0',)):
            ours, theirs = go_top(self.ours, *flags), go_top(self.theirs, *flags)
            self.assertEqual(ours, theirs)
            self.assertGreater(len(ours[0]), 40)

    def test_samples_locations_and_header(self):
        def raw(path):
            return subprocess.run([GO, 'tool', 'pprof', '-raw', path], capture_output=True, text=True, check=True).stdout

        def parts(text):
            head, rest = text.split('Samples:\n')
            samples, rest = rest.split('Locations\n')
            locations, mappings = rest.split('Mappings\n')
            return head, samples.count('\n'), locations.count('\n'), mappings
        self.assertEqual(parts(raw(self.ours)), parts(raw(self.theirs)))

    def test_merge_of_merges(self):
        a, b, again = (f'{self.dir.name}/{n}.pb.gz' for n in ('a', 'b', 'again'))
        sonde('merge', '-o', a, *self.files[:7])
        sonde('merge', '-o', b, *self.files[7:])
        sonde('merge', '-o', again, a, b)
        self.assertEqual(go_top(again), go_top(self.theirs))

    def test_the_number_of_cpus_does_not_show(self):
        """Files are read by as many threads as there are CPUs, but added in their order."""
        def merged():
            return sonde('merge', '-o', '-', *self.files, *self.files[::-1]).stdout
        cpus = os.sched_getaffinity(0)
        expected = {merged() for _ in range(5)}
        try:
            os.sched_setaffinity(0, {min(cpus)})
            self.assertEqual(expected | {merged()}, expected)
        finally:
            os.sched_setaffinity(0, cpus)
        self.assertEqual(len(expected), 1)

    def test_fold_adds_up(self):
        lines = sonde('fold', *self.files).stdout.decode().splitlines()
        total = sum(int(line.rsplit(' ', 1)[1]) for line in lines)
        self.assertEqual(f'{total}ns', go_top(self.theirs)[1])
        self.assertTrue(all(line.startswith('main;') for line in lines))
        self.assertEqual(len({line.rsplit(' ', 1)[0] for line in lines}), len(lines))
        by_samples = sonde('fold', '--sample-index=samples', *self.files).stdout.decode().splitlines()
        self.assertEqual(sum(int(line.rsplit(' ', 1)[1]) for line in by_samples) * 1000, total)

    def test_fold_with_root_labels(self):
        lines = sonde('fold', '--root-label', 'comm', '--root-label', 'thread', *self.files).stdout.decode().splitlines()
        roots = {tuple(line.split(';')[:3]) for line in lines}
        self.assertEqual(roots, {(c, t, 'main') for c in 'abc' for t in '012'})
        of_b = sum(int(line.rsplit(' ', 1)[1]) for line in lines if line.startswith('b;'))
        self.assertEqual(f'{of_b}ns', go_top(self.theirs, '-tagfocus=comm=b')[0]['main'][1])


class MergeFiles(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.one = self.write('one.pb', encode([(['f', 'main'], (1, 1000), {})]))

    def path(self, name):
        return f'{self.dir.name}/{name}'

    def write(self, name, data):
        with open(self.path(name), 'wb') as f:
            f.write(data)
        return self.path(name)

    def test_standard_input_and_output(self):
        with open(self.one, 'rb') as f:
            raw = f.read()
        for data in (raw, gzip.compress(raw)):
            out = sonde('merge', '-o', '-', '-', self.one, stdin=data).stdout
            self.assertEqual(sonde('fold', '-', stdin=out).stdout, b'main;f 2000\n')
        self.assertEqual(sonde('merge', '--level', '0', '-o', '-', self.one).stdout[:1], b'\x0a')

    def test_standard_input_among_files(self):
        with open(self.one, 'rb') as f:
            raw = f.read()
        out = sonde('merge', '-o', '-', *[self.one] * 9, '-', *[self.one] * 9, stdin=raw).stdout
        self.assertEqual(sonde('fold', '-', stdin=out).stdout, b'main;f 19000\n')

    def test_the_first_file_that_fails_is_named(self):
        """Though one behind it fails sooner, and standard input behind it is not waited for."""
        late = self.write('late.pb', encode([([f'f{i}'], (1, 1), {}) for i in range(20000)]) + b'\xff')
        for before in (0, 1, 7):
            p = subprocess.Popen([program('sonde'), 'merge', '-o', self.path('o'), *[self.one] * before, late, self.path('missing'), '-'],
                                 stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(p.wait(timeout=60), 1)
            error = p.stderr.read().decode()
            self.assertIn('late.pb: ', error)
            self.assertEqual(error.count('\n'), 1)
            p.stdin.close()
            p.stderr.close()

    def test_special_files_are_written_not_replaced(self):
        sonde('merge', '-o', '/dev/null', self.one)
        self.assertFalse(os.path.isfile('/dev/null'))
        fifo = self.path('fifo')
        os.mkfifo(fifo)
        reader = subprocess.Popen(['cat', fifo], stdout=subprocess.PIPE)
        sonde('merge', '-o', fifo, self.one)
        self.assertTrue(reader.communicate()[0].startswith(b'\x1f\x8b'))
        link = self.path('link.pb.gz')
        os.symlink(self.write('target.pb.gz', b'old'), link)
        sonde('merge', '-o', link, self.one)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(sonde('fold', self.path('target.pb.gz')).stdout, b'main;f 1000\n')

    def test_errors_name_the_file_and_leave_the_output_alone(self):
        good = gzip.compress(encode([(['f'], (1, 1), {})]))
        cases = [
            ('missing.pb', None, 'missing.pb: No such file or directory'),
            ('dir', 'dir', 'dir: is a directory'),
            ('empty.pb', b'', 'empty.pb: empty profile'),
            ('page.pb', b'<!DOCTYPE html><html>', 'page.pb: neither a pprof profile nor stacks as text'),
            ('cut.pb.gz', good[:-9], 'cut.pb.gz: gzip: truncated'),
            ('flipped.pb.gz', good[:20] + bytes([good[20] ^ 255]) + good[21:], 'flipped.pb.gz: gzip: corrupt'),
            ('ids.pb', encode([(['f'], (1, 1), {})]) + blob(2, num(1, 9) + blob(2, b'\1\1')), 'ids.pb: sample 1 at byte'),
            ('heap.pb', encode([(['f'], (1,), {})], types=(('space', 'bytes'),)),
             'heap.pb: sample types space/bytes are not those of ' + self.one + ', samples/count cpu/nanoseconds'),
            ('wall.pb', encode([(['f'], (1, 1), {})], period_type=('wall', 'nanoseconds')),
             'wall.pb: period type wall/nanoseconds is not that of ' + self.one + ', cpu/nanoseconds'),
        ]
        out = self.write('out.pb.gz', b'precious')
        for name, data, error in cases:
            with self.subTest(name):
                if data == 'dir':
                    os.mkdir(self.path(name))
                elif data is not None:
                    self.write(name, data)
                p = sonde('merge', '-o', out, self.one, self.path(name), check=False)
                self.assertEqual(p.returncode, 1)
                self.assertIn(error, p.stderr.decode())
                self.assertEqual(p.stderr.count(b'\n'), 1)
                self.assertEqual(p.stdout, b'')
                with open(out, 'rb') as f:
                    self.assertEqual(f.read(), b'precious')
        self.assertEqual([n for n in os.listdir(self.dir.name) if 'tmp' in n], [])
        p = sonde('merge', '-o', self.path('no/such/dir'), self.one, check=False)
        self.assertEqual(p.returncode, 1)
        p = sonde('fold', '--sample-index', 'wall', self.one, check=False)
        self.assertEqual((p.returncode, p.stderr), (1, b'sonde: no sample type "wall"; there are: samples, cpu\n'))

    def test_full_device(self):
        p = sonde('merge', '-o', '/dev/full', self.one, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b'/dev/full: No space left on device', p.stderr)

    @unittest.skipUnless(os.geteuid() == 0, 'mounts a file system')
    def test_full_disk(self):
        """Nothing of what did not fit is left, and what was there stays."""
        place = f'{self.dir.name}/small'
        os.mkdir(place)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=16k', 'none', place], check=True)
        try:
            with open(f'{place}/x.html', 'w') as f:
                f.write('before')
            self.assertIn('No space left on device', sonde('flamegraph', '-o', f'{place}/x.html', self.one, check=False).stderr.decode())
            self.assertEqual(os.listdir(place), ['x.html'])
            with open(f'{place}/x.html') as f:
                self.assertEqual(f.read(), 'before')
        finally:
            subprocess.run(['umount', place], check=True)

    def test_a_gzip_bomb_is_refused(self):
        bomb = self.write('bomb.pb.gz', gzip.compress(bytes(64 * MB), 9))
        # A sanitizer's shadow does not fit such a limit: there only the refusal is checked.
        limit = [] if os.path.basename(build_dir()) != 'release' else ['prlimit', f'--as={400 * MB}']
        p = subprocess.run([*limit, program('sonde'), 'merge', '-o', self.path('o'), bomb], capture_output=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b'bomb.pb.gz', p.stderr)


if __name__ == '__main__':
    unittest.main()
