"""One program before and after a deployment: the same path, another build. Every function is compared with itself, in every form of the answer."""
import html
import json
import os
import re
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES
from pprof_target import encode
from sonde_e2e import http_get, scraper, sonde
from test_ui import drive, missing

BESIDE_OTHERS = True
PERIOD = 10000000
OLD, NEW = 'aa' * 20, 'bb' * 20
INSTANCES = ['a:1', 'b:1', 'c:1']

# The compiler cloned other functions, the checkout lies in another folder, hash became twice as fast, and
# some of handle's own time was seen.
BUILDS = {
    OLD: ('/build/17/src/app.cc', [(['parse.constprop.0', 'handle', 'main'], 60), (['hash', 'handle', 'main'], 40), (['old_only', 'main'], 20), (['run::hfedcba9876543210', 'main'], 30)]),
    NEW: ('/build/18/src/app.cc', [(['parse', 'handle', 'main'], 60), (['hash.cold', 'handle.part.0', 'main'], 20), (['new_only', 'main'], 20), (['handle.part.0', 'main'], 2), (['run::h0123456789abcdef', 'main'], 30)]),
}
BOTH = {'main', 'handle', 'parse', 'hash', 'run'}
MARKS = {**dict.fromkeys(BOTH, 'both'), 'old_only': 'gone', 'new_only': 'new'}
# As each build names them.
EXACT = {f for _, stacks in BUILDS.values() for stack, _ in stacks for f in stack}


def profile(build, at, noise=0, start=0x400000):
    source, stacks = BUILDS[build]
    samples = [(stack, [v + noise, (v + noise) * PERIOD], {}) for stack, v in stacks]
    return encode(CPU_TYPES, CPU_TYPES[1], samples, (at - 10) * 10**9, 10 * 10**9, PERIOD, path='/opt/app/bin/app', build_id=build, source=source, start=start)


def unnamed(at, noise, start, node=''):
    """A library without names, loaded somewhere else each time."""
    samples = [([0x1234, 0x2345], [1000 + noise, (1000 + noise) * PERIOD], {}), ([0x2345], [500 + noise, (500 + noise) * PERIOD], {})]
    return encode(CPU_TYPES, CPU_TYPES[1], samples, (at - 10) * 10**9, 10 * 10**9, PERIOD, path=f'/{node}lib/libfoo.so.1', build_id='cc' * 20, start=start)


