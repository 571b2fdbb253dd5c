"""The web interface and pages from disk in Firefox: they are drawn, answer to pointer and keys, and break nothing. What they do in detail is tested in Chromium."""
import random
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

from filled import Filled
from firefox import FIREFOX, Firefox
from sonde_e2e import program
from test_cli_diff import FACTOR, run_of

BESIDE_OTHERS = True
FACTS = "document.querySelector('.panel-flame .panel-body > .facts')?.textContent"
INK = '''(() => { const c = [...document.querySelectorAll(arguments[0])].find((c) => c.checkVisibility()), d = c?.width && c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let n = 0; for (let i = 3; d && i < d.length; i += 4) n += d[i] > 0; return d ? n / (c.width * c.height) : 0; })()'''


@unittest.skipUnless(FIREFOX, 'firefox-esr is not installed')
class FirefoxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.filled = Filled()
        cls.addClassCleanup(cls.filled.__exit__, None, None, None)
        cls.dir = tempfile.mkdtemp(prefix='sonde-firefox-pages.')
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        rnd = random.Random(11)
        for side in 'ab':
            for i in range(3):
                with open(f'{cls.dir}/{side}{i}.pb', 'wb') as f:
                    f.write(run_of(rnd, FACTOR if side == 'b' else {}, new='fresh' if side == 'b' else None))
        for out in ('d.html', 'd.svg'):
            subprocess.run([program('sonde'), 'diff', 'a*.pb', '--', 'b*.pb', '-o', out], cwd=cls.dir, check=True)
        with open(f'{cls.dir}/s.folded', 'w') as f:
            f.write('main;work;leaf 30\nmain;rest 10\n')
        subprocess.run([program('sonde'), 'flamegraph', '-o', 's.svg', 's.folded'], cwd=cls.dir, check=True)
        cls.firefox = Firefox()
        cls.addClassCleanup(cls.firefox.close)
        cls.firefox.size(1280, 860)

    def open(self, url, selector='.flame-canvas'):
        self.firefox.go(url)
        self.drawn(selector)

    def drawn(self, selector='.flame-canvas'):
        self.firefox.wait(f'a picture in {selector}', f"!document.querySelector('[aria-busy=true]') && {INK} > 0.001", selector)

    def parameters(self):
        url = urllib.parse.urlsplit(self.firefox.run('return location.href'))
        return urllib.parse.parse_qs(url.query or url.fragment)

    def click_graph(self, level):
        x, y = self.firefox.run("const r = document.querySelector('.flame-canvas').getBoundingClientRect(); return [r.left, r.top]")
        self.firefox.click(x + 12, y + 19 * level + 9)

    def no_errors(self):
        self.assertEqual([line for line in re.findall(r'JavaScript error: .*|Content-Security-Policy.*', self.firefox.said()) if 'resource:' not in line and 'chrome:' not in line], [])

    def test_explores(self):
        f = self.firefox
        self.open(self.filled.url + '/')
        self.click_graph(2)
        f.wait('the zoom', "new URLSearchParams(location.search).getAll('at').length === 2")
        f.run("document.querySelector('.flame-canvas').focus()")
        f.type('/^leaf$')
        f.wait('the search', "/%$/.test(document.querySelector('.found').textContent)")
        self.assertEqual(f.run("return [...document.querySelectorAll('.table-row .function')].map((e) => e.textContent)"), ['leaf'])
        box = f.run("const r = document.querySelector('.plot .u-over').getBoundingClientRect(); return [r.left, r.top, r.width]")
        f.drag(box[0] + box[2] * 0.2, box[1] + 30, box[0] + box[2] * 0.8, box[1] + 34)
        f.wait('the range', "Number(new URLSearchParams(location.search).get('start')) > 1e9")
        before = f.run("return getComputedStyle(document.body).backgroundColor")
        f.run("document.querySelector('.theme').click(); document.querySelector('.theme').click()")
        self.assertNotEqual(f.run("return getComputedStyle(document.body).backgroundColor"), before)
        f.run("document.querySelector('.theme').click()")
        self.no_errors()

    def test_other_pages(self):
        for page, selector in (('compare?per=run', '.flame-canvas'), ('compare?per=run&panel=thread_name', '.flame-panel .flame-canvas'), ('functions', '.uplot canvas'), ('profiles', '.heat-canvas'),
                               ('?sandwich=work', '.sandwich .flame-canvas')):
            with self.subTest(page):
                self.open(f'{self.filled.url}/{page}', selector)
        for page, text in (('targets', 'No targets'), ('config', 'As it is in force'), ('status', 'Blocks'), ('flags', 'storage.path'), ('lines?function=leaf', 'leaf'), ('files', 'No file is open')):
            self.firefox.go(f'{self.filled.url}/{page}')
            self.firefox.wait(page, "document.querySelector('main').textContent.includes(arguments[0])", text)
        self.no_errors()

    def test_page_from_disk(self):
        f = self.firefox
        self.open(f'file://{self.dir}/d.html')
        self.assertEqual(f.run("return document.querySelectorAll('#plain').length"), 0)
        self.click_graph(1)
        f.wait('the zoom', "location.hash.includes('at=main')")
        f.run("[...document.querySelectorAll('[aria-label=\"What is shown\"] button')].find((b) => b.dataset.value === 'a').click()")
        f.wait('the side', f"{FACTS}.includes('by itself')")
        self.assertEqual(self.parameters()['tab'], ['a'])
        f.run('history.back()')
        f.wait('what was before', f"{FACTS}.includes('as wide as')")
        link = f.run('return location.href')
        f.go('about:blank')
        self.open(link)
        self.assertEqual(f.run("return [...document.querySelectorAll('.crumb')].map((e) => e.textContent)"), ['all', 'main'])
        self.no_errors()

    def test_pictures(self):
        for name in ('d.svg', 's.svg'):
            self.firefox.go(f'file://{self.dir}/{name}')
            self.assertGreater(self.firefox.run("return [...document.querySelectorAll('rect')].filter((r) => r.getBoundingClientRect().width > 20).length"), 3, name)


if __name__ == '__main__':
    unittest.main()
