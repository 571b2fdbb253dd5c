"""A scraper in trouble, with a small head so that it flushes, compacts and deletes all the time: kill -9 at any moment, a disk that is
full for a while. What is stored is right, whole and there once."""
import http.server
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from pprof_target import encode
from sonde_e2e import http_get, scraper, sonde, wait_for

BESIDE_OTHERS = True

ROWS = 2500  # of a second; many different stacks, so that the head fills
LIMIT = (64 << 20) + (400 << 10)  # a segment of the log takes 64 MiB
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 20s}}
scrape_configs:
- job_name: node
  static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


class Node:
    """An exporter with cursors; each second is ROWS stacks of its own, worth 1 each."""

    def __init__(self):
        self.began, self.asked = int(time.time()), []
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *a):
                pass

            def do_GET(self):
                q = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
                since, span, now = q['since'][0], int(q['span'][0]), int(time.time())
                node.asked.append(since)
                first = int(since.split('.')[1]) if since else now - span
                last = min(now, first + span)
                samples = [([f'f{second % 97}_{i}', f'g{i % 50}', 'main'], [1], {'thread_name': f't{i % 7}'})
                           for second in range(first, last) for i in range(ROWS)]
                body = encode([('cpu', 'nanoseconds')], ('cpu', 'nanoseconds'), samples, first * 10**9, (last - first) * 10**9)
                try:
                    self.send_response(200)
                    for k, v in (('Sonde-Exporter', '0'), ('Sonde-Types', 'process_cpu=profile'), ('Sonde-Cursor', f'aa.{last}'),
                                 ('Sonde-Behind-Seconds', now - last), ('Content-Length', len(body))):
                        self.send_header(k, str(v))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *a: None
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def size_of(path):
    return sum(os.path.getsize(os.path.join(base, n)) for base, _, names in os.walk(path) for n in names if os.path.exists(os.path.join(base, n)))


