"""Many clients of one exporter: windows, cursors, filters and rates do not disturb each other."""
import concurrent.futures
import os
import threading
import time
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True

SOURCE = r'''
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
static volatile unsigned long x;
static void spin(void) { for (;;) x++; }
static void *thread(void *arg) { (void)arg; pthread_setname_np(pthread_self(), "second"); spin(); return 0; }
int main(int argc, char **argv)
{
	pthread_t t;
	(void)argv;
	if (argc > 1 && fork() == 0) /* a child that is found by its parent only */
		execl("/bin/sh", "sh", "-c", "while :; do :; done", (char *)0);
	pthread_create(&t, 0, thread, 0);
	spin();
}
'''


class CursorClient:
    """Reads with a cursor; `slots` has (first, end, samples, nanoseconds) of each answer in wall time."""

    def __init__(self, exporter, cursor=''):
        self.exporter, self.cursor = exporter, cursor
        self.samples = self.ns = self.lost = 0
        self.slots = []
        self.behind = 0

    def read(self, span=1, query=''):
        r = self.exporter.get(f'/debug/pprof/profile?since={self.cursor}&span={span}{query}')
        assert r.status == 200, r.text
        p = e2e.Pprof(r.body)
        self.cursor, self.behind = r.headers['Sonde-Cursor'], int(r.headers['Sonde-Behind-Seconds'])
        self.lost += int(r.headers.get('Sonde-Lost-Seconds', 0))
        if p.duration_nanos:
            self.slots.append((p.time_nanos, p.time_nanos + p.duration_nanos, p.total(0), p.total(1)))
        self.samples += p.total(0) if p.samples else 0
        self.ns += p.total(1) if p.samples else 0
        return p

    def read_all(self, span=1, query='', until=lambda self: not self.behind):
        e2e.wait_for('the newest second', lambda: self.read(span, query) and until(self), interval=0)


def cpu_ns(pid):
    """User and system time of a process so far, with all threads, by the scheduler."""
    total = 0
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/schedstat') as f:
            total += int(f.read().split()[0])
    return total


class CpuWatch(threading.Thread):
    """Notes a process's CPU time all along, to tell how much of it lies in a profile's window: the answer may come later than that ends."""

    def __init__(self, exporter, pid):
        super().__init__()
        self.exporter, self.pid, self.notes, self.stop = exporter, pid, [], threading.Event()

    def note(self):
        self.notes.append((time.time_ns(), cpu_ns(self.pid)))

    def run(self):
        while not self.stop.wait(0.02):
            self.note()

    def __enter__(self):
        self.note()
        self.start()
        e2e.wait_drained(self.exporter)  # a window begins where the drain before the request ended
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.join()

    def at(self, when):
        for (t0, a), (t1, b) in zip(self.notes, self.notes[1:]):
            if t0 <= when <= t1:
                return a + (b - a) * (when - t0) / (t1 - t0)
        raise AssertionError(f'{when} is outside of {self.notes[0][0]}..{self.notes[-1][0]}')

    def within(self, profile):
        return self.at(profile.time_nanos + profile.duration_nanos) - self.at(profile.time_nanos)


def error(used_ns, hz, least):
    """How far sampled time may be off: four standard deviations of as many samples, which are few where the machine has other things to do."""
    return max(least, 4 / (used_ns / 1e9 * hz) ** 0.5)


