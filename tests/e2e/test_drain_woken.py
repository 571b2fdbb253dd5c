"""While all is calm the exporter sleeps for a second; what has to be looked at while it is there wakes it."""
import subprocess
import sys
import time

import sonde_e2e as e2e

CALM_S = 2.5  # until it is calm: no event tells, from the start of the exporter, and of a stack that was copied
CODE_PAGES = 400  # some 110 bytes of side-band for each: more than half of a buffer of 64 KB and less than all of it
MAPS = f'''
import mmap, sys, time
for line in sys.stdin:
    for i in range({CODE_PAGES}):
        mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    print('mapped', flush=True)
'''


ROUNDS, SOON_S = 5, 0.4


class Woken(e2e.SampledPrograms):
    hz = 19

    def woken(self):
        return self.exporter.metrics()['sonde_drain_woken_total']

    def test_by_a_process_that_was_never_sampled(self):
        time.sleep(CALM_S)
        before = self.woken()
        with subprocess.Popen([sys.executable, '-c', 'while True: pass']) as p:
            try:
                e2e.wait_for('a drain for a new process', lambda: self.woken() > before)
            finally:
                p.kill()

    def is_read_soon(self, process):
        """Whether what a process maps is read long before the next drain is due, and because the drain was woken."""
        before = self.exporter.metrics()
        process.stdin.write('\n')
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), 'mapped\n')
        end = time.time() + SOON_S
        while time.time() < end:
            after = self.exporter.metrics()
            self.assertEqual(after['sonde_sideband_lost_total'], before['sonde_sideband_lost_total'])
            if after['sonde_sideband_records_total'] >= before['sonde_sideband_records_total'] + CODE_PAGES:
                return after['sonde_drain_woken_total'] > before['sonde_drain_woken_total']
            time.sleep(0.02)  # how soon is what is asked
        return False

    def test_by_a_side_band_buffer_that_is_half_full(self):
        with subprocess.Popen([sys.executable, '-c', MAPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            try:
                soon = 0
                for _ in range(ROUNDS):
                    time.sleep(CALM_S)
                    soon += self.is_read_soon(p)
                self.assertGreaterEqual(soon, ROUNDS - 1)
            finally:
                p.kill()
