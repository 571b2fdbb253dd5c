"""The checks of `make check` find what they are for: each rule is broken in a copy of the sources and must be reported."""
import os
import shutil
import subprocess
import tempfile
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True

BREAKS = [
    ('layers', 'lib/base/err.c', '#include "lib/prof/labels.h"\n', 'lib/base may not include lib/prof/labels.h'),
    ('layers', 'scraper/store/model/append.h', '#include "exporter/keeper/keeper.h"\n', 'may not include exporter/keeper/keeper.h'),
    ('layers', 'lib/net/client/fetch.c', '#include "lib/net/server/server.h"\n', 'lib/net/client may not include lib/net/server/server.h'),
    ('layers', 'lib/net/server/conn.c', '#include "lib/net/client/client.h"\n', 'lib/net/server may not include lib/net/client/client.h'),
    ('layers', 'scraper/store/part/part.c', '#include "scraper/store/block/block.h"\n', 'scraper/store/part may not include scraper/store/block/block.h'),
    ('layers', 'scraper/store/block/meta.c', '#include "scraper/store/store.h"\n', 'scraper/store/block may not include scraper/store/store.h'),
    ('layers', 'scraper/store/block/meta.c', '#include "scraper/store/store_impl.h"\n', 'in a circle: scraper/store scraper/store/block'),
    ('layers', 'scraper/store/room/new.c', '/* */\n', 'folder scraper/store/room has no line in .ci/layers.txt'),
    ('confinement', 'lib/prof/labels.c', '#include <zlib.h>\n', 'zlib.h is confined to lib/gzip'),
    ('banned', 'lib/base/str.c', 'int str_bad(const char *s);\nint str_bad(const char *s)\n{\n\treturn atoi(s);\n}\n', 'atoi() is banned'),
    ('sizes', 'lib/base/str.c', '/* */\n' * 900, 'at most 800'),
    ('heads', 'lib/base/new_file.c', 'int new_file_x;\n', 'no SPDX line'),
    ('locked', 'lib/base/str.c', 'void str_add_locked(void);\nvoid str_add_locked(void)\n{\n}\n', 'str_add_locked() does not begin with ASSERT_HELD'),
    ('format', 'lib/base/str.c', 'int   str_odd ;\n', 'not formatted'),
    ('english', 'docs/seams.md', '\nA seam ' + 'and a seam ' * 10 + 'is a sentence.\n', 'a sentence of 35 words, at most 30'),
    ('english', 'docs/seams.md', '\n| a | b |\n|---|---|\n| short | ' + 'word ' * 31 + '|\n', 'a sentence of 31 words, at most 30'),
    ('english', 'docs/seams.md', '\nThe kernel is believed.\n', '"believed": write trust'),
]


class Checks(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='sonde-checks.')
        self.addCleanup(shutil.rmtree, self.dir)
        files = subprocess.run(['git', 'ls-files'], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
        for f in files:
            if f.startswith(('lib/', 'scraper/store/', 'exporter/keeper/', '.ci/', 'docs/')) or f == '.clang-format':
                os.makedirs(os.path.dirname(f'{self.dir}/{f}') or self.dir, exist_ok=True)
                shutil.copy(f'{TOP}/{f}', f'{self.dir}/{f}')
        subprocess.run(['git', 'init', '-q', self.dir], check=True)

    def check(self, name):
        r = subprocess.run([f'{self.dir}/.ci/check', 'build/none', name], capture_output=True, text=True)
        return r.returncode, r.stdout

    def test_each_rule(self):
        for name, path, text, finding in BREAKS:
            with self.subTest(finding):
                full = f'{self.dir}/{path}'
                before = None
                if os.path.exists(full):
                    with open(full) as f:
                        before = f.read()
                self.assertEqual(self.check(name)[0], 0, f'{name} finds something in the untouched sources')
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, 'a') as f:
                    f.write(text)
                status, out = self.check(name)
                self.assertEqual(status, 1, out)
                self.assertIn(finding, out)
                if before is None:
                    os.unlink(full)
                else:
                    with open(full, 'w') as f:
                        f.write(before)

    def check_objects(self, tree, name):
        """What the check finds in a folder with these files."""
        here = tempfile.mkdtemp(prefix='sonde-checks.')
        self.addCleanup(shutil.rmtree, here)
        shutil.copytree(f'{TOP}/.ci', f'{here}/.ci')
        os.mkdir(f'{here}/build')
        for f, text in tree.items():
            with open(f'{here}/{f}', 'w') as out:
                out.write(text)
            if f.endswith('.c'):
                subprocess.run(['gcc', '-c', '-o', f'build/{f[:-2]}.o', f], cwd=here, check=True)
        subprocess.run(['git', 'init', '-q', here], check=True)
        r = subprocess.run([f'{here}/.ci/check', 'build', name], capture_output=True, text=True)
        return r.stdout.splitlines()[1:]

    def test_circles_of_files(self):
        tree = {'a.c': 'int b(void);\nint a(void)\n{\n\treturn b();\n}\n', 'b.c': 'int c(void);\nint b(void)\n{\n\treturn c();\n}\n', 'c.c': 'int c(void)\n{\n\treturn 0;\n}\n'}
        self.assertEqual(self.check_objects(tree, 'circles'), [])
        tree['c.c'] = 'int a(void);\nint c(void)\n{\n\treturn a();\n}\n'
        self.assertEqual(self.check_objects(tree, 'circles'), [': files use each other in a circle: a.c b.c c.c'])

    def test_functions_without_a_use(self):
        tree = {
            'a.h': 'int a_used(void);\nint a_lonely(void);\n/* a_lonely is better than a_used. */\nint alloc_fail_after(int n);\n',
            'a.c': '#include "a.h"\nint a_used(void)\n{\n\treturn \'"\';\n}\nint a_lonely(void)\n{\n\treturn a_used() == \'"\';\n}\n'
                   'int alloc_fail_after(int n)\n{\n\treturn n;\n}\n'}
        self.assertEqual(self.check_objects(tree, 'unused'), ['a.c: no program uses a_lonely(): delete it, or move it to the tests that do'])

    def test_english_counts_sentences_of_prose_alone(self):
        with open(f'{self.dir}/docs/seams.md', 'a') as f:
            f.write('\n```\n' + 'believed ' * 40 + '\n```\n\n    ' + 'believed ' * 40 + '\n\n'
                    'See `believed ' + 'x ' * 40 + '` and [a page](https://believed.example). It has ' + 'words ' * 26 + 'here. A new one begins.\n'
                    + '\n'.join('* ' + 'word ' * 20 for _ in range(3)) + '\n\n| ' + ' | '.join(['word ' * 20] * 3) + ' |\n')
        status, out = self.check('english')
        self.assertEqual(status, 0, out)


if __name__ == '__main__':
    unittest.main()
