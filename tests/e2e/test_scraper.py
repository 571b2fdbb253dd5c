"""The scraper with real targets: our exporter, Debian's Prometheus as a Go program, and Prometheus as a reader of ours."""
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import http.server

from sonde_e2e import Pprof, compile_c, exporter, free_port, go_pprof, http_get, needs_kernel, scraper, sonde, wait_for, wait_quiet, Workload

BESIDE_OTHERS = True

PROMETHEUS = '/usr/bin/prometheus'
SPIN = r'''
__attribute__((noinline)) int e2e_spin_leaf(volatile int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(void) { for (;;) e2e_spin_leaf(1000000); }
'''


class Prometheus:
    """Debian's Prometheus on loopback with the given configuration."""

    def __init__(self, config):
        self.dir = tempfile.TemporaryDirectory(prefix='sonde-prometheus.')
        self.port = free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        with open(f'{self.dir.name}/p.yml', 'w') as f:
            f.write(config.replace('SELF', f'127.0.0.1:{self.port}'))
        self.p = subprocess.Popen([PROMETHEUS, f'--config.file={self.dir.name}/p.yml', f'--storage.tsdb.path={self.dir.name}/data',
                                   f'--web.listen-address=127.0.0.1:{self.port}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        def ready():
            try:
                return http_get(self.url + '/-/ready', timeout=5).status == 200
            except OSError:
                return False
        wait_for('Prometheus', ready)
        return self

    def __exit__(self, *exc):
        self.p.kill()
        self.p.wait()
        self.dir.cleanup()

    def query(self, q):
        r = http_get(f'{self.url}/api/v1/query?query={urllib.parse.quote(q)}')
        return {json.dumps(x['metric'], sort_keys=True): float(x['value'][1]) for x in r.json['data']['result']}


def targets(s):
    return s.get('/api/v1/targets').json['data']['activeTargets']


def profile(s, selector, **params):
    params.setdefault('seconds', '3600')
    q = urllib.parse.urlencode({'query': selector, **params})
    r = s.get(f'/api/v1/profile?{q}')
    return Pprof(r.body) if r.status == 200 else None


def last_up(s):
    """{job: newest value of up}"""
    now = int(time.time())
    r = s.get(f'/api/v1/query_series?query=up&group_by=job&start={now - 60}&end={now + 2}&step=1').json
    return {x['metric']['job']: float(x['values'][-1][1]) for x in r['data']['result']}


needs_prometheus = unittest.skipUnless(os.path.exists(PROMETHEUS), 'prometheus is not installed')


@needs_prometheus
class GoProgram(unittest.TestCase):
    def test_go_preset(self):
        with Prometheus('global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: [SELF]}]}]\n') as p:
            config = f'''
global: {{scrape_interval: 3s, scrape_timeout: 3s}}
scrape_configs:
- job_name: prom
  static_configs: [{{targets: ['127.0.0.1:{p.port}'], labels: {{team: infra}}}}]
- job_name: heap
  static_configs: [{{targets: ['127.0.0.1:{p.port}']}}]
  profiling_config:
    preset: go
    pprof_config:
      process_cpu: {{enabled: false}}
      mutex: {{enabled: false}}
      block: {{enabled: false}}
      memory: {{path: /debug/pprof/heap, keep_sample_type: [{{type: inuse_space, unit: bytes}}]}}
'''
            with scraper(config) as s:
                def done():
                    t = {x['scrapePool']: x for x in targets(s)}
                    scrapes = s.metrics().get('sonde_scrapes_total{job="prom",profile_type="memory"}', 0)
                    return scrapes >= 4 and all(x['health'] == 'up' for x in t.values()) and t
                t = wait_for('scrapes of a Go program', done)
                self.assertEqual([x['name'] for x in t['prom']['profiles']], ['process_cpu', 'memory', 'mutex', 'block', 'goroutine'])
                self.assertEqual([x['name'] for x in t['heap']['profiles']], ['memory', 'goroutine'])
                self.assertEqual(t['prom']['lastError'], '')
                # ask for load, so that there is a CPU profile
                for _ in range(30):
                    p.query('count({__name__=~".+"})')
                self.check(s, p)

    def check(self, s, p):
        # in-use memory is a state: the mean over scrapes is near what the program says itself
        inuse = profile(s, 'memory:inuse_space:bytes:space:bytes{job="prom"}')
        direct = Pprof(http_get(p.url + '/debug/pprof/allocs').body)
        self.assertEqual(direct.types[3][0], 'inuse_space')
        self.assertGreater(inuse.total(), direct.total(3) / 10)
        self.assertLess(inuse.total(), direct.total(3) * 10)
        # allocations are differences: together they are less than the total since the start
        alloc = profile(s, 'memory:alloc_space:bytes:space:bytes{job="prom"}')
        self.assertLessEqual(alloc.total(), direct.total(1))
        goroutines = profile(s, 'goroutine:goroutine:count:goroutine:count{job="prom"}')
        self.assertGreater(goroutines.total(), 5)
        self.assertLess(goroutines.total(), 500)
        self.assertTrue(any('main.main' in stack for stack, _, _ in goroutines.samples))
        # keep_sample_type keeps one column
        types = [x['id'] for x in s.get('/api/v1/profile_types').json['data']]
        self.assertIn('memory:inuse_space:bytes:space:bytes', types)
        values = s.get('/api/v1/label/job/values').json['data']
        self.assertEqual(sorted(values), ['heap', 'prom'])
        dropped = profile(s, 'memory:alloc_space:bytes:space:bytes{job="heap"}')
        self.assertTrue(dropped is None or dropped.total() == 0)


@needs_kernel
class Node(unittest.TestCase):
    def test_exporter(self):
        spin = compile_c(SPIN, '-O1', '-fno-omit-frame-pointer', name='e2e-spin')
        with Workload(spin), exporter('--external-label', 'rack=r7') as e:
            config = f'''
global: {{scrape_interval: 2s}}
scrape_configs:
- job_name: node
  static_configs: [{{targets: ['127.0.0.1:{e.port}']}}]
  metric_relabel_configs:
  - {{action: drop, source_labels: [comm], regex: 'kworker.*'}}
- job_name: one
  params: {{comm: [e2e-spin]}}
  static_configs: [{{targets: ['127.0.0.1:{e.port}']}}]
'''
            with scraper(config) as s:
                wait_for('profiles of the workload', lambda: (profile(s, 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm="e2e-spin"}')
                                                              or Pprof(b'')).functions().get('e2e_spin_leaf', 0) > 4e9)
                both = profile(s, 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm="e2e-spin"}', group_by='job')
                self.assertIsNotNone(both)
                series = s.get('/api/v1/series?match[]=' + urllib.parse.quote('process_cpu_cpu_nanoseconds_total{job="node"}')).json['data']
                labels = [x for x in series if x.get('comm') == 'e2e-spin'][0]
                self.assertEqual(labels['service_name'], 'e2e-spin')
                self.assertTrue(labels['node'])
                self.assertEqual(labels['rack'], 'r7')  # named by Sonde-Labels
                self.assertNotIn('pid', labels)
                self.assertEqual([x for x in series if x.get('comm', '').startswith('kworker')], [])
                # the filtered job has nothing but that program
                comms = {x.get('comm') for x in s.get('/api/v1/series?match[]=' + urllib.parse.quote(
                    'process_cpu_cpu_nanoseconds_total{job="one"}')).json['data']}
                self.assertEqual(comms, {'e2e-spin'})
                self.assertEqual(last_up(s), {'node': 1, 'one': 1})
                out = go_pprof('-top', f'{s.url}/api/v1/profile?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{{comm="e2e-spin"}}')
                self.assertIn('e2e_spin_leaf', out.stdout, out.stderr)

    @needs_prometheus
    def test_prometheus_reads_both(self):
        """Debian's Prometheus scrapes both /metrics and discovers processes through the exporter's /targets."""
        spin = compile_c(SPIN, '-O1', '-fno-omit-frame-pointer', name='e2e-spin')
        with Workload(spin) as w, exporter() as e, scraper(f'''
global: {{scrape_interval: 2s}}
scrape_configs: [{{job_name: node, static_configs: [{{targets: ['127.0.0.1:{e.port}']}}]}}]
''') as s, Prometheus(f'''
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: sonde
  static_configs: [{{targets: ['127.0.0.1:{e.port}', '127.0.0.1:{s.port}']}}]
- job_name: processes
  metrics_path: /metrics
  http_sd_configs: [{{url: 'http://127.0.0.1:{e.port}/targets?by=process', refresh_interval: 1s}}]
  relabel_configs:
  - {{source_labels: [__meta_process_pid], regex: '{w.pid}', action: keep}}
  - {{source_labels: [__meta_process_comm], target_label: comm}}
  - {{source_labels: [__param_pid], target_label: pid}}
''') as p:
            up = wait_for('Prometheus scrapes both', lambda: (u := p.query('up{job="sonde"}')) and len(u) == 2 and
                          set(u.values()) == {1.0} and u)
            self.assertEqual(len(up), 2)
            found = wait_for('http_sd', lambda: p.query('up{job="processes"}'))
            labels = json.loads(list(found)[0])
            self.assertEqual((labels['comm'], labels['pid']), ('e2e-spin', str(w.pid)))
            wait_for('our counters', lambda: p.query('sum(sonde_scrapes_total) > 2') and p.query('sum(sonde_samples_total) > 0'))
            self.assertEqual(p.query('count({__name__=~"sonde_.*_build_info", job="sonde"})').popitem()[1], 2)


class FakeNode:
    """An exporter whose slots pass by themselves: one sample of value 1 a second, for ever reproducible; counts what it was asked."""

    def __init__(self, start_id='aa', port=0):
        self.start_id, self.began, self.asked = start_id, time.time(), []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *a):
                pass

            def do_GET(self):
                q = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
                since, span = q['since'][0], int(q['span'][0])
                fake.asked.append(since)
                now = int(time.time())
                oldest = int(fake.began) - 60
                first = int(since.split('.')[1]) if since.startswith(fake.start_id + '.') else (oldest if since else now - span)
                last = min(now, first + span)
                body = pprof_slot(first, last)
                self.send_response(200)
                if since and not since.startswith(fake.start_id + '.'):
                    self.send_header('Sonde-Restarted', '1')
                for k, v in (('Sonde-Exporter', '0'), ('Sonde-Types', 'process_cpu=profile'), ('Sonde-Health', 'cpus=8'), ('Sonde-Cursor', f'{fake.start_id}.{last}'),
                             ('Sonde-Behind-Seconds', now - last), ('Content-Length', len(body)), ('Connection', 'close')):
                    self.send_header(k, str(v))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def pprof_slot(first, last):
    """Seconds [first, last) of the fake exporter: value 7 a second."""
    from test_bad_targets import field
    out = field(1, field(1, 1) + field(2, 2))
    if last > first:
        out += field(2, field(1, 1) + field(2, 7 * (last - first)))
    out += field(4, field(1, 1) + field(4, field(1, 1) + field(2, 3))) + field(5, field(1, 1) + field(2, 3))
    for s in (b'', b'cpu', b'nanoseconds', b'work'):
        out += field(6, s)
    return out + field(9, first * 10**9) + field(10, (last - first) * 10**9) + field(11, field(1, 1) + field(2, 2)) + field(12, 1)


CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'


class Cursors(unittest.TestCase):
    def config(self, *ports, **extra):
        jobs = ''.join(f"- {{job_name: {name}, static_configs: [{{targets: [{', '.join(repr(f'127.0.0.1:{p}') for p in ports)}]}}]}}\n"
                       for name in extra.get('jobs', ['node']))
        return f'global: {{scrape_interval: 1s, scrape_timeout: 20s}}\nscrape_configs:\n{jobs}'

    def check_total(self, s, fake, selector=CPU + '{}'):
        """What is stored is one unbroken range of seconds, each once."""
        def total():
            p = profile(s, selector)
            return p.total() if p else 0
        # on whole seconds, as the exporter's are
        def stored():
            now = int(time.time())
            span = s.get(f'/api/v1/query_series?query={urllib.parse.quote(selector)}&start={now - 600}&end={now + 10}&step=1')
            points = sorted(float(t) for x in span.json['data']['result'] for t, v in x['values'] if float(v) > 0)
            self.assertTrue(points)
            return int(round(points[-1] - points[0])) + 1
        # between two answers a scrape may come
        before, have, seconds = stored(), total(), stored()
        self.assertTrue(7 * before <= have <= 7 * seconds, (before, have, seconds))
        return seconds

    def test_kill9(self):
        """kill -9 of the scraper again and again for ten seconds: each second of the exporter is stored exactly once."""
        fake = FakeNode()
        self.addCleanup(fake.close)
        data = tempfile.TemporaryDirectory()
        self.addCleanup(data.cleanup)
        end, n, s = time.time() + 10, 0, None
        while time.time() < end or n < 4:
            s = scraper(self.config(fake.port), '--storage.fsync=never', data=data.name + '/data')
            time.sleep(1.5)  # whatever it is at
            s.kill()
            n += 1
        with scraper(self.config(fake.port), data=data.name + '/data') as s:
            before = len(fake.asked)
            wait_for('catching up', lambda: len(fake.asked) > before + 4 and (p := profile(s, CPU + '{}')) and p.total())
            # on a busy machine nothing was stored before the first kills
            wait_for('ten seconds', lambda: self.check_total(s, fake) >= 10, interval=1)
        self.assertIn('', fake.asked)

    def test_two_addresses_and_two_jobs(self):
        """Two targets that are the same exporter are stored once; two jobs each get everything."""
        fake = FakeNode()
        second = FakeNode(start_id=fake.start_id)
        second.began = fake.began
        self.addCleanup(fake.close)
        self.addCleanup(second.close)
        with scraper(self.config(fake.port, second.port, jobs=['a', 'b'])) as s:
            wait_for('scrapes', lambda: len(second.asked) > 12 and len(fake.asked) > 12)
            wait_for('both jobs', lambda: all((p := profile(s, CPU + f'{{job="{job}"}}')) and p.total() for job in 'ab'))
            for job in 'ab':
                self.check_total(s, fake, CPU + f'{{job="{job}"}}')
            self.assertEqual({t['health'] for t in targets(s)}, {'up'})
            with self.subTest('per CPU'):
                query = urllib.parse.quote(CPU + '{job="a"}')
                d = s.get(f'/api/v1/diff?query_a={query}&query_b={query}&seconds=600&per=cpu-second').json['data']
                self.assertEqual(d['per'], 'cpu-second')
                self.assertGreater(d['a']['covered_seconds'], 0)
                self.assertAlmostEqual(d['a']['covered_cpu_seconds'], 8 * d['a']['covered_seconds'], places=3)
                self.assertAlmostEqual(d['a']['scale'] * d['a']['covered_cpu_seconds'], 1, places=6)
            with self.subTest('per CPU, the tool'):
                for by in ((), ('--by', 'thread')):
                    p = sonde('diff', '--server', s.url, CPU + '{job="a"}', '@now', '10m', '--', '{job="b"}', '@now', '10m', '--per', 'cpu-second',
                              '--replicate', 'job,10m', '--format', 'json', *by)
                    self.assertEqual(p.returncode, 0, p.stderr)
                    d = json.loads(p.stdout)
                    self.assertEqual(d['per'], 'cpu-second')
                    for run in d['a']['runs'] + d['b']['runs']:
                        self.assertAlmostEqual(run['cpu_seconds'], 8 * run['seconds'], places=2)
                    self.assertAlmostEqual(d['statistics']['mean_a'], 7 / 8, delta=.01)  # 7 a second on 8 CPUs

    def test_restarted_exporter(self):
        fake = FakeNode()
        with scraper(self.config(fake.port)) as s:
            wait_for('scrapes', lambda: len(fake.asked) > 3)
            fake.start_id, fake.began, n = 'bb', time.time() + 58, len(fake.asked)
            wait_for('scrapes after the restart', lambda: any(a.startswith('bb.') for a in fake.asked[n:]))
            self.assertEqual(s.metrics()['sonde_scrape_exporter_restarts_total'], 1)
            self.assertEqual(targets(s)[0]['lastError'], '')
            port = fake.port
            fake.close()
            wait_for('down', lambda: targets(s)[0]['health'] == 'down')
            self.assertIn('connect', targets(s)[0]['lastError'])
            wait_for('up is 0', lambda: last_up(s) == {'node': 0})
            again = FakeNode(start_id='bb', port=port)
            self.addCleanup(again.close)
            again.began = fake.began
            wait_for('up again', lambda: targets(s)[0]['health'] == 'up')
            # the gap is filled from the cursor
            n, before = len(again.asked), profile(s, CPU + '{}').total()
            wait_for('more scrapes', lambda: len(again.asked) > n + 1 and profile(s, CPU + '{}').total() > before)
            self.check_total(s, again)


class Reload(unittest.TestCase):
    def test_sighup(self):
        fake, other = FakeNode(), FakeNode(start_id='cc')
        self.addCleanup(fake.close)
        self.addCleanup(other.close)
        base = f'''
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: a
  static_configs: [{{targets: ['127.0.0.1:{fake.port}']}}]
'''
        with scraper(base) as s:
            wait_for('scrapes', lambda: sum('.' in a for a in list(fake.asked)) > 1)
            first = fake.asked.count('')
            s.set_config(base + f"- job_name: b\n  static_configs: [{{targets: ['127.0.0.1:{other.port}']}}]\n")
            s.p.send_signal(signal.SIGHUP)
            wait_for('the new job', lambda: len(other.asked) > 2)
            # the unchanged job kept its cursor: no second empty ask
            self.assertEqual(fake.asked.count(''), first)
            self.assertEqual(sorted(s.get('/api/v1/scrape_pools').json['data']['scrapePools']), ['a', 'b'])
            # a bad file changes nothing
            s.set_config('scrape_configs: 7\n')
            s.p.send_signal(signal.SIGHUP)
            wait_for('the refusal', lambda: s.metrics()['sonde_config_last_reload_successful'] == 0)
            n = len(other.asked)
            wait_for('scraping goes on', lambda: len(other.asked) > n + 1)
            # a job that is gone is asked no more
            s.set_config(base)
            s.p.send_signal(signal.SIGHUP)
            wait_for('the good file', lambda: s.metrics()['sonde_config_last_reload_successful'] == 1)
            wait_for('the job is gone', lambda: len(targets(s)) == 1)
            wait_quiet('the questions', lambda: len(other.asked), 2.5)
            self.assertEqual(s.stop(), 0)

    def test_file_sd_and_relabeling(self):
        fake = FakeNode()
        self.addCleanup(fake.close)
        with tempfile.TemporaryDirectory() as d:
            with open(f'{d}/t.json', 'w') as f:
                json.dump([{'targets': [f'127.0.0.1:{fake.port}', '127.0.0.1:1'], 'labels': {'env': 'test', '__meta_zone': 'z1'}}], f)
            with scraper(f'''
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: files
  file_sd_configs: [{{files: ['{d}/*.json'], refresh_interval: 1s}}]
  relabel_configs:
  - {{source_labels: [__meta_zone], target_label: zone}}
  - {{source_labels: [__address__], regex: '.*:1', action: drop}}
''') as s:
                wait_for('scrapes', lambda: len(fake.asked) > 2)
                t = s.get('/api/v1/targets?state=any').json['data']
                self.assertEqual(len(t['activeTargets']), 1)
                self.assertEqual(t['activeTargets'][0]['labels'],
                                 {'instance': f'127.0.0.1:{fake.port}', 'job': 'files', 'env': 'test', 'zone': 'z1'})
                self.assertEqual(t['activeTargets'][0]['discoveredLabels']['__meta_zone'], 'z1')
                self.assertEqual([x['discoveredLabels']['__address__'] for x in t['droppedTargets']], ['127.0.0.1:1'])
                os.rename(f'{d}/t.json', f'{d}/t.gone')
                looks = lambda: s.metrics()['sonde_discover_refreshes_total{kind="file"}']
                n = looks()
                wait_for('a look at the files', lambda: looks() > n + 1)
                with open(f'{d}/u.json', 'w') as f:
                    json.dump([], f)
                n = looks()
                wait_for('another look', lambda: looks() > n + 1)


class Web(unittest.TestCase):
    def test_listeners_and_prefix(self):
        with tempfile.TemporaryDirectory() as d:
            with scraper('scrape_configs: []\n', f'--web.listen-address=unix:{d}/s.sock', '--web.external-url=https://sonde.example/p',
                         wait_ready=False) as s:
                wait_for('the server', lambda: os.path.exists(f'{d}/s.sock'))
                self.assertEqual(os.stat(f'{d}/s.sock').st_mode & 0o777, 0o660)
                wait_for('ready', lambda: s.get('/p/-/ready').status == 200)
                self.assertEqual(s.get('/-/ready').status, 404)
                self.assertEqual(s.get('/p/-/healthy', headers={'Host': 'evil.example'}).status, 403)
                self.assertEqual(s.get('/p/-/healthy', headers={'Host': 'sonde.example'}).status, 200)
                out = subprocess.run(['curl', '-s', '--unix-socket', f'{d}/s.sock', 'http://x/p/-/healthy'], capture_output=True, text=True)
                self.assertIn('ealthy', out.stdout)

    def test_quit(self):
        with scraper('scrape_configs: []\n', '--web.enable-lifecycle') as s:
            self.assertEqual(s.get('/-/quit', method='POST', headers={'Origin': 'http://evil.example'}).status, 403)
            self.assertEqual(s.get('/-/quit', method='POST').status, 200)
            self.assertEqual(s.p.wait(60), 0)

    def test_second_scraper_on_the_same_directory(self):
        with scraper('scrape_configs: []\n') as s:
            with self.assertRaisesRegex(AssertionError, 'lock|in use'):
                scraper('scrape_configs: []\n', data=s.data)


if __name__ == '__main__':
    unittest.main()
