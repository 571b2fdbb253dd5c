"""Commands that ask no server load none of the libraries that asking one takes; those that do name what is missing."""
import glob
import json
import os
import re
import shutil
import tempfile
import unittest

from sonde_e2e import free_port, sonde
from test_cli_merge import encode
from test_web_config import TLS, Files

BESIDE_OTHERS = True

NETWORK = ('libcurl', 'libssl', 'libcrypto', 'libgnutls', 'libmicrohttpd', 'libkrb5', 'libldap')
ROWS = [(['leaf', 'main'], (1, 1000), {'comm': 'a'})]
CONFIG = 'scrape_configs: [{job_name: a, relabel_configs: [{target_label: x, replacement: y}]}]\n'


class LibrariesTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='sonde-libraries.')
        self.addCleanup(shutil.rmtree, self.dir)
        self.profile = self.file('a.pb', encode(ROWS))

    def file(self, name, content):
        path = f'{self.dir}/{name}'
        with open(path, 'wb') as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def loaded(self, *args, status=0):
        """The network's libraries that a command loads, at its start or later, as the dynamic linker tells."""
        p = sonde(*args, env=dict(os.environ, LD_DEBUG='libs', LD_DEBUG_OUTPUT=f'{self.dir}/ld'))
        self.assertEqual(p.returncode, status, f'{args}: {p.stderr}')
        names = set()
        for path in glob.glob(f'{self.dir}/ld.*'):
            with open(path) as f:
                names |= set(re.findall(r'find library=(\S+)\.so', f.read()))
            os.unlink(path)
        self.assertIn('libc', names)
        return names & set(NETWORK)

    def test_local_commands_load_none(self):
        config, rules = self.file('sonde.yml', CONFIG), self.file('rules.yml', '[{target_label: x, replacement: y}]\n')
        web = self.file('web.yml', 'basic_auth_users: {}\n')
        for args in (('--version',), ('merge', '--help'), ('merge', '-o', f'{self.dir}/sum.pb.gz', self.profile, self.profile), ('fold', self.profile),
                     ('flamegraph', '-o', f'{self.dir}/page.html', self.profile), ('top', self.profile), ('diff', self.profile, '--', self.profile),
                     ('check', 'config', config), ('check', 'relabel', '--rules', rules, '--labels', json.dumps({'a': 'b'})), ('check', 'web-config', web)):
            self.assertEqual(self.loaded(*args), set(), args)

    def test_what_is_needed_is_loaded(self):
        self.assertIn('libcurl', self.loaded('check', 'healthy', '--url', f'http://127.0.0.1:{free_port()}', status=1))
        files = Files()
        self.addCleanup(files.close)
        files.write(TLS)
        loaded = self.loaded('check', 'web-config', files.path)
        self.assertIn('libgnutls', loaded)
        self.assertNotIn('libcurl', loaded)

    def test_a_library_that_is_missing_is_named(self):
        """A file of that name that is no library is what the linker finds first."""
        self.file('libcurl.so.4', '')
        p = sonde('check', 'healthy', '--url', 'http://127.0.0.1:1', env=dict(os.environ, LD_LIBRARY_PATH=self.dir))
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stderr, r'libcurl\.so\.4 cannot be used \(Debian package libcurl4\): .*too short')
        self.assertEqual(sonde('fold', self.profile, env=dict(os.environ, LD_LIBRARY_PATH=self.dir)).returncode, 0)


if __name__ == '__main__':
    unittest.main()
