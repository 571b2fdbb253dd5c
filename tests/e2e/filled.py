"""A scraper that scrapes nothing and holds known profiles, for tests that compare one store's answers through several APIs."""
import time
import urllib.parse

from pprof_target import CPU_SAMPLES, CPU_TOTAL, encode
from sonde_e2e import http_get, scraper

CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
SAMPLES = 'process_cpu:samples:count:cpu:nanoseconds'
HEAP = 'memory:inuse_space:bytes:space:bytes'
SPAN = '9a517183f26a089d'
CPU_TYPES = [('samples', 'count'), ('cpu', 'nanoseconds')]
N = 10  # CPU profiles of each service, a minute apart, each over ten seconds
SERVICES = {'alpha': 1, 'beta': 2}  # what the values of CPU_SAMPLES are multiplied with
HEAP_BYTES = [4096, 1024]


def cpu_samples(service):
    """CPU_SAMPLES times the service's factor; beta's first sample belongs to a span and a route."""
    out = []
    for i, (stack, values, labels) in enumerate(CPU_SAMPLES):
        labels = dict(labels)
        if service == 'beta' and i == 0:
            labels.update({'span_id': SPAN, 'http.route': '/x'})
        out.append((stack, [v * SERVICES[service] for v in values], labels))
    return out


class Filled(scraper):
    """`begin` is the end of the first profile's window, a whole minute; `step` seconds lie between two of one service."""

    def __init__(self, *flags, **kw):
        super().__init__('scrape_configs: []\n', *flags, **kw)
        self.step = 60
        self.begin = int(time.time()) // 60 * 60 - 1800
        self.end = self.begin + (N - 1) * self.step
        self.start_ms, self.end_ms = (self.begin - 60) * 1000, self.end * 1000
        try:
            for service in SERVICES:
                for i in range(N):
                    at = (self.begin + i * self.step) * 10**9
                    body = encode(CPU_TYPES, CPU_TYPES[1], cpu_samples(service), at - 10 * 10**9, 10 * 10**9, 10000000)
                    self.load(body, 'process_cpu', service)
            for i in range(N):
                at = (self.begin + i * self.step) * 10**9
                samples = [([f'alloc{k}', 'main'], [v], {}) for k, v in enumerate(HEAP_BYTES)]
                self.load(encode([('inuse_space', 'bytes')], ('space', 'bytes'), samples, at, 0), 'memory', 'alpha')
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def load(self, body, name, service):
        q = urllib.parse.urlencode({'name': name, 'label.service_name': service, 'label.job': 'app'})
        r = http_get(f'{self.url}/api/v1/import?{q}', method='POST', body=body)
        assert r.status == 200, r.text


def total(service):
    """Nanoseconds of one profile."""
    return CPU_TOTAL * SERVICES[service]
