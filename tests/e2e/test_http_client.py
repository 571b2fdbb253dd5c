"""How the scraper makes its requests: credentials, TLS, proxies, headers, redirects, OAuth 2.0, and that no secret shows."""
import base64
import gzip
import http.server
import json
import os
import re
import socketserver
import ssl
import threading
import unittest
import urllib.parse

from sonde_e2e import scraper, wait_for
from test_bad_targets import pprof
from test_web_config import Files

BESIDE_OTHERS = True


class Target:
    """An HTTP server that answers every GET with a profile, or as `answer` says, and keeps what it was sent."""

    def __init__(self, answer=None, context=None, path=None):
        self.requests = []
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def reply(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                target.requests.append((self.command, self.path, self.headers, body, getattr(self.connection, 'getpeercert', lambda: None)()))
                status, headers, out = (answer(self, body) if answer else None) or (200, {}, gzip.compress(pprof()))
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header('Content-Length', str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            do_GET = do_POST = do_PUT = do_CONNECT = reply

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *args):
                pass

        class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True
            handle_error = Server.handle_error

            def get_request(self):
                return super().get_request()[0], ('unix', 0)

        self.s = UnixServer(path, Handler) if path else Server(('127.0.0.1', 0), Handler)
        if context:
            self.s.socket = context.wrap_socket(self.s.socket, server_side=True)
        self.port = 0 if path else self.s.server_address[1]
        self.address = f'127.0.0.1:{self.port}'
        threading.Thread(target=self.s.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.shutdown()
        self.s.server_close()

    def header(self, name):
        """Of the last request of the scraper."""
        return self.requests[-1][2].get(name)


def job(target, keys, name='j', scheme='http'):
    lines = ''.join(f'  {line}\n' for line in keys.strip('\n').split('\n')) if keys else ''
    return (f'- job_name: {name}\n  scrape_interval: 1s\n  scrape_timeout: 20s\n  scheme: {scheme}\n{lines}'
            f'  profiling_config: {{preset: go, pprof_config: {{process_cpu: {{enabled: false}}, block: {{enabled: false}}, mutex: {{enabled: false}}, goroutine: {{enabled: false}}}}}}\n'
            f'  static_configs: [{{targets: ["{target.address}"]}}]\n')


def config(*jobs):
    return 'scrape_configs:\n' + ''.join(jobs)


def health(s, name='j'):
    t = [t for t in s.get('/api/v1/targets').json['data']['activeTargets'] if t['scrapePool'] == name]
    return (t[0]['health'], t[0]['lastError']) if t else ('unknown', '')


def up(s, name='j'):
    return wait_for('the target to be up', lambda: health(s, name)[0] == 'up' or None)


def down(s, name='j', why=''):
    """Its error, once there is one that matches: on a busy machine an answer may just come too late first."""
    def error():
        state, text = health(s, name)
        return text if state == 'down' and re.search(why, text.lower()) else None
    return wait_for(f'the target {name} to be down: {why}', error)


class HttpClientTest(unittest.TestCase):
    def test_credentials_and_headers(self):
        with Target() as basic, Target() as token, Target() as old, Target() as named:
            f = Files()
            self.addCleanup(f.close)
            for name, text in (('password', ' s3cret-b \n'), ('token', 's3cret-t\n'), ('extra', 's3cret-e')):
                with open(f[name], 'w') as out:
                    out.write(text)
            text = config(job(basic, f'basic_auth: {{username: u, password_file: {f["password"]}}}', 'basic'),
                          job(token, f'authorization: {{type: Token, credentials_file: {f["token"]}}}', 'token'),
                          job(old, 'bearer_token: s3cret-o', 'old'),
                          job(named, f'http_headers: {{X-A: {{values: [one, two]}}, X-B: {{secrets: [s3cret-h], files: ["{f["extra"]}"]}}}}', 'named'))
            with scraper(text) as s:
                for name in ('basic', 'token', 'old', 'named'):
                    up(s, name)
                self.assertEqual(basic.header('Authorization'), 'Basic ' + base64.b64encode(b'u:s3cret-b').decode())
                self.assertEqual(token.header('Authorization'), 'Token s3cret-t')
                self.assertEqual(old.header('Authorization'), 'Bearer s3cret-o')
                self.assertEqual(named.requests[-1][2].get_all('X-A'), ['one', 'two'])
                self.assertEqual(named.requests[-1][2].get_all('X-B'), ['s3cret-h', 's3cret-e'])
                with open(f['token'], 'w') as out:
                    out.write('changed')
                wait_for('the changed file to be used', lambda: token.header('Authorization') == 'Token changed')
                for page in ('/api/v1/status/config', '/plain/config', '/api/v1/targets', '/plain/targets', '/metrics'):
                    body = s.get(page).text
                    self.assertNotIn('s3cret', body, page)
                self.assertIn('<secret>', s.get('/api/v1/status/config').json['data']['yaml'])
                self.assertNotIn('s3cret', s.output())
                os.unlink(f['token'])
                down(s, 'token', 'no such file')

    def test_tls(self):
        f = Files()
        self.addCleanup(f.close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])
        context.load_verify_locations(f['ca.pem'])
        context.verify_mode = ssl.CERT_OPTIONAL
        with Target(context=context) as t:
            with open(f['ca.pem']) as ca:
                inline = json.dumps(ca.read())
            text = config(job(t, f'tls_config: {{ca_file: {f["ca.pem"]}, cert_file: {f["good.pem"]}, key_file: {f["good.key"]}}}', 'client', 'https'),
                          job(t, f'tls_config: {{ca: {inline}}}', 'inline', 'https'),
                          job(t, 'tls_config: {insecure_skip_verify: true}', 'blind', 'https'),
                          job(t, '', 'stranger', 'https'),
                          job(t, f'tls_config: {{ca_file: {f["ca.pem"]}, server_name: localhost}}', 'named', 'https'),
                          job(t, f'tls_config: {{ca_file: {f["ca.pem"]}, server_name: elsewhere}}', 'misnamed', 'https'),
                          job(t, f'tls_config: {{ca_file: {f["ca.pem"]}, max_version: TLS11, min_version: TLS10}}', 'ancient', 'https'))
            with scraper(text) as s:
                for name in ('client', 'inline', 'blind', 'named'):
                    up(s, name)
                for name in ('stranger', 'misnamed', 'ancient'):
                    down(s, name, 'ssl|tls|certificate')
                self.assertTrue(any(r[4] and 'good' in str(r[4]['subject']) for r in t.requests))

    def test_unix_sockets(self):
        """Two programs behind sockets, with one address between them or none, and one on the network: each is itself."""
        f = Files()
        self.addCleanup(f.close)
        one, two = self.enterContext(Target(path=f['one'])), self.enterContext(Target(path=f['two']))

        def unix(name, path, rules=''):
            target = type('Address', (), {'address': 'shop:1'})
            return job(target, rules, name).replace('["shop:1"]', f'["shop:1"], labels: {{__unix_socket__: {path}}}')
        no_address = 'relabel_configs: [{target_label: __address__, replacement: ""}]'
        with Target() as network, scraper(config(unix('one', f['one']), unix('two', f['two']), unix('bare', f['one'], no_address), unix('none', f['three']),
                                                 job(network, '', 'network'))) as s:
            for name in ('one', 'two', 'bare', 'network'):
                up(s, name)
            self.assertTrue(down(s, 'none'))
            self.assertEqual({r[2]['Host'] for r in one.requests}, {'shop:1', 'localhost'})
            self.assertEqual({r[2]['Host'] for r in two.requests}, {'shop:1'})
            labels = {t['scrapePool']: t['labels'] for t in s.get('/api/v1/targets').json['data']['activeTargets']}
            self.assertEqual((labels['one']['instance'], labels['bare']['instance']), ('shop:1', f['one']))

    def test_redirects(self):
        with Target() as end, Target(lambda h, b: (302, {'Location': f'http://localhost:{end.port}{h.path}'}, b'')) as start:
            text = config(job(start, 'basic_auth: {username: u, password: p}', 'follow'), job(start, 'follow_redirects: false', 'stay'))
            with scraper(text) as s:
                up(s, 'follow')
                self.assertIsNone(end.header('Authorization'), 'credentials went to another host')
                down(s, 'stay', '302')

    def test_proxy(self):
        def through(h, body):
            return (200, {}, gzip.compress(pprof())) if h.path.startswith('http://') else (400, {}, b'')
        with Target(through) as proxy, Target() as direct:
            text = config(job(direct, f'proxy_url: http://u:s3cret@{proxy.address}', 'proxied'),
                          job(direct, f'proxy_url: http://{proxy.address}\nno_proxy: 127.0.0.0/8', 'direct'),
                          job(direct, f'proxy_url: http://{proxy.address}\nproxy_connect_header: {{X-Zone: [s3cret]}}\ntls_config: {{insecure_skip_verify: true}}', 'tunnel', 'https'))
            with scraper(text) as s:
                up(s, 'proxied')
                up(s, 'direct')
                down(s, 'tunnel')
                got = {(r[0], r[2].get('X-Zone')) for r in proxy.requests}
                self.assertIn(('CONNECT', 's3cret'), got)
                self.assertIn(f'http://{direct.address}/', [r[1] for r in proxy.requests if r[0] == 'GET'][0])
                self.assertTrue(any(r[2].get('Proxy-Authorization') for r in proxy.requests))
                self.assertTrue(direct.requests)
                self.assertNotIn('s3cret', s.get('/plain/config').text + s.get('/plain/targets').text + s.output())

    def test_oauth2(self):
        tokens = []
        def grant(h, body):
            form = urllib.parse.parse_qs(body.decode())
            basic = h.headers.get('Authorization')
            if h.path == '/form' and 'client_secret' not in form:
                return 401, {}, b'{"error":"invalid_client"}'
            if h.path == '/never':
                return 403, {}, b'{}'
            tokens.append((h.path, form, basic))
            return 200, {'Content-Type': 'application/json'}, json.dumps({'access_token': f't{len(tokens)}', 'token_type': 'bearer', 'expires_in': 12}).encode()
        with Target(grant) as server, Target() as a, Target() as b, Target() as c:
            def oauth(path):
                return (f'oauth2: {{client_id: "me@x", client_secret: s3cret, token_url: "http://{server.address}{path}", scopes: [r, w], '
                        'endpoint_params: {audience: profiles}}')
            with scraper(config(job(a, oauth('/basic'), 'a'), job(b, oauth('/form'), 'b'), job(c, oauth('/never'), 'c'))) as s:
                up(s, 'a')
                up(s, 'b')
                self.assertRegex(a.header('Authorization'), r'^Bearer t\d+$')
                path, form, basic = [t for t in tokens if t[0] == '/basic'][0]
                self.assertEqual(basic, 'Basic ' + base64.b64encode(b'me%40x:s3cret').decode())
                self.assertEqual(form, {'grant_type': ['client_credentials'], 'scope': ['r w'], 'audience': ['profiles']})
                self.assertEqual([t for t in tokens if t[0] == '/form'][0][1]['client_secret'], ['s3cret'])
                down(s, 'c', 'status 403')
                self.assertFalse(c.requests)
                first = a.header('Authorization')
                wait_for('a new token before the old one expires', lambda: a.header('Authorization') != first)
                n = len(a.requests)
                self.assertLess(len([t for t in tokens if t[0] == '/basic']), n, 'tokens are kept')
                self.assertNotIn('s3cret', s.get('/plain/config').text + s.get('/plain/targets').text + s.output())


if __name__ == '__main__':
    unittest.main()
