#!/usr/bin/env python3
"""Is the rate that was asked for kept? 99 Hz with the default --profile.max-overhead, beside two real compilers and beside a storm of processes.

usage: bench_rate.py BUILD_DIR [--seconds 90] [--hz 99]

Each load runs on every CPU from before the exporter starts, which has no symbol files yet: making them is part of it. Printed are the lowest rate of all
seconds, what the rate costs, and what all costs, as shares of all CPUs' time.
"""
import argparse
import os
import re
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
import busy
import sonde_e2e

SOURCE = f'{TOP}/build/bench/rate.c'


def make_source():
    """Some ten seconds for a compiler: no network is needed."""
    os.makedirs(os.path.dirname(SOURCE), exist_ok=True)
    with open(SOURCE, 'w') as f:
        f.write('#include <stdio.h>\n#include <string.h>\n')
        for i in range(1200):
            f.write(f'int f{i}(int *a, int n, const char *s) {{ int r = {i}; for (int k = 0; k < n; k++) {{ if (a[k] % {i % 7 + 2} == 0) r += a[k] * {i}; '
                    f'else r ^= (int)strlen(s + k % 3); switch (r % 5) {{ case 0: r += k; break; case 1: r -= k * 3; break; default: r ^= k; }} }} '
                    f'if (r > {i * 3}) printf("%d %s\\n", r, s); return r; }}\n')


def value(text, name):
    return sum(float(v) for v in re.findall(r'(?m)^' + name + r'(?:\{[^}]*\})? (\S+)$', text))


def run(name, script, o):
    lowest, end = o.hz, time.monotonic() + o.seconds
    with busy.shells(os.cpu_count(), f'while :; do {script}; done', o.seconds + 60), \
            sonde_e2e.exporter('--symbols.cache-path=', f'--profile.frequency={o.hz}') as d:
        while time.monotonic() < end:
            time.sleep(1)
            text = d.get('/metrics').text
            lowest = min(lowest, value(text, 'sonde_profile_frequency_hz'))
    print(f'{name}: {o.hz} Hz asked for, lowest {lowest:.0f} Hz in {o.seconds} s; the rate costs {100 * value(text, "sonde_rate_overhead_ratio"):.2f} %, '
          f'all {100 * value(text, "sonde_overhead_ratio"):.2f} %, coverage {value(text, "sonde_sampling_coverage_ratio"):.3f}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--seconds', type=int, default=90)
    p.add_argument('--hz', type=int, default=99)
    o = p.parse_args()
    os.environ['SONDE_BUILD'] = os.path.abspath(o.build)
    make_source()
    run('compilers', f'gcc -O2 -w -c -o /dev/null {SOURCE}', o)
    run('storm of processes', '/bin/true', o)


if __name__ == '__main__':
    main()
