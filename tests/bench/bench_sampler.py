#!/usr/bin/env python3
"""What sampling a busy machine costs: the exporter beside `perf record -a -g` + `perf script`, on two compile loops.

usage: bench_sampler.py BUILD_DIR [--seconds 300] [--hz 99] [--source FILE.c] [--rounds 1] [--idle 300] [--no-perf] [--dwarf SECONDS]

Per round (ABBA over rounds): exporter CPU (schedstat of all roles, fields of /proc, so idle accounting errors do not matter) plus BPF run time
(kernel.bpf_stats_enabled) while a symbolized pprof of all samples is fetched every 15 s; perf's CPU (rusage of both commands). The start-up of both is
excluded: the exporter's by reading the counters after its first minute, perf's by subtracting a run of a tenth of a second. Never wall-clock slowdown. What perf
does in the timer's interrupt is in nobody's CPU time; so for both the time in the callback of their timers is taken too (tests/bench/timers.bpf.c), and the ratio
is printed with it (the whole cost of both) and without (ours with it, perf's without), and once more with perf's start, which who runs both commands
pays. perf's own
pass over the data for build ids is switched off (-N -B): it only adds to its cost. Code without frame pointers ends perf's stacks (-g) after a frame or two;
--dwarf runs it three times more, that long, with `--call-graph dwarf`: with the 8 KB of each stack that it copies by itself, which end amid most stacks of this
load, and with as much as its stacks take to be as deep as ours, both named once at the end; and with 8 KB and a text every 15 s, as often as a profile is asked
of ours, from a recording that goes on: what `perf script` does at its start is then part of each. Ours runs once more too, asked for one profile at the end, as
perf's first two are. Frames a sample are printed.
The source is the SQLite amalgamation when npm can bring it (`npm pack better-sqlite3`).
"""
import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
HZ_TICKS = os.sysconf('SC_CLK_TCK')
PROFILE_S = 15
WHOLE_STACK_BYTES = 32768  # what perf must copy of each stack of this load for as many frames as ours


def sqlite_source():
    cache = f'{TOP}/build/bench/package/deps/sqlite3/sqlite3.c'
    if not os.path.exists(cache):
        os.makedirs(f'{TOP}/build/bench', exist_ok=True)
        subprocess.run('npm pack --silent better-sqlite3 && tar xzf better-sqlite3-*.tgz package/deps/sqlite3/sqlite3.c', shell=True, check=True,
                       cwd=f'{TOP}/build/bench', stdout=subprocess.DEVNULL)
    return cache


def tree(pid):
    kids = {}
    for p in os.listdir('/proc'):
        if p.isdigit():
            try:
                with open(f'/proc/{p}/stat') as f:
                    s = f.read()
            except OSError:
                continue
            kids.setdefault(int(s[s.rindex(')') + 2:].split()[1]), []).append(int(p))
    out, todo = [], [pid]
    while todo:
        x = todo.pop()
        out.append(x)
        todo += kids.get(x, [])
    return out


def cpu_of(pid):
    """CPU seconds of a process tree by schedstat, plus what its ended children used (parser children)."""
    total = 0.0
    for p in tree(pid):
        try:
            for t in os.listdir(f'/proc/{p}/task'):
                with open(f'/proc/{p}/task/{t}/schedstat') as f:
                    total += int(f.read().split()[0]) / 1e9
            with open(f'/proc/{p}/stat') as f:
                s = f.read()
            fields = s[s.rindex(')') + 2:].split()
            total += (int(fields[13]) + int(fields[14])) / HZ_TICKS
        except OSError:
            continue
    return total


def pss_mb(pid):
    """Of a process tree: all of it, and the part that is BPF maps, which are counted by themselves too."""
    total = of_maps = 0
    for p in tree(pid):
        try:
            with open(f'/proc/{p}/smaps') as f:
                lines = f.read().splitlines()
        except OSError:
            continue
        in_map = False
        for line in lines:
            if line.startswith('Pss:'):
                total += int(line.split()[1])
                of_maps += int(line.split()[1]) if in_map else 0
            elif '-' in line.split()[0]:
                in_map = line.endswith('anon_inode:bpf-map')
    return total / 1024, of_maps / 1024


