#!/usr/bin/env python3
"""A thousand stored profiles merged by a query beside `go tool pprof -proto` of the same files: wall and CPU time, cold and warm.

usage: bench_stored.py BUILD_DIR [PROFILES] [SAMPLES]
Profiles have real stacks (corpus.py). They are imported into a scraper, which is stopped, its store compacted, and started again without a cache of
results. Cold: a scraper that has just started and a page cache without the files; warm: the next queries of the same scraper, medians of five. The peer
reads the files twice, the first time cold. Totals per function of both results must be equal. Needs root for /proc/sys/vm/drop_caches; without, cold
figures are left out. One line a figure: name value unit peer value ratio.
"""
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{TOP}/tests/e2e')
sys.path.insert(0, f'{TOP}/tests/bench')
import corpus  # noqa: E402
from bench_merge import GO, launcher, run, totals  # noqa: E402
from bench_sampler import cpu_of, pss_mb  # noqa: E402

INSTANCES, STEP_S = 20, 10


def make_files(d, n, samples):
    stacks, per = corpus.pool(), -(-n // INSTANCES)
    first = int(time.time()) - 300 - per * STEP_S
    out = []
    for i in range(n):
        end_s = first + i // INSTANCES * STEP_S
        out.append(f'{d}/{i:04}.pb.gz')
        with open(out[-1], 'wb') as f:
            f.write(corpus.with_time(corpus.profile(samples, i, stacks), end_s * 10**9, STEP_S * 10**9))
    return out


def import_all(port, files):
    c = http.client.HTTPConnection('127.0.0.1', port)
    for i, path in enumerate(files):
        with open(path, 'rb') as f:
            c.request('POST', f'/api/v1/import?name=process_cpu&label.job=bench&label.instance=i{i % INSTANCES}', f.read())
        r = c.getresponse()
        text = r.read()
        if r.status != 200:
            sys.exit(f'import of {path}: {r.status} {text[:300]}')


def drop_caches():
    os.sync()
    try:
        with open('/proc/sys/vm/drop_caches', 'w') as f:
            f.write('3')
    except OSError as e:
        print(f'cold figures are left out: /proc/sys/vm/drop_caches: {e.strerror}')
        return False
    return True


def query(d, path):
    """(wall, CPU seconds) of one query of everything, whose answer goes to `path`."""
    q = urllib.parse.urlencode({'query': 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{job="bench"}', 'start': 'now-1d'})
    cpu, began = cpu_of(d.p.pid), time.monotonic()
    r = d.get(f'/api/v1/profile?{q}', timeout=600)
    wall = time.monotonic() - began
    if r.status != 200:
        sys.exit(f'query: {r.status} {r.body[:300]}')
    with open(path, 'wb') as f:
        f.write(r.body)
    return wall, cpu_of(d.p.pid) - cpu


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/release')
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 285
    os.environ['SONDE_BUILD'] = build
    from sonde_e2e import Daemon
    pprof = subprocess.run([GO, 'tool', '-n', 'pprof'], capture_output=True, text=True, check=True).stdout.strip()
    rusage, ours, theirs = launcher(), {}, {}
    with tempfile.TemporaryDirectory(dir='/var/tmp') as d:
        os.chmod(d, 0o755)
        with open(f'{d}/scraper.yml', 'w') as f:
            f.write('scrape_configs: []\n')
        flags = [f'--config.file={d}/scraper.yml', f'--storage.path={d}/data', '--query.cache-bytes=0']
        files = make_files(d, n, samples)
        with Daemon('sonde-scraper', *flags) as s:
            import_all(s.port, files)
            peak = pss_mb(s.p.pid)[0]
        # Imports are blocks of their own until they are compacted.
        subprocess.run([f'{build}/sonde', 'tsdb', 'compact', f'{d}/data'], check=True, stdout=subprocess.DEVNULL)
        cold = drop_caches()
        with Daemon('sonde-scraper', *flags) as s:
            blocks = s.get('/api/v1/status/tsdb/blocks').json['data']['blocks']
            print(f'stored_profiles {n} profiles in {len(blocks)} blocks')
            if cold:
                ours['cold'] = query(s, f'{d}/ours.pb.gz')
            warm = [query(s, f'{d}/ours.pb.gz') for _ in range(6)][1:]
            ours['warm'] = tuple(statistics.median(x[i] for x in warm) for i in range(2))
            peak = max(peak, pss_mb(s.p.pid)[0])
        cmd = [pprof, '-proto', '-symbolize=none', f'-output={d}/theirs.pb.gz', *files]
        if cold and drop_caches():
            theirs['cold'] = run(rusage, cmd)
        theirs['warm'] = run(rusage, cmd)
        for how in ours:
            for i, what in enumerate(('wall', 'cpu')):
                a, b = ours[how][i], theirs[how][i]
                print(f'stored_{n}x{samples}_{how}_{what} {a * 1e3:.1f} ms go-pprof {b * 1e3:.0f} {b / a:.0f}x')
        print(f'stored_scraper_pss {peak:.0f} MB')
        equal = totals(f'{d}/ours.pb.gz') == totals(f'{d}/theirs.pb.gz')
        print(f'stored_totals_equal {int(equal)} bool go-pprof 1 1x')
        return 0 if equal else 1


if __name__ == '__main__':
    sys.exit(main())
