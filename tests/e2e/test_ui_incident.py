"""Somebody in an incident, who has never seen the data: the web interface leads to the line in five actions. And somebody who profiles
one program by two jobs."""
import os
import shutil
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU_TYPES
from pprof_target import encode
from sonde_e2e import http_get, scraper
from test_ui import drive, missing

BESIDE_OTHERS = True
S = 10**9
STEP = 15  # seconds of a window
MINUTES = 40
INCIDENT = range(15, 20)  # minutes
SERVICES = {'orders-api': 0.10, 'checkout': 0.25, 'search': 0.20, 'mailer': 0.02}  # cores as usual
WORKERS = [f'http-worker-{i}' for i in range(1, 5)]


def samples(service, minute):
    """One window: each thread parses and answers; in the incident one thread of one service escapes HTML."""
    out = []
    for worker in WORKERS:
        work = int(SERVICES[service] / len(WORKERS) * STEP * S)
        out += [(['parse', 'handle_request', 'worker', 'main'], [1, work * 6 // 10], {'thread_name': worker}),
                (['serialize', 'handle_request', 'worker', 'main'], [1, work * 4 // 10], {'thread_name': worker})]
        if service == 'orders-api' and worker == 'http-worker-2' and minute in INCIDENT:
            out.append((['escape_html', 'serialize', 'handle_request', 'worker', 'main'], [1, STEP * S * 6 // 10], {'thread_name': worker}))
    return out


class Incident(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.scratch = os.environ.get('SONDE_SCREENSHOTS') or tempfile.mkdtemp(prefix='sonde-ui.')
        if 'SONDE_SCREENSHOTS' not in os.environ:
            cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.scraper = scraper('scrape_configs: []\n')
        cls.addClassCleanup(cls.scraper.__exit__, None, None, None)
        cls.begin = int(time.time()) // 60 * 60 - MINUTES * 60
        for service in SERVICES:
            for i in range(MINUTES * 60 // STEP):
                at = cls.begin + i * STEP
                cls.push(encode(CPU_TYPES, CPU_TYPES[1], samples(service, i * STEP // 60), at * S, STEP * S, 10_000_000, path=f'/srv/{service}',
                                source=f'/src/{service}/main.cc'), service_name=service, job='services', instance=f'{service}:8080')
        # A node that an exporter profiles, and a program of it that another job asks itself.
        for comm, job, instance, share in (('app', 'node', 'n1:9876', 0.5), ('db', 'node', 'n1:9876', 0.25), (None, 'app', 'n1:6060', 0.5)):
            body = encode(CPU_TYPES, CPU_TYPES[1], [(['work', 'main'], [1, int(share * 60 * S)], {})], (cls.begin - 7200) * S, 60 * S, 10_000_000)
            cls.push(body, job=job, instance=instance, **({'comm': comm} if comm else {}))
        url = cls.scraper.url + '/'
        clock = [time.strftime('%H:%M', time.gmtime(cls.begin + 60 * m)) for m in (INCIDENT[0], INCIDENT[-1] + 1)]
        # Chromium tells of the source text that the scraper does not have.
        cls.results = drive({'incident': {'url': url, 'when': '-'.join(clock), 'expected': '404'},
                             'overlap': {'url': url, 'start': cls.begin - 7260, 'end': cls.begin - 7080}}, cls.scratch)

    @classmethod
    def push(cls, body, **labels):
        q = urllib.parse.urlencode({'name': 'process_cpu', **{f'label.{k}': v for k, v in labels.items()}})
        r = http_get(f'{cls.scraper.url}/api/v1/import?{q}', method='POST', body=body)
        assert r.status == 200, r.text

    def test_five_actions_to_the_line(self):
        result = self.results['incident']
        self.assertNotIn('error', result, result.get('error'))

    def test_cpu_of_two_jobs(self):
        result = self.results['overlap']
        self.assertNotIn('error', result, result.get('error'))


if __name__ == '__main__':
    unittest.main()
