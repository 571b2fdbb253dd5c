"""Series end at once when their target goes or cannot be scraped, and go on under a configuration that changed."""
import json
import signal
import tempfile
import unittest
import urllib.parse

from pprof_target import PprofTarget
from sonde_e2e import scraper, wait_for

BESIDE_OTHERS = True

GOROUTINES = 'goroutine_goroutine_count'
CPU = 'process_cpu_cpu_nanoseconds_total'
CONFIG = """
scrape_configs:
- job_name: app
  scrape_interval: 1s
  scrape_timeout: %s
  extra_scrape_metrics: true
  sample_limit: 1000
  file_sd_configs: [{files: ["%s/targets.json"]}]
  profiling_config: {preset: go, pprof_config: {memory: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}}}
"""


class StalenessTest(unittest.TestCase):
    def setUp(self):
        self.targets = [PprofTarget() for _ in range(3)]
        for t in self.targets:
            self.addCleanup(t.__exit__)
        tmp = tempfile.TemporaryDirectory(prefix='sonde-stale.')
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        self.list(*self.targets)
        self.d = scraper(CONFIG % ('20s', self.dir))
        self.addCleanup(lambda: self.d.__exit__(None, None, None))

    def list(self, *targets):
        with open(f'{self.dir}/targets.json', 'w') as f:
            json.dump([{'targets': [t.address for t in targets]}], f)

    def configure(self, timeout):
        self.d.set_config(CONFIG % (timeout, self.dir))
        self.d.p.send_signal(signal.SIGHUP)

    def value(self, query):
        """{instance: value} now."""
        r = self.d.get('/api/v1/query?' + urllib.parse.urlencode({'query': query}))
        self.assertEqual(r.status, 200, r.text)
        return {s['metric'].get('instance'): float(s['value'][1]) for s in r.json['data']['result']}

    def has(self, query, *targets):
        return lambda: set(self.value(query)) == {t.address for t in targets}

    def test_target_fails_and_returns(self):
        a, b, c = self.targets
        for query in (GOROUTINES, CPU, 'up'):
            wait_for(query, self.has(query, a, b, c))
        self.assertEqual(self.value(f'sum({GOROUTINES})'), {None: 27})
        extra = {name: self.value(name + '{profile_type="goroutine"}')[a.address]
                 for name in ('scrape_timeout_seconds', 'scrape_sample_limit', 'scrape_body_size_bytes')}
        self.assertEqual((extra['scrape_timeout_seconds'], extra['scrape_sample_limit']), (20, 1000))
        self.assertGreater(extra['scrape_body_size_bytes'], 100)
        a.fails = True
        wait_for('the failure', lambda: self.value('up')[a.address] == 0)
        for query in (GOROUTINES, CPU):
            wait_for(f'the end of {query}', self.has(query, b, c))  # the lookback alone takes five minutes
        wait_for('the sum without it', lambda: self.value(f'sum({GOROUTINES})') == {None: 18})
        self.assertEqual(set(self.value('up')), {t.address for t in self.targets}, 'of a target that fails up goes on')
        self.assertEqual(self.value('scrape_body_size_bytes{profile_type="goroutine"}')[a.address], 0)
        a.fails = False
        for query in (GOROUTINES, CPU):
            wait_for(f'{query} again', self.has(query, a, b, c))
        self.assertEqual(self.value(f'sum({GOROUTINES})'), {None: 27})

    def test_target_goes(self):
        a, b, c = self.targets
        for query in (GOROUTINES, CPU, 'up'):
            wait_for(query, self.has(query, a, b, c))
        self.list(b, c)
        for query in (GOROUTINES, CPU, 'up', 'scrape_duration_seconds{profile_type="goroutine"}'):
            wait_for(f'the end of {query}', self.has(query, b, c))
        # the job changes and loses a target at once: what goes on has no gap
        self.list(b)
        self.configure('21s')
        wait_for('the end', lambda: (self.assertIn(b.address, self.value('up')), self.has('up', b)())[1])
        wait_for('the end', self.has(GOROUTINES, b))
        self.d.set_config('scrape_configs: []')
        self.d.p.send_signal(signal.SIGHUP)
        for query in (GOROUTINES, CPU, 'up'):
            wait_for(f'the end of {query}', self.has(query))


if __name__ == '__main__':
    unittest.main()
