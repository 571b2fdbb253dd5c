"""The web interface in a real browser, against a scraper that holds known profiles."""
import gzip
import json
import random
import shutil
import subprocess
import tempfile
import unittest

from filled import CPU, CPU_TYPES, Filled, cpu_samples
from pprof_target import _bytes, _varint, encode
from sonde_e2e import TOP, Pprof, http_get, is_sanitized, scraper

BESIDE_OTHERS = True
CHROMIUM = shutil.which('chromium')
# Enough for the answer to have as many nodes as the query may ask for.
NODES = 100_000 if is_sanitized() else 1_000_000


def missing():
    if not CHROMIUM:
        return 'chromium is not installed'
    p = subprocess.run([f'{TOP}/.ci/npm-install', 'tests/e2e/browser'], capture_output=True, text=True, timeout=180)
    return f'the npm packages that drive the browser cannot be installed: {p.stderr.strip()[-200:]}' if p.returncode else None


def drive(stories, scratch):
    """{story: its options} → {story: {'answer': …} or {'error': text}}; what goes wrong is seen in SCRATCH/STORY.png."""
    p = subprocess.run(['node', f'{TOP}/build/npm/browser/drive.mjs', CHROMIUM, scratch], input=json.dumps(stories),
                       capture_output=True, text=True, timeout=1200, check=False)
    if p.returncode:
        raise AssertionError(p.stdout + p.stderr)
    return json.loads(p.stdout)


