"""The exporter's roles, read from /proc; no role outlives another."""
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from contextlib import ExitStack

from sonde_e2e import exporter, http_get, needs_kernel, wait_for, wait_quiet

BESIDE_OTHERS = True

KEEPER_CAPS = {2: 'DAC_READ_SEARCH', 19: 'SYS_PTRACE', 34: 'SYSLOG', 38: 'PERFMON', 39: 'BPF', 40: 'CHECKPOINT_RESTORE'}
SYS_ADMIN = 21
OPENER_CAPS = {2, 19, 34, 40, SYS_ADMIN}  # of those that the keeper has
KEEPER_KINDS = {'anon_inode:[signalfd]', 'anon_inode:bpf-prog', 'anon_inode:bpf_link', 'socket'}


def status(pid):
    with open(f'/proc/{pid}/status') as f:
        return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(p) for p in f.read().split()]


def alive(pid):
    try:
        return status(pid)['State'][0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_gone(pids, seconds=60):
    try:
        wait_for('their end', lambda: not any(alive(p) for p in pids), timeout=seconds)
    except AssertionError:
        pass
    return [p for p in pids if alive(p)]


def descriptors(pid):
    out = {}
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            out[int(fd)] = os.readlink(f'/proc/{pid}/fd/{fd}')
        except FileNotFoundError:
            pass
    return out


def roles(daemon):
    """{'keeper': pid, 'main': pid, 'parser': pid, 'opener': pid of one of them}"""
    found = {'keeper': daemon.p.pid}
    for pid in children(daemon.p.pid):
        found[status(pid)['Name'].removeprefix('sonde-')] = pid
    return found


def unprivileged():
    for name in ('sonde', 'nobody'):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise AssertionError('neither sonde nor nobody exists')


def shared_pages(pid):
    with open(f'/proc/{pid}/maps') as f:
        return f.read().count('/dev/zero (deleted)')


def idle(fds):
    """The descriptors of a parser that reads no file, else None."""
    return fds if all(v.startswith('socket') for k, v in fds.items() if k > 2) else None


def kinds(pid):
    """Of a role's descriptors, without those of standard input and output."""
    return {v.split(':')[0] if v.startswith('socket') else v for k, v in descriptors(pid).items() if k > 2}


@needs_kernel
class Roles(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = exporter(*cls.flags).__enter__()
        cls.roles = roles(cls.daemon)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__(None, None, None)

    def test_there_is_one_of_each(self):
        self.assertEqual(set(self.roles), {'keeper', 'opener', 'main', 'parser'})

    def test_users(self):
        user = unprivileged()
        for role, pid in self.roles.items():
            s = status(pid)
            self.assertEqual(set(s['Uid'].split()), {str(user.pw_uid)}, role)
            self.assertEqual(set(s['Gid'].split()), {str(user.pw_gid)}, role)
            self.assertEqual(s['Groups'].strip(), '', role)

    def test_capabilities(self):
        with open('/proc/sys/kernel/perf_event_paranoid') as f:
            paranoid = int(f.read())
        for role, pid in self.roles.items():
            s = status(pid)
            sets = {k: int(s[k], 16) for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')}
            keeper = {*KEEPER_CAPS, *([SYS_ADMIN] if paranoid > 2 else [])}
            want = sum(1 << c for c in {'keeper': keeper, 'opener': keeper & OPENER_CAPS}.get(role, ()))
            self.assertEqual(sets, {'CapInh': 0, 'CapPrm': want, 'CapEff': want, 'CapBnd': 0, 'CapAmb': 0}, role)

    def test_system_calls_are_filtered(self):
        for role, pid in self.roles.items():
            s = status(pid)
            self.assertEqual((s['Seccomp'], s['NoNewPrivs']), ('2', '1'), role)

    def test_libraries(self):
        for role, pid in self.roles.items():
            with open(f'/proc/{pid}/maps') as f:
                self.assertEqual('/libcurl.so' in f.read(), role == 'fetcher', role)

    def test_descriptors(self):
        # between two files the parser holds nothing: whatever it has while it reads one, it has closed again
        parser = wait_for('the parser to be idle', lambda: idle(descriptors(self.roles['parser'])))
        main = descriptors(self.roles['main'])
        self.assertEqual(sum(v.startswith('socket') for v in parser.values()), 1)
        # and the keeper between two requests no more than it began with
        try:
            wait_for('the keeper to be idle', lambda: kinds(self.roles['keeper']) == KEEPER_KINDS, timeout=30)
        except AssertionError:
            self.assertEqual(kinds(self.roles['keeper']), KEEPER_KINDS)
            raise
        self.assertEqual(kinds(self.roles['opener']), {'socket'})
        self.assertEqual({parser[0], parser[1]}, {'/dev/null'})
        self.assertIn('anon_inode:[perf_event]', main.values())
        self.assertIn('anon_inode:bpf-map', main.values())
        for v in main.values():
            self.assertNotIn('bpf-prog', v)
            self.assertFalse(v.startswith('/proc/') and v.endswith('/mem'), v)

    def test_net_thread_sleeps_while_nobody_is_connected(self):
        def switches():
            main = self.roles['main']
            threads = [status(f'{main}/task/{t}') for t in os.listdir(f'/proc/{main}/task')]
            return next(int(t['voluntary_ctxt_switches']) for t in threads if t['Name'] == 'net')

        wait_quiet('the thread', switches)
        before = switches()
        time.sleep(4)  # how often it wakes in that time is what is asked
        self.assertLessEqual(switches() - before, 1)

    def test_main_cannot_be_attached_to_by_its_user(self):
        # not dumpable: /proc files of the process belong to root
        for role, pid in self.roles.items():
            self.assertEqual(os.stat(f'/proc/{pid}/mem').st_uid, 0, role)


@needs_kernel
class RolesWithFetcher(Roles):
    """The same, with a role that has the network."""
    flags = ('--symbols.debuginfod=http://127.0.0.1:1',)

    def test_there_is_one_of_each(self):
        self.assertEqual(set(self.roles), {'keeper', 'opener', 'main', 'parser', 'fetcher'})

    def test_descriptors(self):
        super().test_descriptors()
        fetcher = descriptors(self.roles['fetcher'])
        self.assertEqual([v.split(':')[0] for k, v in sorted(fetcher.items()) if k > 2], ['socket'])
        self.assertEqual({fetcher[0], fetcher[1]}, {'/dev/null'})

    def test_it_ends_all(self):
        with exporter(*self.flags) as d:
            r = roles(d)
            os.kill(r['fetcher'], signal.SIGKILL)
            self.assertEqual(wait_gone([p for p in r.values() if p != d.p.pid]), [])
            self.assertEqual(d.p.wait(60), 128 + 9)
            self.assertIn('fetcher ended unexpectedly (signal 9)', d.output())


@needs_kernel
class WithAttacher(unittest.TestCase):
    """--jit.java-perfmap: one role can become any user, and it alone."""

    def test_capabilities(self):
        with exporter('--jit.java-perfmap') as d:
            r = roles(d)
            self.assertEqual(set(r), {'keeper', 'opener', 'main', 'parser', 'attacher'})
            caps = {role: int(status(pid)['CapPrm'], 16) for role, pid in r.items()}
            self.assertEqual(caps['attacher'], 1 << 6 | 1 << 7 | 1 << 19)  # SETGID, SETUID, SYS_PTRACE
            self.assertEqual(caps['keeper'] & (1 << 6 | 1 << 7), 0)
            self.assertEqual((caps['main'], caps['parser']), (0, 0))
            for role, pid in r.items():
                self.assertEqual((status(pid)['NoNewPrivs'], status(pid)['Seccomp']), ('1', '2'), role)
            self.assertEqual([v.split(':')[0] for k, v in sorted(descriptors(r['attacher']).items()) if k > 2], ['socket'])
            os.kill(r['attacher'], signal.SIGKILL)
            self.assertEqual(wait_gone([p for p in r.values() if p != d.p.pid]), [])
            self.assertEqual(d.p.wait(60), 128 + 9)


@needs_kernel
class Together(unittest.TestCase):
    def test_none_outlives_another(self):
        for victim in ('keeper', 'main', 'parser'):  # openers come and go
            with self.subTest(victim), exporter() as d:
                r = roles(d)
                os.kill(r[victim], signal.SIGKILL)
                left = wait_gone([p for p in r.values() if p != d.p.pid])
                d.p.wait(60)
                self.assertEqual(left, [])
                self.assertNotEqual(d.p.returncode, 0)
                if victim != 'keeper':
                    self.assertEqual(d.p.returncode, 128 + 9)
                    self.assertIn(f'{victim} ended unexpectedly (signal 9)', d.output())

    def test_an_opener_that_ends_is_replaced(self):
        # A program that nobody has run yet: its file has to be opened.
        with exporter() as d, tempfile.TemporaryDirectory() as top, ExitStack() as stack:
            r = roles(d)
            os.kill(r['opener'], signal.SIGKILL)
            p = subprocess.Popen([shutil.copy(shutil.which('sh'), f'{top}/new'), '-c', 'while :; do :; done'])
            stack.callback(p.wait)
            stack.callback(p.kill)
            wait_for('another opener', lambda: roles(d).get('opener', r['opener']) != r['opener'])
            self.assertEqual(http_get(d.url + '/-/ready').status, 200)

    def test_a_stuck_child_of_the_parser(self):
        # A child that will never answer has 2 s once all are to end, not the 30 s that a file may take.
        for sig in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(sig), exporter('--symbols.cache-path=') as d:
                parser = roles(d)['parser']
                stuck = wait_for('a child that can be stopped', lambda: self.stop_one(parser), interval=0)
                # Beside what all roles have from before the split, it has its own status page and not those of others.
                self.assertEqual(shared_pages(stuck), shared_pages(roles(d)['main']) + 1)
                begun = time.time()
                d.p.send_signal(sig)
                self.assertEqual(d.p.wait(60), 0 if sig == signal.SIGTERM else -9)
                self.assertLess(time.time() - begun, 10)
                self.assertEqual(wait_gone([parser, stuck], 10), [])

    @staticmethod
    def stop_one(parser):
        for pid in children(parser):
            try:
                # Its limits are what it does after it has asked the kernel to end it with its parent.
                with open(f'/proc/{pid}/limits') as f:
                    if re.search(r'(?m)^Max cpu time +unlimited', f.read()):
                        continue
                os.kill(pid, signal.SIGSTOP)
                if wait_for('it stops or ends', lambda pid=pid: status(pid)['State'][0] in 'TZ' and status(pid)['State'][0], interval=0) == 'T':
                    return pid
            except (FileNotFoundError, ProcessLookupError):
                pass
        return None

    def test_signals_reach_main_through_the_keeper(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sig), exporter() as d:
                r = roles(d)
                d.p.send_signal(sig)
                self.assertEqual(d.p.wait(60), 0)
                self.assertEqual(wait_gone(r.values()), [])

    def test_children_that_others_started_end(self):
        # What an entrypoint starts before it becomes the exporter is the keeper's child, but no role.
        with exporter(prefix=('sh', '-c', 'true & sleep 3 & sleep 600 & exec "$@"', 'sh')) as d:
            def strangers():
                return [n for n in (status(p)['Name'] for p in children(d.p.pid)) if not n.startswith('sonde-')]

            wait_for('all strangers but one to be gone', lambda: strangers() == ['sleep'])
            r = roles(d)
            r.pop('sleep')
            self.assertEqual(d.get('/-/ready').status, 200)
            begun = time.time()
            d.p.send_signal(signal.SIGTERM)
            self.assertEqual(d.p.wait(60), 0)
            self.assertLess(time.time() - begun, 10)
            self.assertEqual(wait_gone(r.values()), [])
            self.assertNotIn('ended unexpectedly', d.output())

    def test_main_that_does_not_end_is_killed(self):
        with exporter(prefix=('sh', '-c', 'sleep 600 & exec "$@"', 'sh')) as d:
            r = roles(d)
            r.pop('sleep')
            os.kill(r['main'], signal.SIGSTOP)
            begun = time.time()
            d.p.send_signal(signal.SIGTERM)
            self.assertEqual(d.p.wait(60), 1)
            self.assertLess(time.time() - begun, 20)
            self.assertEqual(wait_gone(r.values()), [])
            self.assertIn('main did not end within 12 s of SIGTERM: killing it', d.output())

    def test_the_user_can_be_chosen(self):
        with exporter('--user=daemon') as d:
            uid = str(pwd.getpwnam('daemon').pw_uid)
            for role, pid in roles(d).items():
                self.assertEqual(set(status(pid)['Uid'].split()), {uid}, role)


if __name__ == '__main__':
    unittest.main()
