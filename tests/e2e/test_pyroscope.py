"""The Pyroscope querier over Connect and the /pyroscope endpoints: what Grafana's datasource and Profiles Drilldown rely on."""
import concurrent.futures
import gzip
import http.client
import json
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES, HEAP, HEAP_BYTES, N, SAMPLES, SERVICES, SPAN, Filled, total
from pprof_target import PprofTarget, encode
from sonde_e2e import Pprof, go_pprof, http_get, scraper, wait_for
from test_http_client import Target

BESIDE_OTHERS = True

QUERIER = 'querier.v1.QuerierService'
SETTINGS = 'settings.v1.SettingsService'
ALL = total('alpha') + total('beta')


def as_tree(graph):
    """{path of names: (total, self)} of a flame graph, by the rules that Grafana's decoder goes by."""
    names, levels = graph['names'], [[int(v) for v in level['values']] for level in graph['levels']]
    out, parents = {}, []  # parents: (begin, end, path)
    for level in levels:
        x, row = 0, []
        for i in range(0, len(level), 4):
            x += level[i]
            value, own, name = level[i + 1], level[i + 2], names[level[i + 3]]
            path = ''
            if parents:
                path = next(p for a, b, p in parents if a <= x < b)
            path = f'{path};{name}' if parents else name
            out[path] = (value, own)
            row.append((x, x + value, path))
            x += value
        parents = row
    return out


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Filled()
        cls.range = {'start': cls.s.start_ms, 'end': cls.s.end_ms}
        cls.query = {**cls.range, 'profileTypeID': CPU, 'labelSelector': '{}'}

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__(None, None, None)

    def send(self, method, body, service=QUERIER, content='application/json', **headers):
        headers = {'Content-Type': content, **{k.replace('_', '-'): v for k, v in headers.items()}}
        return http_get(f'{self.s.url}/{service}/{method}', method='POST', headers=headers,
                        body=body if isinstance(body, bytes) else json.dumps(body))

    def call(self, method, body, service=QUERIER, **headers):
        r = self.send(method, body, service, **headers)
        self.assertEqual(r.status, 200, r.text)
        return r.json

    def refused(self, status, code, text, method, body, **kw):
        r = self.send(method, body, **kw)
        self.assertEqual((r.status, r.headers['Content-Type'], r.json.get('code')), (status, 'application/json', code), r.text)
        self.assertIn(text, r.json['message'])


