"""`make run`'s script: within 30 seconds of being up, go tool pprof on the exporter shows real functions, and the scraper shows the machine over time."""
import os
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


@needs_kernel
class RunLocal(unittest.TestCase):
    def setUp(self):
        prog = compile_c(SPIN, '-O0', '-fno-omit-frame-pointer', name='spinner')
        self.load = Workload(prog)
        self.dir = tempfile.mkdtemp(prefix='sonde-run.')
        self.ports = free_port(), free_port()
        self.log = open(f'{self.dir}/log', 'w')
        env = dict(os.environ, SONDE_RUN_DIR=self.dir, SONDE_EXPORTER_ADDRESS=f'127.0.0.1:{self.ports[0]}',
                   SONDE_SCRAPER_ADDRESS=f'127.0.0.1:{self.ports[1]}')
        self.p = subprocess.Popen([f'{TOP}/.ci/run-local', build_dir()], cwd=TOP, env=env, stdout=self.log, stderr=self.log,
                                  stdin=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(self.stop, prog)

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

    def test_first_half_minute(self):
        wait_for('URLs', lambda: 'Ctrl-C stops both' in self.output() or self.p.poll() is not None)
        self.assertIsNone(self.p.poll(), self.output())
        end = time.time() + (120 if is_sanitized() else 28)
        exporter, scraper = (f'http://127.0.0.1:{p}' for p in self.ports)
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


if __name__ == '__main__':
    unittest.main()
