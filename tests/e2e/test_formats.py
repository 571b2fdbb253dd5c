"""docs/formats/block.md and wal.md say every byte: a reader that was written from them alone (store_reader.py) finds in golden stores, and in one
that a scraper wrote, what `sonde tsdb dump` does."""
import collections
import os
import shutil
import tempfile
import unittest

import store_reader
from filled import CPU, N, Filled, total
from pprof_target import GO_JOB, PprofTarget
from sonde_e2e import TOP, scraper, sonde, wait_for

BESIDE_OTHERS = True


class Formats(unittest.TestCase):
    maxDiff = 4000

    def dump(self, data, part):
        r = sonde('tsdb', 'dump', '--rows', f'--part={part}', data)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def compare(self, data):
        """How many blocks, profiles of logs and blocks with rollups there were."""
        n = collections.Counter()
        for name in sorted(os.listdir(f'{data}/blocks')):
            b = store_reader.Block(f'{data}/blocks/{name}')
            self.assertEqual(b.dump(), self.dump(data, name))
            self.check_rollups(b)
            n['blocks'] += 1
            n['rollups'] += bool(b.rollups)
        if os.path.isdir(f'{data}/wal'):
            for generation in store_reader.generations(f'{data}/wal'):
                log = store_reader.Log(f'{data}/wal', generation)
                if log.profiles:
                    self.assertEqual(log.dump(), self.dump(data, store_reader.ulid_text(generation)))
                n['logged'] += len(log.profiles)
        return n

    def check_rollups(self, b):
        """Each bucket is the sum of the raw profiles in it."""
        for resolution, profiles in b.rollups.items():
            width = {'10m': 600, '1h': 3600}[resolution] * 10**9
            want = collections.defaultdict(lambda: [0, 0, [0] * 16, collections.Counter()])
            for stream, time, duration, _, totals, rows in b.profiles:
                if b.schemas[b.streams[stream][0]][0] != store_reader.PROFILE:
                    continue
                w = want[b.stream_text(stream), -(-time // width) * width]
                w[0] += 1
                w[1] += duration
                for k, v in enumerate(totals):
                    w[2][k] += v
                self.add_rows(w[3], b, rows)
            for text, time, merged, durations, totals, rows in profiles:
                w = want.pop((text, time))
                have = collections.Counter()
                self.add_rows(have, b, rows)
                self.assertEqual((merged, durations, totals, have), (w[0], w[1], w[2][:len(totals)], w[3]))
            self.assertFalse(want)

    @staticmethod
    def add_rows(into, b, rows):
        without = set(b.meta.get('rollup_without', []))
        for labels, node, *values in rows:
            kept = tuple((b.strings[n], b.strings[v]) for n, v in b.sets[labels] if b.strings[n] not in without)
            for k, v in enumerate(values):
                into[kept, node, k] += v

    def test_golden(self):
        n = collections.Counter()
        for name in sorted(os.listdir(f'{TOP}/tests/data/store')):
            n += self.compare(f'{TOP}/tests/data/store/{name}')
        self.assertTrue(n['blocks'] >= 4 and n['logged'] >= 10 and n['rollups'], n)

    def test_of_a_scraper(self):
        with tempfile.TemporaryDirectory() as tmp:
            with PprofTarget() as target, scraper(GO_JOB.format(address=target.address)) as s:
                wait_for('scrapes', lambda: target.served >= 3)
                self.assertEqual(s.stop(), 0)
                shutil.copytree(s.data, f'{tmp}/scraped')
            n = self.compare(f'{tmp}/scraped')
            self.assertTrue(n['logged'] > 3, n)
            self.assertEqual(sonde('tsdb', 'compact', f'{tmp}/scraped').returncode, 0)
            self.assertEqual(self.compare(f'{tmp}/scraped')['blocks'], 1)

    def test_of_imports(self):
        with tempfile.TemporaryDirectory() as tmp:
            with Filled() as s:
                self.assertEqual(s.stop(), 0)
                shutil.copytree(s.data, f'{tmp}/data')
            self.assertEqual(sonde('tsdb', 'compact', f'{tmp}/data').returncode, 0)
            self.assertTrue(self.compare(f'{tmp}/data')['blocks'] >= 1)
            sums = collections.Counter()
            for name in os.listdir(f'{tmp}/data/blocks'):
                b = store_reader.Block(f'{tmp}/data/blocks/{name}')
                for stream, _, _, _, totals, _ in b.profiles:
                    schema, labels = b.streams[stream]
                    service = dict((b.strings[n], b.strings[v]) for n, v in b.sets[labels]).get('service_name')
                    for (t, _, _), v in zip(b.schemas[schema][3], totals):
                        sums[service, b.strings[t]] += v
            for service in ('alpha', 'beta'):
                self.assertEqual(sums[service, CPU.split(':')[1]], N * total(service))


if __name__ == '__main__':
    unittest.main()