def large_profile(time_ns):
    """Stacks with 32 frames of their own each, on trunks that many share: samples are appended to a small profile that names the functions."""
    r = random.Random(1)
    names = [f'package{i % 40}.function{i}' for i in range(4000)]
    small = encode(CPU_TYPES, CPU_TYPES[1], [(names[i:i + 100], [1, 10_000_000], {}) for i in range(0, 4000, 100)], time_ns - 10 * 10**9, 10 * 10**9, 10_000_000)
    number = [_varint(i + 1) for i in range(4000)]
    trunks = [b''.join(r.choices(number[:200], k=12)) for _ in range(300)]
    samples = []
    for _ in range(NODES // 32):
        value = 1 + int(r.expovariate(1 / 40))
        ids = b''.join(r.choices(number, k=32)) + trunks[min(int(r.expovariate(0.02)), 299)]
        samples.append(_bytes(2, _bytes(1, ids) + _bytes(2, _varint(value) + _varint(value * 10_000_000))))
    return gzip.decompress(small) + b''.join(samples)


class UiTest(unittest.TestCase):
    LEAVES = ('leaves_fields', 'leaves_menus', 'leaves_graphs', 'leaves_answers')
    LINKS = ('link_explore', 'link_sandwich', 'link_compare', 'link_pages', 'link_files')
    TIMES = ('types_times', 'shares_instants', 'bad_times')

    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.filled = Filled()
        cls.addClassCleanup(cls.filled.__exit__, None, None, None)
        cls.empty = scraper('scrape_configs: []\n')
        cls.addClassCleanup(cls.empty.__exit__, None, None, None)
        cls.scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        url = cls.filled.url + '/'
        names = ['explores', 'selects', 'drags', 'picks', 'drops', 'zooms', 'searches', 'keyboard', 'shares', 'exports_', 'compares', 'panels', 'profiles', 'functions', 'files', 'themes', 'narrow', 'tabs', 'touches', 'cancels', 'loses_answers',
                 *cls.LEAVES, *cls.LINKS, *cls.TIMES]
        stories = {name: {'url': url} for name in names}
        stories['picks']['time'] = cls.filled.begin + 300
        stories['selects']['expected'] = '400'  # Chromium tells of the refused query
        stories['link_pages']['expected'] = '404'  # nothing has lines
        stories['loses_answers']['expected'] = 'net::ERR_'  # Chromium tells of the connection that was lost
        stories['files']['profile'] = f'{cls.scratch}/export.pprof'
        stories['page_served'] = {'url': f'{url}api/v1/flamegraph?format=html&query={CPU}%7B%7D'}
        stories['empty'] = {'url': cls.empty.url + '/'}
        cls.results = cls.drive(stories)

    @classmethod
    def drive(cls, stories):
        return drive(stories, cls.scratch)

    def answer(self, name, results=None):
        result = (results or self.results)[name]
        self.assertNotIn('error', result, result.get('error'))
        return result['answer']

    def test_explores(self):
        self.answer('explores')

    def test_selects(self):
        self.answer('selects')

    def test_drags(self):
        self.answer('drags')

    def test_picks_a_point(self):
        self.answer('picks')

    def test_takes_dropped_files(self):
        self.answer('drops')

    def test_zooms(self):
        self.answer('zooms')

    def test_searches(self):
        self.answer('searches')

    def test_keyboard(self):
        self.answer('keyboard')

    def test_shares(self):
        self.answer('shares')

    def test_links(self):
        """Everything that can be set is in a copied link."""
        for name in self.LINKS:
            with self.subTest(name):
                self.answer(name)

    def test_times(self):
        for name in self.TIMES:
            with self.subTest(name):
                self.answer(name)

    def test_leaves_pages(self):
        """What a page began ends with it."""
        for name in self.LEAVES:
            with self.subTest(name):
                self.answer(name)

    def test_loses_answers(self):
        """A scraper that ends in the middle of an answer."""
        self.answer('loses_answers')

    def test_exports(self):
        saved = self.answer('exports_')
        with open(saved['pprof'], 'rb') as f:
            profile = Pprof(f.read())
        self.assertTrue(profile.samples)
        with open(saved['folded']) as f:
            self.assertRegex(f.read(), r'(?m)^main;work;leaf \d+$')
        with open(saved['speedscope']) as f:
            self.assertIn('speedscope', json.load(f)['$schema'])
        with open(saved['svg']) as f:
            self.assertIn('<svg', f.read(500))
        with open(saved['png'], 'rb') as f:
            self.assertEqual(f.read(8), b'\x89PNG\r\n\x1a\n')
        with open(saved['table']) as f:
            head, *rows = f.read().splitlines()
        self.assertEqual(head, 'function,self,self_share,total,total_share')
        self.assertTrue(any(row.startswith('"leaf",') for row in rows), rows)

    def test_compares(self):
        with open(self.answer('compares')) as f:
            self.assertRegex(f.read(), r'(?m)^main;work;leaf \d+ \d+$')

    def test_compares_by_label(self):
        self.answer('panels')

    def test_single_profiles(self):
        self.answer('profiles')

    def test_functions_over_time(self):
        self.answer('functions')

    def test_files_of_the_browser(self):
        self.answer('files')

    def test_themes(self):
        self.answer('themes')

    def test_narrow_window(self):
        self.answer('narrow')

    def test_focus_order(self):
        self.answer('tabs')

    def test_touch(self):
        self.answer('touches')

    def test_cancels(self):
        self.answer('cancels')

    def test_page_from_the_server(self):
        self.answer('page_served')

    def test_empty_store(self):
        with scraper(self.answer('empty')) as s:
            self.assertEqual(sorted(t['scrapePool'] for t in s.get('/api/v1/targets').json['data']['activeTargets']), ['go', 'nodes'])

    def store(self, s, body):
        r = http_get(f'{s.url}/api/v1/import?name=process_cpu&label.service_name=app', method='POST', body=body, timeout=120)
        self.assertEqual(r.status, 200, r.text)

    def test_route_prefix(self):
        with scraper('scrape_configs: []\n', '--web.route-prefix=/some/where', wait_ready=False) as s:
            s.url += '/some/where'
            s.wait_ready()
            self.store(s, encode(CPU_TYPES, CPU_TYPES[1], cpu_samples('alpha'), (self.filled.end - 10) * 10**9, 10 * 10**9, 10_000_000))
            self.answer('prefixed', self.drive({'prefixed': {'url': s.url + '/'}}))
            self.answer('prefixed', self.drive({'prefixed': {'url': s.url}}))  # as people type it

    def test_million_frames(self):
        with scraper('scrape_configs: []\n') as s:
            self.store(s, large_profile(self.filled.end * 10**9))
            got = self.answer('million', self.drive({'million': {'url': f'{s.url}/?view=flame&nodes={NODES}&query={CPU}%7B%7D'}}))
        print(json.dumps(got))
        self.assertGreater(got['nodes'], NODES * 0.9)
        self.assertLess(got['bars'], 60000)

    def test_files(self):
        """What a browser gets: compressed or not, not again when it has it, nothing from elsewhere."""
        s = self.filled
        page = s.get('/')
        self.assertEqual((page.status, page.headers['Content-Encoding']), (200, None))
        self.assertNotRegex(page.text, r'(?i)<script(?![^>]*\bsrc=)|\bon\w+=|style=|https?://')
        size = 0
        for name in ('app.js', 'app.css', 'worker.js', 'icon.svg'):
            packed = s.get(f'/assets/{name}', headers={'Accept-Encoding': 'gzip'})
            self.assertEqual((packed.status, packed.headers['Content-Encoding']), (200, 'gzip'), name)
            size += len(packed.body)
            again = s.get(f'/assets/{name}', headers={'If-None-Match': packed.headers['ETag']})
            self.assertEqual((again.status, again.body), (304, b''), name)
        self.assertLess(size, 150 * 1024)
        self.assertEqual(s.get('/assets/nothing.js').status, 404)


if __name__ == '__main__':
    unittest.main()
