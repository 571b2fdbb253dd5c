"""
The Pyroscope querier driven by clients that others wrote: @connectrpc/connect-node, which knows nothing of this server but the proto files, and
connect-go with the client of Pyroscope's own API module, which Grafana's datasource is built on.
"""
import json
import shutil
import subprocess
import tempfile
import unittest

import go_modules
from filled import CPU, N, SPAN, Filled, total
from pprof_target import CPU_SAMPLES
from sonde_e2e import TOP

BESIDE_OTHERS = True

QUERIER = 'querier.v1.QuerierService'
SETTINGS = 'settings.v1.SettingsService'
ALL = total('alpha') + total('beta')
KINDS = ('proto', 'protoGzip', 'json', 'jsonGzip')


def missing():
    """Why the client cannot run, or None."""
    if not shutil.which('node'):
        return 'node is not installed'
    p = subprocess.run([f'{TOP}/.ci/npm-install', 'tests/e2e/connect'], capture_output=True, text=True, timeout=180)
    return f'the npm packages of the client cannot be installed: {p.stderr.strip()[-200:]}' if p.returncode else None


class Calls:
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.s = Filled()
        cls.query = {'start': str(cls.s.start_ms), 'end': str(cls.s.end_ms), 'profileTypeID': CPU, 'labelSelector': '{}'}

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__(None, None, None)

    def calls(self, *calls):
        """Answers of each call, the same for protobuf and JSON, plain and gzipped."""
        calls = [{'service': c[0], 'method': c[1], 'request': c[2], **(c[3] if len(c) > 3 else {})} for c in calls]
        p = self.run_client(json.dumps(calls))
        self.assertEqual(p.returncode, 0, p.stderr)
        answers = json.loads(p.stdout)
        for call, answer in zip(calls, answers):
            self.assertEqual(set(answer), set(KINDS))
            for kind in KINDS[1:]:
                self.assertEqual(answer[kind], answer['proto'], (call, kind))
        return [a['proto'] for a in answers]

    def test_calls(self):
        times = {'start': self.query['start'], 'end': self.query['end']}
        types, names, values, series, points, tree, profile, stats, saved, settings, gone = self.calls(
            (QUERIER, 'ProfileTypes', times),
            (QUERIER, 'LabelNames', times),
            (QUERIER, 'LabelValues', {**times, 'name': 'service_name', 'matchers': ['{job="app"}']}),
            (QUERIER, 'Series', {**times, 'labelNames': ['service_name']}),
            (QUERIER, 'SelectSeries', {**self.query, 'step': 60, 'groupBy': ['service_name'], 'limit': '1'}),
            (QUERIER, 'SelectMergeStacktraces', self.query),
            (QUERIER, 'SelectMergeProfile', self.query),
            (QUERIER, 'GetProfileStats', {}),
            (SETTINGS, 'Set', {'setting': {'name': 'a', 'value': 'é', 'modifiedAt': '7'}}),
            (SETTINGS, 'Get', {}),
            (SETTINGS, 'Delete', {'name': 'a'}))
        self.assertEqual(types['message']['profileTypes'][0]['ID'], CPU)
        self.assertIn('thread_name', names['message']['names'])
        self.assertEqual(values, {'message': {'names': ['alpha', 'beta']}})
        self.assertEqual(len(series['message']['labelsSet']), 2)
        line = points['message']['series'][0]
        self.assertEqual((line['labels'][0]['value'], len(points['message']['series'])), ('beta', 1))
        self.assertEqual({p['value'] for p in line['points']}, {total('beta')})
        self.assertEqual(tree['message']['flamegraph']['levels'][0]['values'], ['0', str(N * ALL), '0', '0'])
        self.assertEqual(sum(int(s['value'][0]) for s in profile['message']['sample']), N * ALL)
        self.assertEqual(stats['message']['newestProfileTime'], self.query['end'])
        setting = {'name': 'a', 'value': 'é', 'modifiedAt': '7'}
        self.assertEqual((saved, settings, gone), ({'message': {'setting': setting}}, {'message': {'settings': [setting]}}, {'message': {}}))

    def test_heatmap(self):
        asked = {**self.query, 'step': 120, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL'}
        heat, points = self.calls((QUERIER, 'SelectHeatmap', {**asked, 'queryType': 'HEATMAP_QUERY_TYPE_INDIVIDUAL'}),
                                  (QUERIER, 'SelectSeries', asked))
        slots = heat['message']['series'][0]['slots']
        self.assertEqual(sum(sum(s['counts']) for s in slots), 2 * N)
        self.assertEqual({len(s['yMin']) for s in slots}, {20})
        best = [max(s['exemplars'], key=lambda e: int(e['value'])) for s in slots]
        self.assertEqual([p['exemplars'][0]['profileId'] for p in points['message']['series'][0]['points']], [e['profileId'] for e in best])

    def test_diff(self):
        sides = {'left': {**self.query, 'labelSelector': '{service_name="alpha"}'}, 'right': {**self.query, 'labelSelector': '{service_name="beta"}'}}
        diff, = self.calls((QUERIER, 'Diff', sides))
        graph = diff['message']['flamegraph']
        self.assertEqual((graph['leftTicks'], graph['rightTicks']), (str(N * total('alpha')), str(N * total('beta'))))

    def test_errors(self):
        bad, unknown, empty = self.calls(
            (QUERIER, 'SelectMergeProfile', {**self.query, 'labelSelector': '{a="b'}),
            (QUERIER, 'SelectSeries', {**self.query, 'step': 60, 'exemplarType': 'EXEMPLAR_TYPE_SPAN'}),
            (QUERIER, 'SelectMergeStacktraces', {**self.query, 'start': '1', 'end': '2', 'maxNodes': '5'}, {'timeoutMs': 30000}))
        self.assertEqual(bad['code'], 'InvalidArgument')
        self.assertIn('position 4', bad['error'])
        self.assertEqual(unknown['code'], 'Unimplemented')
        self.assertEqual(empty['message']['flamegraph']['names'], ['total'])

    def test_span(self):
        """What a panel asks that was opened from a span of a trace."""
        graph, none = self.calls((QUERIER, 'SelectMergeSpanProfile', {**self.query, 'spanSelector': [SPAN], 'maxNodes': '100'}),
                                 (QUERIER, 'SelectMergeSpanProfile', {**self.query, 'spanSelector': ['0123456789abcdef']}))
        self.assertEqual(graph['message']['flamegraph']['total'], str(N * 2 * CPU_SAMPLES[0][1][1]))
        self.assertEqual(none['message']['flamegraph']['names'], ['total'])


class NodeTest(Calls, unittest.TestCase):
    @classmethod
    def prepare(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)

    def run_client(self, calls):
        with tempfile.NamedTemporaryFile(suffix='.binpb') as f:
            subprocess.run(['protoc-c', f'--proto_path={TOP}/proto', f'--descriptor_set_out={f.name}', '--include_imports',
                            'querier.proto', 'settings.proto'], check=True)
            return subprocess.run(['node', f'{TOP}/build/npm/connect/client.mjs', self.s.url + '/', f.name], input=calls,
                                  capture_output=True, text=True, timeout=120)


class GoTest(Calls, unittest.TestCase):
    @classmethod
    def prepare(cls):
        with open(f'{TOP}/tests/e2e/connect/client.go') as f:
            cls.program = go_modules.build('connect-client', f.read(), 'github.com/grafana/pyroscope/api@v1.6.0', 'connectrpc.com/connect@v1.19.2')

    def run_client(self, calls):
        return subprocess.run([self.program, self.s.url], input=calls, capture_output=True, text=True, timeout=120)


if __name__ == '__main__':
    unittest.main()
