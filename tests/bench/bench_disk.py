#!/usr/bin/env python3
"""Bytes on disk beside the gzipped profiles that were scraped: exporter and scraper on a compiler load and on a repetitive server load.

usage: bench_disk.py BUILD_DIR [--seconds 180] [--interval 10] [--only compiler|server]
The scraper pulls the exporter of this machine; then it is started again with a small --storage.head-bytes, so that all it holds becomes a block.
Figures: bytes of blocks (stacks and symbols included) over bytes of the answers as sent (gzip), and bytes a stored row.
"""
import argparse
import os
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
from bench_sampler import Load, sqlite_source  # noqa: E402
from sonde_e2e import Workload, exporter, scraper, wait_for  # noqa: E402

SERVER = '''
const http = require('http'), crypto = require('crypto');
const rows = Array.from({length: 200}, (_, i) => ({id: i, name: 'user' + i, tags: ['a', 'b', String(i % 7)]}));
const server = http.createServer((q, s) => {
  const body = JSON.stringify(rows.filter((r) => r.id % 3).map((r) => ({...r, sum: crypto.createHash('sha256').update(r.name).digest('hex')})));
  s.end(body);
}).listen(0, '127.0.0.1', () => {
  const agent = new http.Agent({keepAlive: true, maxSockets: 8});
  const ask = () => http.get({port: server.address().port, agent}, (r) => { r.resume(); r.on('end', ask); });
  for (let i = 0; i < 8; i++) ask();
});
'''


def size_of(folder):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk(folder) for f in names)


def measure(name, goal, seconds, interval):
    with tempfile.TemporaryDirectory(prefix='sonde-disk.') as data, exporter('--profile.max-overhead=0') as e:
        config = f'''
global: {{scrape_interval: {interval}s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ['127.0.0.1:{e.port}']}}]
'''
        with scraper(config, data=data) as s:
            time.sleep(seconds)
            m = s.metrics()
        sent = sum(v for k, v in m.items() if k.startswith('sonde_scrape_body_bytes_total'))
        rows = sum(v for k, v in m.items() if k.startswith('sonde_store_appended_rows_total'))
        with scraper('scrape_configs: []', '--storage.head-bytes=64KB', data=data) as s:
            wait_for('the block', lambda: s.metrics().get('sonde_store_blocks', 0) >= 1 and s.metrics().get('sonde_store_head_rows', 1) == 0, timeout=30)
            disk = size_of(f'{data}/blocks')
        print(f'disk_{name} {disk} bytes of_gzipped {sent:.0f} ratio {disk / sent:.4f} goal {goal} bytes_a_row {disk / max(1, rows):.2f} rows {rows:.0f}', flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--seconds', type=int, default=180)
    ap.add_argument('--interval', type=int, default=10)
    ap.add_argument('--only', choices=['compiler', 'server'])
    a = ap.parse_args()
    os.environ['SONDE_BUILD'] = os.path.abspath(a.build)
    if a.only != 'server':
        load = Load(sqlite_source(), 0)
        try:
            measure('compiler_load', 0.25, a.seconds, a.interval)
        finally:
            load.stop()
    if a.only != 'compiler':
        with Workload('node', '-e', SERVER):
            measure('server_load', 0.1, a.seconds, a.interval)


if __name__ == '__main__':
    main()
