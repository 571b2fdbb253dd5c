"""Many targets: shards that share them, requests to one host that are bounded, targets that hang."""
import http.server
import re
import socketserver
import threading
import time
import unittest

import pprof_target
from sonde_e2e import TOP, scraper, wait_for

BESIDE_OTHERS = True

HANG_S = 30


class Target(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    lock = threading.Lock()
    asked, running, most_running, slow_s, profile = {}, {}, {}, 0.0, b''

    def log_message(self, *a):
        pass

    def enter(self, port, n):
        with Target.lock:
            Target.running[port] = Target.running.get(port, 0) + n
            if n > 0:  # not a request of the test before that ends now
                Target.most_running[port] = max(Target.most_running.get(port, 0), Target.running[port])

    def do_GET(self):
        ip, port = self.connection.getsockname()
        with Target.lock:
            Target.asked.setdefault((ip, self.headers['User-Agent']), []).append(self.path)
        self.enter(port, 1)
        try:
            # how slow a target is
            time.sleep(HANG_S if '/hang' in self.path else Target.slow_s)
        finally:
            self.enter(port, -1)
        self.send_response(200)
        self.send_header('Content-Length', str(len(Target.profile)))
        self.end_headers()
        self.wfile.write(Target.profile)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        pass  # the scraper went away


class ManyTargets(unittest.TestCase):
    def setUp(self):
        Target.asked, Target.running, Target.most_running, Target.slow_s = {}, {}, {}, 0.0
        Target.profile = pprof_target.encode([('goroutine', 'count')], ('goroutine', 'count'), [(['main.work', 'main.main'], [3], {})], 0, 0)
        self.server = Server(('0.0.0.0', 0), Target)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def test_shards(self):
        """Two scrapers with the example's rules ask every target, and each target is asked by one of them alone."""
        addresses = [f'127.0.3.{i}:{self.port}' for i in range(1, 41)]
        asked = []
        for shard in (0, 1):
            with open(f'{TOP}/configs/scraper/sharded-{shard}-of-2.yml') as f:
                text = f.read()
            sd, n = re.subn(r'file_sd_configs:\n\s+- files: .*', f'static_configs: [{{targets: {addresses}}}]', text)
            self.assertEqual(n, 1, text)
            config = sd.replace('- job_name: node', '- job_name: node\n    scrape_interval: 500ms\n    scrape_timeout: 400ms\n    profiling_config: '
                                '{preset: go, pprof_config: {process_cpu: {enabled: false}, memory: {enabled: false}, block: {enabled: false}, '
                                'mutex: {enabled: false}}}')
            Target.asked = {}
            with scraper(config) as s:
                active = s.get('/api/v1/targets').json['data']['activeTargets']
                n_active = len(active) or wait_for('targets', lambda: len(s.get('/api/v1/targets').json['data']['activeTargets']))
                wait_for('every target of the shard is asked', lambda: len(Target.asked) >= n_active)
            asked.append({ip for ip, _ in Target.asked})
        self.assertTrue(asked[0] and asked[1])
        self.assertFalse(asked[0] & asked[1])
        self.assertEqual(asked[0] | asked[1], {a.rpartition(':')[0] for a in addresses})

    def jobs(self, jobs, timeout='20s'):
        return ''.join(f'''
  - job_name: {name}
    scrape_interval: 1s
    scrape_timeout: {timeout}
    params: {{name: [{name}]}}
    profiling_config:
      preset: go
      path_prefix: {prefix}
      pprof_config: {{process_cpu: {{enabled: {cpu}, seconds: 1}}, memory: {{enabled: false}}, block: {{enabled: false}}, mutex: {{enabled: false}}, goroutine: {{enabled: {other}}}}}
    static_configs: [{{targets: ['127.0.0.1:{self.port}']}}]
''' for name, prefix, cpu, other in jobs)

    def config(self, jobs):
        return 'scrape_configs:\n' + self.jobs(jobs)

    def test_one_cpu_profile_at_a_time(self):
        """Jobs that ask the same program for CPU profiles take turns."""
        Target.slow_s = 0.2
        with scraper(self.config([(f'j{i}', '""', 'true', 'false') for i in range(3)])) as s:
            for i in range(3):
                wait_for(f'job j{i}', lambda i=i: s.metrics().get(f'sonde_scrapes_total{{job="j{i}",profile_type="process_cpu"}}', 0) >= 3)
        self.assertEqual(Target.most_running, {self.port: 1})

    def test_requests_per_host(self):
        Target.slow_s = 0.35  # six a second are more than two at a time
        jobs = [(f'j{i}', f'/p{i}', 'false', 'true') for i in range(6)]
        with scraper(self.config(jobs), '--scrape.max-per-host=2') as s:
            for i in range(6):
                wait_for(f'job j{i}', lambda i=i: s.metrics().get(f'sonde_scrapes_total{{job="j{i}",profile_type="goroutine"}}', 0) >= 2)
            m = s.metrics()
        self.assertEqual(Target.most_running, {self.port: 2})
        self.assertGreater(m['sonde_scrapes_deferred_total'], 0)

    def test_host_limit_names_itself(self):
        """Requests that hang hold the host's turns: the others fail, with the flag's name, and are asked again when the turns are free."""
        jobs = [('hangs', '/hang', 'false', 'true'), ('waits', '/p', 'false', 'true')]
        with scraper('scrape_configs:\n' + self.jobs(jobs, '5s'), '--scrape.max-per-host=1') as s:
            m = wait_for('host_limit', lambda: [k for k in s.metrics() if 'reason="host_limit"' in k])
            self.assertTrue(m)
            texts = wait_for('the text', lambda: [t['lastError'] for t in s.get('/api/v1/targets').json['data']['activeTargets']
                                                  if 'max-per-host' in t['lastError']])
            self.assertIn('--scrape.max-per-host requests to this host ran until the next scrape was due', texts[0])

    def test_hanging_targets_leave_the_others_alone(self):
        hangs = [(f'h{i}', f'/hang{i}', 'false', 'true') for i in range(20)]
        with scraper('scrape_configs:\n' + self.jobs(hangs, '900ms') + self.jobs([('works', '/p', 'false', 'true')])) as s:
            wait_for('ten scrapes', lambda: s.metrics().get('sonde_scrapes_total{job="works",profile_type="goroutine"}', 0) >= 10)
            m = s.metrics()
        self.assertFalse([k for k in m if 'job="works"' in k and k.startswith('sonde_scrape_failures_total')])
        self.assertTrue([k for k in m if 'reason="timeout"' in k])


if __name__ == '__main__':
    unittest.main()
