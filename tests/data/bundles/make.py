#!/usr/bin/env python3
"""Captures a bundle of tests/e2e/stacks in three modes and cuts it down to what its samples need.

usage: sudo tests/data/bundles/make.py BUILD_DIR OUT

Kept: samples and side-band records of the three processes, every drain, answers about them, the workload's binary (stripped of
its debug sections), the lines of kallsyms that name their kernel frames. Everything else that was captured stays private.
"""
import bisect
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

DRAIN, SAMPLE, SIDEBAND, ANSWER, BLOB = 1, 2, 3, 4, 5
WHAT_MAPS, WHAT_KALLSYMS, WHAT_MODULES = 1, 6, 8


def entries(data):
    i = 16
    while i < len(data):
        kind, n = struct.unpack_from('<II', data, i)
        yield kind, data[i + 8:i + 8 + n]
        i += 8 + n + -n % 8


def entry(kind, body):
    return struct.pack('<II', kind, len(body)) + body + b'\0' * (-len(body) % 8)


def sideband_pid(rec):
    return struct.unpack_from('<I', rec, 8)[0]


def kernel_frames(rec):
    n = struct.unpack_from('<H', rec, 4)[0]
    return [w & ((1 << 60) - 1) | 0xf << 60 for w in struct.unpack_from(f'<{n}Q', rec, 88)]


def trim_kallsyms(text, frames):
    lines = sorted(text.decode().splitlines(), key=lambda x: int(x.split()[0], 16))
    starts = [int(x.split()[0], 16) for x in lines]
    keep = set()
    for f in frames:
        i = bisect.bisect_right(starts, f)
        keep |= {j for j in (i - 1, i) if 0 <= j < len(lines)}
        while i > 1 and starts[i - 2] == starts[i - 1]:  # aliases: which one is chosen must not change
            i -= 1
            keep.add(i - 1)
    keep |= {j for j, x in enumerate(lines) if x.split()[2] in ('_text', '_stext', '_etext', '_sinittext', '_einittext')}
    return ('\n'.join(lines[j] for j in sorted(keep)) + '\n').encode()


def trim(data, pids):
    blobs = {b[:32]: b[32:] for k, b in entries(data) if k == BLOB}
    frames = {f for k, b in entries(data) if k == SAMPLE and struct.unpack_from('<I', b, 32)[0] in pids for f in kernel_frames(b)}
    out, written = data[:16], set()
    for kind, b in entries(data):
        if kind == SAMPLE and struct.unpack_from('<I', b, 32)[0] not in pids:
            continue
        if kind == SIDEBAND and sideband_pid(b) not in pids:
            continue
        if kind == BLOB:
            continue
        if kind == ANSWER:
            op, what, pid = struct.unpack_from('<HHI', b, 0)
            if op != 1 or (what not in (WHAT_KALLSYMS, WHAT_MODULES) and pid not in pids):
                continue
            if struct.unpack_from('<I', b, 52)[0]:
                blob = blobs[b[72:104]]
                if what == WHAT_KALLSYMS:
                    blob = trim_kallsyms(blob, frames)
                elif what == WHAT_MODULES:
                    blob = b''
                elif blob[:4] == b'\x7fELF' and b'leaf_work' not in blob:
                    continue  # the C library and the like
                digest = hashlib.sha256(blob).digest()
                if digest not in written:
                    out += entry(BLOB, digest + blob)
                    written.add(digest)
                b = b[:72] + digest + b[104:]
        out += entry(kind, b)
    return out


def main():
    build, target = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory(dir='/var/tmp') as d:
        os.chmod(d, 0o777)
        subprocess.run(['strip', '-g', '-o', f'{d}/stacks', f'{build}/tests/e2e/stacks'], check=True)
        os.chmod(f'{d}/stacks', 0o755)
        e = subprocess.Popen([f'{build}/sonde-exporter', '--web.listen-address=127.0.0.1:0', f'--debug.capture={d}/bundle',
                              '--symbols.cache-path=', '--profile.frequency=49'])
        time.sleep(3)
        load = [subprocess.Popen([f'{d}/stacks', *mode]) for mode in (['chain'], ['recurse', '300'], ['kernel'])]
        time.sleep(4)
        for p in load:
            p.kill()
            p.wait()
        time.sleep(1)
        e.terminate()
        e.wait()
        with open(f'{d}/bundle', 'rb') as f:
            small = trim(f.read(), {p.pid for p in load})
        with open(f'{d}/small', 'wb') as f:
            f.write(small)
        shutil.copyfile(f'{d}/small', target)
        print(f'{target}: {len(small)} bytes')


if __name__ == '__main__':
    main()
