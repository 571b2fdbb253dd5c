"""Keys of a Prometheus file that act here: the log of failed scrapes, storage.tsdb, the legacy scheme of names."""
import gzip
import json
import os
import signal
import tempfile
import time
import unittest
from urllib.parse import parse_qs, quote, urlsplit

from pprof_target import encode
from sonde_e2e import scraper, wait_for
from test_http_client import Target

BESIDE_OTHERS = True

ONE_TYPE = '{preset: go, pprof_config: {memory: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}, goroutine: {enabled: false}}}'


class PrometheusKeysTest(unittest.TestCase):
    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory(prefix='sonde-keys.'))

    def lines(self, name):
        try:
            with open(f'{self.dir}/{name}') as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def test_failure_log(self):
        def job(name, address, log=''):
            return (f'- job_name: {name}\n  scrape_interval: 500ms\n  profiling_config: {ONE_TYPE}\n'
                    f'  static_configs: [{{targets: ["{address}"]}}]\n{log}')
        ok, bad = self.enterContext(Target()), self.enterContext(Target(lambda handler, body: (503, {}, b'no "profile"\n')))
        config = (f'global: {{scrape_failure_log_file: {self.dir}/all.log}}\nscrape_configs:\n' + job('fine', ok.address) + job('bad', bad.address)
                  + job('own', bad.address, f'  scrape_failure_log_file: {self.dir}/own.log\n')
                  + job('nowhere', bad.address, f'  scrape_failure_log_file: {self.dir}/none/x.log\n')
                  + job('pipe', bad.address, f'  scrape_failure_log_file: {self.dir}/pipe\n'))
        os.mkfifo(f'{self.dir}/pipe')  # nobody reads it: to wait for that would stop everything
        with scraper(config) as s:
            wait_for('failures', lambda: len(self.lines('all.log')) > 1 and len(self.lines('own.log')) > 1)
            line = self.lines('all.log')[0]
            self.assertEqual({k: line[k] for k in ('level', 'job_name', 'target', 'profile_type', 'reason')},
                             {'level': 'ERROR', 'job_name': 'bad', 'target': f'http://{bad.address}/debug/pprof/profile?seconds=1',
                              'profile_type': 'process_cpu', 'reason': 'http_status'})
            self.assertIn('no "profile"', line['msg'])
            self.assertRegex(line['time'], time.strftime('^%Y-') + r'\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$')
            self.assertEqual({x['job_name'] for x in self.lines('own.log')}, {'own'})
            for path in ('none/x.log', 'pipe'):
                self.assertRegex(s.output(), f'cannot open scrape_failure_log_file.*{path}')
            wait_for('the counter', lambda: s.metrics()['sonde_scrape_failure_log_errors_total'] > 1)
            os.rename(f'{self.dir}/all.log', f'{self.dir}/old.log')
            s.p.send_signal(signal.SIGHUP)
            wait_for('a new file', lambda: self.lines('all.log'))
            before = len(self.lines('old.log'))
            n = len(self.lines('all.log'))
            wait_for('further lines', lambda: len(self.lines('all.log')) > n + 1)
            self.assertEqual(len(self.lines('old.log')), before)

    def test_storage(self):
        def retention():
            return s.get('/api/v1/status/runtimeinfo').json['data']['storageRetention']

        def reload(config):
            s.set_config(config + '\nscrape_configs: []')
            s.p.send_signal(signal.SIGHUP)
        with scraper('storage: {tsdb: {retention: {time: 30d, size: 2GB}}}\nscrape_configs: []', '--storage.retention.time=3d') as s:
            self.assertEqual(retention(), '30d or 2GiB')
            self.assertIn('time: 30d', s.get('/plain/config').text)
            reload('')
            wait_for('the flag', lambda: retention() == '3d')
            reload('storage: {tsdb: {retention: {percentage: 12.5}, out_of_order_time_window: 30m}}')
            v = os.statvfs(s.dir)
            share = v.f_blocks * v.f_frsize / 8 / 2**30
            wait_for('a share', lambda: retention().startswith('3d or '))
            self.assertAlmostEqual(float(retention()[6:-3]), share, delta=share / 100)

    def test_how_answers_are_asked_for_and_taken(self):
        """enable_compression, honor_timestamps and body_size_limit."""
        asked, late_s = {}, 600

        def answer(handler, body):
            name = parse_qs(urlsplit(handler.path).query)['job'][0]
            asked[name] = handler.headers['Accept-Encoding']
            text = encode([('samples', 'count')], ('cpu', 'nanoseconds'), [(['f' * 5000], [1], {})], time.time_ns() - late_s * 10**9, 10**9)
            return (200, {'Content-Encoding': 'gzip'}, gzip.compress(text)) if asked[name] == 'gzip' else (200, {}, text)
        target = self.enterContext(Target(answer))
        jobs = {'usual': '', 'plain': 'enable_compression: false', 'dated': 'honor_timestamps: false', 'large': 'body_size_limit: 6KB', 'small': 'body_size_limit: 5000B',
                'plain_small': 'body_size_limit: 5000B\n  enable_compression: false'}
        text = 'scrape_configs:\n' + ''.join(
            f'- job_name: {name}\n  scrape_interval: 500ms\n  params: {{job: [{name}]}}\n  static_configs: [{{targets: ["{target.address}"]}}]\n'
            f'  profiling_config: {ONE_TYPE}\n  {key}\n' for name, key in jobs.items())
        with scraper(text) as s:
            def state(name):
                return [(t['health'], t['lastError']) for t in s.get('/api/v1/targets').json['data']['activeTargets'] if t['scrapePool'] == name][0]

            def age(name):
                query = quote(f'process_cpu:samples:count:cpu:nanoseconds{{job="{name}"}}')
                profiles = s.get(f'/api/v1/profiles?query={query}&from=now-1h&until=now').json['data']['profiles']
                return time.time() - profiles[-1]['time'] if profiles else None
            for name in ('usual', 'plain', 'dated', 'large'):
                wait_for(name, lambda: state(name)[0] == 'up')
            for name in ('small', 'plain_small'):
                wait_for(name, lambda: state(name)[0] == 'down')
                self.assertIn('body_size_limit', state(name)[1])
            self.assertEqual({name: coding for name, coding in asked.items() if coding != 'gzip'}, {'plain': 'identity', 'plain_small': 'identity'})
            self.assertAlmostEqual(wait_for('a profile', lambda: age('usual')), late_s, delta=60)
            self.assertLess(wait_for('a profile', lambda: age('dated')), 60)

    def test_seconds_in_params(self):
        """One `seconds` in a request, and time for it: of the job, of a path, of a label; the type's own wins. What is shown is what is asked."""
        asked = {}

        def answer(handler, body):
            query = parse_qs(urlsplit(handler.path).query)
            asked.setdefault(query['job'][0], set()).add((urlsplit(handler.path).path, tuple(query.get('seconds', []))))
            time.sleep(int(query.get('seconds', ['0'])[0]))  # Go's handlers take the first
            return 200, {}, gzip.compress(encode([('samples', 'count')], ('cpu', 'nanoseconds'), [(['f'], [1], {})], time.time_ns() - 10**9, 10**9))
        cpu = '/debug/pprof/profile'
        jobs = {  # name: its lines, what is asked
            'usual': ('', {(cpu, ('1',))}),
            'job': ("params: {job: [job], seconds: ['2']}", {(cpu, ('2',))}),
            'twice': ("params: {job: [twice], seconds: ['2', '9']}", {(cpu, ('2',))}),
            'label': ("relabel_configs: [{target_label: __param_seconds, replacement: '2'}]", {(cpu, ('2',))}),
            'path': ('profiling_config: ' + ONE_TYPE[:-2] + f", process_cpu: {{path: '{cpu}?seconds=2'}}}}}}", {(cpu, ('2',))}),
            'own': ("params: {job: [own], seconds: ['9']}\n  profiling_config: " + ONE_TYPE[:-2] + ', process_cpu: {seconds: 1}}}', {(cpu, ('1',))}),
            'memory': ("params: {job: [memory], seconds: ['2']}\n  profiling_config: " + ONE_TYPE.replace('memory: {enabled: false}', 'memory: {}'),
                       {(cpu, ('2',)), ('/debug/pprof/allocs', ('2',))}),
        }
        text = 'scrape_configs:\n'
        for name, (lines, _) in jobs.items():  # a program of its own each: one is asked for one CPU profile at a time
            target = self.enterContext(Target(answer))
            text += f'- job_name: {name}\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs: [{{targets: ["{target.address}"]}}]\n'
            text += ('' if 'profiling_config' in lines else f'  profiling_config: {ONE_TYPE}\n') + ('' if 'params' in lines else f'  params: {{job: [{name}]}}\n') + f'  {lines}\n'
        with scraper(text) as s:
            def targets():
                return {t['scrapePool']: t for t in s.get('/api/v1/targets').json['data']['activeTargets']}
            wait_for('all of them', lambda: all(t['health'] == 'up' and not t['lastError'] for t in targets().values()))
            for name, (_, want) in jobs.items():
                self.assertEqual(asked[name], want, name)
            for name, t in targets().items():
                for profile in t['profiles']:
                    url = urlsplit(profile['scrapeUrl'])
                    self.assertIn((url.path, tuple(parse_qs(url.query)['seconds'])), jobs[name][1], profile)
                self.assertEqual(t['scrapeUrl'], t['profiles'][0]['scrapeUrl'])
            self.assertIn('params.seconds: is the window of every profile type', s.output())

    def test_legacy_names(self):
        def answer(handler, body):
            now = time.time_ns()
            return 200, {}, encode([('samples', 'count')], ('cpu', 'nanoseconds'), [(['f'], [1], {'k8s.pod': 'p.1', 'é0': 'x'})], now - 10**9, 10**9)
        target = self.enterContext(Target(answer))
        job = (f'  scrape_interval: 500ms\n  static_configs: [{{targets: ["{target.address}"]}}]\n'
               f'  profiling_config: {ONE_TYPE[:-1]}, sample_labels: [k8s.pod, "é0"]}}\n')
        with scraper(f'global: {{metric_name_validation_scheme: legacy}}\nscrape_configs:\n- job_name: old\n{job}'
                     f'- job_name: new\n  metric_name_validation_scheme: utf8\n{job}') as s:
            def labels(job):
                series = s.get(f'/api/v1/series?match[]=process_cpu_samples_count_total{{job="{job}"}}').json['data']
                return [{k: v for k, v in one.items() if v in ('p.1', 'x')} for one in series]
            wait_for('legacy names', lambda: labels('old') == [{'k8s_pod': 'p.1', '_0': 'x'}])
            wait_for('any names', lambda: labels('new') == [{'k8s.pod': 'p.1', 'é0': 'x'}])


if __name__ == '__main__':
    unittest.main()