def bpf_seconds(ids=None):
    progs = json.loads(subprocess.run(['bpftool', '-j', 'prog', 'show'], capture_output=True, text=True, check=True).stdout)
    return {p['id']: p.get('run_time_ns', 0) / 1e9 for p in progs}


def maps_mb():
    m = json.loads(subprocess.run(['bpftool', '-j', 'map', 'show'], capture_output=True, text=True, check=True).stdout)
    return {x['id']: x.get('bytes_memlock', 0) / 2**20 for x in m}


def busy_seconds():
    with open('/proc/stat') as f:
        v = f.readline().split()
    return sum(int(v[i]) for i in (1, 2, 3, 6, 7)) / HZ_TICKS


class Load:
    def __init__(self, source, idle):
        self.procs = [subprocess.Popen(['sleep', '100000'], start_new_session=True) for _ in range(idle)]
        self.procs += [subprocess.Popen(['sh', '-c', f'while :; do clang-14 -O2 -w -c -o /dev/null {source}; done'], start_new_session=True)
                       for _ in range(os.cpu_count())]

    def stop(self):
        for p in self.procs:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def exporter_round(build, hz, seconds, warm, every=PROFILE_S):
    """`every`: a profile of every so many seconds."""
    from sonde_e2e import Daemon, Pprof
    os.environ['SONDE_BUILD'] = build
    known, known_maps = set(bpf_seconds()), set(maps_mb())
    with Daemon('sonde-exporter', f'--profile.frequency={hz}', '--profile.max-overhead=0') as d:
        cursor, samples, named, frames = '', 0, [0, 0], [0, 0]

        def fetch():
            nonlocal cursor, samples
            while True:
                r = d.get(f'/debug/pprof/profile?since={cursor}&span={every}')
                cursor = r.headers['Sonde-Cursor']
                samples += len(r.body) and Pprof(r.body).total(0)
                if int(r.headers.get('Sonde-Behind-Seconds', 0)) <= 0:
                    return r.body
        end = time.time() + warm
        while time.time() < end:
            time.sleep(min(every, max(0.1, end - time.time())))
            fetch()
        samples = 0
        c0, b0, busy0, t0, pss = cpu_of(d.p.pid), bpf_seconds(), busy_seconds(), time.time(), (0, 0)
        with Interrupts(build, seconds) as interrupts:
            while time.time() - t0 < seconds:
                time.sleep(every)
                body = fetch()
                pss = max(pss, pss_mb(d.p.pid))
        cpu = cpu_of(d.p.pid) - c0
        bpf = sum(v - b0.get(k, 0) for k, v in bpf_seconds().items() if k not in known)
        elapsed, busy = time.time() - t0, busy_seconds() - busy0
        maps = sum(v for k, v in maps_mb().items() if k not in known_maps)
        last = Pprof(body)
        for stack, v, _ in last.samples:
            named[0] += v[0] * sum('+0x' not in f for f in stack)
            named[1] += v[0] * len(stack)
            frames[0] += v[0] * len(stack)
            frames[1] += v[0]
        return {'cpu_s': cpu, 'bpf_s': bpf, 'interrupt_rate': interrupts.rate, 'busy_s': busy, 'seconds': elapsed, 'samples': samples, 'pss_mb': pss[0], 'pss_maps_mb': pss[1], 'maps_mb': maps,
                'named_pct': 100 * named[0] / max(1, named[1]), 'frames': frames[0] / max(1, frames[1])}


