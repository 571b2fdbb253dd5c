"""How the scraper's requests travel: HTTP/2, certificates that change, proxies, redirects, and files of secrets."""
import base64
import gzip
import os
import shutil
import socket
import socketserver
import ssl
import struct
import tempfile
import threading
import unittest

from sonde_e2e import scraper, wait_for
from test_bad_targets import pprof
from test_http_client import Target, config, down, job, up
from test_web_config import Files

BESIDE_OTHERS = True


class Tcp(socketserver.ThreadingTCPServer):
    """A server of raw connections: `serve` gets each one; use as a context manager."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, serve):
        self.serve = serve
        super().__init__(('127.0.0.1', 0), None)
        self.port = self.server_address[1]
        self.address = f'127.0.0.1:{self.port}'
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        try:
            self.serve(request)
        except OSError:
            pass

    def handle_error(self, request, client_address):
        pass

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()


def relay(a, b):
    """Carries bytes both ways until one side ends."""
    def carry(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
    other = threading.Thread(target=carry, args=(b, a), daemon=True)
    other.start()
    carry(a, b)
    other.join()
    b.close()


class Http2:
    """An https server that prefers HTTP/2 and answers everything with a profile. `used` has the protocol and the number of streams of each connection."""

    def __init__(self, files):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(files['server.pem'], files['server.key'])
        self.context.set_alpn_protocols(['h2', 'http/1.1'])
        self.used, self.body = [], gzip.compress(pprof())

    @staticmethod
    def frame(kind, flags, stream, payload=b''):
        return struct.pack('!I', len(payload))[1:] + struct.pack('!BBI', kind, flags, stream) + payload

    def __call__(self, request):
        s = self.context.wrap_socket(request, server_side=True)
        protocol = s.selected_alpn_protocol()
        entry = [protocol, 0]
        self.used.append(entry)
        with s, s.makefile('rb') as f:
            while self.answer_one(s, f) if protocol != 'h2' else self.answer_all(s, f, entry):
                entry[1] += 1

    def answer_one(self, s, f):
        if not f.readline():
            return False
        while f.readline().strip():
            pass
        s.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(self.body) + self.body)
        return True

    def answer_all(self, s, f, entry):
        if f.read(24) != b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n':
            return False
        s.sendall(self.frame(4, 0, 0))  # SETTINGS
        while len(head := f.read(9)) == 9:
            n, kind, flags, stream = int.from_bytes(head[:3], 'big'), head[3], head[4], int.from_bytes(head[5:], 'big')
            payload = f.read(n)
            if kind in (4, 6) and not flags & 1:  # SETTINGS and PING are acknowledged
                s.sendall(self.frame(kind, 1, 0, payload if kind == 6 else b''))
            elif kind == 1 and flags & 1:  # HEADERS that end a request; 0x88 is ":status: 200"
                entry[1] += 1
                s.sendall(self.frame(1, 4, stream, b'\x88') + self.frame(0, 1, stream, self.body))
        return False


class HttpTransportTest(unittest.TestCase):
    def files(self):
        f = Files()
        self.addCleanup(f.close)
        return f

    def scrapes(self, s):
        return sum(v for k, v in s.metrics().items() if k.startswith('sonde_scrapes_total{'))

    def test_http2(self):
        f = self.files()
        two, one = Http2(f), Http2(f)
        with Tcp(two) as a, Tcp(one) as b:
            tls = f'tls_config: {{ca_file: {f["ca.pem"]}}}'
            with scraper(config(job(a, tls, 'two', 'https'), job(b, f'enable_http2: false\n{tls}', 'one', 'https'))) as s:
                up(s, 'two')
                up(s, 'one')
                wait_for('further requests', lambda: all(max(n for _, n in x.used) > 1 for x in (two, one)))
                self.assertEqual({p for p, _ in two.used}, {'h2'})
                self.assertNotIn('h2', {p for p, _ in one.used})

    def test_certificates_that_change(self):
        """Each connection uses what the files have now, also where TLS could take an earlier session up again."""
        f, stranger = self.files(), self.files()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])
        context.load_verify_locations(f['ca.pem'])
        context.verify_mode = ssl.CERT_OPTIONAL
        with tempfile.TemporaryDirectory() as d, Target(lambda h, b: (200, {'Connection': 'close'}, gzip.compress(pprof())), context) as t:
            def put(source, name):
                shutil.copy(source, f'{d}/.new')
                os.rename(f'{d}/.new', f'{d}/{name}')

            def client(name):
                put(f[f'{name}.key'], 'key')
                put(f[f'{name}.pem'], 'cert')

            def seen():
                return dict(x[0] for x in (t.requests[-1][4] or {}).get('subject', ()))['commonName'] if t.requests else None
            put(stranger['ca.pem'], 'ca')
            client('good')
            with scraper(config(job(t, f'tls_config: {{ca_file: {d}/ca, cert_file: {d}/cert, key_file: {d}/key}}', scheme='https'))) as s:
                down(s, why='certificate')
                put(f['ca.pem'], 'ca')
                up(s)
                self.assertEqual(seen(), 'good')
                client('other')
                wait_for('the new client certificate', lambda: seen() == 'other')
                up(s)
                put(stranger['ca.pem'], 'ca')
                down(s, why='certificate')
                n, scrapes = len(t.requests), self.scrapes(s)
                wait_for('further scrapes', lambda: self.scrapes(s) > scrapes + 1)
                self.assertEqual(len(t.requests), n, 'a request to a server that is not trusted any more')

    def test_environment(self):
        """HTTP_PROXY in capitals too, and what is here is asked directly, as Go's programs do."""
        def through(h, body):
            return (200, {}, gzip.compress(pprof())) if h.path.startswith('http://') else (400, {}, b'')
        with Target(through) as proxy, Target() as here:
            far = type('Address', (), {'address': 'shop.example:6060'})
            spared = type('Address', (), {'address': 'shop.internal:6060'})
            text = config(*(job(t, 'proxy_from_environment: true', name) for t, name in ((far, 'far'), (here, 'here'), (spared, 'spared'))), job(far, '', 'without'))
            for names in (('HTTP_PROXY', 'NO_PROXY'), ('http_proxy', 'no_proxy')):
                proxy.requests.clear()
                env = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
                env.update(zip(names, (f'http://{proxy.address}', 'other.example:1, *.internal')))
                with scraper(text, env=env) as s:
                    up(s, 'far')
                    up(s, 'here')
                    down(s, 'spared', 'resolve')
                    down(s, 'without', 'resolve')
                    self.assertEqual({r[1].split('/')[2] for r in proxy.requests}, {'shop.example:6060'})

    def test_exceptions(self):
        def through(h, body):
            return (200, {}, gzip.compress(pprof())) if h.path.startswith('http://') else (400, {}, b'')
        lists = ('127.0.0.1:{0}', 'x.example,127.0.0.1', '10.0.0.0/8 127.0.0.0/8', '*', '*.example,*')
        with Target(through) as proxy, Target() as t:
            def keys(exceptions):
                return f'proxy_url: http://{proxy.address}\nno_proxy: "{exceptions.format(t.port)}"'
            jobs = [job(t, keys(x), f'direct{i}') for i, x in enumerate(lists)] + [job(t, keys(x), f'proxied{i}') for i, x in enumerate(('127.0.0.1:1', '[127.0.0.1]:1', '7.0.0.1'))]
            with scraper(config(*(j.replace('  static_configs', f'  params: {{job: [{j.split()[2]}]}}\n  static_configs') for j in jobs))) as s:
                for j in jobs:
                    up(s, j.split()[2])

                def which(target):
                    return {r[1].split('job=')[1].split('&')[0] for r in target.requests}
                self.assertEqual(which(t), {f'direct{i}' for i in range(len(lists))})
                self.assertEqual(which(proxy), {'proxied0', 'proxied1', 'proxied2'})

    def test_tunnel(self):
        """https through a proxy that carries connections, and its own headers stay with it."""
        f, connects = self.files(), []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])
        with Target(context=context) as t:
            def serve(s):
                head = b''
                while b'\r\n\r\n' not in head:
                    head += s.recv(1)
                connects.append(head.decode())
                s.sendall(b'HTTP/1.1 200 Connection established\r\n\r\n')
                relay(s, socket.create_connection(('127.0.0.1', t.port)))
            with Tcp(serve) as proxy:
                far = type('Address', (), {'address': 'localhost:7443'})
                keys = (f'proxy_url: http://u:s3cret@{proxy.address}\nproxy_connect_header: {{X-Zone: [a, b]}}\nhttp_headers: {{X-Own: {{values: [c]}}}}\n'
                        f'tls_config: {{ca_file: {f["ca.pem"]}}}')
                with scraper(config(job(far, keys, scheme='https'))) as s:
                    up(s)
                    lines = connects[0].split('\r\n')
                    self.assertEqual(lines[0], 'CONNECT localhost:7443 HTTP/1.1')
                    self.assertTrue({'X-Zone: a', 'X-Zone: b', 'Proxy-Authorization: Basic ' + base64.b64encode(b'u:s3cret').decode()} <= set(lines), lines)
                    self.assertNotIn('X-Own: c', lines)
                    self.assertEqual((t.header('X-Own'), t.header('X-Zone'), t.header('Proxy-Authorization')), ('c', None, None))

    def test_socks(self):
        names = []
        with Target() as t:
            def serve(s):
                n = s.recv(2, socket.MSG_WAITALL)[1]
                s.recv(n, socket.MSG_WAITALL)
                s.sendall(b'\5\0')
                _, command, _, kind = s.recv(4, socket.MSG_WAITALL)
                n = {1: 4, 3: 0, 4: 16}[kind] or s.recv(1)[0]
                host, port = s.recv(n, socket.MSG_WAITALL), struct.unpack('!H', s.recv(2, socket.MSG_WAITALL))[0]
                names.append((command, kind, host.decode() if kind == 3 else host, port))
                s.sendall(b'\5\0\0\1\0\0\0\0\0\0')
                relay(s, socket.create_connection(('127.0.0.1', t.port)))
            with Tcp(serve) as proxy:
                far = type('Address', (), {'address': 'shop.example:6060'})
                with scraper(config(job(far, f'proxy_url: socks5h://{proxy.address}', 'name'), job(t, f'proxy_url: socks5://{proxy.address}', 'address'))) as s:
                    up(s, 'name')
                    up(s, 'address')
                    self.assertEqual(set(names), {(1, 3, 'shop.example', 6060), (1, 1, b'\x7f\0\0\1', t.port)})

    def test_redirects(self):
        """Within the host all goes along; to another, neither credentials nor headers that are secret."""
        with tempfile.TemporaryDirectory() as d, Target() as end:
            def answer(h, body):
                if h.path.startswith('/moved'):
                    return None
                to = f'http://localhost:{end.port}/elsewhere' if h.path.startswith('/away') else '/moved?x=http://h/'
                return 307, {'Location': to}, b''
            with open(f'{d}/key', 'w') as f:
                f.write('from-file')
            headers = f'http_headers: {{X-Key: {{secrets: [k]}}, X-File: {{files: ["{d}/key"]}}, X-Open: {{values: [o]}}, Cookie: {{secrets: [c]}}}}'
            with Target(answer) as start:
                def prefixed(name, credentials):
                    return job(start, f'{headers}\n{credentials}', name).replace('{preset: go,', f'{{preset: go, path_prefix: /{name},')
                with scraper(config(prefixed('away', 'authorization: {credentials: t}'), prefixed('within', 'basic_auth: {username: u, password: p}'))) as s:
                    up(s, 'away')
                    up(s, 'within')
                    names = ('Authorization', 'X-Key', 'X-File', 'Cookie', 'X-Open')
                    sent = {r[1].split('/')[1].split('?')[0]: [r[2].get(n) for n in names] for r in start.requests}
                    basic = 'Basic ' + base64.b64encode(b'u:p').decode()
                    self.assertEqual(sent, {'away': ['Bearer t', 'k', 'from-file', 'c', 'o'], 'within': [basic, 'k', 'from-file', 'c', 'o'],
                                            'moved': [basic, 'k', 'from-file', 'c', 'o']})
                    self.assertEqual({tuple(r[2].get(n) for n in names) for r in end.requests}, {(None, None, None, None, 'o')})

    def test_redirects_within_a_host(self):
        """To another port or to https credentials go along, as with Prometheus; not from https into the clear, nor after a way round by another host."""
        f = self.files()

        def tls():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f['server.pem'], f['server.key'])
            return context
        with Target() as port, Target(context=tls()) as secure:
            def round(h, body):  # by localhost, which is another host, and back
                return 302, {'Location': f'http://127.0.0.1:{port.port}/back/again'}, b''
            with Target(round) as away:
                to = {'port': f'//127.0.0.1:{port.port}/port', 'up': f'https://127.0.0.1:{secure.port}/up', 'down': f'http://127.0.0.1:{port.port}/down',
                      'away': f'http://localhost:{away.port}/away'}

                def answer(h, body):
                    return 302, {'Location': to[h.path.split('/')[1]]}, b''
                with Target(answer) as start, Target(answer, tls()) as start_tls:
                    def redirected(name, target, scheme='http'):
                        keys = f'basic_auth: {{username: u, password: p}}\ntls_config: {{ca_file: {f["ca.pem"]}}}\nhttp_headers: {{X-Key: {{secrets: [k]}}}}'
                        return job(target, keys, name, scheme).replace('{preset: go,', f'{{preset: go, path_prefix: /{name},')
                    with scraper(config(redirected('port', start), redirected('up', start), redirected('away', start), redirected('down', start_tls, 'https'))) as s:
                        for name in ('port', 'up', 'away', 'down'):
                            up(s, name)
                        both = ('Basic ' + base64.b64encode(b'u:p').decode(), 'k')
                        got = {(r[1].split('?')[0], r[2].get('Authorization'), r[2].get('X-Key')) for r in port.requests + secure.requests + away.requests}
                        self.assertEqual(got, {('/port', *both), ('/up', *both), ('/down', None, None), ('/away', None, None), ('/back/again', None, None)})

    def test_requests_for_tokens(self):
        """They have certificates and a proxy of their own, which the scrapes do not share."""
        f = self.files()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])

        def grant(h, body):
            return 200, {}, b'{"access_token": "of %s"}' % h.path.split('/')[2 if h.path.startswith('http') else 1].encode()
        with Target(grant, context) as https, Target(grant) as proxy, Target() as t:
            def keys(url, more):
                return f'oauth2: {{client_id: me, client_secret: s, token_url: "{url}", {more}}}'
            with scraper(config(job(t, keys(f'https://{https.address}/tls/', f'tls_config: {{ca_file: {f["ca.pem"]}}}'), 'tls'),
                                job(t, keys(f'https://{https.address}/none/', 'scopes: []'), 'none'),
                                job(t, keys('http://login.example/x', f'proxy_url: http://{proxy.address}'), 'proxied'))) as s:
                up(s, 'tls')
                up(s, 'proxied')
                down(s, 'none', 'oauth2: no token from https://.*certificate')
                self.assertEqual({r[2]['Authorization'] for r in t.requests}, {'Bearer of tls', 'Bearer of login.example'})
                self.assertEqual({r[0] for r in proxy.requests}, {'POST'})

    def test_files_of_secrets(self):
        """Relative to the configuration, read for each request."""
        with Target() as user, Target() as token, Target() as oauth:
            def grant(h, body):
                return 200, {}, b'{"access_token": "%s"}' % base64.b64decode(h.headers['Authorization'][6:])
            with Target(grant) as server, tempfile.TemporaryDirectory() as d:
                def put(name, text):
                    with open(f'{d}/{name}', 'w') as f:
                        f.write(text)
                put('user', ' alice\n')
                put('password', 'one\n')
                put('token', '\ttoken-1\n')
                put('secret', 'secret-1')
                with scraper(config(job(user, f'basic_auth: {{username_file: {d}/user, password_file: {d}/password}}', 'user'),
                                    job(token, f'bearer_token_file: {d}/token', 'token'),
                                    job(oauth, f'oauth2: {{client_id: me, client_secret_file: {d}/secret, token_url: "http://{server.address}/"}}', 'oauth'))) as s:
                    for name in ('user', 'token', 'oauth'):
                        up(s, name)
                    self.assertEqual(user.header('Authorization'), 'Basic ' + base64.b64encode(b'alice:one').decode())
                    self.assertEqual(token.header('Authorization'), 'Bearer token-1')
                    self.assertEqual(oauth.header('Authorization'), 'Bearer me:secret-1')
                    put('user', 'bob')
                    put('token', 'token-2')
                    put('secret', 'secret-2')
                    wait_for('the new user', lambda: user.header('Authorization') == 'Basic ' + base64.b64encode(b'bob:one').decode())
                    wait_for('the new token', lambda: token.header('Authorization') == 'Bearer token-2')
                    wait_for('a token for the new secret', lambda: oauth.header('Authorization') == 'Bearer me:secret-2')


if __name__ == '__main__':
    unittest.main()