@e2e.needs_kernel
class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = e2e.compile_c(SOURCE, '-O0', '-fno-omit-frame-pointer', '-pthread', name='spinner')
        cls.exporter = e2e.exporter('--profile.frequency=99', '--profile.max-overhead=0')
        cls.work = e2e.Workload(cls.program, 'fork')

    @classmethod
    def tearDownClass(cls):
        cls.work.__exit__(None, None, None)
        cls.exporter.__exit__(None, None, None)

    def test_ten_clients_with_different_windows_agree(self):
        """A window's total lies between the sums of the seconds inside it and of those that touch it."""
        x = self.exporter
        seconds = CursorClient(x)
        seconds.read()
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            windows = []
            for i in range(10):
                windows.append(pool.submit(x.get, f'/debug/pprof/profile?seconds={1 + i % 5}'))
                time.sleep(0.17)  # each begins at another time
            profiles = [e2e.Pprof(w.result(60).body) for w in windows]
        end = max(p.time_nanos + p.duration_nanos for p in profiles)
        e2e.wait_for('the seconds of all windows', lambda: seconds.read_all() or seconds.slots[-1][1] >= end)
        slack = 2_000_000  # wall clock slew while it runs
        for i, p in enumerate(profiles):
            self.assertEqual(p.duration_nanos, (1 + i % 5) * 10**9)
            start, end = p.time_nanos, p.time_nanos + p.duration_nanos
            inside = sum(n for a, b, n, _ in seconds.slots if a >= start + slack and b <= end - slack)
            touched = sum(n for a, b, n, _ in seconds.slots if a < end + slack and b > start - slack)
            self.assertGreater(touched, 0)
            self.assertLessEqual(inside, p.total(0))
            self.assertLessEqual(p.total(0), touched)
            self.assertEqual(p.total(1), p.total(0) * (10**9 // 99))

    def test_a_window_is_answered_soon_after_its_end(self):
        """At low rates drains are few: one is made for who waits. 50 ms are what samples wait for the mappings that they need."""
        with e2e.exporter('--profile.max-overhead=0') as x:
            took = []
            for _ in range(8):
                start = time.monotonic()
                self.assertEqual(x.get('/debug/pprof/profile?seconds=1&symbolize=none&comm=none').status, 200)
                took.append(time.monotonic() - start - 1)
            self.assertGreater(min(took), 0.05)
            self.assertLess(min(took), 0.14)

    def test_equal_cursors_get_equal_answers(self):
        a, b = CursorClient(self.exporter), CursorClient(self.exporter)
        first = a.read(5)
        b.cursor = ''
        e2e.wait_for('a second more', lambda: self.exporter.get(f'/debug/pprof/profile?since={a.cursor}&span=60').headers['Sonde-Cursor'] != a.cursor)
        twice = self.exporter.get(f'/debug/pprof/profile?since={a.cursor}&span=1')
        thrice = self.exporter.get(f'/debug/pprof/profile?since={a.cursor}&span=1')
        one, two = e2e.Pprof(twice.body), e2e.Pprof(thrice.body)
        self.assertEqual(twice.headers['Sonde-Cursor'], thrice.headers['Sonde-Cursor'])
        self.assertEqual((one.time_nanos, one.total(0), one.total(1)), (two.time_nanos, two.total(0), two.total(1)))
        self.assertGreater(first.total(0), 0)

    def test_cursors_get_every_sample_once(self):
        """From the oldest second on, clients with different spans and pauses all count what the kernel half counted."""
        x = self.exporter
        clients = [CursorClient(x, '0000000000000000.0') for _ in range(4)]
        stop = time.time() + 8

        def follow(i):
            while time.time() < stop:
                clients[i].read(span=(1, 2, 10, 30)[i])
                time.sleep((0.1, 0.7, 2.3, 3.9)[i])  # each at a pace of its own

        threads = [threading.Thread(target=follow, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        # Closed seconds hold no more than was counted by now; one drain and one second later they hold at least that.
        for c in clients:
            c.read_all(30)
        dropped = lambda m: sum(v for k, v in m.items() if k.startswith('sonde_samples_dropped_total') and ('held_full' in k or 'log_full' in k))
        m = x.metrics()
        counted = e2e.cpu_samples(m)
        for c in clients:
            self.assertLessEqual(c.samples, counted)
        for c in clients:
            e2e.wait_for('all that was counted', lambda c=c: c.read_all(30) or c.samples >= counted - dropped(m))
        m = x.metrics()
        for c in clients:
            self.assertLessEqual(c.samples, e2e.cpu_samples(m))
            self.assertEqual(c.lost, 0)
        # All clients stand at the same second after this and then have the same sums.
        last = CursorClient(x, clients[0].cursor)
        for c in clients:
            c.read_all(30)
        by_cursor = {}
        for c in clients + [last]:
            by_cursor.setdefault(c.cursor, set()).add(c.samples if c is not last else None)
        for sums in by_cursor.values():
            self.assertEqual(len(sums - {None}) <= 1, True, by_cursor)

    def test_answers_follow_each_other_without_a_gap(self):
        c = CursorClient(self.exporter)
        c.read(2)
        for _ in range(4):
            n = len(c.slots)
            e2e.wait_for('one more second', lambda n=n: c.read(2) and len(c.slots) > n)
        for (_, end, _, _), (start, _, _, _) in zip(c.slots, c.slots[1:]):
            self.assertLess(abs(start - end), 2_000_000)

    def test_restart_is_told(self):
        r = self.exporter.get('/debug/pprof/profile?since=00000000000000aa.123&span=1')
        self.assertEqual(r.headers['Sonde-Restarted'], '1')
        self.assertNotIn('Sonde-Restarted', self.exporter.get(f'/debug/pprof/profile?since={r.headers["Sonde-Cursor"]}').headers)

    def test_nothing_new_keeps_the_cursor(self):
        c = CursorClient(self.exporter)
        c.read(1)

        def nothing():
            before = c.cursor
            p = c.read(1)
            return p if c.cursor == before else None
        p = e2e.wait_for('a request without a new second', nothing, interval=0)
        self.assertEqual((p.samples, p.duration_nanos), ([], 0))
        self.assertEqual(p.types, [('samples', 'count'), ('cpu', 'nanoseconds')])

    def test_filters(self):
        x, pid = self.exporter, self.work.pid
        whole = CursorClient(x)
        at = whole.read(2) and whole.cursor

        def get(query):
            r = x.get(f'/debug/pprof/profile?since={at}&span=2&{query}')
            self.assertEqual(r.status, 200, r.text)
            return e2e.Pprof(r.body)

        second = lambda cursor: int(cursor.partition('.')[2])
        e2e.wait_for('two more seconds', lambda: second(x.get('/debug/pprof/profile?since=&comm=none').headers['Sonde-Cursor']) >= second(at) + 2)
        every, mine = get(''), get(f'pid={pid}')
        self.assertEqual(set(mine.by_label('pid')), {str(pid)})
        self.assertEqual(mine.total(0), every.by_label('pid', 0)[str(pid)])
        self.assertEqual(set(mine.by_label('thread_name')), {'spinner', 'second'})
        one = get(f'pid={pid}&thread=second')
        self.assertEqual(set(one.by_label('thread_name')), {'second'})
        self.assertLess(one.total(0), mine.total(0))
        family = get(f'pid={pid}&children=1')
        self.assertIn('sh', family.by_label('comm'))
        self.assertGreater(family.total(0), mine.total(0))
        self.assertEqual(get('comm=spinner&comm=sh&thread=sh').by_label('comm').keys(), {'sh'})
        self.assertEqual(get('comm=~spin.*').total(0), get('comm=spinner').total(0))
        self.assertEqual(get('comm=~spin').samples, [])
        self.assertEqual(get(f'pid={pid}&label.executable={self.program}').total(0), mine.total(0))
        self.assertEqual(get(f'pid={pid}&label.executable=/bin/true').samples, [])
        self.assertEqual(get('label.node=nowhere').samples, [])
        self.assertEqual(get('comm=~.*').total(0), every.total(0))

    def test_a_higher_rate_leaves_other_clients_right(self):
        """hz= of one client: ten times the samples for all, the same time."""
        x, pid = self.exporter, self.work.pid
        with concurrent.futures.ThreadPoolExecutor() as pool:
            fast = pool.submit(x.get, f'/debug/pprof/profile?seconds=10&hz=499&pid={pid}')
            e2e.wait_for('the rate is raised', lambda: x.metrics()['sonde_profile_frequency_hz{event="cpu"}'] == 499)
            with CpuWatch(x, pid) as watch:
                base = e2e.Pprof(x.get(f'/debug/pprof/profile?seconds=4&pid={pid}').body)
            used = watch.within(base)
            p = e2e.Pprof(fast.result(60).body)
        self.assertAlmostEqual(base.total(1) / used, 1, delta=error(used, 499, 0.15))
        self.assertGreater(base.total(0), used / 1e9 * 499 * (1 - error(used, 499, 0.2)))
        self.assertEqual(p.period, 10**9 // 499)
        e2e.wait_for('the rate is back', lambda: x.metrics()['sonde_profile_frequency_hz{event="cpu"}'] == 99)
        with CpuWatch(x, pid) as watch:
            slow = e2e.Pprof(x.get(f'/debug/pprof/profile?seconds=3&pid={pid}').body)
        used = watch.within(slow)
        self.assertEqual(slow.period, 10**9 // 99)
        self.assertAlmostEqual(slow.total(1) / used, 1, delta=error(used, 99, 0.2))

    def test_many_waiting_clients_cost_no_threads(self):
        x = self.exporter
        threads = lambda: x.metrics()['process_threads']
        before = threads()
        with concurrent.futures.ThreadPoolExecutor(60) as pool:
            waiting = [pool.submit(x.get, '/debug/pprof/profile?seconds=3') for _ in range(60)]
            e2e.wait_for('requests parked', lambda: x.metrics()['sonde_http_parked_requests'] >= 60)
            self.assertEqual(threads(), before)
            for w in waiting:
                r = w.result(120)
                self.assertEqual(r.status, 200)
                self.assertGreater(e2e.Pprof(r.body).total(0), 0)


RECURSE = r'''
#include <stdlib.h>
static volatile unsigned long x;
static void b(int n);
__attribute__((noinline)) static void a(int n) { if (!n) for (int i = 0; i < 300000; i++) x++; else if (rand() & 1) a(n - 1); else b(n - 1); x++; }
__attribute__((noinline)) static void b(int n) { if (!n) for (int i = 0; i < 300000; i++) x++; else if (rand() & 1) a(n - 1); else b(n - 1); x--; }
int main(void) { for (;;) a(60); }
'''


@e2e.needs_kernel
class LittleMemory(unittest.TestCase):
    """More distinct stacks than --web.max-bytes has room for: a cursor gets fewer seconds, a window is told why not."""

    def test_cursor_gets_fewer_seconds(self):
        program = e2e.compile_c(RECURSE, '-O1', name='recurse')
        ours = '&comm=recurse'  # a second of all that runs beside may not fit
        first = ('nice', '-n', '-15', program)  # what runs beside must not take its samples: as many as fill an answer have to come in ten seconds
        with e2e.Workload(*first), e2e.Workload(*first), e2e.exporter('--profile.frequency=199', '--profile.max-overhead=0', '--web.max-bytes=1MB') as d:
            seconds = CursorClient(d)
            seconds.read(span=1, query=ours)
            at_once = CursorClient(d, seconds.cursor)
            start = (seconds.samples, seconds.ns)
            second = lambda cursor: int(cursor.partition('.')[2])
            newest = CursorClient(d, seconds.cursor)
            # and more stacks, of which a busy machine takes fewer in a second
            e2e.wait_for('more than an answer has', lambda: newest.read(span=60, query=ours) and second(newest.cursor) > second(seconds.cursor) + 12 and newest.samples > 1500)
            at_once.read(span=10, query=ours)
            self.assertGreater(at_once.behind, 0)
            at_once.read_all(span=10, query=ours)
            seconds.read_all(span=1, query=ours, until=lambda self: self.cursor == at_once.cursor)
            self.assertGreater(d.metrics()['sonde_profiles_shortened_total'], 0)
            self.assertGreater(at_once.samples, 1000)
            self.assertEqual((at_once.samples, at_once.ns), (seconds.samples - start[0], seconds.ns - start[1]))
            self.assertEqual((at_once.lost, seconds.lost), (0, 0))

            window = d.get('/debug/pprof/profile?seconds=10' + ours)
            self.assertEqual(window.status, 503)
            self.assertIn('--web.max-bytes', window.text)


if __name__ == '__main__':
    unittest.main()