class Interrupts:
    """Time in the callbacks of CPU clock events, all CPUs: seconds of it a second, .rate after the block. One profiler at a time."""

    def __init__(self, build, seconds):
        self.dir = tempfile.TemporaryDirectory()
        obj = f'{self.dir.name}/timers.o'
        subprocess.run(['clang-14', '-target', 'bpf', '-D__TARGET_ARCH_x86', '-O2', '-g', '-mcpu=v3', f'-I{TOP}', '-c', '-o', obj,
                        f'{TOP}/tests/bench/timers.bpf.c'], check=True)
        self.cmd, self.seconds, self.rate = [f'{build}/tests/bpf/timers', obj, 'perf_swevent_hrtimer', str(seconds)], seconds, None

    def __enter__(self):
        self.p = subprocess.Popen(self.cmd, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *exc):
        if exc[0]:
            self.p.kill()
        said = self.p.communicate()[0].split()
        self.dir.cleanup()
        if exc[0]:
            return
        if self.p.returncode or len(said) != 2:
            raise RuntimeError(f'{self.cmd}: exit status {self.p.returncode}, said {said}')
        self.rate = int(said[0]) * float(said[1]) / 1e9 / self.seconds


def rusage_of(cmd, stdout=subprocess.DEVNULL):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(cmd, check=True, stdout=stdout, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def frames_a_sample(script):
    """Of the text of `perf script`: a line for the sample, then one for each frame, which a tab begins."""
    samples = frames = 0
    with open(script, errors='replace') as f:
        for line in f:
            samples += line[:1] not in '\t\n'
            frames += line.startswith('\t')
    return frames / max(1, samples)


def perf_round(build, hz, seconds, graph, every=None):
    """`every`: a text of every so many seconds, each with its own start; what is left after the last is in none."""
    with tempfile.TemporaryDirectory() as d:
        def once(t, split=()):
            rec = rusage_of(['perf', 'record', '-q', '-N', '-B', '-a', '--call-graph', graph, '-e', 'cpu-clock', '-F', str(hz), *split, '-o', f'{d}/data',
                             '--', 'sleep', str(t)])
            return rec, sorted(f'{d}/{name}' for name in os.listdir(d) if name.startswith('data'))

        def script(data):
            with open(f'{d}/text', 'w') as text:
                return rusage_of(['perf', 'script', '--no-inline', '-i', data], text)
        start, (data,) = once(0.1)
        script_start = 0 if every else script(data)
        os.unlink(data)
        with Interrupts(build, seconds) as interrupts:
            recorded, files = once(seconds, [f'--switch-output={every}s'] if every else [])
        files = files[:seconds // every] if every else files
        return {'record_s': recorded - start, 'script_s': sum(map(script, files)) - script_start, 'start_s': start + script_start,
                'interrupt_rate': interrupts.rate, 'frames': frames_a_sample(f'{d}/text'), 'seconds': seconds, 'texts': len(files)}


def median_round(rounds):
    return {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}


def print_beside_perf(name, ours, theirs):
    """Milliseconds of CPU time a second."""
    cpu = ours['cpu_s'] / ours['seconds']
    bpf, interrupt = ours['bpf_s'] / ours['seconds'], ours['interrupt_rate']
    peer = statistics.median((r['record_s'] + r['script_s']) / r['seconds'] for r in theirs)
    with_start = peer + statistics.median(r['start_s'] / r['seconds'] for r in theirs)
    peer_interrupt = statistics.median(r['interrupt_rate'] for r in theirs)
    print(f"{name} {1e3 * (cpu + bpf):.2f} ms/s perf_record_and_script {1e3 * peer:.2f} ms/s of {theirs[0]['frames']:.1f} frames ratio {(cpu + bpf) / peer:.3f}")
    print(f"{name}_with_its_start {1e3 * (cpu + bpf):.2f} ms/s perf_record_and_script {1e3 * with_start:.2f} ms/s ratio {(cpu + bpf) / with_start:.3f}")
    print(f"{name}_interrupts_of_both {1e3 * (cpu + interrupt):.2f} ms/s perf_record_and_script {1e3 * (peer + peer_interrupt):.2f} ms/s "
          f"ratio {(cpu + interrupt) / (peer + peer_interrupt):.3f}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended by a signal'))  # and what it started with it
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--seconds', type=int, default=300)
    ap.add_argument('--warm', type=int, default=60)
    ap.add_argument('--hz', type=int, default=99)
    ap.add_argument('--rounds', type=int, default=1)
    ap.add_argument('--idle', type=int, default=300)
    ap.add_argument('--source')
    ap.add_argument('--no-perf', action='store_true')
    ap.add_argument('--dwarf', type=int, metavar='SECONDS', help=f'a multiple of {PROFILE_S}')
    a = ap.parse_args()
    if a.dwarf and a.dwarf % PROFILE_S:
        ap.error(f'--dwarf {a.dwarf}: expected a multiple of {PROFILE_S}')
    load = Load(a.source or sqlite_source(), a.idle)
    with open('/proc/sys/kernel/bpf_stats_enabled', 'w') as f:
        f.write('1')
    build, ours, theirs, ours_once, by_dwarf, whole, often = os.path.abspath(a.build), [], [], [], [], [], []
    try:
        for i in range(a.rounds):
            order = ['e', 'p'] if i % 2 == 0 else ['p', 'e']
            for who in order:
                if who == 'e':
                    ours.append(exporter_round(build, a.hz, a.seconds, a.warm))
                    print(json.dumps(ours[-1]), file=sys.stderr)
                elif not a.no_perf:
                    theirs.append(perf_round(build, a.hz, a.seconds, 'fp'))
                    print(json.dumps(theirs[-1]), file=sys.stderr)
        if a.dwarf:
            for into, one in ((by_dwarf, lambda: perf_round(build, a.hz, a.dwarf, 'dwarf')),
                              (ours_once, lambda: exporter_round(build, a.hz, a.dwarf, a.warm, every=a.dwarf)),
                              (whole, lambda: perf_round(build, a.hz, a.dwarf, f'dwarf,{WHOLE_STACK_BYTES}')),
                              (often, lambda: perf_round(build, a.hz, a.dwarf, 'dwarf', every=PROFILE_S))):
                into.append(one())
                print(json.dumps(into[-1]), file=sys.stderr)
    finally:
        with open('/proc/sys/kernel/bpf_stats_enabled', 'w') as f:
            f.write('0')
        load.stop()
    mid = median_round(ours)
    cost = mid['cpu_s'] + mid['bpf_s']
    print(f"sampler_{a.hz}hz_cost_per_busy_core {100 * cost / mid['busy_s']:.3f} %")
    print(f"sampler_{a.hz}hz_agent_cpu {mid['cpu_s']:.3f} s")
    print(f"sampler_{a.hz}hz_bpf {mid['bpf_s']:.3f} s")
    print(f"sampler_{a.hz}hz_bpf_per_sample {1e6 * mid['bpf_s'] / max(1, mid['samples']):.1f} us")
    print(f"sampler_{a.hz}hz_named_frames {mid['named_pct']:.1f} % of {mid['frames']:.1f} a sample")
    print(f"exporter_pss {mid['pss_mb']:.1f} MB, {mid['pss_maps_mb']:.1f} MB of it BPF maps")
    print(f"exporter_bpf_maps {mid['maps_mb']:.1f} MB")
    if theirs:
        print_beside_perf(f'sampler_{a.hz}hz_vs_perf', mid, theirs)
    if by_dwarf:
        once = median_round(ours_once)
        print_beside_perf(f'sampler_{a.hz}hz_vs_perf_dwarf', mid, by_dwarf)
        print_beside_perf(f'sampler_{a.hz}hz_vs_perf_dwarf_{WHOLE_STACK_BYTES}', mid, whole)
        print_beside_perf(f'sampler_{a.hz}hz_once_vs_perf_dwarf', once, by_dwarf)
        print_beside_perf(f'sampler_{a.hz}hz_once_vs_perf_dwarf_{WHOLE_STACK_BYTES}', once, whole)
        print_beside_perf(f'sampler_{a.hz}hz_vs_perf_dwarf_every_{PROFILE_S}s', mid, often)


if __name__ == '__main__':
    main()
