"""Starting where something is missing: what can be done without is reported, what cannot is refused with what to do."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from kernel_half import HAS_ORC, KernelOrc
from sonde_e2e import Workload, exporter, free_port, mounted, mounts_on, needs_kernel, program, wait_for

BESIDE_OTHERS = True

with open('/proc/sys/kernel/perf_event_paranoid') as paranoid:
    PARANOID = int(paranoid.read())
CAPS = ['bpf', 'perfmon', 'sys_ptrace', 'dac_read_search', 'syslog', 'checkpoint_restore']


def start(*prefix, flags=()):
    """Runs the exporter behind a command that takes something away; it must end by itself."""
    cmd = [*prefix, program('sonde-exporter'), f'--web.listen-address=127.0.0.1:{free_port()}', *flags]
    p = subprocess.run(cmd, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    return p.returncode, p.stdout + p.stderr


@needs_kernel
class Refused(unittest.TestCase):
    def refused(self, result, *parts):
        status, text = result
        self.assertNotEqual(status, 0, text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(text.count('cannot start'), 1, text)

    def test_not_root(self):
        self.refused(start('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'), 'missing CAP_BPF and CAP_PERFMON',
                     'start as root', 'setcap')

    def test_a_required_capability_is_missing(self):
        for cap, effect in (('cap_bpf', 'no BPF program can be loaded'), ('cap_perfmon', 'no CPU can be sampled')):
            with self.subTest(cap):
                self.refused(start('capsh', f'--drop={cap}', '--', '-c', '"$0" "$@"'), f'missing {cap.upper()},', effect)

    def test_cannot_change_user(self):
        self.refused(start('capsh', '--drop=cap_setuid', '--', '-c', '"$0" "$@"'), 'CAP_SETUID', 'AmbientCapabilities=')

    def test_no_such_user(self):
        self.refused(start(flags=['--user=no-such-user']), 'no user no-such-user', '--user')
        self.refused(start(flags=['--user=root']), '--user root is root')

    def test_another_pid_namespace(self):
        before = mounts_on('/proc')
        elsewhere = mounted('proc', '/proc', 'exec "$0" "$@"', '--pid', '--fork')
        self.refused(start(*elsewhere), "not in the host's PID namespace", '--pid=host', 'hostPID')
        self.assertEqual(mounts_on('/proc'), before)

    def test_settings_of_the_kernel(self):
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)

            def put(path, text):
                os.makedirs(os.path.dirname(f'{d}/{path}'), exist_ok=True)
                with open(f'{d}/{path}', 'w') as f:
                    f.write(text)
            put('proc/sys/kernel/perf_event_paranoid', '3\n')
            put('proc/sys/kernel/perf_event_max_sample_rate', '100\n')
            put('sys/kernel/security/lockdown', 'none integrity [confidentiality]\n')
            fake = [f'--path.procfs={d}/proc', f'--path.sysfs={d}/sys']
            self.refused(start(flags=fake), '/sys/kernel/btf/vmlinux', 'CONFIG_DEBUG_INFO_BTF=y')
            put('sys/kernel/btf/vmlinux', '')
            self.refused(start(flags=fake), 'the kernel is locked down', 'lockdown=integrity')
            put('sys/kernel/security/lockdown', '[none] integrity confidentiality\n')
            self.refused(start(flags=fake), '--profile.max-frequency 999 is above the kernel', 'kernel.perf_event_max_sample_rate')
            self.refused(start('capsh', '--drop=cap_sys_admin', '--', '-c', '"$0" "$@"', flags=fake),
                         'kernel.perf_event_paranoid is 3', 'sysctl kernel.perf_event_paranoid=2', 'CAP_SYS_ADMIN')
            put('proc/sys/kernel/perf_event_max_sample_rate', '100000\n')
            status, text = start(flags=fake)  # the kernel refuses the empty BTF, after CAP_SYS_ADMIN was kept
            self.assertNotEqual(status, 0, text)
            self.assertIn('BPF object', text)


@needs_kernel
class Degraded(unittest.TestCase):
    def test_optional_capabilities(self):
        for cap in ('cap_sys_ptrace', 'cap_dac_read_search', 'cap_syslog', 'cap_checkpoint_restore'):
            with self.subTest(cap), exporter(prefix=['capsh', f'--drop={cap}', '--', '-c', '"$0" "$@"']) as d:
                missing = [k for k in d.metrics() if k.startswith(f'sonde_capability_missing{{cap="{cap.upper()}"')]
                self.assertEqual(len(missing), 1, cap)
                self.assertRegex(d.output(), f'level=warn.*{cap.upper()}')
                # What CAP_SYSLOG is for is told to others where perf events are for all.
                if HAS_ORC and cap != 'cap_syslog':
                    self.assertEqual(d.metrics()['sonde_kernel_walk_info{walk="orc",reason=""}'], 1)
                elif HAS_ORC and PARANOID > 1:
                    self.assertEqual(d.metrics()['sonde_kernel_walk_info{walk="kernel",reason="hidden"}'], 1)
                    self.assertRegex(d.output(), 'level=warn.*orc.*kptr_restrict')

    def test_the_kernel_walks_its_stacks_by_flag(self):
        with exporter('--unwind.kernel=kernel', '--profile.frequency=199') as d, Workload('dd', 'if=/dev/zero', 'of=/dev/null', 'bs=4k'):
            self.assertEqual(d.metrics()['sonde_kernel_walk_info{walk="kernel",reason="flag"}'], 1)
            wait_for('kernel stacks', lambda: d.metrics()['sonde_kernel_stacks_total{event="cpu",walk="kernel"}'] > 20)
            self.assertEqual(d.metrics()['sonde_kernel_stacks_total{event="cpu",walk="orc"}'], 0)

    @unittest.skipUnless(HAS_ORC, 'the kernel has no ORC table')
    def test_a_kernel_stack_that_differs_ends_the_own_walk(self):
        """Told in the running kernel half to end stacks after two frames, which the kernel's own do not."""
        with exporter('--profile.frequency=199') as d, Workload('dd', 'if=/dev/zero', 'of=/dev/null', 'bs=4k'):
            wait_for('kernel stacks', lambda: d.metrics()['sonde_kernel_stacks_total{event="cpu",walk="orc"}'] > 20)
            self.assertGreater(d.metrics()['sonde_kernel_walk_checks_total{event="cpu",result="match"}'], 10)
            with KernelOrc(d.p.pid) as orc:
                orc.max_frames = 2
            wait_for('a difference', lambda: d.metrics()['sonde_kernel_walk_checks_total{event="cpu",result="mismatch"}'])
            m = d.metrics()
            self.assertEqual(m['sonde_kernel_walk_info{walk="kernel",reason="mismatch"}'], 1)
            self.assertIn('other frames than the kernel', d.output())
            wait_for('kernel stacks', lambda: d.metrics()['sonde_kernel_stacks_total{event="cpu",walk="kernel"}'] >
                     m['sonde_kernel_stacks_total{event="cpu",walk="kernel"}'] + 20)
            self.assertEqual(d.metrics()['sonde_kernel_stacks_total{event="cpu",walk="orc"}'], m['sonde_kernel_stacks_total{event="cpu",walk="orc"}'])

    def test_an_unprivileged_user_with_ambient_capabilities(self):
        plus = ','.join(f'+{c}' for c in CAPS)
        with exporter(prefix=['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', f'--inh-caps={plus}', f'--ambient-caps={plus}']) as d:
            self.assertFalse([k for k in d.metrics() if k.startswith('sonde_capability_missing')])
            self.assertEqual(d.get('/debug/pprof/profile?seconds=1').status, 200)

    def test_file_capabilities(self):
        with tempfile.TemporaryDirectory(dir='/var/tmp') as d:
            os.chmod(d, 0o755)
            copy = f'{d}/sonde-exporter'
            shutil.copy(program('sonde-exporter'), copy)
            subprocess.run(['setcap', ','.join(f'cap_{c}' for c in CAPS) + '+ep', copy], check=True)
            with exporter(prefix=['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'sh', '-c', f'shift; exec {copy} "$@"', 'x']) as e:
                self.assertEqual(e.get('/-/healthy').status, 200)

    def test_no_locked_memory(self):
        with exporter(prefix=['prlimit', '--memlock=0:0']) as d:
            with open('/sys/devices/system/cpu/online') as f:
                online = sum(int(b or a) - int(a) + 1 for a, _, b in (part.partition('-') for part in f.read().strip().split(',')))
            self.assertEqual(number(d, 'sonde_cpus_attached'), online)


def number(daemon, name):
    return next(v for k, v in daemon.metrics().items() if re.match(name + r'(\{|$)', k))


if __name__ == '__main__':
    unittest.main()
