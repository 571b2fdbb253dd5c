"""The exporter on a busy machine: the rate stays what was asked for where lowering it saves nothing."""
import contextlib
import os
import re
import signal
import subprocess
import time
import unittest

import sonde_e2e as e2e

STORM_S = 20
HZ = 49


def value(metrics, name):
    """The sum of a family's samples, or None when there is none."""
    found = re.findall(r'(?m)^' + re.escape(name) + r'(?:\{[^}]*\})? (\S+)$', metrics)
    return sum(map(float, found)) if found else None


@contextlib.contextmanager
def shells(n, script):
    """So many shells of one session that run this script until the end."""
    p = subprocess.Popen(['sh', '-c', f'for i in $(seq {n}); do (exec sh -c \'{script}\') & done; wait'], start_new_session=True)
    try:
        yield p
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


@e2e.needs_kernel
class Rate(unittest.TestCase):
    @unittest.skipIf(e2e.is_sanitized(), 'a sanitized build is over the cap by its rate alone')
    def test_a_storm_of_processes_does_not_lower_the_rate(self):
        with e2e.exporter('--symbols.cache-path=', f'--profile.frequency={HZ}') as d, shells(os.cpu_count(), 'while :; do /bin/true; done'):
            time.sleep(STORM_S)
            m = d.get('/metrics').text
            # else the storm was none, and the test says nothing
            self.assertGreater(value(m, 'sonde_overhead_ratio'), 0.005)
            self.assertLess(value(m, 'sonde_rate_overhead_ratio'), value(m, 'sonde_overhead_ratio') / 2)
            self.assertEqual(value(m, 'sonde_profile_frequency_hz'), HZ)
            self.assertEqual(value(m, 'sonde_profile_frequency_changes_total'), 0)
            self.assertIn('sonde_profile_frequency_info{reason="frequency"} 1\n', m)
            r = d.get('/debug/pprof/profile?since=')
            self.assertEqual(r.headers['Sonde-Rate'], f'{HZ} Hz (--profile.frequency)')
            self.assertIn(f', wanted_hz={HZ},', r.headers['Sonde-Health'])
            self.assertIn(f'rate: {HZ} Hz (--profile.frequency)', e2e.Pprof(r.body).comments)
            self.assertIn(f'{HZ} Hz (--profile.frequency)', d.get('/').text)

    def test_a_rate_above_the_cap_is_lowered_and_says_so(self):
        with e2e.exporter('--symbols.cache-path=', '--profile.frequency=999', '--profile.max-overhead=0.00001') as d, \
                shells(os.cpu_count(), 'while :; do :; done'):
            end = time.monotonic() + 60
            while value(d.get('/metrics').text, 'sonde_profile_frequency_hz') == 999:
                self.assertLess(time.monotonic(), end, 'the rate was not lowered')
                time.sleep(0.2)
            m = d.get('/metrics').text
            self.assertIn('sonde_profile_frequency_info{reason="overhead"} 1\n', m)
            self.assertEqual(value(m, 'sonde_profile_frequency_wanted_hz'), 999)
            self.assertRegex(d.get('/debug/pprof/profile?since=').headers['Sonde-Rate'],
                             r'^\d+ Hz \(lowered from 999 Hz for --profile.max-overhead\)$')


if __name__ == '__main__':
    unittest.main()
