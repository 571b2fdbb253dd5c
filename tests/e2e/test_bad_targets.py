"""Bad input to the scraper: each kind gives one clear reason in the target's lastError or in the load error, a counter, and nothing else suffers."""
import gzip
import http.server
import os
import subprocess
import tempfile
import threading
import time
import unittest

from sonde_e2e import Pprof, program, scraper, wait_for

BESIDE_OTHERS = True


# --- a few bytes of pprof, written by hand so that they can be wrong ------------------------------------------------------

def varint(v):
    out = b''
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def field(number, payload):
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def pprof(location=1, string=4, label=b'v', samples=1, filler=0):
    """A CPU profile of one function; `location` and `string` are the ids that the sample and the function refer to."""
    strings = [b'', b'cpu', b'nanoseconds', b'key', b'work', label]
    now = time.time_ns()
    out = field(1, field(1, 1) + field(2, 2))
    for _ in range(samples):
        out += field(2, field(1, location) + field(2, 7) + field(3, field(1, 3) + field(2, 5)))
    out += field(4, field(1, 1) + field(4, field(1, 1) + field(2, 3)))
    out += field(5, field(1, 1) + field(2, string))
    for s in strings:
        out += field(6, s)
    if filler:
        out += field(6, os.urandom(filler))
    return out + field(9, now - 1000000000) + field(10, 1000000000) + field(11, field(1, 1) + field(2, 2)) + field(12, 1)


LARGE = pprof(filler=50 << 20)
GOOD = gzip.compress(pprof())

# path → (status, content type, body, part of lastError, reason)
CASES = {
    'truncated': (200, 'application/octet-stream', GOOD[:-9], 'gzip: truncated after', 'gzip'),
    'bomb': (200, 'application/octet-stream', gzip.compress(b'\0' * (400 << 20), 9), 'decompressed body over its limit', 'inflated_size'),
    'html': (200, 'text/html', b'<!DOCTYPE html><html><body>Log in</body></html>',
             'the answer is an HTML or XML page, not a pprof profile (content type "text/html")', 'content'),
    'missing': (404, 'text/plain', b'404 page not found\n', 'server returned HTTP status 404: 404 page not found', 'http_status'),
    'empty': (200, 'application/octet-stream', b'', 'empty answer (0 bytes) with status 200', 'empty'),
    'locations': (200, 'application/octet-stream', pprof(location=9), 'not a valid pprof profile', 'pprof'),
    'strings': (200, 'application/octet-stream', pprof(string=99), 'not a valid pprof profile', 'pprof'),
    'utf8': (200, 'application/octet-stream', pprof(label=b'\xff\xfe'), 'not UTF-8', None),
    'noise': (200, 'application/octet-stream', b'\x0a\xff' + b'\xff' * 30, 'not a valid pprof profile', 'pprof'),
    'large': (200, 'application/octet-stream', None, 'body larger than 33554432 bytes as sent', 'body_size'),
    'drip': (200, 'application/octet-stream', None, 'timed out after 3s while reading the answer', 'timeout'),
    'zero': (200, 'application/octet-stream', pprof(samples=0), None, None),
    'good': (200, 'application/octet-stream', GOOD, None, None),
}


class Targets:
    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *a):
                pass

            def do_GET(self):
                name = self.path.split('/')[1].split('?')[0]
                status, ctype, body, _, _ = CASES[name]
                if name == 'large':
                    body = LARGE
                if name in ('good', 'zero'):
                    body = pprof(samples=1 if name == 'good' else 0)
                try:
                    self.send_response(status)
                    self.send_header('Content-Type', ctype)
                    if name == 'large':
                        # no length: the limit has to be noticed while it comes
                        self.send_header('Connection', 'close')
                        self.close_connection = True
                        self.end_headers()
                        self.wfile.write(body)
                        return
                    self.send_header('Content-Length', str(100 if name == 'drip' else len(body)))
                    self.end_headers()
                    if name != 'drip':
                        self.wfile.write(body)
                        return
                    for _ in range(30):
                        self.wfile.write(b'x')
                        self.wfile.flush()
                        time.sleep(1)  # a byte a second is what is bad about it
                except OSError:
                    pass
                self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def config(port):
    jobs = ''
    for name in CASES:
        jobs += f'''
- job_name: {name}
  scrape_interval: {'2s' if name == 'drip' else '6s'}
  scrape_timeout: {'2s' if name == 'drip' else '60s'}
  static_configs: [{{targets: ['127.0.0.1:{port}']}}]
  profiling_config:
    preset: go
    pprof_config:
      process_cpu: {{enabled: false}}
      mutex: {{enabled: false}}
      block: {{enabled: false}}
      memory: {{enabled: false}}
      goroutine: {{enabled: false}}
      custom: {{path: /{name}, delta: true}}
'''
    return f'scrape_configs:{jobs}'


