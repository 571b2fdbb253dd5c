"""The page for files of the web interface, in a real browser: sample types, the list of what is open, the formats that it reads."""
import shutil
import subprocess
import tempfile
import unittest

from pprof_target import encode
from sonde_e2e import TOP, scraper, sonde
from test_ui import drive, missing

BESIDE_OTHERS = True
HEAP = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]


def heap(reads, inuse):
    """As Go writes them: four sample types, of which the last is the main one."""
    return encode(HEAP, HEAP[3], [(['read', 'main'], [reads, reads * 100, 10, inuse], {}), (['write', 'main'], [30, 900, 20, inuse * 3], {})], 10**18, 10**9, 1)


class UiFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        for name, content in (('heap.pb.gz', heap(40, 1024)), ('grown.pb.gz', heap(60, 2048))):
            with open(f'{cls.scratch}/{name}', 'wb') as f:
                f.write(content)
        with open(f'{cls.scratch}/page.folded', 'w') as f:
            f.write('main;work 8\n')
        sonde('flamegraph', f'{cls.scratch}/page.folded', '-o', f'{cls.scratch}/page.html')
        with scraper('scrape_configs: []\n') as s:
            url = s.url + '/'
            cls.results = drive({
                'file_types': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz', 'grown': f'{cls.scratch}/grown.pb.gz'},
                'file_list': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz'},
                'file_formats': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz', 'html': f'{cls.scratch}/page.html'},
            }, cls.scratch)

    def answer(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))
        return self.results[name]['answer']

    def test_sample_types(self):
        self.answer('file_types')

    def test_list_of_open_files(self):
        self.answer('file_list')

    def test_formats(self):
        self.answer('file_formats')

    def test_readers(self):
        """In node: what they read, what they refuse, damaged files."""
        p = subprocess.run(['node', f'{TOP}/tests/e2e/browser/readers.mjs', f'{TOP}/build/npm/ui/node_modules'], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)


if __name__ == '__main__':
    unittest.main()