class QuerierTest(Base):
    """The checklist of the datasource and of Drilldown, row by row."""

    def test_profile_types(self):
        self.assertEqual(self.call('ProfileTypes', {'start': 1000, 'end': 4000}), {})  # Save & test
        types = self.call('ProfileTypes', self.range)['profileTypes']
        self.assertEqual([t['ID'] for t in types], [CPU, SAMPLES, HEAP])
        self.assertEqual(types[2], {'ID': HEAP, 'name': 'memory', 'sampleType': 'inuse_space', 'sampleUnit': 'bytes',
                                    'periodType': 'space', 'periodUnit': 'bytes'})
        self.assertEqual(self.call('ProfileTypes', {}), self.call('ProfileTypes', self.range))  # 0 to 0: the last hour

    def test_label_names(self):
        names = self.call('LabelNames', self.range)['names']
        for name in ('service_name', 'job', '__profile_type__', '__name__', 'thread_name'):
            self.assertIn(name, names)
        self.assertNotIn('http.route', names)
        self.assertNotIn('span_id', names)  # selects, but is no label there
        names = self.call('LabelNames', self.range, Accept='*/*;allow-utf8-labelnames=true')['names']
        self.assertIn('http.route', names)
        heap = self.call('LabelNames', {**self.range, 'matchers': [f'{{__profile_type__="{HEAP}"}}']})['names']
        self.assertIn('service_name', heap)

    def test_label_values(self):
        def values(name, *matchers):
            return self.call('LabelValues', {**self.range, 'name': name, 'matchers': matchers}).get('names', [])
        self.assertEqual(values('service_name'), ['alpha', 'beta'])
        self.assertEqual(values('service_name', '{}', f'{{__profile_type__="{HEAP}",}}'), ['alpha'])
        self.assertEqual(values('service_name', f'{HEAP}{{}}'), ['alpha'])  # as dashboard variables ask
        self.assertEqual(values('service_name', '{service_name=~"alpha|beta"}', '{service_name!="alpha"}'), ['beta'])
        self.assertEqual(values('service_name', '{service_name="alpha"}', '{service_name="beta"}'), [])
        self.assertEqual(values('http.route'), ['/x'])
        self.assertEqual(self.call('LabelValues', {**self.range, 'name': 'nothing'}), {})
        self.assertEqual(values('service_name', '{"http.route"="/x"}'), ['beta'])
        self.assertEqual(values('service_name', '{nothing="",job=~"app|other"}'), ['alpha', 'beta'])  # an absent label is empty
        self.assertEqual(values('span_id'), [SPAN])
        self.assertEqual(values('__profile_type__'), sorted([CPU, SAMPLES, HEAP]))
        self.refused(400, 'invalid_argument', 'name', 'LabelValues', self.range)

    def test_series(self):
        r = self.call('Series', {**self.range, 'labelNames': ['service_name', '__profile_type__']})
        sets = [{p['name']: p['value'] for p in s['labels']} for s in r['labelsSet']]
        self.assertEqual(sorted((s['service_name'], s['__profile_type__']) for s in sets),
                         sorted([('alpha', CPU), ('alpha', SAMPLES), ('alpha', HEAP), ('beta', CPU), ('beta', SAMPLES)]))
        r = self.call('Series', {**self.range, 'matchers': ['{service_name="beta"}'], 'label_names': ['service_name']})
        self.assertEqual(r, {'labelsSet': [{'labels': [{'name': 'service_name', 'value': 'beta'}]}]})
        whole = self.call('Series', {**self.range, 'matchers': [f'{{__profile_type__="{HEAP}"}}']})['labelsSet']
        self.assertEqual({p['name'] for p in whole[0]['labels']} & {'job', '__unit__', 'service_name'},
                         {'job', '__unit__', 'service_name'})
        self.assertEqual(self.call('Series', {'start': 1, 'end': 2}), {})

    def test_stats_and_settings(self):
        self.assertEqual(self.call('GetProfileStats', {}),
                         {'dataIngested': True, 'oldestProfileTime': str(self.s.begin * 1000), 'newestProfileTime': str(self.s.end * 1000)})
        self.assertEqual(self.call('Get', {}, SETTINGS), {})
        saved = self.call('Set', {'setting': {'name': 'pluginSettings', 'value': '{"maxNodes":16384}'}}, SETTINGS)['setting']
        self.assertGreater(int(saved['modifiedAt']), 1700000000000)
        self.call('Set', {'setting': {'name': 'other', 'value': 'x'}}, SETTINGS)
        self.assertEqual(self.call('Get', {}, SETTINGS)['settings'][0], saved)
        with open(f'{self.s.data}/settings.json') as f:
            self.assertEqual(json.load(f)['pluginSettings']['value'], '{"maxNodes":16384}')
        self.assertEqual(self.call('Delete', {'name': 'other'}, SETTINGS), {})
        self.assertEqual(self.call('Get', {}, SETTINGS), {'settings': [saved]})
        self.refused(400, 'invalid_argument', 'setting.name', 'Set', {}, service=SETTINGS)
        r = self.send('Set', {'setting': {'name': 'a', 'value': 'b'}}, SETTINGS, Origin='http://elsewhere.example')
        self.assertEqual(r.status, 403)
        # A damaged file hides what it held and nothing else.
        with open(f'{self.s.data}/settings.json', 'w') as f:
            f.write('{')
        self.assertEqual(self.call('Get', {}, SETTINGS), {})
        self.call('Set', {'setting': {'name': 'a', 'value': 'b'}}, SETTINGS)
        self.assertEqual(self.call('Get', {}, SETTINGS)['settings'][0]['value'], 'b')
        self.call('Delete', {'name': 'a'}, SETTINGS)

    def test_select_series(self):
        def series(**kw):
            return self.call('SelectSeries', {**self.query, 'step': 60, **kw}).get('series', [])
        lines = series(groupBy=['service_name'])
        self.assertEqual([line['labels'] for line in lines],
                         [[{'name': 'service_name', 'value': v}] for v in ('beta', 'alpha')])  # by their sums
        times = [str((self.s.begin + i * 60) * 1000) for i in range(N)]  # the first point has nothing: left out
        self.assertEqual(lines[1]['points'], [{'value': total('alpha'), 'timestamp': t} for t in times])
        self.assertEqual(len(series(group_by=['service_name'], limit=1)), 1)
        one = series()
        self.assertEqual((len(one), one[0].get('labels')), (1, None))
        self.assertEqual(sum(p['value'] for p in one[0]['points']), N * ALL)
        self.assertEqual(len(series(groupBy=['job', 'service_name'])[0]['labels']), 2)
        self.assertEqual(series(groupBy=['nothing'])[0].get('labels'), None)  # without the label: one series without labels
        routes = series(groupBy=['http.route'])
        self.assertEqual(sorted(len(line.get('labels', [])) for line in routes), [0, 1])
        self.assertEqual(sum(p['value'] for p in series(step=5)[0]['points']), N * ALL)
        heap = series(profileTypeID=HEAP)
        self.assertEqual({p['value'] for p in heap[0]['points']}, {sum(HEAP_BYTES)})
        average = {'aggregation': 'TIME_SERIES_AGGREGATION_TYPE_AVERAGE'}
        self.assertEqual(series(profileTypeID=HEAP, **average), heap)
        self.assertEqual({p['value'] for p in series(**average)[0]['points']}, {ALL / 2})  # of the profiles of both services
        self.assertEqual(series(step=600, groupBy=['service_name'], **average)[1]['points'][0]['value'], total('alpha'))
        stacks = {'stackTraceSelector': {'callSite': [{'name': 'main'}, {'name': 'idle'}]}}
        self.assertEqual([sum(p['value'] for p in line['points']) for line in series(groupBy=['service_name'], **stacks)],
                         [N * 20000000, N * 10000000])
        self.assertEqual(series(stackTraceSelector={'call_site': [{'name': 'idle'}]}), [])
        self.assertEqual(self.call('SelectSeries', {**self.query, 'step': 60, 'labelSelector': '{job="none"}'}), {})
        self.refused(400, 'invalid_argument', 'step', 'SelectSeries', self.query)
        self.refused(400, 'invalid_argument', 'step', 'SelectSeries', {**self.query, 'step': 0.0001})
        self.refused(400, 'invalid_argument', '11,000', 'SelectSeries', {**self.query, 'step': 0.01})

    def test_exemplars(self):
        """The largest profile of each point, whose id then selects it alone."""
        asked = {**self.query, 'step': 120, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL'}
        line = self.call('SelectSeries', asked)['series'][0]
        self.assertEqual({len(p['exemplars']) for p in line['points']}, {1})
        for p in line['points']:
            e = p['exemplars'][0]
            self.assertEqual((e['value'], e.get('spanId')), (str(total('beta')), None))  # the larger one
            self.assertEqual({x['name']: x['value'] for x in e['labels']}, {'service_name': 'beta', 'job': 'app'})
            self.assertTrue(int(p['timestamp']) - 120000 < int(e['timestamp']) <= int(p['timestamp']))
            g = self.call('SelectMergeStacktraces', {**self.query, 'profileIdSelector': [e['profileId']]})['flamegraph']
            self.assertEqual(g['total'], e['value'])
        lines = self.call('SelectSeries', {**asked, 'groupBy': ['service_name'], 'limit': 1})['series']
        self.assertEqual([x['name'] for x in lines[0]['points'][0]['exemplars'][0]['labels']], ['job'])  # but for those that group
        threads = self.call('SelectSeries', {**asked, 'labelSelector': '{thread_name="gc"}'})['series'][0]
        self.assertEqual(threads['points'][0]['exemplars'][0]['value'], '20000000')  # of the rows that count
        for kind in ('EXEMPLAR_TYPE_NONE', 'EXEMPLAR_TYPE_UNSPECIFIED', 0, None):
            points = self.call('SelectSeries', {**asked, 'exemplarType': kind})['series'][0]['points']
            self.assertEqual({'exemplars' in p for p in points}, {False})
        self.refused(501, 'unimplemented', 'span', 'SelectSeries', {**asked, 'exemplarType': 'EXEMPLAR_TYPE_SPAN'})
        self.refused(400, 'invalid_argument', 'exemplar', 'SelectSeries', {**asked, 'exemplarType': 9})

    def test_heatmap(self):
        def heat(**kw):
            return self.call('SelectHeatmap', {**self.query, 'step': 120, 'queryType': 'HEATMAP_QUERY_TYPE_INDIVIDUAL', **kw}).get('series', [])
        one, = heat()
        self.assertNotIn('labels', one)
        edges = [self.s.start_ms + k * 120000 for k in range(7)]
        self.assertTrue({int(s['timestamp']) for s in one['slots']} <= set(edges))
        for s in one['slots']:
            self.assertEqual((len(s['yMin']), len(s['counts'])), (20, 20))
            self.assertEqual((s['yMin'][0], s['yMin']), (total('alpha'), sorted(s['yMin'])))
            self.assertEqual((s['counts'][0], s['counts'][19], sum(s['counts'])), (sum(s['counts']) // 2,) * 2 + (sum(s['counts']),))
            self.assertNotIn('exemplars', s)
        self.assertEqual(sum(sum(s['counts']) for s in one['slots']), 2 * N)  # one for each profile
        lines = heat(group_by=['service_name'], exemplar_type='EXEMPLAR_TYPE_INDIVIDUAL')
        self.assertEqual([line['labels'] for line in lines], [[{'name': 'service_name', 'value': v}] for v in SERVICES])
        for line, service in zip(lines, SERVICES):
            for s in line['slots']:
                e, = s['exemplars']
                self.assertEqual((e['value'], [x['name'] for x in e['labels']]), (str(total(service)), ['job']))
                g = self.call('SelectMergeStacktraces', {**self.query, 'profileIdSelector': [e['profileId']]})['flamegraph']
                self.assertEqual(g['total'], e['value'])
        self.assertEqual(len(heat(groupBy=['service_name'], limit=1)), 1)
        spans, = heat(queryType='HEATMAP_QUERY_TYPE_SPAN', exemplarType='EXEMPLAR_TYPE_SPAN', groupBy=['service_name'])
        self.assertEqual(spans['labels'], [{'name': 'service_name', 'value': 'beta'}])  # the only one with spans
        self.assertEqual(sum(sum(s['counts']) for s in spans['slots']), N)
        whole = as_tree(self.call('SelectMergeSpanProfile', {**self.query, 'spanSelector': [SPAN]})['flamegraph'])['total'][0]
        for s in spans['slots']:
            self.assertEqual([(e['spanId'], int(e['value']) * N) for e in s['exemplars']], [(SPAN, whole)])
        self.assertEqual(heat(queryType='HEATMAP_QUERY_TYPE_SPAN', labelSelector='{service_name="alpha"}'), [])
        self.assertEqual(heat(labelSelector='{job="none"}'), [])
        self.refused(400, 'invalid_argument', 'step', 'SelectHeatmap', self.query)
        self.refused(400, 'invalid_argument', 'query_type', 'SelectHeatmap', {**self.query, 'step': 60, 'queryType': 7})
        self.refused(400, 'invalid_argument', '11,000', 'SelectHeatmap', {**self.query, 'step': 0.01})

    def test_stacktraces(self):
        def tree(**kw):
            return as_tree(self.call('SelectMergeStacktraces', {**self.query, **kw})['flamegraph'])
        whole = tree()
        self.assertEqual(whole['total'], (N * ALL, 0))
        self.assertEqual(whole['total;main;work;leaf'], (N * 90000000, N * 90000000))
        self.assertEqual(whole['total;main;idle'], (N * 30000000, N * 30000000))
        self.assertEqual(tree(maxNodes=0), whole)
        self.assertEqual(tree(start=0, end=0), whole)  # the last hour
        self.assertEqual(tree(labelSelector='{"http.route"="/x"}')['total'], (N * 60000000, 0))
        for n in range(1, 6):
            self.assertEqual(tree(maxNodes=n)['total'], whole['total'])
        cut = tree(maxNodes='3')
        self.assertEqual(cut['total'], whole['total'])
        self.assertEqual(cut['total;main;other'], (N * 45000000, N * 45000000))
        self.assertEqual(tree(labelSelector='{service_name="alpha",}')['total'], (N * total('alpha'), 0))
        self.assertEqual(tree(labelSelector='process_cpu{thread_name="gc"}')['total'], (N * 30000000, 0))
        self.assertEqual(tree(stackTraceSelector={'call_site': [{'name': 'main'}, {'name': 'work'}]})['total'], (N * 90000000, 0))
        self.assertEqual(tree(stackTraceSelector={'callSite': [{'name': 'work'}]})['total'], (0, 0))
        dot = self.call('SelectMergeStacktraces', {**self.query, 'format': 'PROFILE_FORMAT_DOT'})['dot']
        self.assertIn('digraph', dot)
        # [t-1, t] and [t, t+1] both hold the profile at t.
        t = self.s.begin * 1000
        for start, end in ((t - 1, t), (t, t + 1)):
            self.assertEqual(tree(start=start, end=end)['total'], (ALL, 0))

    def test_no_data(self):
        empty = {**self.query, 'start': 1, 'end': 2}
        graph = {'names': ['total'], 'levels': [{'values': ['0', '0', '0', '0']}]}
        self.assertEqual(self.call('SelectMergeStacktraces', empty), {'flamegraph': graph})
        graph = {'names': ['total'], 'levels': [{'values': ['0'] * 7}]}
        self.assertEqual(self.call('Diff', {'left': empty, 'right': empty}), {'flamegraph': graph})
        self.assertEqual(self.call('SelectSeries', {**empty, 'step': 15}), {})
        profile = self.send('SelectMergeProfile', empty)
        self.assertEqual(profile.status, 200)
        self.assertNotIn('sample', profile.json)
        self.assertIn('stringTable', profile.json)
        body = b''.join([b'\x0a', bytes([len(CPU)]), CPU.encode(), b'\x12\x02{}\x18\x01\x20\x02'])
        with tempfile.NamedTemporaryFile(suffix='.pb') as f:
            f.write(self.send('SelectMergeProfile', body, content='application/proto').body)
            f.flush()
            self.assertIn('Type: cpu', go_pprof('-top', f.name).stdout)

    def test_spans(self):
        tree = as_tree(self.call('SelectMergeSpanProfile', {**self.query, 'spanSelector': [SPAN]})['flamegraph'])
        self.assertEqual(tree['total'], (N * 60000000, 0))
        tree = as_tree(self.call('SelectMergeStacktraces', {**self.query, 'spanSelector': ['0' * 16, SPAN]})['flamegraph'])
        self.assertEqual(tree['total'], (N * 60000000, 0))
        self.refused(400, 'invalid_argument', '16', 'SelectMergeSpanProfile', {**self.query, 'spanSelector': ['abc']})
        self.refused(400, 'invalid_argument', 'exclude', 'SelectMergeStacktraces',
                     {**self.query, 'spanSelector': [SPAN], 'traceIdSelector': ['0' * 32]})

    def test_profile(self):
        r = self.call('SelectMergeProfile', {**self.query, 'stackTraceSelector': {'callSite': [{'name': 'main'}, {'name': 'idle'}]}})
        self.assertEqual([s['value'] for s in r['sample']], [[str(N * 30000000)]])
        names = r['stringTable']
        self.assertIn('/src/app.c', names)
        self.assertEqual(names[int(r['sampleType'][0]['unit'])], 'nanoseconds')

    def test_single_profiles(self):
        query = urllib.parse.quote(f'{CPU}{{service_name="beta"}}')
        ids = [p['profile_id'] for p in self.s.get(f'/api/v1/profiles?query={query}').json['data']['profiles']]
        self.assertEqual(len(ids), N)
        for n in (1, 3):
            g = self.call('SelectMergeStacktraces', {**self.query, 'profileIdSelector': ids[:n]})['flamegraph']
            self.assertEqual(g['total'], str(n * total('beta')))
            r = self.call('SelectMergeProfile', {**self.query, 'profile_id_selector': ids[:n]})
            self.assertEqual(sum(int(s['value'][0]) for s in r['sample']), n * total('beta'))
        # Of the range only, as there.
        early = {**self.query, 'end': self.s.begin * 1000, 'profileIdSelector': ids[:3]}
        self.assertEqual(self.call('SelectMergeStacktraces', early)['flamegraph']['total'], str(total('beta')))

    def test_go_pgo(self):
        def leaves(**pgo):
            r = self.call('SelectMergeProfile', {**self.query, 'stackTraceSelector': {'goPgo': pgo}})
            names, functions = r['stringTable'], {f['id']: f for f in r['function']}
            locations = {x['id']: [(names[int(functions[line['functionId']]['name'])], int(line.get('line', 0))) for line in x['line']] for x in r['location']}
            return {tuple(locations[i][0] for i in s['locationId']): int(s['value'][0]) for s in r['sample']}
        whole, one, merged = leaves(), leaves(keepLocations=1), leaves(keep_locations=1, aggregate_callees=True)
        self.assertEqual({len(s) for s in one} | {len(s) for s in merged}, {1})
        self.assertGreater(max(len(s) for s in whole), 1)
        for stacks in (one, merged):
            self.assertEqual(sum(stacks.values()), N * ALL)
        want = {}
        for stack, v in whole.items():
            want[stack[0][0]] = want.get(stack[0][0], 0) + v
        self.assertEqual({name: v for ((name, line),), v in merged.items()}, want)
        self.assertEqual({line for ((_, line),) in merged}, {0})
        graph = self.call('SelectMergeStacktraces', {**self.query, 'format': 'PROFILE_FORMAT_PPROF'})['pprof']['profile']
        self.assertEqual(graph, self.call('SelectMergeProfile', self.query))

    def test_diff(self):
        sides = {'left': {**self.query, 'labelSelector': '{service_name="alpha"}'},
                 'right': {**self.query, 'label_selector': '{service_name="beta"}', 'labelSelector': None}}
        g = self.call('Diff', sides)['flamegraph']
        self.assertEqual((g['leftTicks'], g['rightTicks'], g['total']),
                         (str(N * total('alpha')), str(N * total('beta')), str(N * ALL)))
        self.assertEqual(g['levels'][0]['values'], ['0', g['leftTicks'], '0', '0', g['rightTicks'], '0', '0'])
        self.refused(400, 'invalid_argument', 'right', 'Diff', {'left': sides['left']})
        self.refused(400, 'invalid_argument', 'left', 'Diff', {'left': {**self.query, 'start': 5, 'end': 4}, 'right': sides['right']})

    def test_errors(self):
        for text, body in [('profile_typeID', {'profileTypeID': 'cpu'}), ('profile_typeID', {'profileTypeID': ''}),
                           ('position 2', {'labelSelector': '{1="x"}'}), ('label_selector', {'labelSelector': ''}),
                           ('time range', {'start': 0}), ('after end', {'start': 5, 'end': 4}),
                           ('max_nodes', {'maxNodes': -1}), ('max_nodes', {'maxNodes': 1 << 40}),
                           ('label_selector', {'labelSelector': 7}), ('start', {'start': 'soon'}), ('start', {'start': 1.5})]:
            self.refused(400, 'invalid_argument', text, 'SelectMergeStacktraces', {**self.query, **body})
        for method, body in [('Nothing', {}), ('selectseries', {})]:
            self.refused(501, 'unimplemented', '', method, body)
        self.refused(501, 'unimplemented', '', 'ListRecordingRules', {}, service='settings.v1.RecordingRulesService')
        self.refused(501, 'unimplemented', '', 'Upload', {}, service='adhocprofiles.v1.AdHocProfileService')
        self.refused(501, 'unimplemented', '', 'GithubApp', {}, service='vcs.v1.VCSService')
        self.refused(400, 'invalid_argument', 'profile_id_selector', 'SelectMergeStacktraces', {**self.query, 'profileIdSelector': ['x']})
        self.refused(501, 'unimplemented', 'tree', 'SelectMergeStacktraces', {**self.query, 'format': 'PROFILE_FORMAT_TREE'})
        self.assertEqual(self.call('AnalyzeQuery', {'query': '{}'}), {'queryImpact': {}})
        metrics = self.s.metrics()
        self.assertGreater(metrics['sonde_query_failures_total{reason="bad_data"}'], 5)
        self.assertGreater(metrics['sonde_queries_total{endpoint="SelectMergeStacktraces"}'], 5)


class TransportTest(Base):
    """Connect's rules for one call: types, encodings, framing, deadlines."""

    def test_content_types(self):
        for content in ('application/json', 'application/json; charset=utf-8', 'application/proto'):
            r = self.send('GetProfileStats', b'' if content == 'application/proto' else b'{}', content=content)
            self.assertEqual((r.status, r.headers['Content-Type']), (200, content))
        for content in ('text/plain', 'application/grpc-web+proto', ''):
            self.refused(415, 'unknown', 'Content-Type', 'GetProfileStats', b'{}', content=content)
        r = http_get(f'{self.s.url}/{QUERIER}/GetProfileStats')
        self.assertEqual((r.status, r.headers['Allow']), (405, 'POST'))

    def test_bodies(self):
        self.refused(400, 'invalid_argument', 'JSON', 'ProfileTypes', b'')
        self.refused(400, 'invalid_argument', 'line 1', 'ProfileTypes', b'{')
        self.refused(400, 'invalid_argument', 'object', 'ProfileTypes', b'[]')
        self.refused(400, 'invalid_argument', 'ProfileTypesRequest', 'ProfileTypes', b'\x0a\xff', content='application/proto')
        self.assertEqual(self.call('ProfileTypes', b'{"start":1e3,"end":"4000","unknown":{"a":[1]}}'), {})
        self.assertEqual(self.call('ProfileTypes', b'{"start":null}'), self.call('ProfileTypes', self.range))
        body = gzip.compress(json.dumps(self.range).encode())
        self.assertEqual(self.call('ProfileTypes', body, Content_Encoding='gzip'), self.call('ProfileTypes', self.range))
        self.refused(501, 'unimplemented', 'zstd', 'ProfileTypes', b'{}', Content_Encoding='zstd')
        self.refused(400, 'invalid_argument', 'gzip', 'ProfileTypes', b'{}', Content_Encoding='gzip')
        self.refused(429, 'resource_exhausted', '', 'ProfileTypes', gzip.compress(b' ' * (5 << 20)), Content_Encoding='gzip')
        # No bytes are an empty message, never gzip.
        r = self.send('GetProfileStats', b'', content='application/proto', Content_Encoding='gzip')
        self.assertEqual(r.status, 200)

    def test_gzipped_answers(self):
        wide = 'wide:samples:count:cpu:nanoseconds'
        samples = [([f'function_with_a_long_name_{i}', 'main'], [1, 10], {}) for i in range(200)]
        self.s.load(encode(CPU_TYPES, CPU_TYPES[1], samples, self.s.begin * 10**9, 10**9), 'wide', 'gamma')
        for content, body in (('application/json', json.dumps({**self.query, 'profileTypeID': wide}).encode()),
                              ('application/proto', b'\x0a' + bytes([len(wide)]) + wide.encode() + b'\x12\x02{}')):
            plain = self.send('SelectMergeProfile', body, content=content)
            packed = self.send('SelectMergeProfile', body, content=content, Accept_Encoding='gzip')
            self.assertEqual((plain.status, packed.status), (200, 200))
            self.assertEqual((plain.headers['Content-Encoding'], packed.headers['Content-Encoding']), (None, 'gzip'))
            self.assertEqual(gzip.decompress(packed.body), plain.body)

    def test_chunked(self):
        c = http.client.HTTPConnection('127.0.0.1', self.s.port, timeout=30)
        body = json.dumps(self.range).encode()
        c.request('POST', f'/{QUERIER}/ProfileTypes', body=iter([body[:10], body[10:]]),
                  headers={'Content-Type': 'application/json'}, encode_chunked=True)
        r = c.getresponse()
        self.assertEqual((r.status, json.loads(r.read())), (200, self.call('ProfileTypes', self.range)))
        c.close()

    def test_headers(self):
        fine = {'Connect_Protocol_Version': '1', 'X_Scope_OrgID': 'a', 'X_Grafana_Org_Id': '1', 'Connect_Timeout_Ms': '60000',
                'Accept': '*/*; allow-utf8-labelnames=true', 'User_Agent': 'connect-go/1.19'}
        self.assertTrue(self.call('GetProfileStats', {}, **fine)['dataIngested'])
        self.refused(400, 'invalid_argument', 'Protocol-Version', 'GetProfileStats', {}, Connect_Protocol_Version='2')
        self.refused(400, 'invalid_argument', 'Timeout', 'GetProfileStats', {}, Connect_Timeout_Ms='12345678901')
        self.refused(400, 'invalid_argument', 'Timeout', 'GetProfileStats', {}, Connect_Timeout_Ms='1s')

    def test_profile_opens_in_pprof(self):
        body = b''.join([b'\x0a', bytes([len(CPU)]), CPU.encode(), b'\x12\x02{}'])
        r = self.send('SelectMergeProfile', body, content='application/proto')
        self.assertEqual((r.status, Pprof(r.body).total()), (200, N * ALL))
        with tempfile.NamedTemporaryFile(suffix='.pb') as f:
            f.write(r.body)
            f.flush()
            top = go_pprof('-top', '-sample_index=cpu', f.name)
        self.assertIn('100% of 1350ms total', top.stdout, top.stderr)

    def test_many_at_once(self):
        names = self.call('LabelNames', self.range)['names'] * 3
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda n: self.send('LabelValues', {**self.range, 'name': n}).status, names))
        self.assertEqual(set(answers), {200})

    def test_prefix(self):
        with scraper('scrape_configs: []\n', '--web.route-prefix=/sonde', wait_ready=False) as s:
            s.url += '/sonde'
            s.wait_ready()
            r = http_get(f'{s.url}/{QUERIER}/GetProfileStats', method='POST', body='{}', headers={'Content-Type': 'application/json'})
            self.assertEqual((r.status, r.json), (200, {}))  # nothing stored: not ingested


class NarrowedTest(unittest.TestCase):
    """What is offered for a selection selects something, labels of rows too: two services in one head, whose rows have other labels."""

    def test_offers(self):
        def answer(handler, body):
            service = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)['service'][0]
            rows = [([f'{service}_{i}', 'main'], [1, 10**7], {'comm': f'{service}-{i}', f'only_{service}': 'x'}) for i in range(3)]
            return 200, {}, encode(CPU_TYPES, CPU_TYPES[1], rows, time.time_ns() - 10**9, 10**9, 10**7)
        jobs = ''.join(f'- {{job_name: {name}, scrape_interval: 500ms, params: {{service: [{name}]}}, static_configs: [{{targets: ["{{address}}"]}}], '
                       'profiling_config: {preset: go, pprof_config: {memory: {enabled: false}, block: {enabled: false}, mutex: {enabled: false}, '
                       'goroutine: {enabled: false}}}}\n' for name in ('one', 'two'))
        with Target(answer) as target, scraper('scrape_configs:\n' + jobs.replace('{address}', target.address)) as s:
            def call(method, **body):
                now = int(time.time() * 1000)
                return http_get(f'{s.url}/{QUERIER}/{method}', method='POST', body=json.dumps({'start': now - 600000, 'end': now + 60000, **body}),
                                headers={'Content-Type': 'application/json'}).json
            wait_for('both', lambda: call('LabelValues', name='comm').get('names', []) == [f'{name}-{i}' for name in ('one', 'two') for i in range(3)])
            for name, other in (('one', 'two'), ('two', 'one')):
                matchers = [f'{{__profile_type__="{CPU}", service_name="{name}"}}']
                self.assertEqual(call('LabelValues', name='comm', matchers=matchers)['names'], [f'{name}-{i}' for i in range(3)])
                names = call('LabelNames', matchers=matchers)['names']
                self.assertIn(f'only_{name}', names)
                self.assertNotIn(f'only_{other}', names)
                self.assertEqual(call('LabelValues', name=f'only_{other}', matchers=matchers), {})
                for label in set(names) - {'__name__', '__period_type__', '__period_unit__', '__profile_type__', '__type__', '__unit__'}:
                    for value in call('LabelValues', name=label, matchers=matchers)['names']:
                        got = call('SelectSeries', profileTypeID=CPU, labelSelector=f'{{service_name="{name}", {label}="{value}"}}', step=15)
                        self.assertTrue(got.get('series'), (label, value))


