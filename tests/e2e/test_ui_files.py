"""The page for files of the web interface, in a real browser: sample types, the list of what is open, the formats that it reads and saves."""
import csv
import gzip
import json
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import test_cli_merge
from pprof_target import encode
from sonde_e2e import TOP, Pprof, go_pprof, scraper, sonde
from test_ui import drive, missing

BESIDE_OTHERS = True
HEAP = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]


def heap(reads, inuse):
    """As Go writes them: four sample types, of which the last is the main one."""
    return encode(HEAP, HEAP[3], [(['read', 'main'], [reads, reads * 100, 10, inuse], {}), (['write', 'main'], [30, 900, 20, inuse * 3], {})], 10**18, 10**9, 1)


# A function on two lines, recursion, a sample without a stack, labels.
LINED = test_cli_merge.encode([
    ([('leaf', 'leaf.c', 3), ('work', 'app.c', 7), ('main', 'app.c', 9)], [3, 30_000_000], {'thread': 'one'}),
    ([('leaf', 'leaf.c', 4), ('work', 'app.c', 7), ('main', 'app.c', 9)], [2, 20_000_000], {'thread': 'two'}),
    ([('work', 'app.c', 8), ('work', 'app.c', 7), ('main', 'app.c', 9)], [1, 10_000_000], {}),
    ([], [1, 5_000_000], {}),
], time_ns=1_764_150_000 * 10**9, duration_ns=10 * 10**9)
FELL = test_cli_merge.encode([([('grow', 'a.c', 1), ('main', 'a.c', 2)], [-20000], {}), ([('keep', 'a.c', 3), ('main', 'a.c', 2)], [500], {})], types=[('inuse_space', 'bytes')])


def top_rows(path, *options):
    """Of `go tool pprof -top`, without its head: what it says of each function."""
    p = go_pprof('-top', '-nodecount=1000', '-nodefraction=0', '-edgefraction=0', *options, path)
    assert p.returncode == 0, p.stderr
    return sorted(line.split(None, 5) for line in p.stdout.partition('flat%')[2].split('\n')[1:] if line)


class UiFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        for name, content in (('heap.pb.gz', heap(40, 1024)), ('grown.pb.gz', heap(60, 2048)), ('lined.pb.gz', gzip.compress(LINED)), ('fell.pb', FELL)):
            with open(f'{cls.scratch}/{name}', 'wb') as f:
                f.write(content)
        with open(f'{cls.scratch}/page.folded', 'w') as f:
            f.write('main;work 8\n')
        sonde('flamegraph', f'{cls.scratch}/page.folded', '-o', f'{cls.scratch}/page.html')
        with scraper('scrape_configs: []\n') as s:
            url = s.url + '/'
            cls.results = drive({
                'file_types': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz', 'grown': f'{cls.scratch}/grown.pb.gz'},
                'file_list': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz'},
                'file_formats': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz', 'html': f'{cls.scratch}/page.html'},
                'exports_one': {'url': url, 'profiles': [f'{cls.scratch}/{name}' for name in ('heap.pb.gz', 'lined.pb.gz', 'fell.pb')], 'html': f'{cls.scratch}/page.html'},
                'exports_two': {'url': url, 'profiles': [f'{cls.scratch}/heap.pb.gz', f'{cls.scratch}/grown.pb.gz']},
            }, cls.scratch)

    def answer(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))
        return self.results[name]['answer']

    def test_sample_types(self):
        self.answer('file_types')

    def test_list_of_open_files(self):
        self.answer('file_list')

    def test_formats(self):
        self.answer('file_formats')

    def test_exports(self):
        """Whatever the file was, every format has its sum for other readers too."""
        for name, shown in self.answer('exports_one').items():
            paths = {label: one['path'] for label, one in shown['saved'].items()}
            with self.subTest(file=name):
                self.check_pprof(paths['pprof'], shown)
                self.check_folded(paths['Folded stacks'], shown)
                self.check_speedscope(paths['speedscope'], [shown['total']])
                self.check_svg(paths['Picture (SVG)'], name)
                self.check_json(paths['Arrays (JSON)'], shown)
                self.check_page(paths['Page (HTML)'], name)
                self.check_csv(paths['Table as shown (CSV)'])

    def check_pprof(self, path, shown):
        with open(path, 'rb') as f:
            p = Pprof(f.read())
        factor = {('seconds', 'nanoseconds'): 10**9, ('microseconds', 'nanoseconds'): 10**3, ('count', 'thousandths'): 10**3}.get((shown['unit'], p.types[0][1]), 1)
        self.assertEqual([t for t, _ in p.types], [shown['type']])
        self.assertAlmostEqual(sum(v[0] for _, v, _ in p.samples), shown['total'] * factor, 6)
        top = sonde('top', path)
        self.assertEqual((top.returncode, top.stderr), (0, ''))
        top_rows(path)

    def check_folded(self, path, shown):
        with open(path) as f:
            self.assertAlmostEqual(sum(float(line.rpartition(' ')[2]) for line in f), shown['total'], 9)
        fold = sonde('fold', path)
        self.assertEqual(fold.returncode, 0, fold.stderr)
        factor = 1000 if shown['total'] % 1 else 1
        self.assertAlmostEqual(sum(int(line.rpartition(' ')[2]) for line in fold.stdout.splitlines()), shown['total'] * factor, 6)

    def check_speedscope(self, path, totals):
        """The parts of the schema that are required, and what it says of each."""
        with open(path) as f:
            top = json.load(f)
        self.assertEqual(top['$schema'], 'https://www.speedscope.app/file-format-schema.json')
        for frame in top['shared']['frames']:
            self.assertLessEqual(set(frame), {'name', 'file', 'line', 'col'})
            self.assertIsInstance(frame['name'], str)
        for p, total in zip(top['profiles'], totals, strict=True):
            self.assertEqual(set(p), {'type', 'name', 'unit', 'startValue', 'endValue', 'samples', 'weights'})
            self.assertIn(p['unit'], ('none', 'nanoseconds', 'microseconds', 'milliseconds', 'seconds', 'bytes'))
            self.assertEqual((p['type'], len(p['samples'])), ('sampled', len(p['weights'])))
            self.assertAlmostEqual(sum(p['weights']), total, 9)
            self.assertTrue(all(0 <= i < len(top['shared']['frames']) for stack in p['samples'] for i in stack))

    def check_svg(self, path, *texts):
        with open(path) as f:
            text = ''.join(xml.etree.ElementTree.fromstring(f.read()).itertext())
        for expected in texts:
            self.assertIn(expected, text)

    def check_json(self, path, shown):
        with open(path) as f:
            d = json.load(f)['data']
        self.assertAlmostEqual(sum(d['self']), shown['total'], 9)
        self.assertEqual((d['type'], d['unit'], d['total'], d['total_by_node'][0], d.get('magnitude', d['total'])), (shown['type'], shown['unit'], shown['total'], shown['total'], shown['whole']))
        n = {len(d[key]) for key in ('self', 'total_by_node', 'parent', 'line', 'function', 'kind')}
        self.assertEqual(n, {shown['nodes']})
        self.assertEqual({len(d['functions'][key]) for key in ('file', 'mapping', 'build')}, {len(d['functions']['name'])})
        for i, parent in enumerate(d['parent'][1:], 1):  # in preorder the parent is the node before, or one above it
            above = i - 1
            while above != parent and above:
                above = d['parent'][above]
            self.assertEqual(above, parent)

    def check_page(self, path, *texts):
        with open(path) as f:
            page = f.read()
        plain = page.partition('<div id="plain">')[2]
        for expected in texts:
            self.assertIn(expected, page.partition('<title>')[2].partition('</title>')[0])
            self.assertIn(expected, plain.partition('</svg>')[0])
        self.assertIn('Top functions', plain)

    def check_csv(self, path):
        with open(path, newline='') as f:
            self.assertGreater(len(list(csv.reader(f))), 1)

    def test_exported_pprof(self):
        """`go tool pprof` has the same numbers of it as of the file, by function and by line; what the page left out is in its notes."""
        saved = {name: one['saved'] for name, one in self.answer('exports_one').items()}
        for name, sample_type in (('heap.pb.gz', 'inuse_space'), ('lined.pb.gz', 'cpu'), ('fell.pb', 'inuse_space')):
            path = saved[name]['pprof']['path']
            for by in ('-functions', '-lines', '-files'):
                with self.subTest(file=name, by=by):
                    self.assertEqual(top_rows(path, by), top_rows(f'{self.scratch}/{name}', by, f'-sample_index={sample_type}'))
        with open(saved['lined.pb.gz']['pprof']['path'], 'rb') as f:
            p = Pprof(f.read())
        self.assertEqual((p.time_nanos, p.duration_nanos), (1_764_150_000 * 10**9, 10 * 10**9))
        self.assertEqual([(m['file'], m['build_id']) for m in p.mappings.values()], [('/usr/bin/app', 'b1d')])
        self.assertEqual({label: one['path'].rpartition('/')[2] for label, one in saved['lined.pb.gz'].items()}, {
            'pprof': 'lined-cpu.pb.gz', 'Folded stacks': 'lined-cpu.folded', 'speedscope': 'lined-cpu.speedscope.json', 'Picture (SVG)': 'lined-cpu.svg', 'Page (HTML)': 'lined-cpu.html',
            'Arrays (JSON)': 'lined-cpu.json', 'Picture (PNG)': 'lined-cpu.png', 'Table as shown (CSV)': 'lined-cpu-functions.csv'})

    def test_what_formats_lack(self):
        """The page says it when it saves."""
        saved = {name: one['saved'] for name, one in self.answer('exports_one').items()}
        self.assertEqual(saved['lined.pb.gz']['Folded stacks']['said'], 'lined-cpu.folded is without source files, lines, binaries, build ids, the sample type, the unit: the format has no place for that')
        self.assertIn('lines of functions that have several, binaries, build ids', saved['lined.pb.gz']['speedscope']['said'])
        self.assertEqual(saved['stacks.folded']['pprof']['said'], 'stacks-samples.pb.gz is without kinds of code: the format has no place for that')
        for label in ('pprof', 'Picture (SVG)', 'Page (HTML)', 'Arrays (JSON)'):
            self.assertEqual(saved['lined.pb.gz'][label]['said'], '')

    def test_exports_of_two(self):
        answer = self.answer('exports_two')
        a, b = answer['a'], answer['b']
        paths = {label: one['path'] for label, one in answer['saved'].items()}
        self.assertTrue(all('/grown-against-heap-inuse_space' in path for path in paths.values()), paths)
        with open(paths['pprof (opens as a difference)'], 'rb') as f:
            p = Pprof(f.read())
        self.assertEqual(sum(v[0] for _, v, labels in p.samples if labels.get('pprof::base') == 'true'), -a['total'])
        self.assertEqual(sum(v[0] for _, v, labels in p.samples if not labels), b['total'])
        with open(paths['Folded stacks, two columns']) as f:
            columns = [line.split()[-2:] for line in f]
        self.assertEqual([sum(int(c[k]) for c in columns) for k in (0, 1)], [a['total'], b['total']])
        self.check_speedscope(paths['speedscope, two profiles'], [a['total'], b['total']])
        self.check_svg(paths['Picture (SVG)'], 'grown.pb.gz against heap.pb.gz', 'inuse_space in bytes', '+100.0 %')
        self.check_page(paths['Page (HTML)'], 'grown.pb.gz against heap.pb.gz')
        with open(paths['Arrays (JSON)']) as f:
            d = json.load(f)['data']
        self.assertEqual((sum(d['self_a']), sum(d['self_b']), d['a']['total'], d['b']['total']), (a['total'], b['total'], a['total'], b['total']))
        self.assertEqual({d['marks'][m] for m in d['mark']}, {'changed'})
        self.assertEqual({r['function']: r['delta_self'] for r in d['rows']}, {'read': 1024, 'write': 3072, 'main': 0})

    def test_readers(self):
        """In node: what they read, what they refuse, damaged files."""
        p = subprocess.run(['node', f'{TOP}/tests/e2e/browser/readers.mjs', f'{TOP}/build/npm/ui/node_modules'], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)


if __name__ == '__main__':
    unittest.main()
