#!/usr/bin/env python3
"""What a walked stack costs in the kernel, beside what the kernel's own walk by frame pointer costs in the same run.

usage: tests/bench/bench_walk.py BUILD_DIR [--seconds N] [--rounds N] [--source FILE]

warm: one process per CPU stays 36 frames deep, and one of its stacks is walked 32 times within a tick (tests/bench/peers.bpf.c), so that
nothing else counts: by unwind table (built without frame pointers) and, in a second run with the same source built with them, by ours,
bpf_get_stackid and bpf_get_stack. clang: `clang -O2` on every CPU, whole samples with kernel stack, at 19, 99 and 997 Hz in turn,
--rounds times: what part of a compile a run meets, and how fast the memory of a shared machine is in that minute, move a sample's time
by a half, so medians count. Two things tell what the machine gives at that minute, to put a time beside the goals, which were set on
another machine. Before and after each run, in turn with it, an empty program and bpf_get_stack of the warm stack: how fast the CPU is. And
for 99 Hz a stack by the kernel on the same load at the same time: bpftrace's `profile:hz`, kernel and user stack by frame pointer counted by
command, which took BPFTRACE_US there. What a sample costs at that rate is mostly memory that is not in the CPU's caches, which a warm stack
knows nothing of and which this program waits for too; it runs two ticks a second more or less than ours, so that none follows the other.
load: CPU time of libbpf and the verifier for all programs of the exporter, by a program that does nothing else. Bytes are what came
through the rings, copies of stacks and the rings' own headers included, a sample.
Times are the kernel's BPF run-time statistics; runs on idle CPUs are few, as every CPU is kept busy.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
DEEP = '''
volatile unsigned long sink;
__attribute__((noinline, noipa)) void work(void) { for (;;) for (int i = 0; i < 1000; i++) sink += i; }
#define F(n, m) __attribute__((noinline, noipa)) void f##n(void) { volatile char room[40 + n]; room[n] = n; f##m(); sink += room[n]; }
__attribute__((noinline, noipa)) void f0(void) { volatile char room[9]; room[1] = 1; work(); sink += room[1]; }
F(1,0) F(2,1) F(3,2) F(4,3) F(5,4) F(6,5) F(7,6) F(8,7) F(9,8) F(10,9) F(11,10) F(12,11) F(13,12) F(14,13) F(15,14) F(16,15)
F(17,16) F(18,17) F(19,18) F(20,19) F(21,20) F(22,21) F(23,22) F(24,23) F(25,24) F(26,25) F(27,26) F(28,27) F(29,28) F(30,29)
int main(void) { f30(); return 0; }
'''


STACK_NS = 1940
BPFTRACE_US = 6.8


def set_stats(on):
    with open('/proc/sys/kernel/bpf_stats_enabled', 'w') as f:
        f.write('1' if on else '0')


def program_of(pid):
    """The sampler of the exporter with that keeper, as /proc tells: others may run beside it."""
    for fd in os.listdir(f'/proc/{pid}/fdinfo'):
        with open(f'/proc/{pid}/fdinfo/{fd}') as f:
            info = dict(line.split(None, 1) for line in f if len(line.split()) > 1)
        if info.get('prog_type:', '').strip() == '7':
            return {k.rstrip(':'): v.strip() for k, v in info.items()}
    raise RuntimeError('no perf_event program')


class Busy:
    """The command, once on each CPU, until stopped."""

    def __init__(self, *cmd):
        self.procs = [subprocess.Popen(['taskset', '-c', str(i), 'nice', '-n', '-20', *cmd], start_new_session=True, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL) for i in range(os.cpu_count())]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self.procs:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def maps_of(program):
    """Names and ids of its maps, as the helper wants them."""
    def show(what, number):
        return json.loads(subprocess.run(['bpftool', '-j', what, 'show', 'id', str(number)], capture_output=True, text=True, check=True).stdout)
    return [f"{m['name']}={m['id']}" for m in (show('map', i) for i in show('prog', program['prog_id'])['map_ids'])
            if m['name'] in ('heads', 'run_words', 'unwind_slabs', 'unwind_rules', 'unwind_binaries', 'unwind_cache', 'known_files')]


@contextlib.contextmanager
def exporter(build, hz, warm):
    """An exporter that has run that many seconds and is not busy with symbol files."""
    from sonde_e2e import Daemon, wait_for
    os.environ['SONDE_BUILD'] = build
    with Daemon('sonde-exporter', f'--profile.frequency={hz}', '--profile.max-overhead=0', '--symbols.cache-path=', '--symbols.max-cpu=1') as d:
        time.sleep(warm)
        wait_for('symbol files', lambda: not d.metrics()['sonde_symbol_queue_length'], timeout=120)
        yield d


def measure(build, hz, seconds, warm, peers=None, pid=0):
    """ns a run of ours, of each peer, and the exporter's counters over the time measured."""
    with exporter(build, hz, warm) as d:
        before, m0 = program_of(d.p.pid), d.metrics()
        costs = {}
        if peers:
            out = subprocess.run([f'{build}/tests/bpf/peers', peers, str(hz), str(seconds), str(pid), *maps_of(before)], capture_output=True, text=True,
                                 check=True).stdout
            costs = {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}
        else:
            time.sleep(seconds)
        after, m1 = program_of(d.p.pid), d.metrics()
        runs = int(after['run_cnt']) - int(before['run_cnt'])
        costs['ours'] = (int(after['run_time_ns']) - int(before['run_time_ns'])) / max(1, runs)
        delta = {k: m1[k] - m0.get(k, 0) for k in m1}
        costs['frames'] = sum(v for k, v in delta.items() if k.startswith('sonde_frames_total') and 'kernel' not in k) / max(1, runs)
        costs['kernel_frames'] = delta.get('sonde_frames_total{method="kernel"}', 0) / max(1, runs)
        whole = delta.get('sonde_stacks_total{event="cpu",result="complete"}', 0)
        costs['whole'] = whole / max(1, sum(v for k, v in delta.items() if k.startswith('sonde_stacks_total')))
        costs['bytes'] = delta['sonde_ring_read_bytes_total'] / max(1, delta['sonde_drain_samples_total'])
        costs['verified'], costs['runs'] = after['verified_insns'], runs
        return costs


