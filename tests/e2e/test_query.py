"""What the query API makes of stored profiles, beside `go tool pprof` on the same profiles and beside sums made here."""
import json
import os
import random
import re
import tempfile
import time
import unittest
from xml.etree import ElementTree

from pprof_target import encode
from sonde_e2e import Pprof, go_pprof, scraper
from test_api import url

BESIDE_OTHERS = True

TYPES = [('samples', 'count'), ('cpu', 'nanoseconds')]
CPU = 'p:cpu:nanoseconds:cpu:nanoseconds'
PERIOD = 10000000
FUNCTIONS = ['main', 'work', 'parse', 'alloc', 'free', 'read', 'hash', 'Sort', 'idle']


def random_samples(rnd, n, functions=FUNCTIONS):
    """Recursion, one-frame stacks and a missing label included."""
    out = []
    for _ in range(n):
        stack = [rnd.choice(functions) for _ in range(rnd.randrange(1, 7))] + ['main']
        count = rnd.randrange(1, 9)
        labels = {'thread_name': rnd.choice(['gc', 'main', 'io'])} if rnd.random() < .8 else {}
        if rnd.random() < .5:
            labels['stage'] = rnd.choice(['one', 'two'])
        out.append((stack, [count, count * PERIOD], labels))
    return out


def by_stack(samples, column, labels=()):
    """Sums per stack of function names, leaf first, and of these labels."""
    out = {}
    for stack, values, have in samples:
        key = (tuple(stack), *(have.get(k, '') for k in labels))
        out[key] = out.get(key, 0) + values[column]
    return {k: v for k, v in out.items() if v}


class QueryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scraper = scraper('scrape_configs: []\n')
        rnd = random.Random(11)
        cls.time = time.time_ns() // 10**9 - 7200
        cls.samples = [random_samples(rnd, 60), random_samples(rnd, 60, FUNCTIONS[:-1] + ['fresh'])]
        cls.files = tempfile.TemporaryDirectory()
        cls.paths = []
        for i, samples in enumerate(cls.samples):
            body = encode(TYPES, TYPES[1], samples, (cls.time + 600 * i) * 10**9, 10 * 10**9, PERIOD)
            cls.paths.append(os.path.join(cls.files.name, f'{i}.pb.gz'))
            with open(cls.paths[-1], 'wb') as f:
                f.write(body)
            r = cls.scraper.get(url('/api/v1/import', name='p', **{'label.run': str(i)}), method='POST', body=body)
            assert r.status == 200, r.text

    @classmethod
    def tearDownClass(cls):
        cls.scraper.__exit__(None, None, None)
        cls.files.cleanup()

    def ask(self, path, **params):
        r = self.scraper.get(url(path, **{'start': self.time - 60, 'end': self.time + 3600, **params}))
        self.assertEqual(r.status, 200, r.text)
        return r

    def of_pprof(self, *args, path=None):
        """Sums per stack of what go tool pprof writes with these options."""
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, 'out.pb.gz')
            r = go_pprof('-proto', '-symbolize=none', '-output', out, *args, path or self.paths[0])
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(out, 'rb') as f:
                p = Pprof(f.read())
        return by_stack(p.samples, [t for t, _ in p.types].index('cpu'))

    def of_sonde(self, **params):
        p = Pprof(self.ask('/api/v1/profile', query=f'{CPU}{{run="0"}}', **params).body)
        return by_stack(p.samples, 0)

    def test_filters_are_those_of_pprof(self):
        for options in ({'focus': 'alloc'}, {'ignore': 'alloc|free'}, {'hide': '^(read|work)$'}, {'show': 'main|hash|Sort'},
                        {'show_from': 'work'}, {'show_from': 'parse|read', 'hide': 'alloc'}, {'focus': 'hash', 'ignore': 'idle', 'show': 'a'},
                        {'focus': 'nothing'}, {'focus': 'app.c'}, {'hide': 'main'}, {'focus': '(?i)SORT'}):
            with self.subTest(options=options):
                want = self.of_pprof(*(f'-{k}={v}' for k, v in options.items()))
                self.assertEqual(self.of_sonde(**options), want)

    def test_tags_are_those_of_pprof(self):
        for options in ({'tagroot': 'thread_name'}, {'tagleaf': 'thread_name'}, {'tagroot': 'thread_name,stage'},
                        {'tagroot': 'stage', 'tagleaf': 'thread_name'}, {'tagroot': 'thread_name', 'focus': 'gc'}):
            with self.subTest(options=options):
                want = self.of_pprof(*(f'-{k}={v}' for k, v in options.items()))
                self.assertEqual(self.of_sonde(**options), want)

    def test_tags_beside_groups(self):
        p = Pprof(self.ask('/api/v1/profile', query=f'{CPU}{{run="0"}}', group_by='stage', tagroot='thread_name').body)
        want = {}
        for stack, values, labels in self.samples[0]:
            key = ((*stack, labels.get('thread_name', '')), labels.get('stage', ''))
            want[key] = want.get(key, 0) + values[1]
        self.assertEqual(by_stack(p.samples, 0, ['stage']), want)

    def series(self, **params):
        """{labels: sum of all points}."""
        r = self.ask('/api/v1/query_series', query=CPU + '{run="0"}', step=300, **params).json['data']['result']
        return {tuple(sorted(line['metric'].items())): sum(float(v) for _, v in line['values']) for line in r}

    def test_filters_over_time(self):
        for options in ({'focus': 'alloc'}, {'ignore': 'alloc|free', 'show': 'main|hash'}, {'show_from': 'parse|read', 'hide': 'alloc'},
                        {'hide': 'main'}, {'at': 'main'}, {'at': 'work'}, {'focus': 'app.c'}):
            with self.subTest(options=options):
                whole = self.ask('/api/v1/flamegraph', query=CPU + '{run="0"}', **options).json['data']['total_by_node'][0]
                self.assertAlmostEqual(self.series(group_by='', **options).get((), 0), whole, places=0)
        self.assertEqual(self.series(focus='nothing'), {})
        want = {}
        for stack, values, labels in self.samples[0]:
            if 'alloc' in stack:
                key = (('thread_name', labels['thread_name']),) if 'thread_name' in labels else ()
                want[key] = want.get(key, 0) + values[1]
        got = self.series(focus='alloc', group_by='thread_name')
        self.assertEqual({k: round(v) for k, v in got.items()}, want)
        for params, text in (({'tagroot': 'stage'}, 'use group_by'), ({'format': 'svg'}, 'json and csv')):
            r = self.scraper.get(url('/api/v1/query_series', query=CPU + '{}', **params))
            self.assertEqual((r.status, text in r.text), (400, True), r.text)

    def top(self, **params):
        return self.ask('/api/v1/top_series', query=CPU + '{}', step=60, **params).json['data']

    def test_top_series(self):
        own, whole = {}, {}
        for stack, values, _ in self.samples[0] + self.samples[1]:
            own[stack[0]] = own.get(stack[0], 0) + values[1]
            for f in set(stack):
                whole[f] = whole.get(f, 0) + values[1]
        all_points = {t: float(v) for t, v in self.ask('/api/v1/query_series', query=CPU + '{}', step=60, group_by='').json['data']['result'][0]['values']}
        self.assertEqual(len(all_points), 2)
        for by, want in (('self', own), ('total', whole)):
            d = self.top(by=by, limit=4)
            names = [line['metric']['function'] for line in d['result']]
            self.assertEqual(names, sorted(want, key=want.get, reverse=True)[:4], by)
            self.assertEqual({line['metric']['function']: sum(float(v) for _, v in line['values']) for line in d['result']}, {n: want[n] for n in names})
            self.assertEqual([(line['self'], line['total']) for line in d['result']], [(own.get(n, 0), whole[n]) for n in names])
            self.assertEqual((d['by'], d['total'], d['n_functions'], d['rest']['n_functions']), (by, sum(own.values()), len(whole), len(whole) - 4))
            rest = sum(float(v) for _, v in d['rest']['values'])
            if by == 'self':
                points = {}
                for line in d['result'] + [d['rest']]:
                    for t, v in line['values']:
                        points[t] = points.get(t, 0) + float(v)
                self.assertEqual(points, all_points)
            else:
                self.assertEqual(rest, 0)  # main is on every stack
        d = self.top(by='total', hide='main', limit=1)
        stacks = [(set(stack) - {'main'}, values[1]) for stack, values, _ in self.samples[0] + self.samples[1]]
        first = d['result'][0]['metric']['function']
        self.assertEqual(sum(float(v) for _, v in d['rest']['values']), sum(v for s, v in stacks if s and first not in s))
        self.assertEqual(self.top(focus='nothing'), {**self.top(focus='nothing'), 'result': [], 'total': 0, 'rest': {'n_functions': 0, 'values': []}})
        rows = self.ask('/api/v1/top_series', query=CPU + '{}', step=60, limit=2, format='csv').text.splitlines()
        self.assertEqual((rows[0], rows[-1].split(',')[0]), ('function,file,time,value', '(rest)'))
        for params, text in (({'limit': 64}, '63'), ({'by': 'size'}, 'neither self nor total'), ({'group_by': 'run'}, 'group_by'), ({'format': 'dot'}, 'json and csv')):
            r = self.scraper.get(url('/api/v1/top_series', query=CPU + '{}', **params))
            self.assertEqual((r.status, text in r.text), (400, True), r.text)

    def profiles(self, query=CPU + '{}', **params):
        return self.ask('/api/v1/profiles', query=query, **params).json['data']

    def test_profiles(self):
        totals = [sum(values[1] for _, values, _ in samples) for samples in self.samples]
        d = self.profiles()
        self.assertEqual((d['profile_type'], d['unit'], d['n_profiles'], d['total']), (CPU, 'nanoseconds', 2, sum(totals)))
        self.assertEqual([(p['time'], p['duration'], p['value'], p['labels']['run']) for p in d['profiles']],
                         [(self.time + 600 * i + 10, 10, totals[i], str(i)) for i in range(2)])
        best = self.profiles(limit=1)
        self.assertEqual((best['n_profiles'], best['profiles']), (2, [max(d['profiles'], key=lambda p: p['value'])]))
        gc = sum(values[1] for _, values, labels in self.samples[0] if labels.get('thread_name') == 'gc')
        self.assertEqual([p['value'] for p in self.profiles(CPU + '{run="0",thread_name="gc"}')['profiles']], [gc])
        fresh = sum(values[1] for stack, values, _ in self.samples[1] if 'fresh' in stack)
        self.assertEqual([p['value'] for p in self.profiles(focus='fresh')['profiles']], [fresh])
        self.assertEqual(self.profiles(focus='nothing')['profiles'], [])
        lines = self.ask('/api/v1/profiles', query=CPU + '{}', format='csv').text.splitlines()
        self.assertEqual((lines[0], lines[1].split(',')[0]), ('profile_id,time,duration,value,series', d['profiles'][0]['profile_id']))
        for params, text in (({'query': 'up{}', 'limit': 10001}, '10000'), ({'group_by': 'run'}, 'group_by'), ({'format': 'svg'}, 'every format'), ({'tagleaf': 'a'}, 'tagleaf')):
            r = self.scraper.get(url('/api/v1/profiles', **{'query': CPU + '{}', **params}))
            self.assertEqual((r.status, text in r.text), (400, True), r.text)

    def test_single_profile(self):
        ids = [p['profile_id'] for p in self.profiles()['profiles']]
        for i, one in enumerate(ids):
            # The range does not matter: the id has the time.
            r = self.scraper.get(url('/api/v1/profile', query=CPU + '{}', profile_id=one, end='now', start='now-1m'))
            self.assertEqual(r.status, 200, r.text)
            self.assertEqual(by_stack(Pprof(r.body).samples, 0), by_stack(self.samples[i], 1))
        both = self.ask('/api/v1/flamegraph', query=CPU + '{}', profile_id=ids).json['data']
        self.assertEqual((both['n_profiles'], both['total']), (2, self.profiles()['total']))
        for format_ in ('json', 'folded', 'speedscope', 'svg', 'html', 'dot', 'csv', 'text', 'protobuf', 'pprof'):
            self.assertEqual(self.scraper.get(url('/api/v1/flamegraph', query=CPU + '{}', profile_id=ids[0], format=format_)).status, 200)
        whole = self.diff(per='run').json['data']
        by_id = self.scraper.get(url('/api/v1/diff', query=CPU + '{}', profile_id_a=ids[0], profile_id_b=ids[1], per='run')).json['data']
        self.assertEqual((by_id['rows'], by_id['total_a'], by_id['total_b']), (whole['rows'], whole['total_a'], whole['total_b']))
        for query, profile_id, status, text in ((CPU + '{run="1"}', ids[0], 404, 'no such profile'), (CPU + '{}', ids[0][:-1] + ('1' if ids[0][-1] == '0' else '0'), 404, 'no such'),
                                                (CPU + '{}', ['80000000-0000-0000-0000-000000000000', '7fffffff-ffff-ffff-0000-000000000000'], 404, 'no such'),
                                                (CPU + '{}', 'x', 400, 'profile_id'), (CPU + '{}', ids * 126, 400, 'more than 250')):
            r = self.scraper.get(url('/api/v1/flamegraph', query=query, profile_id=profile_id))
            self.assertEqual((r.status, text in r.text), (status, True), r.text)
        for path in ('query_series', 'top_series'):
            self.assertEqual(self.scraper.get(url('/api/v1/' + path, query=CPU + '{}', profile_id=ids[0])).status, 400)

    def diff(self, **params):
        return self.ask('/api/v1/diff', query_a=f'{CPU}{{run="0"}}', query_b=f'{CPU}{{run="1"}}', **params)

    def test_diff(self):
        d = self.diff(per='run', max_nodes=100000).json['data']
        names = [d['functions']['name'][f] for f in d['function']]
        paths = [()]
        for i in range(1, len(names)):
            paths.append((names[i], *paths[d['parent'][i]]))
        a, b = (by_stack(s, 1) for s in self.samples)
        for column, want in (('self_a', a), ('self_b', b)):
            self.assertEqual({(p,): v for p, v in zip(paths, d[column]) if v}, want)
        self.assertEqual((d['a']['total'], d['b']['total']), (sum(a.values()), sum(b.values())))
        for i, path in enumerate(paths):
            sums = [sum(v for (s,), v in side.items() if not path or s[-len(path):] == path) for side in (a, b)]
            self.assertEqual([d['total_a'][i], d['total_b'][i]], sums)
            mark = 'new' if not sums[0] else 'gone' if not sums[1] else 'same' if sums[0] == sums[1] else 'changed'
            self.assertEqual(d['marks'][d['mark'][i]], mark)
        marks = {r['function']: r['mark'] for r in d['rows']}
        self.assertEqual((marks['fresh'], marks['idle'], marks['main']), ('new', 'gone', 'changed'))
        self.assertEqual(sum(r['self_a'] for r in d['rows']), sum(a.values()))

    def test_diff_cut_is_exact(self):
        d = self.diff(per='run', max_nodes=10).json['data']
        for column, samples in zip(('self_a', 'self_b'), self.samples):
            self.assertEqual(sum(d[column]), sum(values[1] for _, values, _ in samples))
        self.assertTrue(d['cut'])

    def test_diff_cut_opens(self):
        """What is cut is exact on both sides, by value and by nodes, and asking for its parent's subtree shows it."""
        d = self.diff(per='run', max_nodes=12).json['data']
        names = [d['functions']['name'][f] for f in d['function']]
        paths, below = [()], [0] * len(names)
        for i in range(1, len(names)):
            paths.append((*paths[d['parent'][i]], names[i]))
        for i in reversed(range(1, len(names))):
            below[d['parent'][i]] += below[i] + (d['cut'][str(i)] if str(i) in d['cut'] else 1)
        checked = 0
        for i in map(int, d['cut']):
            up = d['parent'][i]
            if not up:
                continue
            sub = self.diff(per='run', max_nodes=100000, at=list(paths[up])).json['data']
            self.assertEqual((sub['total_a'][0], sub['total_b'][0], sub['cut']), (d['total_a'][up], d['total_b'][up], {}))
            self.assertEqual(len(sub['parent']) - 1 - len(paths[up]), below[up])
            self.assertEqual((sub['a']['total'], sub['b']['total']), (d['a']['total'], d['b']['total']))
            checked += 1
        self.assertGreater(checked, 2)

    def test_diff_scales(self):
        relative = self.diff(mode='relative').json['data']
        self.assertAlmostEqual(relative['a']['scale'] * relative['a']['total'], 1)
        self.assertAlmostEqual(sum(r['delta_self'] for r in relative['rows']), 0, places=6)
        second = self.diff().json['data']
        self.assertEqual((second['mode'], second['per'], second['b']['covered_seconds']), ('absolute', 'second', 10))
        self.assertAlmostEqual(second['b']['scale'], .1)

    def test_diff_formats(self):
        a, b = (by_stack(s, 1) for s in self.samples)
        lines = dict((k, (int(x), int(y))) for k, x, y in (line.rsplit(' ', 2) for line in self.diff(format='folded').text.splitlines()))
        self.assertEqual(lines, {';'.join(reversed(s)): (a.get((s,), 0), b.get((s,), 0)) for s, in set(a) | set(b)})
        self.assertRegex(self.diff(format='text').text, r'(?m) new .* fresh$')
        self.assertEqual(self.diff(format='csv').text.splitlines()[0].split(',')[-1], 'mark')
        scope = self.diff(format='speedscope').json
        self.assertEqual([p['name'] for p in scope['profiles']], ['A', 'B'])
        for profile, want in zip(scope['profiles'], (a, b)):
            stacks = [tuple(scope['shared']['frames'][f]['name'] for f in reversed(stack)) for stack in profile['samples']]
            self.assertEqual({(s,): v for s, v in zip(stacks, profile['weights'])}, want)
            self.assertEqual((profile['unit'], profile['endValue']), ('nanoseconds', sum(want.values())))
        dot = self.diff(format='dot').text
        self.assertEqual(dot.count('shape=box') - 1, len(FUNCTIONS) + 1)  # the legend is a box too
        self.assertRegex(dot, r'"fresh\\n0 to [0-9.]+m?s \(new\)\\nof 0 to [0-9.]+m?s \(new\)"')
        self.assertRegex(dot, r'"idle\\n[0-9.]+m?s to 0 \(gone\)')
        self.assertEqual(self.diff(format='dot', max_nodes=3).text.count('shape=box'), 4)
        for params in ({}, {'mode': 'relative'}, {'per': 'run'}):
            svg = self.diff(format='svg', **params).text
            titles = [''.join(t.itertext()) for t in ElementTree.fromstring(svg).iter('{http://www.w3.org/2000/svg}title')]
            self.assertTrue(any(t.startswith('fresh') and t.endswith('new') for t in titles), titles[:20])
            self.assertTrue(any(t.startswith('idle') and t.endswith('gone') for t in titles))
            whole = next(t for t in titles if t.startswith('all'))
            self.assertRegex(whole, r'\nA: [1-9][0-9.]*s\nB: [1-9][0-9.]*s\n')  # a share is shown as the values it is of
        page = self.diff(format='html')
        self.assertIn("script-src 'sha256-", page.headers['Content-Security-Policy'])
        self.assertIn('fresh', page.text[page.text.index('id="plain"'):])
        about = json.loads(re.search(r'id="about">(.*?)</script>', page.text, re.S)[1])
        self.assertEqual({row[0]: row[6] for row in about['rows']}['fresh'], 'new')
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'diff.pb.gz')
            with open(path, 'wb') as f:
                f.write(self.diff(format='pprof').body)
            ours = go_pprof('-top', '-symbolize=none', path)
        theirs = go_pprof('-top', '-symbolize=none', f'-diff_base={self.paths[0]}', self.paths[1])
        rows = [sorted(line.split() for line in r.stdout.splitlines() if '%' in line and not line.startswith(('Showing', 'Duration')) and 'flat%' not in line)
                for r in (ours, theirs)]
        self.assertTrue(rows[0], ours.stdout + ours.stderr)
        # The running sum depends on the order of equals.
        self.assertEqual(*([[*x[:2], *x[3:]] for x in r] for r in rows))

    def test_diff_refused(self):
        for params, text in (({'query_b': ''}, 'side b: the selector means 2 profile types'), ({'query_b': f'{CPU}{{', 'x': 1}, 'side b: query: '), ({'mode': 'x'}, 'mode'),
                             ({'per': 'cpu-second'}, 'side a: per: how many CPUs'), ({'start_b': 'x'}, 'side b: start'),
                             ({'query_b': 'p:samples:count:cpu:nanoseconds{}'}, 'different profile types')):
            r = self.scraper.get(url('/api/v1/diff', **{'query_a': f'{CPU}{{}}', 'query_b': f'{CPU}{{}}', 'start': self.time - 60, 'end': self.time + 3600, **params}))
            self.assertGreaterEqual(r.status, 400, params)
            self.assertIn(text, r.text)


if __name__ == '__main__':
    unittest.main()