class Builds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scraper = scraper('scrape_configs: []\n')
        cls.addClassCleanup(cls.scraper.__exit__, None, None, None)
        cls.middle = int(time.time()) // 300 * 300 - 1200
        for i, instance in enumerate(INSTANCES):
            for block in range(-2, 2):
                at = cls.middle + block * 300 + 150
                cls.load(profile(OLD if block < 0 else NEW, at, i), at, instance, 'app')
                cls.load(unnamed(at, i, 0x7f0000000000 + (block + 3) * 0x1000000 * (i + 1), f'node{i}/'), at, instance, 'foo')

    @classmethod
    def load(cls, body, at, instance, job):
        q = urllib.parse.urlencode({'name': 'process_cpu', 'label.job': job, 'label.instance': instance})
        r = http_get(f'{cls.scraper.url}/api/v1/import?{q}', method='POST', body=body)
        assert r.status == 200, r.text

    def get(self, path, **params):
        r = self.scraper.get(f'{path}?' + urllib.parse.urlencode(params))
        self.assertEqual(r.status, 200, r.text)
        return r

    def diff(self, job='app', **params):
        return self.get('/api/v1/diff', query=f'{CPU}{{job="{job}"}}', start_a=self.middle - 600, end_a=self.middle - 1, start_b=self.middle, end_b=self.middle + 599, **params)

    def whole(self, path, **params):
        return self.get(path, **{'query': f'{CPU}{{job="app"}}', 'start': self.middle - 600, 'end': self.middle + 600, **params})

    def assert_marks(self, rows, mark='mark'):
        """Each function once, and new or gone only where it is."""
        self.assertEqual(sorted(r['function'] for r in rows), sorted(MARKS))
        for r in rows:
            self.assertEqual(r[mark] if r[mark] in ('new', 'gone') else 'both', MARKS[r['function']], r)

    def test_diff(self):
        d = self.diff().json['data']
        self.assert_marks(d['rows'])
        values = {r['function']: (r['self_a'], r['self_b']) for r in d['rows']}
        n = 2 * PERIOD * sum(i + 40 for i in range(3)), 2 * PERIOD * sum(i + 20 for i in range(3))
        self.assertEqual(values['hash'], n)
        self.assertEqual(len(d['function']), 1 + len(MARKS), 'one node for each, and the root')
        f = d['functions']
        builds = {name: f['builds'][i] for name, i in zip(f['name'], f['build'])}
        self.assertEqual((builds['parse'], builds['old_only'], builds['new_only']), (f'{OLD}, {NEW}', OLD, NEW))
        self.assertEqual({m for name, m in zip(f['name'], f['mapping']) if name in MARKS}, {'app'})

    def test_diff_with_replicates(self):
        d = self.diff(replicate='instance,5m').json['data']
        self.assert_marks(d['rows'])
        self.assertEqual({r['function']: r['self_verdict'] for r in d['rows'] if r['self_verdict'] in ('new', 'gone', '+', '-')}, {'hash': '-', 'old_only': 'gone', 'new_only': 'new'})

    def test_diff_in_every_format(self):
        rows = [line.split(',') for line in self.diff(format='csv').text.splitlines()]
        self.assert_marks([dict(zip(rows[0], r)) for r in rows[1:]])
        stacks = [line.rsplit(' ', 2)[0] for line in self.diff(format='folded').text.splitlines()]
        self.assertEqual(sorted(stacks), sorted({'main;handle', 'main;handle;parse', 'main;handle;hash', 'main;old_only', 'main;new_only', 'main;run'}))
        for form in ('svg', 'html', 'text', 'dot', 'speedscope', 'protobuf'):
            with self.subTest(form):
                text = re.sub('<script>.*?</script>', '', self.diff(format=form).text, flags=re.S)  # without the page's program
                for name in ('constprop', '.cold', '.part.0', '0123456789abcdef'):
                    self.assertNotIn(name, text)
                self.assertIn('parse', text)
        self.assertIn(f'{OLD}, {NEW}', self.diff(format='protobuf').text)

    def test_split_by_build(self):
        rows = self.diff(by_build=1).json['data']['rows']
        self.assertEqual({r['function'] for r in rows}, EXACT)
        self.assertEqual({r['mark'] for r in rows}, {'new', 'gone'})
        self.assertEqual({(r['mapping'], r['build']) for r in rows}, {('app', OLD), ('app', NEW)})
        text = self.whole('/api/v1/top', by_build=1, format='text').text
        self.assertIn(f'main app.cc [app] {OLD[:12]}\n', text)
        self.assertIn(f'main app.cc [app] {NEW[:12]}\n', text)
        self.assertEqual([r['function'] for r in self.whole('/api/v1/top', by_build=1).json['data']['rows']].count('main'), 2)
        r = self.scraper.get('/api/v1/top?' + urllib.parse.urlencode({'query': CPU + '{}', 'by_build': 'yes'}))
        self.assertEqual((r.status, r.json['error']), (400, 'by_build: "yes" is neither 0 nor 1'))

    def test_one_range_over_both(self):
        """Explore over the deployment."""
        self.assertEqual(sorted(r['function'] for r in self.whole('/api/v1/top').json['data']['rows']), sorted(MARKS))
        f = self.whole('/api/v1/flamegraph').json['data']['functions']
        self.assertEqual(sorted(n for n in f['name'] if n in MARKS), sorted(MARKS))
        self.assertEqual({f['builds'][b] for n, b in zip(f['name'], f['build']) if n in BOTH}, {f'{OLD}, {NEW}'})

    def test_functions_over_time(self):
        for by in ('self', 'total'):
            with self.subTest(by):
                d = self.whole('/api/v1/top_series', by=by, limit=20, step=300).json['data']
                lines = {line['metric']['function']: len(line['values']) for line in d['result']}
                self.assertEqual(len(lines), len(d['result']))
                self.assertLessEqual(set(lines), set(MARKS))
                self.assertEqual((lines['parse'], lines['run'], lines['old_only']), (4, 4, 2))
        d = self.whole('/api/v1/top_series', limit=20, step=300, by_build=1).json['data']
        self.assertEqual({line['metric']['function'] for line in d['result']}, EXACT - {'main', 'handle'})
        self.assertEqual({line['metric']['build'] for line in d['result']}, {OLD, NEW})

    def test_what_a_name_leads_to(self):
        """Filters, paths and lines by the name that is shown are those of its clones too."""
        for params in ({'focus': '^parse$'}, {'show_from': '^parse$'}, {'at': 'main', 'focus': '^parse$'}):
            with self.subTest(params):
                rows = {r['function']: r['self'] for r in self.whole('/api/v1/top', **params).json['data']['rows']}
                self.assertEqual(rows['parse'], 4 * PERIOD * sum(i + 60 for i in range(3)))
        lines = self.whole('/api/v1/lines', function='parse').json['data']
        self.assertEqual(lines['self'], 4 * PERIOD * sum(i + 60 for i in range(3)))

    def querier(self, method, body):
        r = http_get(f'{self.scraper.url}/querier.v1.QuerierService/{method}', method='POST', body=json.dumps(body).encode(), headers={'Content-Type': 'application/json'})
        self.assertEqual(r.status, 200, r.text)
        return r.json

    def side(self, start, end):
        return {'profile_typeID': CPU, 'label_selector': '{job="app"}', 'start': start * 1000, 'end': end * 1000}

    def test_grafana(self):
        a, b = self.side(self.middle - 600, self.middle - 1), self.side(self.middle, self.middle + 600)
        names = self.querier('Diff', {'left': a, 'right': b})['flamegraph']['names']
        self.assertEqual(sorted(names), sorted(['total', *MARKS]))
        names = self.querier('SelectMergeStacktraces', {**a, 'end': b['end']})['flamegraph']['names']
        self.assertEqual(sorted(names), sorted(['total', *MARKS]))
        chosen = {**a, 'end': b['end'], 'stack_trace_selector': {'call_site': [{'name': 'main'}, {'name': 'handle'}]}}
        self.assertEqual(sorted(self.querier('SelectMergeStacktraces', chosen)['flamegraph']['names']), ['handle', 'hash', 'main', 'parse', 'total'])
        points = self.querier('SelectSeries', {**chosen, 'step': 300})['series'][0]['points']
        self.assertEqual(len(points), 4, 'before and after')

    def test_pyroscope(self):
        sides = {'leftQuery': CPU + '{job="app"}', 'leftFrom': self.middle - 600, 'leftUntil': self.middle - 1, 'rightQuery': CPU + '{job="app"}', 'rightFrom': self.middle, 'rightUntil': self.middle + 599}
        for path, q in (('render-diff', sides), ('render', {'query': CPU + '{job="app"}', 'from': self.middle - 600, 'until': self.middle + 599})):
            with self.subTest(path):
                self.assertEqual(sorted(self.get(f'/pyroscope/{path}', **q).json['flamebearer']['names']), sorted(['total', *MARKS]))

    def tool(self, *args):
        p = sonde('diff', *args)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def test_tool(self):
        with tempfile.TemporaryDirectory() as d:
            for build in BUILDS:
                for i in range(3):
                    with open(f'{d}/{build[:2]}-{i}.pb.gz', 'wb') as f:
                        f.write(profile(build, self.middle, i))
                    with open(f'{d}/foo-{build[:2]}-{i}.pb.gz', 'wb') as f:
                        f.write(unnamed(self.middle, i, 0x7f0000000000 + (i + 1) * (0x100000 if build == OLD else 0x1000000)))
            files = (f'{d}/aa-*.pb.gz', '--', f'{d}/bb-*.pb.gz')
            server = ('--server', self.scraper.url, CPU + '{job="app"}', f'@{self.middle - 1}', '599s', '--', '{job="app"}', f'@{self.middle + 599}', '599s')
            for args in (files, server):
                with self.subTest(args):
                    rows = json.loads(self.tool(*args, '--format', 'json'))['rows']
                    self.assertEqual(sorted(r['function'] for r in rows), sorted(MARKS))
                    self.assertEqual({r['function']: r['self_verdict'] for r in rows if r['self_verdict'] in ('new', 'gone', '+', '-')}, {'hash': '-', 'old_only': 'gone', 'new_only': 'new'})
                    exact = json.loads(self.tool(*args, '--format', 'json', '--no-canon'))['rows']
                    self.assertEqual({r['function'] for r in exact}, EXACT)
                    by_build = json.loads(self.tool(*args, '--format', 'json', '--by-build'))['rows']
                    self.assertEqual({(r['function'], r['build']) for r in by_build}, {(f, b) for b, (_, stacks) in BUILDS.items() for stack, _ in stacks for f in stack})
                    self.assertEqual({(r['mark'], r['build']) for r in by_build}, {('gone', OLD), ('new', NEW)})
                    table = self.tool(*args, '--by-build', '--value', 'total')
                    for build in (OLD, NEW):
                        self.assertRegex(table, fr' main \[app\] {build[:12]}\n')
                    self.assertNotIn('[app]', self.tool(*args, '--value', 'total'))
            unnamed_json = ('--format', 'json', '--max-unresolved', '1')
            self.assert_unchanged(json.loads(self.tool(f'{d}/foo-aa-*.pb.gz', '--', f'{d}/foo-bb-*.pb.gz', *unnamed_json))['rows'])
            by_binary = json.loads(self.tool(f'{d}/foo-aa-*.pb.gz', '--', f'{d}/foo-bb-*.pb.gz', *unnamed_json, '--unnamed-by-binary'))['rows']
            self.assertEqual([r['function'] for r in by_binary], ['libfoo.so.1'])

    def test_tool_refuses(self):
        for args, text in ((('diff', 'a', 'b', '--by-build', '--unnamed-by-binary'), 'expected one of --by-build and --unnamed-by-binary'), (('top', 'a', '--by', 'file', '--by-build'), '--by-build: only with --by=function')):
            p = sonde(*args)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(text, p.stderr)

    def test_largest_functions(self):
        """`sonde top` and `sonde query` have one row for a function of both builds, or one for each."""
        with tempfile.TemporaryDirectory() as d:
            files = [f'{d}/{build[:2]}.pb.gz' for build in BUILDS]
            for build, path in zip(BUILDS, files):
                with open(path, 'wb') as f:
                    f.write(profile(build, self.middle))
            server = ('--server', self.scraper.url)
            query = ('query', *server, '--start', str(self.middle - 600), '--end', str(self.middle + 600), CPU + '{job="app"}')
            for args in (('top', *files), ('top', *server, '--query', CPU + '{job="app"}'), query):
                with self.subTest(args):
                    def table(*more):
                        p = sonde(*args, *more)
                        self.assertEqual(p.returncode, 0, p.stderr)
                        return re.findall(r'^ +[0-9].*%  (\S.*)$', p.stdout, re.M)

                    self.assertEqual(sorted(table()), sorted(f'{f} [app]' for f in MARKS))
                    split = table('--by-build', '--names', 'full')
                    self.assertEqual(len(split), len({(f, b) for b, (_, stacks) in BUILDS.items() for stack, _ in stacks for f in stack}))
                    self.assertEqual({line.split(' ')[0] for line in split}, EXACT)
                    self.assertLessEqual({f'main app.cc [app] {build[:12]}' for build in BUILDS}, set(split))

    def test_names(self):
        """Names as people say them or whole, in tables, pictures and pages alone."""
        whole, short = 'void shop::Basket<std::vector<int> >::add(int)', 'shop::Basket::add'
        at = self.middle + 150
        self.load(encode(CPU_TYPES, CPU_TYPES[1], [([whole, 'main'], [100, 100 * PERIOD], {})], (at - 10) * 10**9, 10 * 10**9, PERIOD), at, 'a:1', 'named')
        query = {'query': f'{CPU}{{job="named"}}', 'start': self.middle, 'end': self.middle + 300}
        sides = {'query': query['query'], **{f'{k}_{side}': query[k] for k in ('start', 'end') for side in 'ab'}}

        def text_of(path, form, q, **names):
            return html.unescape(self.get(path, format=form, **q, **names).text)

        for path, form, q in (('/api/v1/top', 'text', query), ('/api/v1/flamegraph', 'svg', query), ('/api/v1/diff', 'text', sides), ('/api/v1/diff', 'svg', sides)):
            for names, is_short in (({}, False), ({'names': 'full'}, False), ({'names': 'short'}, True)):
                with self.subTest((path, form, names)):
                    text = text_of(path, form, q, **names)
                    self.assertEqual(f'>{short}</text>' in text or f'  {short}' in text, is_short)
                    self.assertEqual(whole in text, form == 'svg' or not is_short)
        for path, q in (('/api/v1/flamegraph', query), ('/api/v1/diff', sides)):
            for names, is_full in (({}, False), ({'names': 'full'}, True), ({'names': 'short'}, False)):
                about = json.loads(re.search(r'id="about">(.*?)</script>', self.get(path, format='html', **q, **names).text, re.S)[1])
                self.assertEqual(about.get('names') == 'full', is_full)
        for path, form in (('/api/v1/top', 'csv'), ('/api/v1/flamegraph', 'folded'), ('/api/v1/flamegraph', 'json')):
            self.assertIn(whole, self.get(path, format=form, **query, names='short').text)
        r = self.scraper.get('/api/v1/top?' + urllib.parse.urlencode({**query, 'names': 'long'}))
        self.assertEqual((r.status, r.json['error']), (400, 'names: "long" is neither short nor full'))
        for names, want in (((), short), (('--names', 'full'), whole)):
            p = sonde('query', '--server', self.scraper.url, '--start', str(self.middle), '--end', str(self.middle + 300), query['query'], *names)
            self.assertIn(f'%  {want} [app]\n', p.stdout)

    def assert_unchanged(self, rows):
        self.assertEqual(sorted(r['function'] for r in rows), ['libfoo.so.1+0x1234', 'libfoo.so.1+0x2345'])
        self.assertEqual({r['self_verdict'] for r in rows} | {r['total_verdict'] for r in rows}, {'~'})

    def test_unnamed_code_elsewhere(self):
        """An unchanged program without names, at another address in each process and another path on each node: no finding."""
        d = self.diff('foo', replicate='instance,5m').json['data']
        self.assert_unchanged(d['rows'])
        self.assertEqual({d['verdicts'][v] for v in d['verdict']} - {'~'}, set())
        self.assertEqual({r['mapping'] for r in d['rows']}, {'libfoo.so.1'})

    def test_in_the_browser(self):
        why = missing()
        if why:
            self.skipTest(why)
        times = {'start_a': self.middle - 600, 'end_a': self.middle - 1, 'start_b': self.middle, 'end_b': self.middle + 599}
        query = CPU + '{job="app"}'
        story = {'url': self.scraper.url + '/', 'compare': urllib.parse.urlencode({'query_a': query, 'query_b': query, **times}), 'builds': [OLD, NEW],
                 'range': urllib.parse.urlencode({'query': query, 'start': self.middle - 600, 'end': self.middle + 600})}
        with tempfile.TemporaryDirectory(prefix='sonde-builds.') as d:
            result = drive({'deploys': story}, os.environ.get('SONDE_SCREENSHOTS', d))['deploys']
        self.assertNotIn('error', result, result.get('error'))


if __name__ == '__main__':
    unittest.main()
