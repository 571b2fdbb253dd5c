"""`make run`'s script: the first page has something to show at once, go tool pprof on the exporter shows real functions, the commands of the README work."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from sonde_e2e import GO, TOP, Pprof, build_dir, compile_c, free_port, go_pprof, http_get, is_sanitized, needs_kernel, wait_for, Workload

SPIN = r'''
#include <stdint.h>
__attribute__((noinline)) uint64_t inner_work(uint64_t n) { uint64_t x = n; for (int i = 0; i < 1000000; i++) x = x * 6364136223846793005ULL + 1; return x; }
__attribute__((noinline)) uint64_t outer_work(uint64_t n) { return inner_work(n) + 1; }
int main(void) { volatile uint64_t v = 1; for (;;) v = outer_work(v); }
'''


def readme_commands():
    """The README's indented lines that are commands, without what starts and tests."""
    with open(f'{TOP}/README.md') as f:
        lines = re.findall('^    (?=[a-z])(.*)$', re.sub('```.*?```', '', f.read(), flags=re.S), re.M)
    return [line for line in lines if not line.startswith(('make run', 'make test'))]


@needs_kernel
class RunLocal(unittest.TestCase):
    def setUp(self):
        prog = compile_c(SPIN, '-O0', '-fno-omit-frame-pointer', name='spinner')
        self.load = Workload(prog)
        self.dir = tempfile.mkdtemp(prefix='sonde-run.')
        self.ports = free_port(), free_port()
        self.log = open(f'{self.dir}/log', 'w')
        self.p = self.start()
        self.addCleanup(self.stop, prog)

    def start(self, **extra):
        env = dict(os.environ, SONDE_RUN_DIR=self.dir, SONDE_EXPORTER_ADDRESS=f'127.0.0.1:{self.ports[0]}',
                   SONDE_SCRAPER_ADDRESS=f'127.0.0.1:{self.ports[1]}')
        return subprocess.Popen([f'{TOP}/.ci/run-local', build_dir()], cwd=TOP, env=env, stdin=subprocess.DEVNULL, start_new_session=True,
                                **extra or {'stdout': self.log, 'stderr': self.log})

    def stop(self, prog):
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(60)
        finally:
            try:
                os.killpg(self.p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.load.__exit__()
            self.log.close()
            shutil.rmtree(self.dir, ignore_errors=True)
            shutil.rmtree(os.path.dirname(prog), ignore_errors=True)

    def output(self):
        with open(f'{self.dir}/log') as f:
            return f.read()

    def wait_until_up(self):
        wait_for('URLs', lambda: 'Ctrl-C stops both' in self.output() or self.p.poll() is not None)
        self.assertIsNone(self.p.poll(), self.output())
        return (f'http://127.0.0.1:{p}' for p in self.ports)

    def test_first_half_minute(self):
        exporter, scraper = self.wait_until_up()
        self.assertLess(self.output().index(scraper), self.output().index(exporter))
        # the page that is named first has a flame graph when its address is printed
        def functions():
            return Pprof(http_get(f'{scraper}/api/v1/profile?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{{}}&seconds=3600').body).functions()
        self.assertGreater(len(functions()), 0)
        # the first scrape may be of a moment in which little ran, the second one is there in ten seconds
        wait_for('a page worth seeing', lambda: len(functions()) > 20, timeout=60 if is_sanitized() else 15)
        end = time.time() + (120 if is_sanitized() else 28)
        if os.path.exists(GO):
            def named():
                r = go_pprof('-top', f'{exporter}/debug/pprof/profile?seconds=3')
                return 'inner_work' in r.stdout and 'outer_work' in r.stdout
            wait_for('names', named, timeout=end - time.time())
        query = f'{scraper}/api/v1/profile?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{{comm=%22spinner%22}}&seconds=600'
        wait_for('stored samples', lambda: Pprof(http_get(query).body).functions().get('inner_work'), timeout=end - time.time())
        series = http_get(f'{scraper}/api/v1/query_series?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{{}}&step=10&seconds=600').json
        self.assertEqual(series['status'], 'success')
        self.assertTrue(series['data']['result'][0]['values'])
        self.assertEqual(http_get(f'{scraper}/').status, 200)
        self.assertIn('process_cpu', http_get(f'{scraper}/plain').text)
        with self.subTest('a second one'):
            p = self.start(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            out = p.communicate(timeout=60)[0]
            self.assertEqual(p.returncode, 1, out)
            self.assertIn(f'127.0.0.1:{self.ports[0]} is in use', out)

    def test_commands_of_the_readme(self):
        """Each as it stands there, but for ports, the build's folder and sudo."""
        commands = readme_commands()
        self.assertGreaterEqual(len(commands), 8)
        self.wait_until_up()
        place = f'{self.dir}/checkout'
        os.makedirs(f'{place}/build')
        os.symlink(build_dir(), f'{place}/build/release')
        os.symlink(f'{TOP}/lib', f'{place}/lib')
        env = dict(os.environ, PATH=f'{os.path.dirname(GO)}:{os.environ["PATH"]}', HOME=self.dir)
        for command in commands:
            with self.subTest(command):
                if command.startswith('go ') and not os.path.exists(GO):
                    continue
                line = command.replace('7273', str(self.ports[0])).replace('7272', str(self.ports[1])).replace('sudo ', '')
                r = subprocess.run(['bash', '-euc', line], cwd=place, env=env, capture_output=True, text=True, timeout=300)
                self.assertEqual(r.returncode, 0, r.stdout[-2000:] + r.stderr[-2000:])
                for name in re.findall(r'-o (\S+)', command):
                    self.assertGreater(os.path.getsize(f'{place}/{name}'), 100, name)
                if ' -top ' in command or 'sonde top' in command:
                    self.assertIn('flat%', r.stdout)
                if 'format=folded' in command:
                    self.assertTrue(r.stdout)
                    for stack in r.stdout.splitlines():
                        self.assertRegex(stack, r'^\S.* \d+$')
                if 'query_series' in command:
                    self.assertTrue(json.loads(r.stdout)['data']['result'][0]['values'])


if __name__ == '__main__':
    unittest.main()