class BadTargets(unittest.TestCase):
    def targets(self, s):
        return {t['labels']['job']: t for t in s.get('/api/v1/targets').json['data']['activeTargets']}

    def test_reasons(self):
        servers = Targets()
        self.addCleanup(servers.close)
        with scraper(config(servers.port)) as s:
            wait_for('all targets scraped', lambda: all(t['health'] != 'unknown' for t in self.targets(s).values())
                     and len(self.targets(s)) == len(CASES))
            wait_for('two good profiles', lambda: s.metrics().get('sonde_scrapes_total{job="good",profile_type="custom"}', 0) >= 3)
            targets, metrics = self.targets(s), s.metrics()
            for name, (_, _, _, error, reason) in CASES.items():
                with self.subTest(name):
                    t = targets[name]
                    if error is None:
                        self.assertEqual((t['health'], t['lastError']), ('up', ''))
                        self.assertEqual([k for k in metrics if k.startswith(f'sonde_scrape_failures_total{{job="{name}"')], [],
                                         [line for line in s.output().split('\n') if f'job={name} ' in line])
                        continue
                    self.assertEqual(t['health'], 'down' if reason else 'up')
                    self.assertIn(error, t['lastError'])
                    if not reason:  # a bad byte costs itself
                        self.assertGreaterEqual(metrics[f'sonde_scrape_labels_mended_total{{job="{name}"}}'], 1)
                        r = s.get(f'/api/v1/profile?query=custom:cpu:nanoseconds:cpu:nanoseconds{{job="{name}"}}')
                        self.assertGreater(Pprof(r.body).total(), 0)
                        continue
                    counts = {k: v for k, v in metrics.items() if k.startswith(f'sonde_scrape_failures_total{{job="{name}"')}
                    self.assertEqual(list(counts), [f'sonde_scrape_failures_total{{job="{name}",reason="{reason}"}}'])
                    self.assertGreaterEqual(list(counts.values())[0], 1)
            # nothing else suffered: the good target's profiles are there, and only those
            r = s.get('/api/v1/profile?query=custom:cpu:nanoseconds:cpu:nanoseconds{job="good"}')
            self.assertEqual(r.status, 200, r.text[:300])
            good = Pprof(r.body)
            self.assertEqual(set(good.functions()), {'work'})
            self.assertGreaterEqual(good.total(), 7 * 2)
            r = s.get('/api/v1/profile?query=custom:cpu:nanoseconds:cpu:nanoseconds{job!~"good|utf8"}')
            self.assertTrue(r.status == 404 or Pprof(r.body).total() == 0, r.status)
            # all that the bad answers took has been given back
            self.assertLess(metrics['sonde_memory_peak_bytes{budget="scrape"}'], 512 << 20)
            wait_for('memory given back', lambda: s.metrics()['sonde_memory_used_bytes{budget="scrape"}'] < 80 << 20)


GOOD_CONFIG = '''
scrape_configs:
- job_name: a
  static_configs: [{targets: ['127.0.0.1:1']}]
'''
BAD_CONFIGS = {
    'twice': (GOOD_CONFIG + "- job_name: a\n", 'job_name'),
    'negative': (GOOD_CONFIG + "  scrape_interval: -5s\n", 'scrape_interval'),
    'unknown': (GOOD_CONFIG + "  scrape_intervall: 5s\n", 'scrape_intervall'),
    'syntax': (GOOD_CONFIG + "  params: {a: [b}\n", ':'),
    'null': ('scrape_configs: [null]\n', 'scrape_configs[0]'),
}


class BadConfig(unittest.TestCase):
    def start(self, path):
        with tempfile.TemporaryDirectory() as d:
            p = subprocess.run([program('sonde-scraper'), f'--config.file={path}', f'--storage.path={d}/data',
                                '--web.listen-address=127.0.0.1:0'], capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 1, p.stderr)
        return p.stderr

    def test_start(self):
        with tempfile.TemporaryDirectory() as d:
            for name, (text, part) in BAD_CONFIGS.items():
                with self.subTest(name):
                    with open(f'{d}/{name}.yml', 'w') as f:
                        f.write(text)
                    err = self.start(f'{d}/{name}.yml')
                    self.assertIn(f'{d}/{name}.yml:', err)
                    self.assertIn(part, err)
            self.assertIn('is a directory', self.start(d))
            self.assertIn('No such file', self.start(f'{d}/absent.yml'))

    def test_reload_keeps_the_old_one(self):
        with scraper(GOOD_CONFIG, '--web.enable-lifecycle') as s:
            before = s.get('/api/v1/status/config').text
            for name, (text, part) in BAD_CONFIGS.items():
                with self.subTest(name):
                    s.set_config(text)
                    r = s.get('/-/reload', method='POST')
                    self.assertEqual(r.status, 500)
                    self.assertIn(part, r.text)
                    self.assertEqual(s.get('/api/v1/status/config').text, before)
                    self.assertEqual(s.metrics()['sonde_config_last_reload_successful'], 0)
            os.unlink(s.config)
            os.mkdir(s.config)
            self.assertIn('is a directory', s.get('/-/reload', method='POST').text)
            os.rmdir(s.config)
            s.set_config(GOOD_CONFIG + "- job_name: b\n")
            self.assertEqual(s.get('/-/reload', method='POST').status, 200)
            self.assertEqual(s.metrics()['sonde_config_last_reload_successful'], 1)
            self.assertIn('job_name: b', s.get('/api/v1/status/config').json['data']['yaml'])

    def test_lifecycle_is_off_by_default(self):
        with scraper(GOOD_CONFIG) as s:
            for path in ('/-/reload', '/-/quit'):
                self.assertEqual(s.get(path, method='POST').status, 403)
                self.assertEqual(s.get(path).status, 405)

    def test_command_line(self):
        for flags, part in ((['--nonsense'], 'nonsense'), (['--storage.retention.time=1.5d'], 'storage.retention.time'),
                            (['--web.listen-address=127.0.0.1'], 'missing port'), (['--storage.fsync=sometimes'], 'storage.fsync'),
                            (['--web.external-url=ftp://x/'], 'external-url')):
            with self.subTest(flags[0]), tempfile.TemporaryDirectory() as d:
                with open(f'{d}/c.yml', 'w') as f:
                    f.write(GOOD_CONFIG)
                p = subprocess.run([program('sonde-scraper'), f'--config.file={d}/c.yml', f'--storage.path={d}/data',
                                    '--web.listen-address=127.0.0.1:0', *flags], capture_output=True, text=True, timeout=120)
                self.assertIn(p.returncode, (1, 2))
                self.assertIn(part, p.stderr)


if __name__ == '__main__':
    unittest.main()
