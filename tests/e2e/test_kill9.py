"""kill -9 of either program at random moments while scraping: no acknowledged profile is lost, none is stored twice.

The scraper reaches the exporter through a proxy that keeps every answer. An answer is acknowledged once a later request carries the cursor
that it gave (the scraper asks from its durable cursor only). At the end each stored window (known by its end and length) must be one that was
delivered, with that answer's total, and each acknowledged answer must be stored: so none is lost, none is there twice, none is mixed up.
"""
import concurrent.futures
import http.server
import os
import random
import re
import shutil
import tempfile
import threading
import time
import unittest
import urllib.parse

from sonde_e2e import Pprof, compile_c, exporter, free_port, http_get, needs_kernel, scraper, sonde, wait_for, Workload

BESIDE_OTHERS = True

KILLS = 9
SPIN = r'''
#include <unistd.h>
__attribute__((noinline)) int leaf(volatile int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(void) { for (;;) { leaf(2000000); usleep(1000); } }
'''


class Proxy:
    """Passes requests to the exporter's port and keeps (since, next cursor, sample total) of each complete profile answer."""

    def __init__(self, upstream_port):
        self.answers, self.lock = [], threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *a):
                pass

            def do_GET(self):
                since = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True).get('since', [None])[0]
                with proxy.lock:
                    proxy.answers.append({'since': since, 'asked': True})
                try:
                    r = http_get(f'http://127.0.0.1:{upstream_port}{self.path}', timeout=30)
                except OSError:
                    self.close_connection = True
                    return
                if r.status == 200 and since is not None:
                    p = Pprof(r.body)
                    with proxy.lock:
                        proxy.answers.append({'since': since, 'next': r.headers.get('Sonde-Cursor'), 'total': p.total(0),
                                              'window': (p.time_nanos + p.duration_nanos, p.duration_nanos)})
                try:
                    self.send_response(r.status)
                    for k, v in r.headers.items():
                        if k.lower() not in ('connection', 'transfer-encoding', 'content-length', 'date', 'server'):
                            self.send_header(k, v)
                    self.send_header('Content-Length', str(len(r.body)))
                    self.end_headers()
                    self.wfile.write(r.body)
                except OSError:
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.handle_error = lambda *a: None  # a killed scraper resets its connections
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def delivered(self):
        """{window: total} of all answers and the set of windows whose cursor was sent back; a window is (end, length) in ns."""
        totals, of_cursor, acknowledged = {}, {}, set()
        with self.lock:
            answers = list(self.answers)
        for a in answers:
            if 'next' not in a:
                if a['since'] in of_cursor:
                    acknowledged.add(of_cursor[a['since']])
            elif a['since'] != a['next']:
                totals[a['window']] = a['total']
                of_cursor[a['next']] = a['window']
        return totals, acknowledged


@needs_kernel
class Kill9(unittest.TestCase):
    def stored(self, data):
        """{window: total of the sample counts over all streams} of a store, read without a server."""
        r = sonde('tsdb', 'dump', data)
        self.assertEqual(r.returncode, 0, r.stderr)
        out, counts = {}, False
        for line in r.stdout.splitlines():
            if line.startswith('{'):
                counts = '__name__="process_cpu"' in line and 'samples/count' in line
            elif counts:
                m = re.match(r'\s+time=(\d+) duration=(\d+) .* totals (\d+)', line)
                window = int(m[1]), int(m[2])
                out[window] = out.get(window, 0) + int(m[3])
        return out

    def run_kills(self, kill_exporter, kill_scraper):
        rnd = random.Random(int(os.environ.get('SONDE_SEED', '7')))
        port, data = free_port(), tempfile.mkdtemp(prefix='sonde-kill9.')
        proxy = Proxy(port)
        config = f'''
scrape_configs:
  - job_name: node
    scrape_interval: 1s
    scrape_timeout: 5s
    static_configs: [{{targets: ['127.0.0.1:{proxy.port}']}}]
'''
        e = exporter('--profile.frequency=99', port=port)
        s = scraper(config, '--storage.fsync=never', data=data)
        try:
            for _ in range(KILLS):
                time.sleep(rnd.uniform(0.2, 4))  # whatever it is at
                if kill_scraper and (not kill_exporter or rnd.random() < .5):
                    s.kill()
                    s = scraper(config, '--storage.fsync=never', data=data)
                elif kill_exporter:
                    e.kill()
                    e = exporter('--profile.frequency=99', port=port)
            n = len(proxy.delivered()[1])
            wait_for('scrapes after the last kill', lambda: len(proxy.delivered()[1]) > n + 3)
            s.stop()
            delivered, acknowledged = proxy.delivered()
            stored = self.stored(data)
            what = f'{KILLS} kills, {len(delivered)} windows delivered, {len(acknowledged)} acknowledged, {len(stored)} stored'
            self.assertEqual({w for w in acknowledged if delivered[w]} - set(stored), set(), f'lost: {what}')
            self.assertEqual({w: t for w, t in stored.items() if delivered.get(w) != t}, {}, f'not what was delivered: {what}')
            # Two windows of one exporter never overlap: the same second is not stored in two of them.
            ends = sorted(stored)
            for a, b in zip(ends, ends[1:]):
                self.assertGreaterEqual(b[0] - b[1], a[0] - 2000000, f'windows overlap: {a} {b}: {what}')
            self.assertGreater(sum(stored.values()), 0)
        finally:
            e.kill()
            s.kill()
            shutil.rmtree(data, ignore_errors=True)

    def setUp(self):
        prog = compile_c(SPIN, '-O1', '-fno-omit-frame-pointer')
        self.load = Workload(prog)
        self.addCleanup(shutil.rmtree, os.path.dirname(prog))
        self.addCleanup(self.load.__exit__)

    def test_one_killed_or_either(self):
        """Three pairs of exporter and scraper at a time."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            runs = {victims: pool.submit(self.run_kills, *victims) for victims in ((False, True), (True, False), (True, True))}
        for (kill_exporter, kill_scraper), run in runs.items():
            with self.subTest(kill_exporter=kill_exporter, kill_scraper=kill_scraper):
                run.result()


if __name__ == '__main__':
    unittest.main()
