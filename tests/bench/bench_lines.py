#!/usr/bin/env python3
"""Files, lines and inlined calls of 20,000 addresses beside llvm-symbolizer, the making of the symbol file included: CPU time of both in
one run, their ratio, and how many answers are the same. usage: bench_lines.py BUILD_DIR [FILE …]; without files the build's own programs,
where pyenv has one, a libpython with debug information, and libc, where its debug file is there (package libc6-dbg: compressed sections).
A stripped file is measured with the debug file of its build id, which llvm-symbolizer finds by itself."""
import glob
import os
import re
import resource
import statistics
import subprocess
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


def debug_file_of(path):
    """Where Debian's packages have it; None: not there, or the file has what it needs itself."""
    shown = subprocess.run(['readelf', '-nSW', path], capture_output=True, text=True).stdout
    build_id = re.search(r'Build ID: ([0-9a-f]+)', shown)
    debug = build_id and f'/usr/lib/debug/.build-id/{build_id[1][:2]}/{build_id[1][2:]}.debug'
    return debug if debug and '.debug_info' not in shown and os.path.exists(debug) else None


def same(p, q, symbols, named):
    """A function's outermost name is the symbol table's in ours where that has one, and DWARF's in theirs: of a debug file they may differ."""
    return t.same(p, q, symbols) or (not named and p and q and p[:-1] == q[:-1] and p[-1][1:] == q[-1][1:])


def bench(path):
    addresses = t.addresses_of(path, LOOKUPS)
    debug = debug_file_of(path)
    mine, peer = [], []
    for _ in range(RUNS):
        a, seconds = timed(t.ours, path, addresses, debug)
        mine.append(seconds)
        b, seconds = timed(t.theirs, path, addresses)
        peer.append(seconds)
    symbols = t.symbols_of(debug or path)
    equal, named = (sum(same(p, q, symbols, named) for p, q in zip(a, b)) for named in (not debug, True))
    ours, theirs = statistics.median(mine), statistics.median(peer)
    print(f'{os.path.basename(path)}{" and its debug file" if debug else ""}: {len(addresses)} look-ups, '
          f'{sum(len(q) > 1 for q in b)} with inlined calls: {ours * 1000:.0f} ms CPU, '
          f'llvm-symbolizer {theirs * 1000:.0f} ms: {theirs / ours:.1f} times; {100 * equal / len(addresses):.3f} % the same'
          + (f' but for names of outermost functions, {100 * named / len(addresses):.3f} % with them' if debug else ''))


def main():
    build = sys.argv[1]
    pyenv = sorted(glob.glob(os.path.expanduser('~/.pyenv/versions/*/lib/libpython3.1*.so.1.0')))[-1:]
    libc = [path for path in glob.glob('/lib/*-linux-gnu/libc.so.6') if debug_file_of(path)]
    for path in sys.argv[2:] or [f'{build}/sonde-scraper', f'{build}/sonde-exporter'] + pyenv + libc:
        bench(path)


if __name__ == '__main__':
    main()
