"""What strangers stumbled over in the web interface: many series, long values, rows that are clicked, errors, a first start."""
import shutil
import tempfile
import time
import unittest

from filled import CPU_TYPES, cpu_samples
from pprof_target import encode
from sonde_e2e import http_get, scraper
from test_ui import drive, missing

BESIDE_OTHERS = True
N = 30  # services, the first with thirty times the work of the last
LONG = '/kubepods.slice' * 40  # 600 letters
PLAIN = 5  # that have no version


def samples(times):
    return [(stack, [v * times for v in values], labels) for stack, values, labels in cpu_samples('alpha')]


class UiUseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.scraper = scraper('scrape_configs: []\n')
        cls.addClassCleanup(cls.scraper.__exit__, None, None, None)
        at = int(time.time()) // 60 * 60 - 1200
        for i in range(N):
            labels = f'label.service_name=svc{i:02}' + ('&label.version=1.0' if i < N - PLAIN else '') + (f'&label.cgroup={LONG}' if i == 0 else '')
            cls.store('process_cpu', labels, encode(CPU_TYPES, CPU_TYPES[1], samples(N - i), (at - 10) * 10**9, 10 * 10**9, 10_000_000))
        heap = encode([('inuse_space', 'bytes')], ('space', 'bytes'), [(['alloc', 'main'], [4096], {'bytes': (48, 'bytes')}), ([f'deep{k}' for k in range(40)], [1024], {})], at * 10**9, 0)
        cls.store('memory', 'label.service_name=svc00', heap)
        stories = {name: {'url': cls.scraper.url + '/', 'time': at} for name in cls.stories()}
        stories['errors']['expected'] = '500'  # Chromium tells of the answer that failed
        cls.results = drive(stories, cls.scratch)

    @classmethod
    def stories(cls):
        return ['stacks', 'marks', 'scopes', 'errors', 'types', 'offers', 'longLabels', 'prints', 'asksOnce']

    @classmethod
    def store(cls, name, labels, body):
        r = http_get(f'{cls.scraper.url}/api/v1/import?name={name}&{labels}', method='POST', body=body, timeout=120)
        assert r.status == 200, r.text

    def answer(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))
        return self.results[name]['answer']

    def test_stacks_series(self):
        self.answer('stacks')

    def test_marks_a_function(self):
        self.answer('marks')

    def test_zoom_scopes_the_table(self):
        self.answer('scopes')

    def test_errors_stand_alone(self):
        self.answer('errors')

    def test_types_a_selector(self):
        self.answer('types')

    def test_offers_labels_of_the_type(self):
        self.answer('offers')

    def test_long_labels(self):
        self.answer('longLabels')

    def test_asks_once(self):
        self.answer('asksOnce')

    def test_prints(self):
        self.answer('prints')


if __name__ == '__main__':
    unittest.main()