class ScrapedTest(unittest.TestCase):
    """Beside profiles a scraper stores series of its own: the Pyroscope API shows profiles alone."""

    def test_own_series_are_hidden(self):
        config = 'scrape_configs:\n- {{job_name: app, scrape_interval: 1s, static_configs: [{{targets: ["{}"]}}], profiling_config: {{preset: go}}}}\n'
        with PprofTarget() as target, scraper(config.format(target.address)) as s:
            def call(method, body):
                return http_get(f'{s.url}/{QUERIER}/{method}', method='POST', body=json.dumps(body),
                                headers={'Content-Type': 'application/json'}).json
            wait_for('profiles', lambda: call('ProfileTypes', {}))
            up = wait_for('up', lambda: s.get('/api/v1/query?query=up').json['data']['result'])
            self.assertEqual(up[0]['value'][1], '1')
            self.assertNotIn('up', call('LabelValues', {'name': '__name__'})['names'])
            self.assertNotIn('up', s.get('/pyroscope/label-values?label=__name__').json)
            for labels in call('Series', {})['labelsSet']:
                self.assertIn('__profile_type__', {p['name'] for p in labels['labels']})


class OriginTest(unittest.TestCase):
    """Pages of other origins: they read where --web.cors.origin lets them, and never change anything."""
    FRIEND, OTHER = 'https://grafana.example', 'https://elsewhere.example'

    def ask(self, s, path, origin, method='POST', body='{}', **headers):
        return http_get(f'{s.url}{path}', method=method, body=body,
                        headers={'Origin': origin, 'Content-Type': 'application/json', **headers})

    def test_origins(self):
        stats, change = f'/{QUERIER}/GetProfileStats', f'/{SETTINGS}/Set'
        setting = '{"setting":{"name":"a","value":"b"}}'
        with scraper('scrape_configs: []\n', f'--web.cors.origin={self.FRIEND}') as s:
            r = self.ask(s, stats, self.FRIEND)
            self.assertEqual((r.status, r.headers['Access-Control-Allow-Origin']), (200, self.FRIEND))
            self.assertIsNone(self.ask(s, stats, self.OTHER).headers['Access-Control-Allow-Origin'])
            self.assertEqual(self.ask(s, change, self.FRIEND, body=setting).status, 200)
            self.assertEqual(self.ask(s, change, self.OTHER, body=setting).status, 403)
            r = self.ask(s, stats, self.FRIEND, 'OPTIONS', None, **{'Access-Control-Request-Method': 'POST'})
            self.assertEqual(r.status, 204)
            allowed = r.headers['Access-Control-Allow-Headers'].lower()
            for name in ('content-type', 'connect-protocol-version', 'connect-timeout-ms'):
                self.assertIn(name, allowed)
            r = self.ask(s, '/api/v1/query?query=1', self.FRIEND, 'GET', None)
            self.assertEqual(r.headers['Access-Control-Allow-Origin'], self.FRIEND)
            self.assertIn('Sonde-Stats', r.headers['Access-Control-Expose-Headers'])
            self.assertEqual(http_get(f'{s.url}{stats}', method='POST', body='{}', headers={
                'Content-Type': 'application/json', 'Host': 'rebound.example'}).status, 403)
        with scraper('scrape_configs: []\n') as s:
            self.assertIsNone(self.ask(s, stats, self.FRIEND).headers['Access-Control-Allow-Origin'])
            self.assertEqual(self.ask(s, change, self.FRIEND, body=setting).status, 403)


