"""The systemd units of configs/systemd: what systemd-analyze thinks of them, and both programs at work under their restrictions."""
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import unit_sandbox
from sonde_e2e import TOP, Daemon, Pprof, Workload, compile_c, http_get, is_sanitized, needs_kernel, own_mounts, program, wait_for

BESIDE_OTHERS = True

UNITS = f'{TOP}/configs/systemd'
PYTHON = '/usr/bin/python3'  # not one below /root or /home, which the units hide
SPIN = r'''
#include <fcntl.h>
#include <unistd.h>
#include <stdint.h>
__attribute__((noinline)) uint64_t user_work(uint64_t n) { uint64_t x = n; for (int i = 0; i < 3000000; i++) x = x * 6364136223846793005ULL + 1; return x; }
__attribute__((noinline)) void kernel_work(int fd, char *b) { for (int i = 0; i < 300; i++) if (read(fd, b, 65536) < 0) return; }
static char buffer[65536];
int main(void) { int fd = open("/dev/zero", O_RDONLY); volatile uint64_t v = 1; for (;;) { v = user_work(v); kernel_work(fd, buffer); } }
'''


def no_analyze():
    """Why systemd-analyze cannot judge units here, or None."""
    if not shutil.which('systemd-analyze'):
        return 'systemd-analyze is not installed (Debian package systemd)'
    out = subprocess.run(['systemd-analyze', '--version'], capture_output=True, text=True).stdout
    version = int((re.findall(r'systemd (\d+)', out) or ['0'])[0])
    return None if version >= 250 else f'systemd-analyze {version} knows no --offline'


@unittest.skipIf(no_analyze(), no_analyze() or '')
class ScoreTest(unittest.TestCase):
    def score(self, path):
        p = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--no-pager', path], capture_output=True, text=True)
        self.assertNotIn('Unknown', p.stderr)
        found = re.search(r'Overall exposure level for \S+: ([0-9.]+)', p.stdout)
        self.assertTrue(found, p.stdout + p.stderr)
        return float(found[1])

    def test_units_score_under_three(self):
        self.assertLess(self.score(f'{UNITS}/sonde-exporter.service'), 3.0)
        self.assertLess(self.score(f'{UNITS}/sonde-scraper.service'), 1.5)

    def test_drop_in_takes_admin(self):
        with tempfile.TemporaryDirectory() as d:
            with open(f'{UNITS}/sonde-exporter.service') as f, open(f'{UNITS}/without-admin.conf') as drop_in:
                text = f.read().replace('[Install]', drop_in.read() + '\n[Install]')
            with open(f'{d}/sonde-exporter.service', 'w') as f:
                f.write(text)
            s = unit_sandbox.read_unit(f'{d}/sonde-exporter.service')
            self.assertNotIn('CAP_SYS_ADMIN', unit_sandbox.words(s, 'AmbientCapabilities'))
            self.assertIn('CAP_BPF', unit_sandbox.words(s, 'AmbientCapabilities'))
            self.assertLess(self.score(f'{d}/sonde-exporter.service'), self.score(f'{UNITS}/sonde-exporter.service'))

    def test_settings_are_known(self):
        for name in ('exporter', 'scraper'):
            with tempfile.TemporaryDirectory() as d:
                with open(f'{UNITS}/sonde-{name}.service') as f:
                    text = re.sub(r'^ExecStart=\S+', f'ExecStart={shutil.which("true")}', f.read(), flags=re.M)
                text = re.sub(r'^(Documentation|User)=.*\n', '', text, flags=re.M)
                with open(f'{d}/sonde-{name}.service', 'w') as f:
                    f.write(text)
                p = subprocess.run(['systemd-analyze', 'verify', '--man=no', f'{d}/sonde-{name}.service'], capture_output=True, text=True)
                self.assertNotIn(f'sonde-{name}.service', p.stdout + p.stderr)


def no_sandbox():
    """Why units cannot be imitated here, or None."""
    if os.geteuid():
        return 'kernel: not root'
    if no_analyze():
        return no_analyze()
    if is_sanitized():
        return 'sanitizers need more system calls than the units allow'
    if not os.path.exists(PYTHON):
        return f'no {PYTHON}'
    if not os.path.ismount('/'):
        return 'the root directory is no mount point (chroot), so its mounts cannot be changed for one program'
    return None


@needs_kernel
@unittest.skipIf(no_sandbox(), no_sandbox() or '')
class SandboxTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='sonde-unit.', dir='/var/lib')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        os.chmod(self.dir, 0o755)
        self.state = f'{self.dir}/state'
        os.mkdir(self.state, 0o750)
        user = pwd.getpwnam('nobody')
        os.chown(self.state, user.pw_uid, user.pw_gid)
        self.user = f'{user.pw_uid}:{user.pw_gid}'
        shutil.copy(unit_sandbox.__file__, self.dir)

    def start(self, name, unit, *flags):
        """The program, copied to where the unit can see it."""
        shutil.copy(program(name), self.dir)
        prefix = [*own_mounts(), PYTHON, f'{self.dir}/unit_sandbox.py',
                  shutil.copy(unit, self.dir), self.user, self.state]
        with unittest.mock.patch.dict(os.environ, SONDE_BUILD=self.dir):
            return Daemon(name, *flags, prefix=prefix)

    def test_exporter_names_user_and_kernel(self):
        work = compile_c(SPIN, '-O0', '-fno-omit-frame-pointer', name='unitspin')
        self.addCleanup(shutil.rmtree, os.path.dirname(work), ignore_errors=True)
        with Workload(work), self.start('sonde-exporter', f'{UNITS}/sonde-exporter.service', f'--symbols.cache-path={self.state}/symbols') as d:
            def named():
                seen = Pprof(http_get(d.url + '/debug/pprof/profile?seconds=2&hz=99&comm=unitspin').body).functions()
                return seen.get('user_work') and seen.get('read_zero')
            wait_for('names of user and kernel functions', named)
            self.assertFalse([k for k in d.metrics() if k.startswith('sonde_capability_missing')], d.output())
            self.assertTrue(os.listdir(f'{self.state}/symbols'))
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, d.p.pid), -15)
            self.assertNotIn('no priority over other processes', d.output())

    def test_scraper_stores(self):
        config = f'{self.dir}/sonde.yml'
        with open(config, 'w') as f:
            f.write('scrape_configs: []\n')
        with self.start('sonde-scraper', f'{UNITS}/sonde-scraper.service', f'--config.file={config}',
                        f'--storage.path={self.state}/data') as d:
            self.assertEqual(d.get('/-/healthy').status, 200)
            self.assertTrue(os.path.isdir(f'{self.state}/data'))


if __name__ == '__main__':
    unittest.main()
