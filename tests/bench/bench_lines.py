#!/usr/bin/env python3
"""Files, lines and inlined calls of 20,000 addresses beside llvm-symbolizer, the making of the symbol file included: CPU time of both in
one run, their ratio, and how many answers are the same. usage: bench_lines.py BUILD_DIR [FILE …]; without files the build's own programs
and, where pyenv has one, a libpython with debug information."""
import glob
import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../e2e'))
os.environ['SONDE_BUILD'] = os.path.abspath(sys.argv[1])
import test_lines as t  # noqa: E402

RUNS = 5
LOOKUPS = 20000


def timed(f, *args):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = f(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return answer, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench(path):
    addresses = t.addresses_of(path, LOOKUPS)
    mine, peer = [], []
    for _ in range(RUNS):
        a, seconds = timed(t.ours, path, addresses)
        mine.append(seconds)
        b, seconds = timed(t.theirs, path, addresses)
        peer.append(seconds)
    symbols = t.symbols_of(path)
    equal = sum(t.same(p, q, symbols) for p, q in zip(a, b))
    ours, theirs = statistics.median(mine), statistics.median(peer)
    print(f'{os.path.basename(path)}: {len(addresses)} look-ups, {sum(len(q) > 1 for q in b)} with inlined calls: {ours * 1000:.0f} ms CPU, '
          f'llvm-symbolizer {theirs * 1000:.0f} ms: {theirs / ours:.1f} times; {100 * equal / len(addresses):.3f} % the same')


def main():
    build = sys.argv[1]
    pyenv = sorted(glob.glob(os.path.expanduser('~/.pyenv/versions/*/lib/libpython3.1*.so.1.0')))[-1:]
    for path in sys.argv[2:] or [f'{build}/sonde-scraper', f'{build}/sonde-exporter'] + pyenv:
        bench(path)


if __name__ == '__main__':
    main()
