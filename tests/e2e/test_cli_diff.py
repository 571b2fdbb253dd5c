"""sonde diff: replicates, formats, names of two builds, conditions for CI, errors that say what was expected."""
import gzip
import json
import os
import random
import re
import subprocess
import tempfile
import unittest
import xml.dom.minidom

from sonde_e2e import GO, program
from test_cli_merge import encode

BESIDE_OTHERS = True

FUNCTIONS = [f'work_{i}' for i in range(40)]
FACTOR = {'work_3': 0.5, 'work_5': 4}


def run_of(rnd, factor, binary_names=lambda f: f, gone='old_only', new=None):
    """main → work_i, with 5 % from run to run; values are (samples, nanoseconds at 1 ms a sample)."""
    rows = []
    for i, f in enumerate(FUNCTIONS):
        count = round(1500 / (i + 1) ** 0.5 * factor.get(f, 1) * rnd.gauss(1, 0.03))
        rows.append(([binary_names(f), 'main'], (count, count * 1000), {'thread_name': 'even' if i % 2 else 'odd'}))
    for f in (gone, new):
        if f:
            count = round(200 * rnd.gauss(1, 0.03))
            rows.append(([f, 'main'], (count, count * 1000), {'thread_name': 'even'}))
    return encode(rows)


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        rnd = random.Random(11)
        for side, n in (('a', 5), ('b', 5), ('same', 5)):
            os.mkdir(f'{cls.dir.name}/{side}')
            for i in range(n):
                raw = run_of(rnd, FACTOR if side == 'b' else {}, gone=None if side == 'b' else 'old_only', new='fresh' if side == 'b' else None)
                with open(f'{cls.dir.name}/{side}/{i}.pb.gz', 'wb') as f:
                    f.write(gzip.compress(raw))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def diff(self, *args, status=0):
        p = subprocess.run([program('sonde'), 'diff', *args], cwd=self.dir.name, capture_output=True, text=True)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stdout if status == 0 else p.stderr

    def rows(self, *args):
        d = json.loads(self.diff(*args, '--format', 'json'))
        return d, {r['function']: r for r in d['rows']}

    def test_verdicts(self):
        d, rows = self.rows('a', '--', 'b')
        self.assertEqual((d['statistics']['n_a'], d['statistics']['n_b']), (5, 5))
        self.assertEqual({f: rows[f]['self_verdict'] for f in ('work_3', 'work_5', 'fresh', 'old_only')},
                         {'work_3': '-', 'work_5': '+', 'fresh': 'new', 'old_only': 'gone'})
        wrong = [f for f in FUNCTIONS if f not in FACTOR and rows[f]['self_verdict'] != '~']
        self.assertEqual(wrong, [])
        self.assertLess(abs(rows['work_3']['self_effect'] + 0.5), 0.06)
        self.assertLess(rows['work_3']['self_effect_low'], -0.5 + 0.06)
        self.assertLess(rows['work_3']['self_q'], 0.001)
        self.assertGreater(rows['work_9']['self_min_effect'], 0.01)

    def test_no_change(self):
        _, rows = self.rows('a', '--', 'same')
        self.assertEqual({r[k] for r in rows.values() for k in ('self_verdict', 'total_verdict')} - {'few'}, {'~'})  # few: main itself has no samples

    def test_half_the_time(self):
        """Equal work in half the time is −50 %, whatever the windows' lengths."""
        for i in range(3):
            for side, count in (('slow', 2000), ('fast', 1000)):
                with open(f'{self.dir.name}/{side}-{i}.pb', 'wb') as f:
                    f.write(encode([(['work', 'main'], (count + i, (count + i) * 1000), {})]))
        d, rows = self.rows('slow-*.pb', '--', 'fast-*.pb')
        self.assertAlmostEqual(rows['work']['self_effect'], -0.5, places=3)
        self.assertAlmostEqual(d['b']['median'] / d['a']['median'], 0.5, places=3)
        self.assertIn('-50.0 %', self.diff('slow-*.pb', '--', 'fast-*.pb'))

    def test_one_run_a_side(self):
        text = self.diff('a/0.pb.gz', 'b/0.pb.gz')
        self.assertIn('single run: no significance', text)
        self.assertRegex(text, r'untested work_3\b')

    def test_shares(self):
        """One function twice as large does not make the others smaller."""
        d, rows = self.rows('a', '--', 'b', '--per', 'total')
        self.assertEqual(rows['work_5']['self_verdict'], '+')
        self.assertEqual([f for f in FUNCTIONS if f not in FACTOR and rows[f]['self_verdict'] != '~'], [])
        self.assertEqual(d['unit'], 'nanoseconds')
        heads = re.findall(r'^[AB]: median ([0-9.]+)(\S+),', self.diff('a', '--', 'b', '--per', 'total'), re.M)
        for (value, unit), side in zip(heads, (d['a'], d['b']), strict=True):
            self.assertAlmostEqual(float(value) * {'us': 1e3, 'ms': 1e6, 's': 1e9}[unit], side['median'], delta=side['median'] / 100)

    def test_methods(self):
        for method, want in (('welch', '-'), ('none', 'untested'), ('bootstrap', None)):
            _, rows = self.rows('a', '--', 'b', '--method', method)
            if want:
                self.assertEqual(rows['work_3']['self_verdict'], want)
            else:
                self.assertLess(rows['work_3']['self_effect_high'], -0.4)

    def test_fail_on(self):
        self.assertRegex(self.diff('a', '--', 'b', '--fail-on', 'self>20%', status=1), r'self>20%: [12] functions, most of all (work_5|fresh)')
        self.diff('a', '--', 'b', '--fail-on', 'total>2%', '--fail-on', 'any>500%', '--focus', 'work_3')
        self.diff('a', '--', 'b', '--fail-on', 'total>2%', '--focus', 'work_5', status=1)
        self.diff('a', '--', 'same', '--fail-on', 'any>0')
        self.assertIn('expected total, self or any', self.diff('a', '--', 'b', '--fail-on', 'total<3', status=2))

    def test_formats(self):
        folded = self.diff('a', '--', 'b', '--format', 'folded').splitlines()
        stacks = {line.rsplit(' ', 2)[0]: tuple(map(int, line.rsplit(' ', 2)[1:])) for line in folded}
        self.assertEqual(stacks['main;fresh'][0], 0)
        self.assertGreater(stacks['main;old_only'][0], 0)
        # as flamegraph.pl takes a line apart: the second column first, then whether what is left ends in a number too
        number = r'^(.*)\s+?(\d+(?:\.\d*)?)$'
        for line in folded + self.diff('a', '--', 'b', '--format', 'folded', '--lines').splitlines():
            left, after = re.match(number, line).groups()
            stack, before = re.match(number, left).groups()
            self.assertIsNone(re.match(number, stack), line)
            self.assertTrue(int(before) + int(after) > 0 and stack.startswith('main'), line)
        # of fewer runs as much as of more: the sums are of as many runs a side
        few = {line.rsplit(' ', 2)[0]: tuple(map(int, line.rsplit(' ', 2)[1:])) for line in self.diff('a/0.pb.gz', 'a/1.pb.gz', '--', 'b', '--format', 'folded').splitlines()}
        self.assertEqual([few[s][1] for s in stacks], [stacks[s][1] for s in stacks])
        two = self.rows('a/0.pb.gz', 'a/1.pb.gz', '--', 'b')[1]['work_7']['self_a']
        self.assertEqual(few['main;work_7'][0], round(two * 5 / 2))
        self.assertIn('self_verdict', self.diff('a', '--', 'b', '--format', 'csv').splitlines()[0])
        for name in ('json', 'md'):
            self.assertEqual(self.diff('a', '--', 'b', f'--{name}'), self.diff('a', '--', 'b', '--format', name))
            self.assertIn('expected one of', self.diff('a', '--', 'b', f'--{name}', '--format', 'csv', status=2))
        markdown = self.diff('a', '--', 'b', '-o', '-', '--format', 'md', '--top', '3').splitlines()
        self.assertEqual(sum(line.endswith('` |') for line in markdown), 3)
        self.assertIn('40 more functions', markdown[-1])

    def test_pictures(self):
        self.diff('a', '--', 'b', '-o', 'd.svg', '--label-a', 'main', '--label-b', 'pr <1>')
        with open(f'{self.dir.name}/d.svg') as f:
            text = f.read()
        xml.dom.minidom.parseString(text)
        self.assertIn('more in pr &lt;1&gt;', text)
        fill = dict(re.findall(r'<title>(\w+) \[app\].*?<rect fill="hsl\((\d+)', text, re.S))
        self.assertEqual((fill['work_3'], fill['work_5'], fill['work_9']), ('214', '8', '210'))
        self.assertRegex(text, r'(?s)work_5 \[app\].*?\nmain: [\d.]+\w+ ± [\d.]+\w+ \(n = 5\)\npr &lt;1&gt;: .*?\+\d+\.\d %, q = ')
        self.diff('a', '--', 'b', '-o', 'd.html', '--by', 'label:thread_name')
        with open(f'{self.dir.name}/d.html') as f:
            page = f.read()
        self.assertNotRegex(page, r'(src|href)=|https?://(?!www\.w3\.org/2000/svg)')
        self.assertIn('<title>even\n', page[page.index('id="plain"'):])
        about = json.loads(re.search(r'id="about">(.*?)</script>', page, re.S)[1])
        self.assertTrue(about['panels'])
        self.assertEqual({row[0]: row[7][0] for row in about['rows'] if row[0] in ('work_3', 'work_5', 'work_9')}, {'work_3': '-', 'work_5': '+', 'work_9': '~'})

    def test_moved(self):
        """What one sibling gained another lost: the parent is as it was."""
        for i in range(3):
            for side, inner in (('m', (1000, 500)), ('n', (500, 1000))):
                rows = [([f'inner_{k}', 'outer', 'main'], (v + 3 * i, (v + 3 * i) * 1000), {}) for k, v in enumerate(inner)]
                with open(f'{self.dir.name}/{side}-{i}.pb', 'wb') as f:
                    f.write(encode(rows))
        d, _ = self.rows('m-*.pb', '--', 'n-*.pb')
        names = [d['functions']['name'][f] for f in d['function']]
        verdicts = dict(zip(names, (d['verdicts'][v] for v in d['verdict'])))
        self.assertEqual((verdicts['outer'], verdicts['inner_0'], verdicts['inner_1']), ('~', 'moved', 'moved'))

    def test_two_builds(self):
        """Names that compilers number anew are joined, unless they are compared as they are."""
        for i in range(3):
            for side, name in (('x', 'hash.constprop.0'), ('y', 'hash.part.3')):
                with open(f'{self.dir.name}/{side}-{i}.pb', 'wb') as f:
                    f.write(encode([([name, 'app::run::h0123456789abcde' + ('f' if side == 'x' else '0')], (500 + i, (500 + i) * 1000), {})]))
        _, rows = self.rows('x-*.pb', '--', 'y-*.pb')
        self.assertEqual({f: r['total_verdict'] for f, r in rows.items()}, {'hash': '~', 'app::run': '~'})
        _, rows = self.rows('x-*.pb', '--', 'y-*.pb', '--no-canon')
        self.assertEqual(rows['hash.part.3']['self_verdict'], 'new')

    @unittest.skipUnless(os.path.exists(GO), 'no Go')
    def test_pprof(self):
        self.diff('a', '--', 'b', '-o', 'd.pb.gz')
        top = subprocess.run([GO, 'tool', 'pprof', '-top', '-nodecount=100', '-nodefraction=0', f'{self.dir.name}/d.pb.gz'], capture_output=True, text=True, check=True).stdout
        self.assertRegex(top, r'(?m)^\s+-\S+ .* work_3$')
        self.assertRegex(top, r'(?m)^\s+[\d.]+\w+ .* work_5$')

    def stacks_of(self, path):
        """Of a difference as pprof: {stack: after − before}, as fold prints it."""
        text = subprocess.run([program('sonde'), 'fold', path], cwd=self.dir.name, capture_output=True, text=True, check=True).stdout
        sums = {}
        for stack, _, value in (line.rpartition(' ') for line in text.splitlines() if line != '# no samples'):
            sums[stack] = sums.get(stack, 0) + int(value)
        return sums

    def test_pprof_is_of_what_was_compared(self):
        """Filters, labels, lines and names are in the profile as they are in the stacks of the other formats."""
        def run(directory, hash_, slow):
            stack = [('leaf.constprop.' + hash_, f'{directory}/leaf.c', 7), ('middle', f'{directory}/middle.c', 5), ('main', f'{directory}/main.c', 3)]
            return encode([(stack, (100 * slow, 100000 * slow), {'thread_name': 'odd'}), (stack[1:], (50, 50000), {'thread_name': 'even'}),
                           ([('leaf.constprop.' + hash_, f'{directory}/leaf.c', 8), *stack[1:]], (30, 30000), {'thread_name': 'even'}), ([('rest', '', 0), stack[2]], (20, 20000 * slow), {})])
        for side, slow in (('pa', 1), ('pb', 3)):
            with open(f'{self.dir.name}/{side}.pb', 'wb') as f:
                f.write(run(f'/build/{side}', str(slow), slow))
        plain = ()
        for flags in (plain, ('--focus', 'leaf'), ('--focus', 'leaf[.]c'), ('--ignore', 'leaf'), ('--hide', 'middle'), ('--hide', '^main$', '--focus', 'leaf'), ('--show', 'm'), ('--show-from', 'middle'),
                      ('--focus', 'nothing'), ('--by', 'thread'), ('--by', 'thread', '--show', 'thread_name|odd|leaf'), ('--lines',), ('--no-canon',), ('--no-canon', '--lines', '--by', 'thread', '--ignore', 'rest'), ('--sample-index', 'samples', '--focus', 'rest')):
            self.diff('pa.pb', 'pb.pb', *flags, '-o', 'p.folded')
            self.diff('pa.pb', 'pb.pb', *flags, '-o', 'p.pb.gz')
            with open(f'{self.dir.name}/p.folded') as f:
                pairs = {stack: int(b) - int(a) for stack, a, b in (line.rsplit(' ', 2) for line in f.read().splitlines())}
            self.assertEqual({k: v for k, v in self.stacks_of('p.pb.gz').items() if v}, {k: v for k, v in pairs.items() if v}, flags)
        self.assertEqual(pairs, {'main;rest': 0}, 'as many samples')
        self.assertEqual(self.diff('pa.pb', 'pb.pb', '--sample-index', 'samples', '-o', 'p.pb.gz'), '')
        self.assertEqual(self.stacks_of('p.pb.gz')['main;middle;leaf'], 200, 'and shown first is what was compared')
        if os.path.exists(GO):  # filtered by pprof it is the same
            self.diff('pa.pb', 'pb.pb', '-o', 'p.pb.gz')
            self.diff('pa.pb', 'pb.pb', '--focus', 'leaf', '--hide', 'middle', '-o', 'q.pb.gz')
            by_pprof, by_us = (subprocess.run([GO, 'tool', 'pprof', '-traces', *flags, f'{self.dir.name}/{name}'], capture_output=True, text=True, check=True).stdout.partition('-----')[2]
                               for name, flags in (('p.pb.gz', ['-focus=leaf', '-hide=middle']), ('q.pb.gz', [])))
            self.assertIn('leaf', by_us)
            self.assertEqual(by_us, by_pprof)

    def test_lines(self):
        """Lines of one function apart, joined by the last part of the file's name."""
        def run(directory, costs):
            return encode([([('work', f'{directory}/work.c', line), ('main', f'{directory}/main.c', 3)], (n, n * 1000), {}) for line, n in costs.items()])
        for i in range(3):
            for side, factor in (('la', 1), ('lb', 2)):
                with open(f'{self.dir.name}/{side}-{i}.pb', 'wb') as f:
                    f.write(run(f'/build/{side}', {10: 500 + i, 11: (300 + i) * factor}))
        _, rows = self.rows('la-*.pb', '--', 'lb-*.pb', '--lines')
        self.assertEqual({f: r['self_verdict'] for f, r in rows.items() if 'work' in f}, {'work work.c:10': '~', 'work work.c:11': '+'})
        text = subprocess.run([program('sonde'), 'fold', '--lines', 'la-0.pb'], cwd=self.dir.name, capture_output=True, text=True, check=True).stdout
        self.assertEqual(text, 'main main.c:3;work work.c:10 500000\nmain main.c:3;work work.c:11 300000\n')

    def test_per_metric(self):
        """Values divided by what metrics.csv says of each run: twice the work in twice the time is no change."""
        os.mkdir(f'{self.dir.name}/metrics')
        lines = ['side,run,blocks']
        for side, factor in (('m', 1), ('n, "2"', 2)):
            for i in range(3):
                with open(f'{self.dir.name}/metrics/{side}-{i}.pb', 'wb') as f:
                    f.write(encode([(['work', 'main'], ((1000 + i) * factor, (1000 + i) * factor * 1000), {})]))
                quoted = '"' + side.replace('"', '""') + '"' if ',' in side else side
                lines.append(f'{quoted},{i},{100 * factor}')
        with open(f'{self.dir.name}/metrics/metrics.csv', 'w', newline='') as f:
            f.write('\r\n'.join(lines) + '\r\n')
        args = ('metrics/m-*.pb', '--', 'metrics/n*.pb')
        _, rows = self.rows(*args)
        self.assertAlmostEqual(rows['work']['self_effect'], 1, places=2)
        d, rows = self.rows(*args, '--per', 'metric:blocks')
        self.assertAlmostEqual(rows['work']['self_effect'], 0, places=2)
        self.assertAlmostEqual(d['a']['median'], 10010)
        self.assertIn('per blocks', self.diff(*args, '--per', 'metric:blocks'))
        self.assertIn('expected columns side, run and bloks', self.diff(*args, '--per', 'metric:bloks', status=2))
        self.assertIn('a/metrics.csv', self.diff('a', '--', 'b', '--per', 'metric:blocks', status=2))

    def test_what_the_runs_are_worth(self):
        """Shares without a name, cut and lost stand beside the runs; beyond their limits the result is written and the status is 2."""
        def run(name, unnamed, cut, lost=0, named=600):
            rows = [(['work', 'main'], (named - cut, (named - cut) * 1000), {})] if named > cut else []
            rows += [(['app+0x4711'], (unnamed, unnamed * 1000), {})] if unnamed else []
            rows += [(['work', 'main'], (cut, cut * 1000), {'stack': 'truncated:read_fault'})] if cut else []
            with open(f'{self.dir.name}/{name}.pb', 'wb') as f:
                f.write(encode(rows, comments=['lost x samples', 'marker lost 9 samples', f'lost {lost} samples since 7'] if lost else []))
        run('worth', 400, 100, lost=50)
        run('clean', 0, 0)
        self.assertIn('n = 1, 40 % in code without names, 10 % of stacks cut, 4.8 % of samples lost\nB: median 600us, n = 1\n', self.diff('worth.pb', 'clean.pb'))
        self.diff('worth.pb', 'clean.pb', '-o', 'worth.html')
        with open(f'{self.dir.name}/worth.html') as f:
            about = json.loads(re.search(r'<script[^>]*id="about"[^>]*>(.*?)</script>', f.read()).group(1))
        self.assertEqual(about['a']['quality'].keys(), {'cut', 'lost', 'frequency_hz'})
        self.assertEqual([round(about['a']['quality'][k], 4) for k in ('cut', 'lost')], [0.1, 0.0476])
        self.assertEqual(about['b']['quality'].keys(), {'frequency_hz'}, 'no stack says how it ends')
        d, _ = self.rows('clean.pb', 'worth.pb')
        self.assertEqual([d['a'][k] for k in ('unresolved', 'cut', 'lost')], [0, 0, 0])
        self.assertEqual([round(d['b'][k], 4) for k in ('unresolved', 'cut', 'lost')], [0.4, 0.1, 0.0476])
        for args, text in ((('--max-lost', '0.04'), 'A: 50 of 1050 samples were lost, above --max-lost'), (('--max-unresolved', '0.39'), 'A: 40.0 % is in code without names, above --max-unresolved')):
            self.assertIn(text, self.diff('worth.pb', 'clean.pb', '-o', 'worth.txt', *args, status=2))
            with open(f'{self.dir.name}/worth.txt') as f:
                self.assertIn('work', f.read())
            os.unlink(f'{self.dir.name}/worth.txt')
            self.assertIn(text.replace('A: ', 'new: '), self.diff('clean.pb', 'worth.pb', '--label-b', 'new', *args, status=2))
        run('stripped', 700, 0)
        self.assertIn('above --max-unresolved', self.diff('clean.pb', 'stripped.pb', status=2))
        self.diff('clean.pb', 'stripped.pb', '--max-unresolved', '1')
        run('short', 9, 0, named=0)
        self.diff('clean.pb', 'short.pb')
        self.assertEqual(self.diff('clean.pb', 'stripped.pb', '--focus', '^work$').count('without names'), 0)

    def test_values_below_0(self):
        """A difference is no run. Such values cancel: what is in one run is then not in the sum of all."""
        for name, value in (('plus', 500), ('minus', -500)):
            with open(f'{self.dir.name}/{name}.folded', 'w') as f:
                f.write(f'main;a {value}\nmain;b 1000\n')
        for args in (('plus.folded', 'minus.folded'), ('minus.folded', '--', 'plus.folded', 'plus.folded')):
            self.assertIn('minus.folded has values below 0', self.diff(*args, status=2))

    def test_refused(self):
        for args, text in ((('a', 'b', 'same'), 'BEFORE... -- AFTER'), (('a', '--'), 'no files after'), (('--', 'b'), 'no files before'),
                           (('nothing*', '--', 'b'), 'no profile there'), (('a', '--', 'absent.pb.gz'), 'absent.pb.gz'),
                           (('a', '--', 'b', '--focus', '('), '--focus'), (('a', '--', 'b', '--per', 'hour'), '--per'), (('a', '--', 'b', '--per', 'cpu-second'), 'only with --server'), (('a', '--', 'b', '--of', 'service'), '--of=service: only with --server'),
                           (('a', '--', 'b', '--sample-index', 'heap'), 'heap')):
            self.assertIn(text, self.diff(*args, status=2))


if __name__ == '__main__':
    unittest.main()
