#!/usr/bin/env python3
"""What being sampled at 19 Hz costs OCaml programs: CPU time of runs with the exporter and without it, interleaved, and the upper bound
that the extra share lies below with 95 %.

usage: tests/bench/bench_ocaml.py BUILD_DIR [--pairs 10] [--seconds 4] [--only 4.13.1_allocation] [--control]

Programs: much allocation, many system calls, mostly idle; by Debian's ocamlopt and, where tests have built it, by OCaml 5.3. A run is a
fixed amount of work, about --seconds long, in eight parts of which the one that took least counts: the rest is what other guests of a
shared machine do to it, for seconds at a time nearly as much again. Each part is sampled some ten times. Both runs of a pair begin after
SETTLED_S seconds without work, of the one with the exporter after its start: a machine that has just been busy ran programs half a
percent faster than one that had rested. Pairs alternate their order (off on, on off …). The bound is of the pairs' typical difference
by Wilcoxon's signed ranks, one-sided, which a few pairs beside a busy guest do not move far; of the idle program differences count as a
share of the time that passed. The exporter's own CPU time while it ran, all roles, is printed beside. --control leaves the exporter out
of both: what is printed then is the measurement's own error, for which --pairs may have to be more than ten.
"""
import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')

PROGRAMS = {
    'allocation': '''
let rec build n = if n = 0 then [] else (n * 7 mod 13, string_of_int n) :: build (n - 1)
let step i = List.length (List.sort compare (List.map (fun (a, s) -> (a + i, s)) (build 400)))
let () = let t = ref 0 in for i = 1 to int_of_string Sys.argv.(1) do t := !t + step (i land 15) done; print_int !t
''',
    'system_calls': '''
let () =
  let c = open_in_bin "/dev/zero" in
  let t = ref 0 in
  for i = 1 to int_of_string Sys.argv.(1) do
    seek_in c 0; t := !t + int_of_char (input_char c);
    if Sys.file_exists "/proc/self/comm" then incr t
  done; print_int !t
''',
    'idle': '''
let () = for i = 1 to int_of_string Sys.argv.(1) do Unix.sleepf 0.001 done
''',
}


PARTS = 8  # of a run
SETTLED_S = 5  # what the exporter reads of all that runs already, which is once, takes less


def compilers():
    from sonde_ocaml import built
    out = {}
    if subprocess.run(['which', 'ocamlfind'], stdout=subprocess.DEVNULL).returncode == 0 or os.path.exists('/usr/bin/ocamlopt'):
        version = subprocess.run(['ocamlopt', '-version'], capture_output=True, text=True, check=True).stdout.strip()
        out[version] = ['ocamlopt']
    if built():
        out['5.3.0'] = [built()]
    return out


def compile_all(folder):
    out = {}
    for version, cmd in compilers().items():
        for name, text in PROGRAMS.items():
            base = f'{folder}/{name}{version.replace(".", "_")}'
            with open(f'{base}.ml', 'w') as f:
                f.write(text)
            unix = ['-I', '+unix', 'unix.cmxa'] if name == 'idle' else []
            subprocess.run([*cmd, *unix, '-o', base, f'{base}.ml'], check=True, cwd=folder, stderr=subprocess.DEVNULL)
            out[version, name] = base
    return out


def run_once(program, n):
    """CPU seconds and seconds that passed. Without randomized addresses, which make runs differ by themselves."""
    began = time.monotonic()
    pid = os.posix_spawnp('setarch', ['setarch', '-R', program, str(n)], os.environ,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f'{program} {n}: status {status}')
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def run(program, n):
    """CPU seconds and seconds that passed, of the part that took least."""
    return min(run_once(program, max(1, n // PARTS)) for _ in range(PARTS))


def calibrate(program, name, seconds):
    if name == 'idle':
        return int(seconds * 900)
    n = 100
    while run_once(program, n)[0] < 0.2:
        n *= 2
    return int(n * seconds / run_once(program, n)[0])


def typical(differences):
    """The median of the means of any two (Hodges and Lehmann), and what the true one lies below with 95 %: for ten or more."""
    n = len(differences)
    means = sorted((differences[i] + differences[k]) / 2 for i in range(n) for k in range(i, n))
    below = len(means) / 2 + 1.645 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return statistics.median(means), means[min(len(means) - 1, math.ceil(below))]


def without(program, n):
    """CPU seconds, seconds that passed, and the exporter's share of a CPU, of which there is none."""
    time.sleep(SETTLED_S)
    return *run(program, n), 0


def with_exporter(program, n):
    from bench_sampler import cpu_of
    from sonde_e2e import Daemon
    with Daemon('sonde-exporter', '--profile.frequency=19', '--profile.max-overhead=0') as d:
        time.sleep(SETTLED_S)
        before, began = cpu_of(d.p.pid), time.monotonic()
        cpu, wall = run(program, n)
        return cpu, wall, (cpu_of(d.p.pid) - before) / (time.monotonic() - began)


def compare(sampled, program, name, pairs, seconds):
    """The typical extra share of `sampled` over without(), its bound, and the exporter's share of a CPU."""
    n = calibrate(program, name, seconds)
    extra, own = [], []
    sampled(program, min(n, 1000))  # its symbol file is on disk from here on
    for i in range(pairs):
        if i % 2:
            on, off = sampled(program, n), without(program, n)
        else:
            off, on = without(program, n), sampled(program, n)
        base = off[1] if name == 'idle' else off[0]
        extra.append((on[0] - off[0]) / base)
        own.append(on[2])
    return *typical(extra), statistics.median(own)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('build')
    ap.add_argument('--pairs', type=int, default=10)
    ap.add_argument('--seconds', type=float, default=4)
    ap.add_argument('--only', default='', help='programs whose names begin so')
    ap.add_argument('--control', action='store_true')
    a = ap.parse_args()
    os.environ['SONDE_BUILD'] = os.path.abspath(a.build)
    sampled = without if a.control else with_exporter
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for (version, name), program in compile_all(folder).items():
            if not f'{version}_{name}'.startswith(a.only):
                continue
            extra, bound, own = compare(sampled, program, name, max(10, a.pairs), a.seconds)
            print(f'ocaml_{version}_{name} {100 * extra:+.2f} % CPU time, 95 % upper bound {100 * bound:.2f} % (goal 1), '
                  f'exporter {100 * own:.2f} % of a core', flush=True)


if __name__ == '__main__':
    main()
