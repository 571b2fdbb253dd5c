"""`make deb`: the packages install on a clean Debian 12, their programs run there and give profiles, and a purge leaves nothing."""
import glob
import os
import re
import shutil
import tempfile
import unittest

from debian_root import DebianRoot, make_packages
from sonde_e2e import TOP, Daemon, Pprof, Workload, build_dir, compile_c, http_get, is_sanitized, needs_kernel, wait_for

BESIDE_OTHERS = True

PACKAGES = ('sonde', 'sonde-exporter', 'sonde-scraper')
SPIN = r'''
#include <stdint.h>
__attribute__((noinline)) uint64_t packaged_work(uint64_t n) { uint64_t x = n; for (int i = 0; i < 3000000; i++) x = x * 6364136223846793005ULL + 1; return x; }
int main(void) { volatile uint64_t v = 1; for (;;) v = packaged_work(v); }
'''
CONFIG = '''global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
'''


@needs_kernel
@unittest.skipIf(is_sanitized(), 'packages are made of a release build')
class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        packages = make_packages(TOP, os.path.basename(build_dir()), cls.enterClassContext(tempfile.TemporaryDirectory()))
        with open(f'{TOP}/VERSION') as f:
            cls.version = f.read().strip()
        cls.root = DebianRoot()
        cls.addClassCleanup(cls.root.remove)
        for package in PACKAGES:
            shutil.copy(packages[package], f'{cls.root.path}/tmp/{package}.deb')
        update = cls.root.run('apt-get', 'update', '-q')
        if update.returncode or 'Failed to fetch' in update.stderr:
            raise unittest.SkipTest(f'no clean Debian 12: apt-get update: {update.stderr.strip()[-200:]}')
        p = cls.root.run('apt-get', 'install', '-y', '-q', '--no-install-recommends', *[f'/tmp/{n}.deb' for n in PACKAGES])
        if p.returncode:
            raise AssertionError(p.stdout[-3000:] + p.stderr)

    def test_1_programs_and_files(self):
        for name in PACKAGES:
            p = self.root.run(name, '--version')
            self.assertIn(f'{name}, version {self.version}', p.stdout, p.stderr)
        p = self.root.run('sonde', 'check', 'config', '/etc/sonde/sonde.yml')
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertIn('SUCCESS', p.stdout)
        p = self.root.run('dpkg', '--verify', *PACKAGES)
        self.assertEqual((p.returncode, p.stdout), (0, ''), p.stderr)
        p = self.root.run('dpkg-query', '-W', '-f', '${Package} ${db:Status-Abbrev}\n', *PACKAGES)
        self.assertEqual(re.findall(r'^(\S+) ii ', p.stdout, re.M), sorted(PACKAGES))
        p = self.root.run('stat', '-c', '%U %a', '/var/cache/sonde/symbols', '/var/lib/sonde')
        self.assertEqual(p.stdout.split(), ['sonde', '750', 'sonde-scraper', '750'])

    def start(self, name, *flags, user=None):
        change = ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups', '--no-new-privs'] if user else []
        # the program of the package, not the one that Daemon names
        return Daemon(name, *flags, prefix=self.root.command(*change, 'sh', '-c', f'shift; exec /usr/bin/{name} "$@"', 'sh'))

    def test_2_daemons_give_profiles(self):
        work = compile_c(SPIN, '-O0', '-fno-omit-frame-pointer', name='debspin')
        self.addCleanup(shutil.rmtree, os.path.dirname(work), ignore_errors=True)
        with Workload(work), self.start('sonde-exporter') as exporter:
            def named(url):
                return lambda: Pprof(http_get(url).body).functions().get('packaged_work')
            wait_for('a profile of the exporter', named(exporter.url + '/debug/pprof/profile?seconds=2&hz=99&comm=debspin'))
            self.assertFalse([k for k in exporter.metrics() if k.startswith('sonde_capability_missing')], exporter.output())
            with open(f'{self.root.path}/etc/sonde/sonde.yml', 'w') as f:
                f.write(CONFIG.format(port=exporter.port))
            with self.start('sonde-scraper', '--config.file=/etc/sonde/sonde.yml', '--storage.path=/var/lib/sonde', user='sonde-scraper') as scraper:
                query = '/api/v1/profile?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm=%22debspin%22}&seconds=600'
                wait_for('a stored profile', named(scraper.url + query))
                p = self.root.run('sonde', 'check', 'healthy', f'--url={scraper.url}')
                self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_3_purge_leaves_nothing(self):
        p = self.root.run('apt-get', 'purge', '-y', '-q', *PACKAGES)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        left = [f for d in ('etc', 'usr/bin', 'usr/lib', 'usr/share', 'lib/systemd', 'var/lib/sonde', 'var/cache/sonde')
                for f in glob.glob(f'{self.root.path}/{d}/**/*sonde*', recursive=True)]
        self.assertEqual(left, [])


if __name__ == '__main__':
    unittest.main()