def speed(build, d):
    """ns of bpf_get_stack of the warm stack, and of an empty program."""
    with Busy(f'{d}/deepfp') as busy:
        out = subprocess.run([f'{build}/tests/bpf/peers', f'{d}/peers.o', '199', '3', str(busy.procs[0].pid)], capture_output=True, text=True, check=True).stdout
    costs = {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}
    return costs['again_stack'], costs['peer_empty']


def runs_of_programs():
    """{id: (runs, ns)} of the perf_event programs that are loaded."""
    shown = json.loads(subprocess.run(['bpftool', '-j', 'prog', 'show'], capture_output=True, text=True, check=True).stdout)
    return {p['id']: (p.get('run_cnt', 0), p.get('run_time_ns', 0)) for p in shown if p['type'] == 'perf_event'}


@contextlib.contextmanager
def bpftrace(hz):
    p = subprocess.Popen(['bpftrace', '-e', f'profile:hz:{hz} {{ @[kstack, ustack, comm] = count(); }}'], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(8)
        yield
    finally:
        os.killpg(p.pid, signal.SIGKILL)  # asked to end it would name all stacks first
        p.wait()


def measure_beside_bpftrace(build, rates, seconds):
    """Microseconds a run of our sampler and of bpftrace's, at these rates at the same time."""
    with exporter(build, rates[0], 12) as d:
        ours, loaded = {int(program_of(d.p.pid)['prog_id'])}, set(runs_of_programs())
        with bpftrace(rates[1]):
            before = runs_of_programs()
            time.sleep(seconds)
            after = runs_of_programs()
    us = []
    for programs in (ours, set(before) - loaded):
        runs, ns = (sum(after[i][k] - before[i][k] for i in programs) for k in (0, 1))
        us.append(ns / runs / 1000)
    return us


def load_figures(build):
    """CPU ms of loading, median of five; instructions that the verifier went through by program."""
    times, verified = [], {}
    for _ in range(5):
        out = subprocess.run([f'{build}/tests/bpf/peers', f'{build}/bpf/sonde.bpf.all.o', '0', '0'], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            name, value, what = line.split()
            if what == 'verified':
                verified[name] = int(value)
            elif name == 'load':
                times.append(float(value))
    return statistics.median(times), verified


# A stack of 100 KB that is copied, of a process met for the first time, is a quarter of the bytes of 20 seconds at 19 Hz, of 4 at 99.
LEAST_SECONDS = {19: 60, 99: 20, 997: 10}
GOALS_US = {19: 30, 99: 15, 997: 10}


def whole_samples(build, d, a):
    """Prints a line a run, and the medians of each rate."""
    from bench_sampler import sqlite_source
    source = a.source or sqlite_source()
    load = ['sh', '-c', f'while :; do clang-14 -O2 -w -c -o /dev/null {source}; done']
    speeds, measured, normalised, sent, ratios = [speed(build, d)], {}, {}, {}, []
    for i in range(a.rounds):
        for hz, limit in GOALS_US.items():
            seconds = max(a.seconds, LEAST_SECONDS[hz])
            with Busy(*load):
                r = measure(build, hz, seconds, 12)
            speeds.append(speed(build, d))
            stack, empty = (statistics.mean(x) for x in zip(*speeds[-2:]))
            measured.setdefault(hz, []).append(r['ours'] / 1000)
            normalised.setdefault(hz, []).append((r['ours'] - empty) * STACK_NS / stack / 1000)
            sent.setdefault(hz, []).append(r['bytes'])
            print(f"walk_clang_{hz}hz {measured[hz][-1]:.1f} us a sample, {normalised[hz][-1]:.1f} at the goals' speed (goal {limit}; "
                  f"bpf_get_stack {stack:.0f} ns, an empty program {empty:.0f}), {r['frames']:.1f} user and {r['kernel_frames']:.1f} kernel frames, "
                  f"{100 * r['whole']:.2f} % whole, {r['bytes']:.0f} bytes (goal 350)", flush=True)
        if shutil.which('bpftrace'):
            with Busy(*load):
                ours, peer = measure_beside_bpftrace(build, (99, 97) if i % 2 == 0 else (97, 99), max(a.seconds, LEAST_SECONDS[99]))
            ratios.append(ours / peer)
            print(f'walk_clang_99hz_beside_bpftrace {ours:.1f} us a sample, bpftrace {peer:.1f} at the same time: {ratios[-1]:.2f} of it, '
                  f'{ratios[-1] * BPFTRACE_US:.1f} us where it takes {BPFTRACE_US} (goal {GOALS_US[99]})', flush=True)
    for hz, limit in GOALS_US.items():
        print(f"walk_clang_{hz}hz_median {statistics.median(measured[hz]):.1f} us a sample, {statistics.median(normalised[hz]):.1f} at the goals' speed "
              f"({min(normalised[hz]):.1f} to {max(normalised[hz]):.1f}; goal {limit}), "
              f"{statistics.median(sent[hz]):.0f} bytes ({min(sent[hz]):.0f} to {max(sent[hz]):.0f}; goal 350)")
    if not ratios:
        print('walk_clang_99hz_beside_bpftrace_median: not measured, bpftrace is not installed')
        return
    us = [r * BPFTRACE_US for r in (statistics.median(ratios), min(ratios), max(ratios))]
    print(f'walk_clang_99hz_beside_bpftrace_median {statistics.median(ratios):.2f} of bpftrace, {us[0]:.1f} us where it takes {BPFTRACE_US} '
          f'({us[1]:.1f} to {us[2]:.1f}; goal {GOALS_US[99]})')


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended by a signal'))  # and what it started with it
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--seconds', type=int, default=10)
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--source')
    a = ap.parse_args()
    build = os.path.abspath(a.build)
    set_stats(True)
    try:
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            with open(f'{d}/deep.c', 'w') as f:
                f.write(DEEP)
            subprocess.run(['gcc', '-O2', '-fomit-frame-pointer', '-o', f'{d}/deep', f'{d}/deep.c'], check=True)
            subprocess.run(['gcc', '-O2', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer', '-o', f'{d}/deepfp', f'{d}/deep.c'], check=True)
            subprocess.run(['clang-14', '-target', 'bpf', '-D__TARGET_ARCH_x86', '-O2', '-g', '-mcpu=v3', f'-I{TOP}', '-c', '-o', f'{d}/peers.o',
                            f'{TOP}/tests/bench/peers.bpf.c'], check=True)
            for program in ('deep', 'deepfp'):
                with Busy(f'{d}/{program}') as busy:
                    r = measure(build, 199, a.seconds, 3, f'{d}/peers.o', busy.procs[0].pid)
                    print(f"walk_warm_{program} {r['again_walk']:.0f} ns a stack of {r['again_frames']:.1f} frames, "
                          f"{r['again_walk'] / max(1, r['again_frames']):.1f} ns a frame (goal 60)", flush=True)
            print(f"walk_warm_peers bpf_get_stackid {r['again_stackid']:.0f} ns, bpf_get_stack {r['again_stack']:.0f} ns, "
                  f"ours over stackid {r['again_walk'] / max(1, r['again_stackid']):.2f} (goal 1)", flush=True)
            ms, verified = load_figures(build)
            print(f"walk_load {ms:.1f} ms of CPU time (goal 100), verified instructions {verified}")
            whole_samples(build, d, a)
    finally:
        set_stats(False)


if __name__ == '__main__':
    main()
