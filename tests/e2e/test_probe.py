"""Attaching to files: a program of a table and BPF object of the test's own, through the keeper, to a process that starts later."""
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from sonde_e2e import build_dir, exporter_env

PROBED = r'''
#include <pthread.h>
#include <stdlib.h>
__attribute__((noinline)) void probed(int n) { __asm__ volatile("" :: "r"(n) : "memory"); }
__attribute__((noinline)) void *caller(void *n)
{
	for (int i = 0; i < *(int *)n; i++)
		probed(i);
	return NULL;
}
int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0, n_threads = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t t[16];
	for (int i = 0; i < n_threads; i++)
		pthread_create(&t[i], NULL, caller, &n);
	for (int i = 0; i < n_threads; i++)
		pthread_join(t[i], NULL);
	return 0;
}
'''


class Probe(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        os.chmod(self.dir.name, 0o755)
        self.target = f'{self.dir.name}/target'
        with open(f'{self.target}.c', 'w') as f:
            f.write(PROBED)
        subprocess.run(['gcc', '-O0', '-no-pie', '-Wl,-z,noseparate-code', '-o', self.target,
                        f'{self.target}.c', '-pthread'], check=True)
        self.symbols = {}
        for line in subprocess.run(['nm', '-S', self.target], capture_output=True, text=True, check=True).stdout.splitlines():
            m = re.match(r'(\w+) (\w+) T (probed|caller)$', line)
            if m:
                self.symbols[m[3]] = (int(m[1], 16), int(m[2], 16))
        # Behind push %rbp; mov %rsp, %rbp: samples are walked by frame pointer here.
        self.place = self.symbols['probed'][0] + 4
        self.offset = self.place - 0x400000  # where the file's first byte is mapped

    def start(self):
        bpf = f'{build_dir()}/tests/bpf'
        p = subprocess.Popen([f'{bpf}/probe', f'{bpf}/probe.all.o', self.target, hex(self.offset)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=exporter_env())
        self.addCleanup(p.kill)
        refused = {}
        while True:
            line = json.loads(p.stdout.readline())
            if 'attached' in line:
                self.assertEqual(line, {'attached': 1, 'text': ''})
                return p, refused
            refused[line['refused']] = (line['errno'], line['text'])

    def loaded(self, kind):
        shown = subprocess.run(['bpftool', '-j', kind, 'show'], capture_output=True, text=True, check=True).stdout
        return {x.get('name') for x in json.loads(shown)}

    def test_what_the_table_does_not_have_is_refused(self):
        p, refused = self.start()
        for name in ('off', 'per_cpu', 'no_row'):
            self.assertEqual(refused[name][0], 2, refused)
            self.assertIn('is attached to no files, or off', refused[name][1])
        self.assertEqual(refused['text'], (22, 'not an ELF file'))
        self.assertEqual(refused['directory'], (22, 'not a regular file'))
        self.assertIn('is beyond the end of the file', refused['beyond'][1])
        # Neither program nor map of a row that is off is there.
        self.assertIn('sample_probe', self.loaded('prog'))
        self.assertNotIn('sample_other', self.loaded('prog'))
        self.assertIn('run_words', self.loaded('map'))
        self.assertNotIn('other_calls', self.loaded('map'))
        p.communicate()

    def test_a_process_that_starts_later_is_sampled(self):
        """More threads than slots of scratch share one CPU, so that programs are preempted: no record is mixed with another's."""
        calls, threads = 400, 12
        p, _ = self.start()
        cpu = str(min(os.sched_getaffinity(0)))
        target = subprocess.Popen(['taskset', '-c', cpu, self.target, str(calls), str(threads)])
        self.assertEqual(target.wait(), 0)
        time.sleep(0.1)
        out = [json.loads(line) for line in p.communicate()[0].splitlines()]
        counters, samples = out[-1], [x for x in out[:-1] if x['pid'] == target.pid]
        self.assertEqual(counters['runs'], calls * threads)
        self.assertEqual(counters['samples'] + counters['ring_full'] + counters['scratch_busy'], calls * threads, counters)
        self.assertEqual(len(samples), counters['samples'])
        self.assertGreater(len(samples), calls * threads * 0.9)
        begin, size = self.symbols['caller']
        by_thread = {}
        for s in samples:
            frames = [int(w, 16) & (1 << 60) - 1 for w in s['user']]
            self.assertEqual(s['weight'], [1, 2])
            self.assertEqual(frames[0], self.place)
            self.assertTrue(begin < frames[1] <= begin + size, s)
            by_thread[s['tid']] = by_thread.get(s['tid'], 0) + 1
        self.assertEqual(len(by_thread), threads)
        self.assertLessEqual(max(by_thread.values()), calls)

    def test_the_link_ends_with_its_descriptor(self):
        p, _ = self.start()
        p.communicate()
        self.assertNotIn('sample_probe', self.loaded('prog'))


if __name__ == '__main__':
    unittest.main()