class StoreTrouble(unittest.TestCase):
    def check_windows(self, data, node, least=3):
        """Every stored window has what was delivered, they follow each other, and nothing acknowledged is missing. Returns them."""
        verified = sonde('tsdb', 'verify', data)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        dump = sonde('tsdb', 'dump', data)
        windows, cpu = [], False
        for line in dump.stdout.splitlines():
            if line.startswith('{'):
                cpu = '__name__="process_cpu"' in line and '} profile ' in line
            elif cpu and (m := re.match(r'\s+time=(\d+) duration=(\d+) .* totals (\d+)', line)) and int(m[2]):
                windows.append((int(m[1]), int(m[2]), int(m[3])))
        windows.sort()
        self.assertGreaterEqual(len(windows), least, dump.stdout[:3000])
        for end, duration, total in windows:
            self.assertEqual(total, duration // 10**9 * ROWS, f'window that ends at {end}')
        for a, b in zip(windows, windows[1:]):
            self.assertEqual(b[0] - b[1], a[0], f'{a} and {b} do not follow each other')
        acknowledged = max(int(a.split('.')[1]) for a in node.asked if a)
        self.assertGreaterEqual(windows[-1][0], acknowledged * 10**9)
        return windows

    def test_flush_compaction_and_retention(self):
        rnd = random.Random(int(os.environ.get('SONDE_SEED', '3')))
        node, data = Node(), tempfile.mkdtemp(prefix='sonde-kills.')
        self.addCleanup(shutil.rmtree, data, ignore_errors=True)
        self.addCleanup(node.close)
        flags = ('--storage.fsync=never', '--storage.head-bytes=1MiB', f'--storage.retention.size={LIMIT}B')
        done = {'flushes': 0, 'compactions': 0, 'blocks_deleted': 0}

        def note(s):
            m = s.metrics()
            for name in done:
                done[name] += m.get(f'sonde_store_{name}_total', 0)
            self.assertEqual(m.get('sonde_store_blocks_quarantined', 0), 0)

        s = scraper(CONFIG.format(port=node.port), *flags, data=data)
        try:
            for _ in range(12):
                time.sleep(rnd.uniform(0.3, 3))  # whatever it is at
                note(s)
                s.kill()
                s = scraper(CONFIG.format(port=node.port), *flags, data=data)
            n = len(node.asked)
            wait_for('scrapes after the last kill', lambda: len(node.asked) > n + 4)
            note(s)
            # on a busy machine they may all have been killed before
            wait_for('flushes and deletions', lambda: all(done[name] or s.metrics().get(f'sonde_store_{name}_total') for name in ('flushes', 'blocks_deleted')))
            self.assertEqual(s.stop(), 0)
        finally:
            s.kill()
        self.assertIn('may leave no room for blocks', s.output())  # so small a limit is warned of
        # While the log has two segments, blocks have no room: a deletion in that moment leaves the newest one.
        self.check_windows(data, node, least=1)
        parts = json.loads(sonde('tsdb', 'list', '--format', 'json', data).stdout)
        self.assertTrue(any(p['kind'] == 'block' for p in parts))
        self.assertLess(size_of(f'{data}/blocks'), 8 << 20)

    def test_few_descriptors(self):
        """Clients that hold all connections they get leave the store and the targets theirs."""
        node, held = Node(), []
        self.addCleanup(node.close)
        with scraper(CONFIG.format(port=node.port), '--storage.head-bytes=1MiB', prefix=('prlimit', '--nofile=192')) as s:
            try:
                for _ in range(300):
                    c = socket.create_connection(('127.0.0.1', s.port), timeout=10)
                    held.append(c)
                    try:
                        c.send(b'GET /api/v1/targets HTTP/1.1\r\nHost: 127.0.0.1\r\n')
                    except OSError:
                        pass  # it had to make room
                n = len(node.asked)
                wait_for('scrapes', lambda: len(node.asked) > n + 4)
                m = s.metrics()
                self.assertEqual(m['sonde_store_stopped'], 0)
                self.assertGreater(m['sonde_http_connections_displaced_total'] + m.get('sonde_http_connections_refused_total{reason="connections"}', 0), 0)
                self.assertEqual(m.get('sonde_http_connections_refused_total{reason="descriptors"}', 0), 0)
                wait_for('a flush', lambda: s.metrics()['sonde_store_flushes_total'] > 2)
                self.assertEqual(s.metrics()['sonde_store_flush_failures_total'], 0)
            finally:
                for c in held:
                    c.close()
            self.assertRegex(s.output(), 'limit of open files, 192, leaves room for 48 connections')

    def test_full_disk(self):
        """Nothing is stored while there is no space, queries go on, readiness says why; with space it resumes by itself and nothing is lost."""
        node, disk = Node(), tempfile.mkdtemp(prefix='sonde-full.')
        self.addCleanup(shutil.rmtree, disk, ignore_errors=True)
        self.addCleanup(node.close)
        p = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=100m', 'sonde-full', disk], capture_output=True, text=True)
        if p.returncode:
            self.skipTest(f'no file system can be mounted: {p.stderr.strip()}')
        self.addCleanup(subprocess.run, ['umount', '-l', disk])
        data, ballast = f'{disk}/data', f'{disk}/ballast'
        s = scraper(CONFIG.format(port=node.port), '--storage.fsync=never', '--storage.head-bytes=1MiB', data=data)

        def total():
            query = urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{}')
            return s.get(f'/api/v1/flamegraph?query={query}&start={node.began - 600}').json['data']['total']

        try:
            wait_for('scrapes', lambda: len(node.asked) > 4)
            with open(ballast, 'wb', buffering=0) as f:
                try:
                    while f.write(b'x' * 65536):
                        pass
                except OSError:
                    pass
            wait_for('the end of ingest', lambda: s.metrics()['sonde_store_stopped'] == 1)
            before = total()
            self.assertGreater(before, 0)
            r = http_get(f'{s.url}/-/ready')
            self.assertEqual(r.status, 503)
            self.assertRegex(r.text, '(?i)no space')
            n = len(node.asked)
            wait_for('scrapes without space', lambda: len(node.asked) > n + 2)
            self.assertEqual(total(), before)
            os.unlink(ballast)
            wait_for('ingest again', lambda: s.metrics()['sonde_store_stopped'] == 0 and http_get(f'{s.url}/-/ready').status == 200)
            n = len(node.asked)
            wait_for('scrapes with space', lambda: len(node.asked) > n + 4)
            self.assertGreater(total(), before)
            self.assertEqual(s.metrics().get('sonde_store_blocks_quarantined', 0), 0)
            self.assertEqual(s.stop(), 0)
        finally:
            s.kill()
        self.check_windows(data, node)


if __name__ == '__main__':
    unittest.main()
