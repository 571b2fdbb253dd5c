"""Profiles with real stacks for the benchmarks: recorded once by perf from `clang -O2` on the SQLite amalgamation (dwarf call graphs), drawn with a seed.

The pool is kept in build/bench/pool.json. profile(rows, seed) gives a gzipped pprof; with_time() sets its times without re-encoding.
"""
import gzip
import json
import os
import random
import re
import subprocess
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POOL = f'{TOP}/build/bench/pool.json'
MAPPING = 1 << 28
MIN_STACKS = 1000


def record():
    """Stacks (leaf first, [function, module] pairs) with their counts, most frequent first."""
    from bench_sampler import sqlite_source
    os.makedirs(os.path.dirname(POOL), exist_ok=True)
    data = POOL + '.perf'
    subprocess.run(['perf', 'record', '-q', '-B', '-N', '-F', '499', '-e', 'cpu-clock', '--call-graph', 'dwarf,16384', '-o', data, '--', 'timeout', '25',
                    'clang-14', '-O2', '-w', '-c', '-o', '/dev/null', sqlite_source()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run(['perf', 'script', '--no-inline', '-i', data, '-F', 'ip,sym,dso'], capture_output=True, text=True, errors='replace').stdout
    pool, stack = {}, []
    for line in text.split('\n'):
        m = re.match(r'\s*([0-9a-f]+) (.*) \((.*)\)$', line)
        if m:
            stack.append((m[2] if m[2] != '[unknown]' else '0x' + m[1], m[3]))
        elif not line.strip() and stack:
            pool[tuple(stack)] = pool.get(tuple(stack), 0) + 1
            stack = []
    os.unlink(data)
    if len(pool) < MIN_STACKS:
        raise RuntimeError(f'perf recorded {len(pool)} stacks of clang-14, at least {MIN_STACKS} are needed')
    ordered = sorted(pool.items(), key=lambda x: -x[1])
    with open(POOL, 'w') as f:
        json.dump([[list(k), n] for k, n in ordered], f)


def pool():
    if not os.path.exists(POOL):
        record()
    with open(POOL) as f:
        return json.load(f)


def varint(v):
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def num(field, v):
    return varint(field << 3) + varint(v)


def blob(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def encode(rows, period=10101010):
    """pprof bytes without times, which with_time() appends: rows are (stack, count)."""
    strings = {'': 0}

    def s(x):
        return strings.setdefault(x, len(strings))
    maps, funcs, locs, out = {}, {}, {}, bytearray()
    for a, b in (('samples', 'count'), ('cpu', 'nanoseconds')):
        out += blob(1, num(1, s(a)) + num(2, s(b)))
    for stack, n in rows:
        ids = b''
        for name, dso in stack:
            m = maps.setdefault(dso, len(maps) + 1)
            f = funcs.setdefault((name, dso), len(funcs) + 1)
            ids += varint(locs.setdefault((f, m), len(locs) + 1))
        out += blob(2, blob(1, ids) + blob(2, varint(n) + varint(n * period)))
    for dso, i in maps.items():
        out += blob(3, num(1, i) + num(2, MAPPING * i) + num(3, MAPPING * (i + 1)) + num(5, s(dso)) + num(7, 1))
    names = list(funcs)
    for (f, m), i in locs.items():
        # A function has one address in its file, whatever else a profile holds.
        out += blob(4, num(1, i) + num(2, m) + num(3, MAPPING * m + zlib.crc32(names[f - 1][0].encode()) % MAPPING) + blob(4, num(1, f)))
    for (name, _), i in funcs.items():
        out += blob(5, num(1, i) + num(2, s(name)) + num(3, s(name)))
    out += blob(11, num(1, s('cpu')) + num(2, s('nanoseconds'))) + num(12, period)
    for x in strings:
        out += blob(6, x.encode())
    return bytes(out)


def draw(stacks, rows, rnd):
    """A skewed draw, as real profiles have: a third from the head, the rest from anywhere."""
    picked = set()
    while len(picked) < min(rows, len(stacks)):
        if rnd.random() < .35:
            picked.add(min(int(rnd.paretovariate(.35)) - 1, len(stacks) - 1))
        else:
            picked.add(rnd.randrange(len(stacks)))
    return [(stacks[i][0], 1 + int(rnd.expovariate(1))) for i in sorted(picked)]


def profile(rows, seed, stacks=None):
    return encode(draw(stacks or pool(), rows, random.Random(seed)))


def with_time(raw, time_ns, duration_ns):
    """A gzipped copy with its times: two members of one gzip stream would do, but one is what targets send."""
    return gzip.compress(raw + num(9, time_ns) + num(10, duration_ns), 1)
