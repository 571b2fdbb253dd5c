"""A flame graph of a million frames, none left out, in a browser: what its first picture costs from the arrival of the answer, and what
120 frames of zooming cost. usage: bench_flame.py BUILD_DIR [--profile PATH]   (PATH.load.cpuprofile, PATH.zoom.cpuprofile: of the page)"""
import argparse
import json
import os
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
parser = argparse.ArgumentParser()
parser.add_argument('build')
parser.add_argument('--profile')
args = parser.parse_args()
os.environ['SONDE_BUILD'] = args.build

from filled import CPU  # noqa: E402
from sonde_e2e import http_get, scraper  # noqa: E402
from test_ui import CHROMIUM, NODES, large_profile, missing  # noqa: E402

why = missing()
if why:
    print(f'skipped: {why}')
    sys.exit()
with scraper('scrape_configs: []\n') as s:
    r = http_get(f'{s.url}/api/v1/import?name=process_cpu&label.service_name=app', method='POST', body=large_profile(int(time.time()) * 10**9), timeout=120)
    assert r.status == 200, r.text
    url = f'{s.url}/?view=flame&nodes={NODES}&query={CPU}%7B%7D'
    p = subprocess.run(['node', f'{TOP}/build/npm/browser/flame_bench.mjs', CHROMIUM, url, *([args.profile] if args.profile else [])], stdout=subprocess.PIPE, text=True, timeout=400, check=True)
for name, value in json.loads(p.stdout).items():
    print(f'{name:24} {value:.2f}' if isinstance(value, float) else f'{name:24} {value}')
