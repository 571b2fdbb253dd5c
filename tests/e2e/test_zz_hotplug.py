"""CPU hot-plug under a running exporter. Takes the last CPU offline for moments, so it runs alone; puts it back on any exit."""
import atexit
import os
import signal
import subprocess
import sys
import unittest

from kernel_half import Sampler
from sonde_e2e import exporter, needs_kernel, wait_for

CPU = max(i for i in range(4096) if os.path.exists(f'/sys/devices/system/cpu/cpu{i}'))
ONLINE = f'/sys/devices/system/cpu/cpu{CPU}/online'


def set_online(value):
    with open(ONLINE, 'w') as f:
        f.write(value)


def restore():
    try:
        set_online('1')
    except OSError:
        pass


def can_unplug():
    if CPU == 0 or not os.path.exists(ONLINE):
        return 'kernel: no CPU can be taken offline'
    try:
        set_online('0')
        set_online('1')
    except OSError as e:
        return f'kernel: CPU {CPU} cannot be taken offline: {e}'
    return None


class Burner:
    """Keeps the CPU busy; started anew after it was moved away by an offline CPU."""

    def __enter__(self):
        self.p = subprocess.Popen(['taskset', '-c', str(CPU), 'sh', '-c', 'while :; do :; done'])
        return self

    def __exit__(self, *exc):
        self.p.kill()
        self.p.wait()


@needs_kernel
class HotPlug(unittest.TestCase):
    def setUp(self):
        self.assertEqual(open(ONLINE).read().strip() if os.path.exists(ONLINE) else '1', '1')
        why = can_unplug()
        if why:
            self.skipTest(why)
        self.addCleanup(restore)

    def test_a_cpu_that_leaves_and_comes_back(self):
        with exporter() as d:
            attached = d.metrics()['sonde_cpus_attached']
            set_online('0')
            wait_for('the CPU to be let go', lambda: d.metrics()['sonde_cpus_attached'] == attached - 1)
            self.assertEqual(d.metrics()['sonde_cpus_online'], attached - 1)
            self.assertEqual(d.get('/debug/pprof/profile?seconds=1').status, 200)
            set_online('1')
            wait_for('the CPU to be attached', lambda: d.metrics()['sonde_cpus_attached'] == attached)
            with Burner() as b:
                r = d.get(f'/debug/pprof/profile?seconds=2&pid={b.p.pid}&debug=1')
                total = [line for line in r.text.splitlines() if 'Total =' in line][0]
            self.assertNotIn('Total = 0', total)

    def test_a_flip_between_two_looks_is_noticed(self):
        """The list of online CPUs looks as before, yet the kernel has given the CPU's events up."""
        with Sampler(99) as s:
            s.wait_for('a first look', lambda r: r.samples)
            set_online('0')
            set_online('1')
            with Burner() as b:
                s.wait_for('samples of that CPU', lambda r: sum(x['cpu'] == CPU and x['pid'] == b.p.pid for x in r.samples) > 30)
            r = s.result()
        self.assertEqual(r.stats['attached'], r.stats['online'])


atexit.register(restore)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda n, f: sys.exit(128 + n))

if __name__ == '__main__':
    unittest.main()
