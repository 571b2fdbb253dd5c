"""The page for files of the web interface, in a real browser: sample types, the list of what is open, the formats that it reads."""
import shutil
import tempfile
import unittest

from pprof_target import encode
from sonde_e2e import scraper
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
        with scraper('scrape_configs: []\n') as s:
            url = s.url + '/'
            cls.results = drive({
                'file_types': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz', 'grown': f'{cls.scratch}/grown.pb.gz'},
                'file_list': {'url': url, 'heap': f'{cls.scratch}/heap.pb.gz'},
            }, cls.scratch)

    def answer(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))
        return self.results[name]['answer']

    def test_sample_types(self):
        self.answer('file_types')

    def test_list_of_open_files(self):
        self.answer('file_list')


if __name__ == '__main__':
    unittest.main()
