#!/usr/bin/env python3
"""The exporter on an overloaded machine: how long /metrics takes beside hundreds of runnable processes, while profiles are scraped.

usage: bench_overload.py BUILD_DIR [--runnable 300] [--seconds 15] [-- FLAG...]

Each of the processes is of a session of its own, so that the kernel weighs each as it weighs the exporter (sched(7), autogroup). The client
comes before all others, so that its own turns do not count. Flags after -- go to the exporter (--priority=0 for comparison).
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
import busy
import sonde_e2e

SETTLE_S = 2
LIMIT_S = 30  # of the runnable processes, whatever happens


def value(text, name):
    return sum(float(v) for v in re.findall(r'(?m)^' + name + r'(?:\{[^}]*\})? (\S+)$', text))


def scrape(url, seen):
    """A profile each second, as a scraper asks for it."""
    cursor = ''
    while True:
        try:
            r = sonde_e2e.http_get(f'{url}/debug/pprof/profile?since={cursor}', timeout=30)
            cursor = r.headers['Sonde-Cursor'] or cursor
            seen.append(str(r.status))
        except OSError as e:
            seen.append(str(e))
        time.sleep(1)


def ask(url, seconds):
    """The client's process: waits for a line, then asks."""
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    with open('/proc/self/autogroup', 'w') as f:
        f.write('-20')
    sys.stdin.readline()
    took, scrapes, end = [], [], time.monotonic() + seconds
    first_at, first = time.monotonic(), sonde_e2e.http_get(f'{url}/metrics').text
    threading.Thread(target=scrape, args=(url, scrapes), daemon=True).start()
    while time.monotonic() < end:
        began = time.monotonic()
        last = sonde_e2e.http_get(f'{url}/metrics', timeout=60).text
        took.append(time.monotonic() - began)
        time.sleep(0.05)
    json.dump({'took': sorted(took), 'scrapes': scrapes, 'first': first, 'last': last, 'elapsed': time.monotonic() - first_at}, sys.stdout)


def measure(url, n_runnable, seconds):
    """{'took': sorted seconds of each request, 'scrapes': statuses of profiles, 'first' and 'last': texts of /metrics, and 'elapsed' between them}"""
    client = subprocess.Popen([sys.executable, __file__, '--ask', url, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, start_new_session=True)
    try:
        with busy.shells(n_runnable, 'while :; do :; done', LIMIT_S, own_sessions=True):
            time.sleep(SETTLE_S)
            return json.loads(client.communicate('go\n', timeout=LIMIT_S - SETTLE_S)[0])
    finally:
        client.kill()
        client.wait()


def percentile(took, share):
    return took[min(int(len(took) * share), len(took) - 1)]


def main():
    if sys.argv[1:2] == ['--ask']:
        ask(sys.argv[2], float(sys.argv[3]))
        return
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--runnable', type=int, default=300)
    p.add_argument('--seconds', type=int, default=15)
    at = sys.argv.index('--') if '--' in sys.argv else len(sys.argv)
    o = p.parse_args(sys.argv[1:at])
    os.environ['SONDE_BUILD'] = os.path.abspath(o.build)
    with sonde_e2e.exporter('--symbols.cache-path=', *sys.argv[at + 1:]) as d:
        r = measure(d.url, o.runnable, o.seconds)
    took, first, last = r['took'], r['first'], r['last']
    samples, lost = (value(last, name) - value(first, name) for name in ('sonde_samples_total', 'sonde_samples_dropped_total'))
    print(f'/metrics beside {o.runnable} runnable processes, {len(took)} requests: p50 {percentile(took, 0.5) * 1e3:.1f} ms, '
          f'p99 {percentile(took, 0.99) * 1e3:.0f} ms, max {took[-1] * 1e3:.0f} ms')
    print(f'profiles: {r["scrapes"].count("200")} of {len(r["scrapes"])}; rate {value(last, "sonde_profile_frequency_hz"):.0f} Hz of '
          f'{value(last, "sonde_profile_frequency_wanted_hz"):.0f}; samples {samples:.0f} in {r["elapsed"]:.1f} s, lost {lost:.0f}; '
          f'coverage {value(last, "sonde_sampling_coverage_ratio"):.3f}; own cost {100 * value(last, "sonde_overhead_ratio"):.2f} %')


if __name__ == '__main__':
    main()
