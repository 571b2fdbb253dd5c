"""The profile type page_faults: totals beside what the kernel counts, names, labels, filters, cursor, and what happens when it is off."""
import concurrent.futures
import os
import re
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True
# Each round maps memory, touches every page once in one function, and gives it back; then the program says what the kernel counted.
C_SOURCE = r'''
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
enum { PAGES = 5000, PAGE = 4096 };
__attribute__((noinline)) static void touch_pages(volatile char *p) { for (int i = 0; i < PAGES; i++) p[(long)i * PAGE] = 1; }
__attribute__((noinline)) static void one_round(void)
{
	char *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
	touch_pages(p);
	munmap(p, (size_t)PAGES * PAGE);
}
int main(int argc, char **argv)
{
	struct rusage u;
	for (int i = 0; i < atoi(argv[1]); i++)
		one_round();
	getrusage(RUSAGE_SELF, &u);
	printf("%ld\n", u.ru_minflt + u.ru_majflt);
	return argc == 0;
}
'''


@unittest.skipIf(e2e.kernel_missing(), e2e.kernel_missing())
class PageFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = e2e.compile_c(C_SOURCE, '-O1', '-fno-omit-frame-pointer', '-g', name='touches')
        cls.exporter = e2e.exporter('--profile.types=cpu,page_faults', '--profile.frequency=97', '--profile.max-overhead=0')
        cls.addClassCleanup(cls.exporter.__exit__, None, None, None)

    def profile(self, query):
        return e2e.Pprof(self.exporter.get(f'/debug/pprof/page_faults?{query}').body)

    def test_totals_are_those_of_the_kernel(self):
        window = e2e.Window(self.exporter, 'page_faults')
        counted = int(subprocess.run([self.program, '400'], check=True, capture_output=True).stdout)
        self.assertGreater(counted, 2_000_000)
        window.read_until_now('&comm=touches')
        samples, faults = (sum(values[i] for _, values, _ in window.samples) for i in (0, 1))
        touching = sum(values[1] for stack, values, _ in window.samples if 'touch_pages' in stack)
        complete = sum(values[1] for _, values, labels in window.samples if labels.get('stack') == 'complete')
        # A sample stands for the faults since the one before on its CPU: the program's total is known to one such step for each move.
        self.assertLess(abs(faults - counted) / counted, 0.1, f'{faults} faults in {samples} samples, the kernel counted {counted}')
        self.assertLess(samples, counted / 100, 'samples come at a rate, not for each fault')
        self.assertGreater(touching / faults, 0.9)
        self.assertGreater(complete / faults, 0.95)
        self.assertEqual(self.profile('since=&comm=none').types, [('samples', 'count'), ('page_faults', 'count')])

    def test_filters_formats_and_pages(self):
        with e2e.Workload('sh', '-c', f'while :; do {self.program} 20 >/dev/null; done'):
            folded = self.exporter.get('/debug/pprof/page_faults?seconds=3&comm=touches&format=folded').text
            cpu = e2e.Pprof(self.exporter.get('/debug/pprof/profile?seconds=2').body)
            nothing = self.profile('seconds=1&comm=no-such-program')
        self.assertIn('main;one_round;touch_pages', folded)
        self.assertEqual(cpu.types[-1], ('cpu', 'nanoseconds'))
        self.assertEqual(nothing.total(), 0)
        self.assertEqual(self.exporter.get('/debug/pprof/profile?since=').headers['Sonde-Types'], 'process_cpu=profile, page_faults=page_faults')
        index = self.exporter.get('/debug/pprof/').text
        self.assertIn('<a href="page_faults">page_faults</a>', index)
        self.assertIn('debug/pprof/page_faults?seconds=10', self.exporter.get('/').text)
        metrics = self.exporter.metrics()
        for name in ('sonde_samples_total', 'sonde_bpf_runs_total'):
            self.assertGreater(metrics[name + '{event="page_faults"}'], 0)
        health = self.exporter.get('/debug/pprof/page_faults?since=').headers['Sonde-Health']
        self.assertLessEqual(int(re.search(r'samples=(\d+)', health)[1]), self.exporter.metrics()['sonde_samples_total{event="page_faults"}'])
        self.assertGreater(metrics['sonde_stacks_total{event="page_faults",result="complete"}'], 0)

    def test_a_request_raises_its_own_rate(self):
        def rates():
            m = self.exporter.metrics()
            return [m[f'sonde_profile_frequency_hz{{event="{event}"}}'] for event in ('cpu', 'page_faults')]

        self.assertEqual(rates(), [97, 97])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            open_request = pool.submit(self.exporter.get, '/debug/pprof/page_faults?seconds=3&hz=499')
            e2e.wait_for('the rate is raised', lambda: rates() == [97, 499])
            self.assertEqual(open_request.result().headers['Sonde-Rate'], '499 Hz (asked for by a request with hz=)')
        e2e.wait_for('the rate is back', lambda: rates() == [97, 97])

    def test_a_cursor_gets_each_fault_once(self):
        window = e2e.Window(self.exporter, 'page_faults')
        for _ in range(3):
            subprocess.run([self.program, '100'], check=True, capture_output=True)
            window.read_until_now('&comm=touches')
        total = sum(values[1] for _, values, _ in window.samples)
        self.assertLess(abs(total - 1_500_000) / 1_500_000, 0.15)

    def test_off(self):
        with e2e.exporter() as d:
            r = d.get('/debug/pprof/page_faults?seconds=1')
            self.assertEqual(r.status, 404)
            self.assertIn('/debug/pprof/page_faults is off: start the exporter with page_faults in --profile.types', r.text)
            self.assertEqual(d.get('/debug/pprof/profile?since=').headers['Sonde-Types'], 'process_cpu=profile')
            self.assertIn('Off: --profile.types does not name page_faults', d.get('/debug/pprof/').text)
            self.assertNotIn('page_faults', d.get('/metrics').text)
            self.assertIn('this exporter has /debug/pprof/profile', d.get('/debug/pprof/heap').text)

    def test_without_the_clock(self):
        with e2e.exporter('--profile.types=page_faults') as d:
            subprocess.run([self.program, '100'], check=True, capture_output=True)
            e2e.wait_for('its faults', lambda: e2e.Pprof(d.get('/debug/pprof/page_faults?since=&comm=touches').body).total() > 0)
            self.assertEqual(d.get('/debug/pprof/profile?seconds=1').status, 404)
            self.assertEqual(d.get('/targets').status, 200)

    def test_record(self):
        with tempfile.TemporaryDirectory() as dir:
            out = os.path.join(dir, 'faults.pb.gz')
            r = e2e.sonde('record', '--type', 'page_faults', '-q', '-o', out, '--', self.program, '100')
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(out, 'rb') as f:
                p = e2e.Pprof(f.read())
        self.assertEqual(p.types[-1], ('page_faults', 'count'))
        self.assertGreater(p.functions().get('touch_pages', 0), 300_000)
        r = e2e.sonde('record', '--type', 'nonsense', '-o', '/dev/null', '-a')
        self.assertEqual(r.returncode, 2)
        self.assertIn('"nonsense" is no profile type: the profile types are cpu, page_faults', r.stderr)


if __name__ == '__main__':
    unittest.main()
