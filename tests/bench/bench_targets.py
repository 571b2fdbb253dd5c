#!/usr/bin/env python3
"""The scraper with thousands of targets: CPU and memory, and when it asks whom.

usage: bench_targets.py BUILD_DIR [--targets 10000] [--interval 10] [--seconds 60] [--warm 30] [--broken 0] [--restart]
The targets are addresses of 127/8 on one server process (load_targets.c, compiled here): eight captured profiles of 285 samples, about 30 KB gzip,
over kept-alive connections. WAL and store are on. --broken 3: a third of the targets fails or hangs. --restart: the scraper starts a second time, and
offsets are compared. An interval between two scrapes of a target counts unless a control timer of the server process stalled during it.
"""
import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
from bench_sampler import cpu_of, pss_mb  # noqa: E402
import array  # noqa: E402
import bisect  # noqa: E402
import corpus  # noqa: E402
from sonde_e2e import scraper  # noqa: E402

SAMPLES, FILES, STALL, RECORD_BYTES = 285, 8, 0xffffffff, 16
WINDOW_NS = 9 * 10**9


def address(i):
    return f'127.{1 + (i >> 16)}.{i >> 8 & 255}.{i & 255}'


class Load:
    """The server process."""

    def __init__(self, directory, broken):
        program = f'{TOP}/build/bench/load_targets'
        os.makedirs(os.path.dirname(program), exist_ok=True)
        subprocess.run(['cc', '-O2', '-pthread', '-o', program, f'{TOP}/tests/bench/load_targets.c'], check=True)
        files, pool = [], corpus.pool()
        for i in range(FILES):
            files.append(f'{directory}/{i}.pb.gz')
            with open(files[-1], 'wb') as f:
                # Without time_nanos: the scraper takes the time of the answer.
                f.write(gzip.compress(corpus.profile(SAMPLES, i, pool) + corpus.num(10, WINDOW_NS), 6))
        self.log = f'{directory}/arrivals'
        self.p = subprocess.Popen([program, self.log, str(broken), *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.p.stdout.readline())

    def stop(self):
        """CPU seconds; arrivals by target; stalls as (from, to). Times in nanoseconds of CLOCK_MONOTONIC."""
        self.p.stdin.close()
        cpu = float(self.p.stdout.readline())
        self.p.wait()
        with open(self.log, 'rb') as f:
            raw = f.read()
        who, times = array.array('I', raw), array.array('q', raw)
        arrivals, stalls = {}, []
        for i in range(len(raw) // RECORD_BYTES):
            target, length_us, t = who[4 * i], who[4 * i + 1], times[2 * i + 1]
            if target == STALL:
                stalls.append((t - length_us * 1000, t))
            else:
                arrivals.setdefault(target, []).append(t)
        return cpu, arrivals, stalls


def intervals(arrivals, stalls, interval_ns, since_ns, until_ns):
    """Deviations of intervals from the nominal one, as a share of it; those that a stall touched apart."""
    ends = sorted(end for _, end in stalls)
    quiet, stalled = [], 0
    for times in arrivals.values():
        for a, b in zip(times, times[1:]):
            if a < since_ns or b > until_ns:
                continue
            # a start is late by a stall that ended shortly before it
            if any(bisect.bisect(ends, t + 2 * 10**6) != bisect.bisect(ends, t - 200 * 10**6) for t in (a, b)):
                stalled += 1
            else:
                quiet.append(abs(b - a - interval_ns) / interval_ns)
    return quiet, stalled


def offsets(arrivals, interval_ns, real_minus_mono_ns, since_ns, until_ns):
    """The median offset of each target within its interval, of absolute time."""
    return {t: statistics.median_low([(x + real_minus_mono_ns) % interval_ns for x in times if since_ns <= x <= until_ns] or [-1])
            for t, times in arrivals.items()}


def measure(s, seconds):
    t0, c0, m0, pss = time.monotonic_ns(), cpu_of(s.p.pid), s.metrics(), []
    while time.monotonic_ns() - t0 < seconds * 10**9:
        time.sleep(2)
        pss.append(pss_mb(s.p.pid)[0])
    wall = (time.monotonic_ns() - t0) / 1e9
    cpu, m1 = cpu_of(s.p.pid) - c0, s.metrics()
    return {'from': t0, 'to': time.monotonic_ns(), 'wall': wall, 'cpu': cpu, 'pss': max(pss),
            'stored': sum(v - m0.get(k, 0) for k, v in m1.items() if k.startswith('sonde_store_appended_records_total')),
            'samples': sum(v - m0.get(k, 0) for k, v in m1.items() if k.startswith('sonde_scrape_samples_total'))}


def config_of(a, port):
    targets = '\n'.join(f"          - '{address(i)}:{port}'" for i in range(a.targets))
    return f'''
scrape_configs:
  - job_name: load
    scrape_interval: {a.interval}s
    scrape_timeout: {max(a.interval // 2, 1)}s
    profiling_config:
      preset: go
      pprof_config:
        process_cpu: {{seconds: 1}}
        memory: {{enabled: false}}
        block: {{enabled: false}}
        mutex: {{enabled: false}}
        goroutine: {{enabled: false}}
    static_configs:
      - targets:
{targets}
'''


def report(name, a, m, arrivals, stalls, is_broken):
    good = {t: x for t, x in arrivals.items() if not is_broken(t)}
    quiet, stalled = intervals(good, stalls, a.interval * 10**9, m['from'], m['to'])
    asked = sum(m['from'] <= x <= m['to'] for times in arrivals.values() for x in times)
    print(f'{name}_scrapes {asked / m["wall"]:.0f} /s for {m["wall"]:.0f} s, {m["stored"] / m["wall"]:.0f} records stored /s, '
          f'{m["samples"] / m["wall"]:.0f} values /s')
    print(f'{name}_cpu {100 * m["cpu"] / m["wall"]:.1f} % of a core, {1000 * m["cpu"] / max(asked, 1):.3f} ms a scrape')
    print(f'{name}_pss_max {m["pss"]:.0f} MB')
    within = [sum(x <= share for x in quiet) / max(len(quiet), 1) for share in (.01, .1)]
    print(f'{name}_intervals {len(quiet)} of {len(quiet) + stalled} without a stall: {100 * within[0]:.3f} % within 1 %, {100 * within[1]:.3f} % within 10 %, '
          f'worst {100 * max(quiet, default=0):.2f} %; {len(stalls)} stalls of {sum(e - b for b, e in stalls) / 1e9:.2f} s in all')


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--targets', type=int, default=10000)
    ap.add_argument('--interval', type=int, default=10)
    ap.add_argument('--seconds', type=int, default=60)
    ap.add_argument('--warm', type=int, default=30)
    ap.add_argument('--broken', type=int, default=0)
    ap.add_argument('--restart', action='store_true')
    ap.add_argument('--flag', action='append', default=[], help='of the scraper')
    a = ap.parse_args()
    os.environ['SONDE_BUILD'] = os.path.abspath(a.build)
    shift, runs = time.time_ns() - time.monotonic_ns(), []
    with tempfile.TemporaryDirectory() as d:
        load = Load(d, a.broken)
        for _ in range(2 if a.restart else 1):
            with scraper(config_of(a, load.port), *a.flag) as s:
                time.sleep(a.warm)
                runs.append(measure(s, a.seconds))
        cpu, arrivals, stalls = load.stop()
    report('targets', a, runs[0], arrivals, stalls, lambda t: a.broken and t % a.broken == 0)
    print(f'load_cpu {cpu:.1f} s in all')
    first = offsets(arrivals, a.interval * 10**9, shift, runs[0]['from'], runs[0]['to'])
    buckets = [0] * a.interval
    for off in first.values():
        buckets[off // 10**9] += 1
    mean = a.targets / a.interval
    print(f'targets_asked {len(first)} of {a.targets}; offsets in 1 s buckets: {min(buckets) / mean:.3f} to {max(buckets) / mean:.3f} of the mean')
    if a.restart:
        report('restarted', a, runs[1], arrivals, stalls, lambda t: a.broken and t % a.broken == 0)
        second = offsets(arrivals, a.interval * 10**9, shift, runs[1]['from'], runs[1]['to'])
        moved = [min((first[t] - second[t]) % (a.interval * 10**9), (second[t] - first[t]) % (a.interval * 10**9)) for t in first if t in second]
        print(f'offsets_after_restart {len(moved)} targets, {sum(x > a.interval * 10**7 for x in moved)} moved by more than 1 % of the interval, '
              f'median {statistics.median(moved) / 1e6:.2f} ms')


if __name__ == '__main__':
    main()
