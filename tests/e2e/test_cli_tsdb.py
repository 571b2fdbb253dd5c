"""sonde tsdb: what it says of a store that a scraper wrote, beside a running scraper and after it, and of damage."""
import json
import os
import shutil
import tempfile
import time
import unittest

from pprof_target import CPU_TOTAL, GO_JOB, PprofTarget
from sonde_e2e import scraper, sonde, wait_for

BESIDE_OTHERS = True


def tree(path):
    """Every file with its content."""
    out = {}
    for base, _, names in os.walk(path):
        for n in names:
            with open(os.path.join(base, n), 'rb') as f:
                out[os.path.relpath(os.path.join(base, n), path)] = f.read()
    return out


class Tsdb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='sonde-tsdb.')
        cls.data = f'{cls.dir}/data'
        with PprofTarget() as target, scraper(GO_JOB.format(address=target.address), '--storage.head-bytes=1MiB', data=cls.data) as s:
            wait_for('scrapes', lambda: target.served >= 4)
            cls.beside = sonde('tsdb', 'list', cls.data)
            assert s.stop() == 0
            cls.served = target.served

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def test_list_beside_a_running_scraper(self):
        self.assertEqual(self.beside.returncode, 0, self.beside.stderr)
        self.assertIn('PROFILES', self.beside.stdout)

    def test_list(self):
        parts = json.loads(sonde('tsdb', 'list', '--format', 'json', self.data).stdout)
        self.assertTrue(parts)
        self.assertGreaterEqual(sum(p['profiles'] for p in parts), self.served)
        text = sonde('tsdb', 'list', self.data).stdout.splitlines()
        self.assertEqual(len(text), len(parts) + 1)
        for part, line in zip(parts, text[1:]):
            self.assertTrue(line.startswith(part['ulid']))
            self.assertIn(part['kind'], line.split())
            if part['profiles']:
                self.assertIn(time.strftime('%Y-%m-%dT%H:%M', time.gmtime(part['min_time_ns'] / 1e9)), line)

    def test_verify(self):
        p = sonde('tsdb', 'verify', self.data)
        self.assertEqual((p.returncode, p.stderr), (0, ''))
        self.assertTrue(all(line.endswith(': good') for line in p.stdout.splitlines()))

    def test_dump(self):
        p = sonde('tsdb', 'dump', self.data)
        self.assertEqual((p.returncode, p.stderr), (0, ''))
        self.assertIn('job="app"', p.stdout)
        rows = sonde('tsdb', 'dump', '--rows', self.data)
        self.assertEqual(rows.returncode, 0)
        self.assertGreater(len(rows.stdout), len(p.stdout))
        self.assertIn('leaf', rows.stdout)
        self.assertIn(str(CPU_TOTAL), p.stdout)
        self.assertNotIn('leaf', p.stdout)

    def test_dump_of_one_part(self):
        parts = json.loads(sonde('tsdb', 'list', '--format', 'json', self.data).stdout)
        whole = sonde('tsdb', 'dump', self.data).stdout
        self.assertEqual(''.join(sonde('tsdb', 'dump', '--part', p['ulid'], self.data).stdout for p in parts), whole)
        p = sonde('tsdb', 'dump', '--part', '0' * 26, self.data)
        self.assertEqual((p.returncode, p.stdout), (1, ''))
        self.assertIn('has no part', p.stderr)

    def test_nothing_is_changed(self):
        before = tree(self.data)
        for args in (('list',), ('verify',), ('dump', '--rows')):
            self.assertEqual(sonde('tsdb', *args, self.data).returncode, 0)
        self.assertEqual(tree(self.data), before)

    def test_damage_is_found(self):
        block = next(p['ulid'] for p in json.loads(sonde('tsdb', 'list', '--format', 'json', self.data).stdout) if p['kind'] == 'block')
        with tempfile.TemporaryDirectory() as d:
            shutil.copytree(f'{self.data}/blocks/{block}', f'{d}/blocks/{block}')
            self.assertEqual(sonde('tsdb', 'verify', d).returncode, 0)
            for name in os.listdir(f'{d}/blocks/{block}'):
                path = f'{d}/blocks/{block}/{name}'
                with open(path, 'rb') as f:
                    good = f.read()
                for at in (0, len(good) // 2, len(good) - 1):
                    with self.subTest(name, at=at):
                        with open(path, 'wb') as f:
                            f.write(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1:])
                        before = tree(d)
                        p = sonde('tsdb', 'verify', d)
                        self.assertEqual(p.returncode, 1, p.stdout)
                        self.assertIn(block, p.stderr)
                        self.assertEqual(tree(d), before)
                with open(path, 'wb') as f:
                    f.write(good)

    def copy(self, d):
        shutil.copytree(self.data, f'{d}/data')
        return f'{d}/data'

    def test_stats(self):
        p = sonde('tsdb', 'stats', self.data)
        self.assertEqual((p.returncode, p.stderr), (0, ''))
        blocks = [x for x in json.loads(sonde('tsdb', 'list', '--format', 'json', self.data).stdout) if x['kind'] == 'block']
        self.assertTrue(blocks)
        self.assertEqual(p.stdout.count(' profiles, '), len(blocks) + 1)
        size = sum(os.path.getsize(os.path.join(base, n)) for base, _, names in os.walk(f'{self.data}/blocks') for n in names)
        self.assertIn(f' {size} ', p.stdout.splitlines()[-1])

    def test_compact(self):
        with tempfile.TemporaryDirectory() as d:
            data = self.copy(d)
            before = sonde('tsdb', 'dump', '--rows', data).stdout
            p = sonde('tsdb', 'compact', data)
            self.assertEqual((p.returncode, p.stderr), (0, ''))
            parts = json.loads(sonde('tsdb', 'list', '--format', 'json', data).stdout)
            old = json.loads(sonde('tsdb', 'list', '--format', 'json', self.data).stdout)
            # what is in the log became blocks; whether their window is over, so that they are merged, depends on the hour
            self.assertEqual([x['profiles'] for x in parts if x['kind'] == 'head'], [0])
            self.assertLessEqual(len([x for x in parts if x['kind'] == 'block']), len(old))
            self.assertEqual(sum(x['profiles'] for x in parts), sum(x['profiles'] for x in old))
            self.assertEqual(sonde('tsdb', 'verify', data).returncode, 0)
            profiles = [x for x in sonde('tsdb', 'dump', '--rows', data).stdout.splitlines() if x.startswith('  ')]
            self.assertEqual(sorted(profiles), sorted(x for x in before.splitlines() if x.startswith('  ')))

    def test_repair(self):
        with tempfile.TemporaryDirectory() as d:
            data = self.copy(d)
            blocks = [p for p in json.loads(sonde('tsdb', 'list', '--format', 'json', data).stdout) if p['kind'] == 'block']
            path = f'{data}/blocks/{blocks[0]["ulid"]}/rows'
            with open(path, 'r+b') as f:
                f.seek(100)
                f.write(b'damage')
            p = sonde('tsdb', 'repair', data)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertIn(f'in quarantine: {blocks[0]["ulid"]}: ', p.stdout)
            self.assertIn('rows', p.stdout)
            self.assertTrue(os.path.exists(f'{data}/quarantine/{blocks[0]["ulid"]}/reason'))
            left = json.loads(sonde('tsdb', 'list', '--format', 'json', data).stdout)
            self.assertNotIn(blocks[0]['ulid'], [x['ulid'] for x in left])
            self.assertEqual(sonde('tsdb', 'dump', data).returncode, 0)

    def test_snapshot(self):
        with tempfile.TemporaryDirectory() as d:
            data = self.copy(d)
            p = sonde('tsdb', 'snapshot', data)
            self.assertEqual((p.returncode, p.stderr), (0, ''))
            name = p.stdout.strip()
            self.assertTrue(name.startswith(f'{data}/snapshots/'))
            self.assertEqual(sonde('tsdb', 'verify', name).returncode, 0)
            self.assertEqual(sonde('tsdb', 'dump', name).stdout, sonde('tsdb', 'dump', data).stdout)

    def test_one_writer(self):
        with tempfile.TemporaryDirectory() as d, scraper('scrape_configs: []', data=f'{d}/data') as s:
            for command in ('compact', 'repair', 'snapshot'):
                p = sonde('tsdb', command, s.data)
                self.assertEqual((p.returncode, p.stdout), (1, ''))
                self.assertIn(f'in use by process {s.p.pid}', p.stderr)

    def test_wrong_directories(self):
        for command in ('list', 'verify', 'dump', 'stats', 'compact', 'repair', 'snapshot'):
            for args, status in (((), 2), (('a', 'b'), 2), (('/nonexistent',), 1), ((self.dir,), 1)):
                with self.subTest(command=command, args=args):
                    p = sonde('tsdb', command, *args)
                    self.assertEqual((p.returncode, p.stdout), (status, ''))
                    self.assertIn('sonde', p.stderr)


if __name__ == '__main__':
    unittest.main()