class RenderTest(Base):
    def render(self, path='/pyroscope/render', status=200, **params):
        params = {k.replace('_', '-'): v for k, v in params.items()}
        r = self.s.get(f'{path}?{urllib.parse.urlencode(params)}')
        self.assertEqual(r.status, status, r.text)
        return r

    def test_json(self):
        base = {'from': self.s.start_ms, 'until': self.s.end_ms}
        r = self.render(query=f'{CPU}{{}}', **base).json
        f = r['flamebearer']
        self.assertEqual((r['version'], f['numTicks'], f['maxSelf']), (1, N * ALL, N * 90000000))
        self.assertEqual(f['levels'][0], [0, N * ALL, 0, 0])
        self.assertEqual(r['metadata'], {'format': 'single', 'spyName': '', 'sampleRate': 10**9, 'units': 'samples', 'name': 'cpu'})
        self.assertEqual((sum(r['timeline']['samples']), r['timeline']['durationDelta']), (N * ALL, 15))
        self.assertEqual((r['groups'], r['heatmap']), ({}, None))
        r = self.render(query=f'{CPU}{{}}', groupBy='service_name', max_nodes=3, **base).json
        self.assertEqual({k: sum(g['samples']) for k, g in r['groups'].items()}, {s: N * total(s) for s in SERVICES})
        self.assertIn('other', r['flamebearer']['names'])
        r = self.render(query=f'{CPU}{{}}', aggregation='avg', **base).json
        self.assertEqual({v for v in r['timeline']['samples'] if v}, {ALL // 2})
        heap = self.render(query=f'{HEAP}{{}}', **base).json
        self.assertEqual((heap['metadata']['units'], heap['metadata']['sampleRate']), ('bytes', 100))
        for times in ({'from': 'now-1h', 'until': 'now'}, {'from': 'now-1M'}, {'from': 'now-60min'}, {},
                      {'from': self.s.begin - 60, 'until': self.s.end}, {'from': self.s.start_ms * 10**6, 'until': self.s.end_ms * 1000}):
            self.assertEqual(self.render(query=f'{CPU}{{}}', **times).json['flamebearer']['numTicks'], N * ALL, times)
        none = self.render(query=f'{CPU}{{}}', **{'from': '19700101', 'until': '19700102'}).json['flamebearer']
        self.assertEqual(none, {'names': ['total'], 'levels': [[0, 0, 0, 0]], 'numTicks': 0, 'maxSelf': 0})

    def test_dot(self):
        r = self.render(query=f'{CPU}{{}}', format='dot')
        self.assertTrue(r.headers['Content-Type'].startswith('text/plain'))
        self.assertIn('digraph', r.text)
        self.assertEqual(self.render(query=f'{CPU}{{job="none"}}', format='dot').body, b'')

    def test_diff(self):
        sides = {'leftQuery': f'{CPU}{{service_name="alpha"}}', 'rightQuery': f'{CPU}{{service_name="beta"}}',
                 'leftFrom': self.s.start_ms, 'leftUntil': self.s.end_ms, 'rightFrom': self.s.start_ms, 'rightUntil': self.s.end_ms}
        r = self.render('/pyroscope/render-diff', **sides).json
        self.assertEqual((r['leftTicks'], r['rightTicks'], r['metadata']['format']), (N * total('alpha'), N * total('beta'), 'double'))
        self.assertTrue(all(len(level) % 7 == 0 for level in r['flamebearer']['levels']))
        r = self.render('/pyroscope/render-diff', 400, **{**sides, 'leftQuery': f'{SAMPLES}{{}}'}).json
        self.assertEqual(r['code'], 'invalid_argument')

    def test_errors(self):
        for params in ({}, {'query': '{}'}, {'query': f'{CPU}{{}}', 'from': 'yesterday'}, {'query': f'{CPU}{{}}', 'format': 'svg'}, {'query': f'{CPU}{{}}', 'aggregation': 'max'},
                       {'query': f'{CPU}{{}}', 'from': 'now', 'until': 'now-1h'}, {'query': f'{CPU}{{}}', 'max-nodes': 'x'}):
            self.assertEqual(self.render(status=400, **params).json['code'], 'invalid_argument')
        self.assertEqual(self.render('/pyroscope/label-values', label='__name__').json, ['memory', 'process_cpu'])
        self.assertEqual(self.render('/pyroscope/label-values', 400).json['code'], 'invalid_argument')
        self.assertEqual(self.s.get('/ready').status, 200)


if __name__ == '__main__':
    unittest.main()
