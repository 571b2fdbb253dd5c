#!/usr/bin/env python3
"""sonde merge beside `go tool pprof -proto`: 100 profiles with real stacks (corpus.py), gzip in and out, ABBA, medians.

usage: bench_merge.py BUILD_DIR [PROFILES] [SAMPLES]
Wall time, user + system time and peak RSS are those of the process; per-function totals of both results must be equal.
One line a figure: name value unit peer value ratio.
"""
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import corpus  # noqa: E402

GO = '/usr/bin/go'
ROUNDS = 5


def launcher():
    """tests/bench/rusage.c, compiled."""
    path = f'{corpus.TOP}/build/bench/rusage'
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(['cc', '-O2', '-o', path, f'{corpus.TOP}/tests/bench/rusage.c'], check=True)
    return path


def run(rusage, cmd):
    """(wall seconds, CPU seconds, peak RSS in MB) of a program."""
    p = subprocess.run([rusage, *cmd], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    status, wall, cpu, rss_kb = p.stderr.splitlines()[-1].split() if not p.returncode else ('1', 0, 0, 0)
    if status != '0':
        sys.exit(f'{cmd[0]} failed: {p.stderr}')
    return float(wall), float(cpu), float(rss_kb) / 1024


def totals(path):
    """The table of all functions as pprof sees them."""
    out = subprocess.run([GO, 'tool', 'pprof', '-top', '-nodecount=1000000', '-nodefraction=0', '-edgefraction=0', path],
                         capture_output=True, text=True, check=True).stdout
    return sorted(out[out.index('flat%'):].split('\n')[1:])


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/release')
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 285
    pprof = subprocess.run([GO, 'tool', '-n', 'pprof'], capture_output=True, text=True, check=True).stdout.strip()
    rusage, stacks = launcher(), corpus.pool()
    with tempfile.TemporaryDirectory() as d:
        files = []
        for i in range(n):
            files.append(f'{d}/{i:04}.pb.gz')
            with open(files[-1], 'wb') as f:
                f.write(corpus.with_time(corpus.profile(samples, i, stacks), 1_700_000_000_000_000_000 + i * 10**10, 10**10))
        ours, theirs = [], []
        our_cmd = [f'{build}/sonde', 'merge', '-o', f'{d}/ours.pb.gz', *files]
        their_cmd = [pprof, '-proto', '-symbolize=none', f'-output={d}/theirs.pb.gz', *files]
        run(rusage, our_cmd), run(rusage, their_cmd)
        for _ in range(ROUNDS):
            ours.append(run(rusage, our_cmd))
            theirs += [run(rusage, their_cmd), run(rusage, their_cmd)]
            ours.append(run(rusage, our_cmd))
        a = [statistics.median(x[i] for x in ours) for i in range(3)]
        b = [statistics.median(x[i] for x in theirs) for i in range(3)]
        name = f'merge_{n}x{samples}'
        print(f'{name}_wall {a[0] * 1e3:.1f} ms go-pprof {b[0] * 1e3:.1f} {b[0] / a[0]:.1f}x')
        print(f'{name}_cpu {a[1] * 1e3:.1f} ms go-pprof {b[1] * 1e3:.1f} {b[1] / a[1]:.1f}x')
        print(f'{name}_rss {a[2]:.1f} MB go-pprof {b[2]:.1f} {b[2] / a[2]:.1f}x')
        sizes = os.path.getsize(f'{d}/ours.pb.gz'), os.path.getsize(f'{d}/theirs.pb.gz')
        print(f'{name}_bytes {sizes[0]} bytes go-pprof {sizes[1]} {sizes[0] / sizes[1]:.2f}x')
        equal = totals(f'{d}/ours.pb.gz') == totals(f'{d}/theirs.pb.gz')
        print(f'{name}_totals_equal {int(equal)} bool go-pprof 1 1x')
        return 0 if equal else 1


if __name__ == '__main__':
    sys.exit(main())
