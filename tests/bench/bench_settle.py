#!/usr/bin/env python3
"""Upkeep after many imports: how long it takes to settle, and how long a small query takes meanwhile.

usage: bench_settle.py BUILD_DIR [PROFILES] [SAMPLES]
Profiles with real stacks (corpus.py) are imported into a running scraper, each a block of its own, one instance of 20 asked for its flame graph every 20 ms from
before the first import until no compaction has happened for five seconds, and then for five more. The result cache is off. One line a phase: how long it
took, queries, median, 99th percentile and worst latency; the upkeep's CPU goes to the second.
"""
import http.client
import os
import sys
import tempfile
import threading
import time
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
from bench_sampler import cpu_of  # noqa: E402
from bench_stored import import_all, make_files  # noqa: E402

QUIET_S, EVERY_S = 5, .02


class Asking(threading.Thread):
    """Small flame graphs, one after the other: (when asked, seconds)."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.took, self.over = port, [], False

    def run(self):
        c = http.client.HTTPConnection('127.0.0.1', self.port)
        q = urllib.parse.urlencode({'query': 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{instance="i3"}', 'seconds': 600})
        while not self.over:
            began = time.monotonic()
            c.request('GET', f'/api/v1/flamegraph?{q}')
            r = c.getresponse()
            r.read()
            if r.status != 200:
                sys.exit(f'query: {r.status}')
            self.took.append((began, time.monotonic() - began))
            time.sleep(EVERY_S)

    def between(self, a, b):
        return sorted(took for at, took in self.took if a <= at < b)


def compactions(s):
    return s.metrics()['sonde_store_compactions_total']


def settle(s):
    """Waits until no compaction has happened for a while; when the last one was seen."""
    last, at = compactions(s), time.monotonic()
    while time.monotonic() - at < QUIET_S:
        time.sleep(.2)
        n = compactions(s)
        if n != last:
            last, at = n, time.monotonic()
    return at


def report(name, a, b, took, cpu):
    if took:
        print(f'settle_{name} {b - a:.1f} s cpu {cpu:.1f} queries {len(took)} median_ms {took[len(took) // 2] * 1e3:.1f} '
              f'p99_ms {took[len(took) * 99 // 100] * 1e3:.1f} worst_ms {took[-1] * 1e3:.1f}')


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/release')
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 285
    os.environ['SONDE_BUILD'] = build
    from sonde_e2e import Daemon
    with tempfile.TemporaryDirectory(dir='/var/tmp') as d:
        os.chmod(d, 0o755)
        with open(f'{d}/scraper.yml', 'w') as f:
            f.write('scrape_configs: []\n')
        files = make_files(d, n, samples)
        with Daemon('sonde-scraper', f'--config.file={d}/scraper.yml', f'--storage.path={d}/data', '--query.cache-bytes=0') as s:
            asking = Asking(s.port)
            asking.start()
            marks = [(time.monotonic(), cpu_of(s.p.pid))]
            import_all(s.port, files)
            marks.append((time.monotonic(), cpu_of(s.p.pid)))
            settled = settle(s)
            cpu = cpu_of(s.p.pid)
            time.sleep(QUIET_S)
            asking.over = True
            asking.join()
            end = time.monotonic()
            print(f'settle_profiles {n} blocks {len(s.get("/api/v1/status/tsdb/blocks").json["data"]["blocks"])} compactions {compactions(s):.0f}')
            report('importing', marks[0][0], marks[1][0], asking.between(marks[0][0], marks[1][0]), marks[1][1] - marks[0][1])
            report('settling', marks[1][0], settled, asking.between(marks[1][0], settled), cpu - marks[1][1])
            report('settled', settled, end, asking.between(settled, end), cpu_of(s.p.pid) - cpu)


if __name__ == '__main__':
    main()
