"""Pages that open from disk (flame graphs and differences), in a real browser: their own script, nothing from elsewhere."""
import gzip
import os
import random
import shutil
import subprocess
import tempfile
import unittest

from sonde_e2e import program
from test_cli_diff import FACTOR, run_of
from test_ui import drive, missing

BESIDE_OTHERS = True


class Viewer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.dir = tempfile.mkdtemp(prefix='sonde-viewer.')
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        rnd = random.Random(11)
        for side in 'ab':
            os.mkdir(f'{cls.dir}/{side}')
            for i in range(5):
                raw = run_of(rnd, FACTOR if side == 'b' else {}, gone=None if side == 'b' else 'old_only', new='fresh' if side == 'b' else None)
                with open(f'{cls.dir}/{side}/{i}.pb.gz', 'wb') as f:
                    f.write(gzip.compress(raw))
        with open(f'{cls.dir}/stacks.folded', 'w') as f:
            f.write('main;work;<leaf> 30\nmain;rest</script> 10\n')
        cls.sonde('flamegraph', '--title', 'a </script> & b', '-o', 'graph.html', 'stacks.folded')
        cls.sonde('diff', 'a', '--', 'b', '--label-a', 'before', '--label-b', 'after <1>', '-o', 'diff.html')
        cls.sonde('diff', 'a/0.pb.gz', 'b/0.pb.gz', '-o', 'single.html')
        stories = {'page_graph': 'graph', 'page_diff': 'diff', 'page_dark': 'diff', 'page_single': 'single', 'page_plain': 'graph', 'link_page': 'diff'}
        cls.results = drive({name: {'url': f'file://{cls.dir}/{file}.html'} for name, file in stories.items()}, cls.dir)

    @classmethod
    def sonde(cls, *args):
        subprocess.run([program('sonde'), *args], cwd=cls.dir, check=True)

    def passed(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))

    def test_graph(self):
        self.passed('page_graph')

    def test_difference(self):
        self.passed('page_diff')

    def test_themes_and_narrow(self):
        self.passed('page_dark')

    def test_single_runs(self):
        self.passed('page_single')

    def test_link(self):
        self.passed('link_page')

    def test_without_script(self):
        self.passed('page_plain')


if __name__ == '__main__':
    unittest.main()
