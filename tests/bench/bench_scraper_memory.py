#!/usr/bin/env python3
"""Memory and CPU of the scraper with 100 targets at 10 s (or another interval, for the CPU of one scrape): real profiles, WAL and store on.

usage: bench_scraper_memory.py BUILD_DIR [--targets 100] [--interval 10] [--seconds 120]
The targets are 100 addresses of 127/8 on one server that answers as a Go program does: eight different captured profiles in turn, each with times
of its own (tests/bench/corpus.py).
"""
import argparse
import http.server
import os
import socketserver
import statistics
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
from bench_sampler import cpu_of, pss_mb  # noqa: E402
import corpus  # noqa: E402
from sonde_e2e import scraper  # noqa: E402

SAMPLES = 285


class Target(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    profiles = []
    served = 0

    def log_message(self, *a):
        pass

    def do_GET(self):
        Target.served += 1
        body = corpus.with_time(Target.profiles[Target.served % len(Target.profiles)], time.time_ns() - 9 * 10**9, 9 * 10**9)
        self.send_response(200)
        self.send_header('Content-Type', 'application/octet-stream')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--targets', type=int, default=100)
    ap.add_argument('--interval', type=int, default=10)
    ap.add_argument('--seconds', type=int, default=120)
    a = ap.parse_args()
    os.environ['SONDE_BUILD'] = os.path.abspath(a.build)
    Target.profiles = [corpus.profile(SAMPLES, seed) for seed in range(8)]
    server = Server(('0.0.0.0', 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    targets = ', '.join(f"'127.0.{1 + i // 200}.{1 + i % 200}:{port}'" for i in range(a.targets))
    config = f'''
scrape_configs:
  - job_name: go
    scrape_interval: {a.interval}s
    profiling_config:
      preset: go
      pprof_config:
        memory: {{enabled: false}}
        block: {{enabled: false}}
        mutex: {{enabled: false}}
        goroutine: {{enabled: false}}
    static_configs: [{{targets: [{targets}]}}]
'''
    with scraper(config) as s:
        pss, t0, c0, served = [], time.time(), cpu_of(s.p.pid), Target.served
        while time.time() - t0 < a.seconds:
            time.sleep(2)
            pss.append(pss_mb(s.p.pid)[0])
        cpu, served = cpu_of(s.p.pid) - c0, Target.served - served
        m = s.metrics()
    stored = sum(v for k, v in m.items() if k.startswith('sonde_store_appended_profiles_total'))
    samples = sum(v for k, v in m.items() if k.startswith('sonde_scrape_samples_total'))
    if stored < served or samples < served * SAMPLES:
        sys.exit(f'{served} scrapes served, but {stored:.0f} profiles stored with {samples:.0f} values')
    print(f'scraper_{a.targets}_targets_pss_max {max(pss):.1f} MB median {statistics.median(pss):.1f} MB')
    print(f'scraper_{a.targets}_targets_cpu {100 * cpu / a.seconds:.2f} % of a core, {served} scrapes served, {stored:.0f} profiles stored')
    print(f'scraper_cpu_per_scrape {1000 * cpu / served:.3f} ms')


if __name__ == '__main__':
    main()
