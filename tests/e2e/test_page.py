"""The plain query page in a real browser: it draws, and names from outside stay text."""
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

from pprof_target import EVIL, PprofTarget
from sonde_e2e import scraper, wait_for

BESIDE_OTHERS = True

CONFIG = '''
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ['{address}']
        labels: {{team: '"><script>document.title="pwned"</script>'}}
'''
CHROMIUM = shutil.which('chromium')


def browse(url, *flags):
    with tempfile.TemporaryDirectory(prefix='sonde-chromium.') as home:
        return subprocess.run([CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                               f'--user-data-dir={home}', '--window-size=1280,900', *flags, url],
                              capture_output=True, text=True, timeout=120, check=False)


def pixels(path):
    """Rows of (r, g, b) of a PNG with 8-bit RGB or RGBA."""
    with open(path, 'rb') as f:
        data = f.read()
    at, idat = 8, b''
    while at < len(data):
        n, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        if kind == b'IHDR':
            width, height, depth, colour = struct.unpack('>IIBB', body[:10])
            assert depth == 8 and colour in (2, 6), (depth, colour)
        elif kind == b'IDAT':
            idat += body
        at += n + 12
    step = 3 if colour == 2 else 4
    raw, stride, above = zlib.decompress(idat), width * step, bytearray(width * step)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = (line[i - step] if i >= step else 0), above[i], (above[i - step] if i >= step else 0)
            if kind == 1:
                line[i] = line[i] + a & 255
            elif kind == 2:
                line[i] = line[i] + b & 255
            elif kind == 3:
                line[i] = line[i] + (a + b) // 2 & 255
            elif kind == 4:
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                line[i] = line[i] + (a if pa <= pb and pa <= pc else b if pb <= pc else c) & 255
        yield [tuple(line[x:x + 3]) for x in range(0, stride, step)]
        above = line


def is_bar(pixel):
    """The blue of native frames, whatever its shade."""
    r, g, b = pixel
    return 115 <= r <= 190 and r + 25 < g < b and b >= 215


@unittest.skipUnless(CHROMIUM, 'chromium is not installed')
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = PprofTarget()
        cls.scraper = scraper(CONFIG.format(address=cls.target.address))
        wait_for('stored profiles', lambda: cls.scraper.get('/api/v1/profile_types').json['data'])
        wait_for('a second scrape', lambda: cls.target.served >= 3)

    @classmethod
    def tearDownClass(cls):
        cls.scraper.__exit__(None, None, None)
        cls.target.__exit__()

    def test_draws(self):
        with tempfile.NamedTemporaryFile(suffix='.png') as f:
            browse(self.scraper.url + '/plain', f'--screenshot={f.name}')
            bars = sum(is_bar(p) for row in pixels(f.name) for p in row)
        # The flame graph's full-width bars alone: main, and work and leaf with two thirds of it.
        self.assertGreater(bars, 1000 * 15 * 2)

    def test_names_stay_text(self):
        for path in ['/plain', '/plain/targets', '/plain/config', '/plain/flags', '/plain/status']:
            with self.subTest(path):
                dom = browse(self.scraper.url + path, '--dump-dom').stdout
                self.assertIn('</html>', dom)
                self.assertNotIn('<title>pwned', dom)
                self.assertNotIn('<img', dom)
                self.assertNotIn('<script', dom)
        dom = browse(self.scraper.url + '/plain', '--dump-dom').stdout
        self.assertIn(EVIL.replace('<', '&lt;').replace('>', '&gt;'), dom.replace('&quot;', '"'))
        self.assertIn('Over time', dom)
        self.assertIn('Labels', dom)

    def test_standalone_page(self):
        dom = browse(self.scraper.url + '/api/v1/flamegraph?format=html&query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D',
                     '--dump-dom').stdout
        self.assertIn('flame-canvas', dom)  # its script ran, and took the part for readers without script away
        self.assertNotIn('Top functions', dom)
        self.assertNotIn('<img', dom)
        self.assertNotIn('<title>pwned', dom)


if __name__ == '__main__':
    unittest.main()
