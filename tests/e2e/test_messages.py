"""What a new user gets wrong at night: each message names what is wrong, where, and what was expected."""
import http.server
import os
import subprocess
import tempfile
import threading
import unittest

import sonde_e2e
from sonde_e2e import exporter_env, program

BESIDE_OTHERS = True
NO_ROOT = 'not root: the exporter says so before anything else'


class Page(http.server.BaseHTTPRequestHandler):
    """Some other program's web server."""

    def do_GET(self):
        text = b'<!DOCTYPE html>\n<title>Welcome to nginx!</title>\n'
        self.send_response(404)
        self.send_header('Content-Type', 'text/html')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


class Messages(unittest.TestCase):
    def setUp(self):
        dir = tempfile.TemporaryDirectory(prefix='sonde-messages.')
        self.addCleanup(dir.cleanup)
        self.dir = dir.name
        with open(self.path('stacks'), 'w') as f:
            f.write('a;b 3\n')
        with open(self.path('empty.yml'), 'w') as f:
            f.write('scrape_configs: []\n')

    def path(self, name):
        return f'{self.dir}/{name}'

    def foreign_server(self):
        s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
        threading.Thread(target=s.serve_forever, daemon=True).start()
        self.addCleanup(s.server_close)
        self.addCleanup(s.shutdown)
        return f'http://127.0.0.1:{s.server_port}'

    def check(self, args, status, *texts):
        with self.subTest(' '.join(args)):
            p = subprocess.run([program(args[0]), *args[1:]], cwd=self.dir, capture_output=True, text=True, timeout=60, env=exporter_env())
            self.assertEqual(p.returncode, status, p.stderr)
            for text in texts:
                self.assertIn(text, p.stderr)
            self.assertEqual(p.stderr.count('\n'), 1, p.stderr)

    def test_files(self):
        self.check(['sonde', 'merge'], 2, 'sonde merge: expected at least one FILE; see sonde merge --help')
        self.check(['sonde', 'fold'], 2, 'sonde fold: expected at least one FILE; see sonde fold --help')
        self.check(['sonde', 'merge', 'stacks'], 2, 'expected -o FILE, where the result goes')
        self.check(['sonde', 'merge', '-o', 'no/such/file', 'stacks'], 1, 'sonde: no/such/file: No such file or directory')
        self.check(['sonde', 'mark', '--window', 'fifo:pipe', 'x'], 1, 'pipe: No such file or directory: sonde record --window fifo:pipe makes it')
        self.check(['sonde', 'tsdb', 'list', 'data'], 1, 'data: No such file or directory')
        self.check(['sonde', 'tsdb', 'list', 'stacks'], 1, 'stacks is no directory')
        self.check(['sonde', 'tsdb', 'list', '.'], 1, '. holds no store: it has neither wal/ nor blocks/')
        self.check(['sonde-scraper', '--config.file=none.yml'], 1, '--config.file: none.yml: No such file or directory')
        self.check(['sonde-scraper', '--config.file=empty.yml', '--web.config.file=none.yml', '--web.listen-address=127.0.0.1:0'], 1,
                   '--web.config.file: none.yml: No such file or directory')

    def test_another_programs_server(self):
        url = self.foreign_server()
        self.check(['sonde', 'query', '--server', url, 'up{}'], 1, f'{url} answered with status 404 and a web page', 'is it a sonde-scraper')
        self.check(['sonde', 'record', '-a', '-d', '1s', '--exporter', url], 1, f'{url} answered with status 404 and a web page', 'is it a sonde-exporter')
        self.check(['sonde', 'check', 'ready', '--url', url], 1, f'{url} answered with status 404 and a web page')

    def test_the_other_daemon(self):
        s = self.enterContext(sonde_e2e.scraper('scrape_configs: []\n')) if hasattr(self, 'enterContext') else None
        if s is None:
            s = sonde_e2e.scraper('scrape_configs: []\n')
            s.__enter__()
            self.addCleanup(s.__exit__, None, None, None)
        self.check(['sonde', 'record', '-a', '-d', '1s', '--exporter', s.url], 1, f'{s.url} answered with status 404', 'is it a sonde-exporter')

    def test_nobody_there(self):
        url = f'http://127.0.0.1:{sonde_e2e.free_port()}'
        self.check(['sonde', 'query', '--server', url, 'up{}'], 1, url, 'connect')
        self.check(['sonde', 'check', 'ready', '--url', url], 1, f'sonde: {url}: ', 'connect')

    def test_addresses(self):
        self.check(['sonde-scraper', '--config.file=empty.yml', '--web.listen-address=unix:no/such/s'], 1,
                   'cannot listen on \\"unix:no/such/s\\": No such file or directory: the socket\'s directory must exist')

    def test_flags_of_the_exporter(self):
        self.check(['sonde-exporter', '--symbols.debuginfod=ftp://x'], 2, '--symbols.debuginfod=ftp://x: ', 'expected http or https')
        self.check(['sonde-exporter', '--kubernetes', '--kubernetes.kubelet=nowhere'], 2, '--kubernetes.kubelet=nowhere: ', 'expected http')
        self.check(['sonde-exporter', '--profile.retention=10500ms'], 2, '--profile.retention: expected whole seconds')

    @unittest.skipUnless(os.geteuid() == 0 and not sonde_e2e.kernel_missing(), NO_ROOT)
    def test_places_of_the_exporter(self):
        os.chmod(self.dir, 0o755)
        self.check(['sonde-exporter', '--web.listen-address=127.0.0.1:0', '--web.config.file=none.yml'], 1, '--web.config.file: none.yml: No such file or directory')
        self.check(['sonde-exporter', '--web.listen-address=127.0.0.1:1'], 1, 'Permission denied: ports below', 'net.ipv4.ip_unprivileged_port_start')
        self.check(['sonde-exporter', f'--web.listen-address=unix:{self.dir}/s'], 1, 'Permission denied: this user must be able to write to the socket\'s directory')
        self.check(['sonde-exporter', '--web.listen-address=127.0.0.1:0', f'--debug.capture={self.dir}/c'], 1,
                   f'--debug.capture: cannot create {self.dir}/c: Permission denied: the user of --user must be able to write there')


if __name__ == '__main__':
    unittest.main()
