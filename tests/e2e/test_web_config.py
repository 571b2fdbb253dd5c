"""--web.config.file on both servers: TLS, client certificates, users, headers, rate, and changes without a restart."""
import base64
import crypt
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from sonde_e2e import Daemon, exporter, needs_kernel, program, sonde, stays, wait_for

BESIDE_OTHERS = True

PROMTOOL = '/usr/bin/promtool'


def openssl(*args):
    subprocess.run(['openssl', *args], check=True, capture_output=True)


class Files:
    """A folder with a CA, a server and two client certificates, and the web configuration."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='sonde-web.')
        os.chmod(self.dir, 0o755)
        self.path = f'{self.dir}/web.yml'
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=test CA', '-days', '2',
                '-keyout', self['ca.key'], '-out', self['ca.pem'])
        self.certificate('server', 'DNS:localhost,IP:127.0.0.1')
        self.certificate('good', 'DNS:good.example,URI:spiffe://a/b')
        self.certificate('other', 'DNS:other.example')

    def __getitem__(self, name):
        return f'{self.dir}/{name}'

    def certificate(self, name, san, out=None):
        out = out or name
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', f'/CN={name}',
                '-keyout', self[f'{out}.key'], '-out', self[f'{out}.csr'])
        with open(self['ext'], 'w') as f:
            f.write(f'subjectAltName={san}\n')
        openssl('x509', '-req', '-in', self[f'{out}.csr'], '-CA', self['ca.pem'], '-CAkey', self['ca.key'], '-CAcreateserial', '-days', '2',
                '-extfile', self['ext'], '-out', self[f'{out}.pem'])
        os.chmod(self[f'{out}.key'], 0o644)  # the exporter serves as an unprivileged user

    def write(self, text):
        with open(self.path + '.new', 'w') as f:
            f.write(text)
        os.rename(self.path + '.new', self.path)

    def context(self, client=None, **kw):
        c = ssl.create_default_context(cafile=self['ca.pem'])
        if client:
            c.load_cert_chain(self[f'{client}.pem'], self[f'{client}.key'])
        for k, v in kw.items():
            setattr(c, k, v)
        return c

    def close(self):
        shutil.rmtree(self.dir)


def get(port, path='/-/healthy', context=None, user=None, headers=None, method='GET', body=None):
    """(status, headers, body); raises what the handshake raises."""
    c = http.client.HTTPSConnection('127.0.0.1', port, context=context, timeout=60) if context else http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    h = dict(headers or {})
    if user:
        h['Authorization'] = 'Basic ' + base64.b64encode(user.encode()).decode()
    try:
        c.request(method, path, headers=h, body=body)
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def bcrypt(password):
    return crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1 << 5))


TLS = 'tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n'


class Server:
    """A scraper without jobs, with this web configuration."""

    def __init__(self, files, text):
        files.write(text)
        self.config = files['sonde.yml']
        with open(self.config, 'w') as f:
            f.write('scrape_configs: []\n')
        self.d = Daemon('sonde-scraper', f'--config.file={self.config}', f'--storage.path={tempfile.mkdtemp(dir=files.dir)}',
                        f'--web.config.file={files.path}', wait_ready=False)

    def __enter__(self):
        def listens():
            if self.d.p.poll() is not None:
                raise AssertionError(self.d.output())
            try:
                socket.create_connection(('127.0.0.1', self.d.port), timeout=2).close()
                return True
            except OSError:
                return False
        wait_for('the listener', listens)
        return self.d

    def __exit__(self, *exc):
        self.d.__exit__(*exc)


class WebConfigTest(unittest.TestCase):
    def setUp(self):
        self.f = Files()
        self.addCleanup(self.f.close)

    def test_tls(self):
        with Server(self.f, TLS) as d:
            status, _, body = get(d.port, context=self.f.context())
            self.assertEqual((status, b'healthy' in body), (200, True))
            with self.assertRaises(ssl.SSLCertVerificationError):
                get(d.port, context=ssl.create_default_context())
            with self.assertRaises(ssl.SSLError):
                get(d.port, context=self.f.context(maximum_version=ssl.TLSVersion.TLSv1_1))
            big = get(d.port, '/metrics', context=self.f.context())
            self.assertIn(b'sonde_web_config_last_reload_successful 1', big[2])
            out = subprocess.run(['curl', '-sS', '--cacert', self.f['ca.pem'], f'https://localhost:{d.port}/-/healthy'], capture_output=True, text=True)
            self.assertIn('healthy', out.stdout, out.stderr)

    def test_plain_http_on_the_tls_port(self):
        """Who forgets the s of https learns it, as from Go's servers; what is neither HTTP nor TLS is closed."""
        told = b'Client sent an HTTP request to an HTTPS server.\n'
        with Server(self.f, TLS) as d:
            for method in ('GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'DELETE', 'PATCH'):
                status, _, text = get(d.port, method=method)
                self.assertEqual((status, text), (400, b'' if method == 'HEAD' else told), method)
            for pieces in ((b'G', b'ET', b' /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n'), (b'GET / HTTP/1.0\r\n',)):
                with socket.create_connection(('127.0.0.1', d.port), timeout=30) as s, s.makefile('rb') as f:
                    for piece in pieces:
                        s.sendall(piece)
                        time.sleep(0.1)  # so that it is read alone: who sends cannot see it
                    answer = f.read()
                    self.assertTrue(answer.startswith(b'HTTP/1.0 400 Bad Request\r\n'), answer)
                    self.assertTrue(answer.endswith(b'\r\n\r\n' + told), answer)
            for junk in (b'SSH-2.0-x\r\n', b'GETX' * 10, b'\x16\x03\x01\x00\x05hello'):
                with socket.create_connection(('127.0.0.1', d.port), timeout=0.3) as s:
                    s.sendall(junk)
                    try:
                        self.assertNotIn(b'HTTP', s.recv(4096))
                    except (ConnectionResetError, TimeoutError):
                        pass  # what could be a record is waited for
            out = subprocess.run(['curl', '-sS', f'http://127.0.0.1:{d.port}/'], capture_output=True, text=True)
            self.assertEqual(out.stdout.encode(), told, out.stderr)
            # a hello in pieces is a hello
            received, made = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = self.f.context().wrap_bio(received, made, server_hostname='localhost')
            with socket.create_connection(('127.0.0.1', d.port), timeout=30) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self.assertRaises(ssl.SSLWantReadError):
                    session.do_handshake()
                for byte in made.read():
                    s.sendall(bytes([byte]))
                self.assertEqual(s.recv(1), b'\x16')
            self.assertEqual(get(d.port, context=self.f.context())[0], 200)

    def test_versions_suites_curves(self):
        text = TLS + '  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n  curve_preferences: [CurveP384]\n'
        with Server(self.f, text) as d:
            with socket.create_connection(('127.0.0.1', d.port)) as s, self.f.context(check_hostname=False).wrap_socket(s) as t:
                self.assertEqual(t.cipher()[:2], ('ECDHE-ECDSA-AES256-GCM-SHA384', 'TLSv1.2'))
            c = self.f.context()
            c.set_ciphers('ECDHE-ECDSA-AES128-GCM-SHA256')
            with self.assertRaises(ssl.SSLError):
                get(d.port, context=c)
            c = self.f.context()
            c.set_ecdh_curve('prime256v1')
            with self.assertRaises(ssl.SSLError):
                get(d.port, context=c)
            with self.assertRaises(ssl.SSLError):
                get(d.port, context=self.f.context(minimum_version=ssl.TLSVersion.TLSv1_3))

    def test_suites_leave_tls_1_3_alone(self):
        with Server(self.f, TLS + '  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n') as d:
            def cipher(**kw):
                with socket.create_connection(('127.0.0.1', d.port)) as s, self.f.context(check_hostname=False, **kw).wrap_socket(s) as t:
                    return t.cipher()[:2]
            self.assertEqual(cipher()[1], 'TLSv1.3')
            self.assertEqual(cipher(maximum_version=ssl.TLSVersion.TLSv1_2), ('ECDHE-ECDSA-AES128-GCM-SHA256', 'TLSv1.2'))
            # names of TLS 1.3 alone leave no suite for what is older
            self.f.write(TLS + '  cipher_suites: [TLS_AES_128_GCM_SHA256]\n')
            self.reloaded(d, lambda: get(d.port, '/metrics', context=self.f.context())[2].decode())
            self.assertEqual(cipher()[1], 'TLSv1.3')
            with self.assertRaises(ssl.SSLError):
                cipher(maximum_version=ssl.TLSVersion.TLSv1_2)

    def test_client_certificates(self):
        ca = TLS + '  client_ca_file: ca.pem\n'
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=stranger', '-days', '2',
                '-keyout', self.f['stranger.key'], '-out', self.f['stranger.pem'])
        cases = [  # (rules, {client: served})
            ('  client_auth_type: RequireAndVerifyClientCert\n', {None: False, 'good': True, 'other': True, 'stranger': False}),
            ('  client_auth_type: VerifyClientCertIfGiven\n', {None: True, 'good': True, 'stranger': False}),
            ('  client_auth_type: RequireAnyClientCert\n', {None: False, 'good': True, 'stranger': True}),
            ('  client_auth_type: RequestClientCert\n', {None: True, 'stranger': True}),
            ('  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: [good.example]\n', {'good': True, 'other': False}),
            ('  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: ["spiffe://a/b"]\n', {'good': True, 'other': False}),
        ]
        with Server(self.f, ca + cases[0][0]) as d:
            for rules, clients in cases:
                self.f.write(ca + rules)
                self.reloaded(d, lambda: get(d.port, '/metrics', context=self.f.context('good'))[2].decode())
                for client, served in clients.items():
                    with self.subTest(rules=rules, client=client):
                        self.assertEqual(self.served(d, client), served)
            # without authorities of its own the server trusts the system's, which no client here has
            for rules, clients in ((cases[0][0], {None: False, 'good': False}), (cases[1][0], {None: True, 'good': False})):
                self.f.write(TLS + '  client_auth_type: RequestClientCert\n')
                wait_for('anyone', lambda: self.served(d, 'stranger'))
                self.f.write(TLS + rules)
                wait_for('the rules', lambda: self.served(d, 'good') is False)
                for client, served in clients.items():
                    with self.subTest(rules=rules, client=client):
                        self.assertEqual(self.served(d, client), served)
            self.f.write(ca + cases[-1][0])
            wait_for('the rules', lambda: self.served(d, 'good'))
            # the client is told why
            for client, version, alert in ((None, 'TLSv1_3', 'CERTIFICATE_REQUIRED'), (None, 'TLSv1_2', 'BAD_CERTIFICATE'), ('stranger', 'TLSv1_3', 'UNKNOWN_CA'),
                                           ('stranger', 'TLSv1_2', 'UNKNOWN_CA'), ('other', 'TLSv1_3', 'BAD_CERTIFICATE')):
                # nothing is sent: in TLS 1.3 a request may cross the alert and find the connection closed
                with self.assertRaisesRegex(ssl.SSLError, f'ALERT_{alert}'), socket.create_connection(('127.0.0.1', d.port), 60) as plain:
                    self.f.context(client, maximum_version=ssl.TLSVersion[version]).wrap_socket(plain, server_hostname='127.0.0.1').recv(1)

    def served(self, d, client):
        try:
            return get(d.port, context=self.f.context(client))[0] == 200
        except (ssl.SSLError, ConnectionError, http.client.HTTPException):
            return False

    def reloaded(self, d, metrics):
        """Waits until the web configuration in force is younger than its file."""
        def young():
            line = [l for l in metrics().splitlines() if l.startswith('sonde_web_config_last_reload_success_timestamp_seconds')][0]
            return float(line.split()[1]) >= os.stat(self.f.path).st_mtime - 0.01
        wait_for('the reload', young)

    def test_users(self):
        users = f'basic_auth_users:\n  alice: {bcrypt("secret")}\n  bob: {bcrypt("pass:word")}\n'
        with Server(self.f, users) as d:
            for user, status in ((None, 401), ('alice:secret', 200), ('alice:secret', 200), ('alice:wrong', 401), ('alice:', 401), ('bob:pass:word', 200),
                                 ('mallory:secret', 401), ('mallory:secret', 401), ('alice', 401)):
                got = get(d.port, user=user)
                self.assertEqual(got[0], status, user)
                if status == 401:
                    self.assertEqual(got[1]['WWW-Authenticate'], 'Basic')
            good = base64.b64encode(b'alice:secret').decode()
            for value, status in ((f'basic {good}', 200), (f'BASIC {good}', 200), (f'Basic {good} ', 200), (f'Bearer {good}', 401), ('Basic', 401), ('Basic !', 401),
                                  ('Basic ' + base64.b64encode(b'alice:secret\0x').decode(), 401)):
                self.assertEqual(get(d.port, headers={'Authorization': value})[0], status, value)
            # a body that nobody may send is not waited for
            self.assertEqual(get(d.port, '/api/v1/import', method='POST', body=b'x' * 300000)[0], 401)
            self.assertEqual(get(d.port, '/api/v1/labels', method='POST', user='bob:pass:word', body='limit=1',
                                 headers={'Content-Type': 'application/x-www-form-urlencoded'})[0], 200)
            self.f.write(f'basic_auth_users: {{carol: "{bcrypt("new")}"}}\n')
            wait_for('carol', lambda: get(d.port, user='carol:new')[0] == 200)
            self.assertEqual(get(d.port, user='alice:secret')[0], 401)

    def test_wrong_passwords_do_not_push_out_right_ones(self):
        slow = crypt.crypt('secret', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1 << 13))  # half a second and more to compare
        with Server(self.f, f'basic_auth_users:\n  alice: {slow}\n  bob: {bcrypt("x")}\n') as d:
            def cpu_s(user, status):
                before = self.cpu_s(d)
                self.assertEqual(get(d.port, user=user)[0], status)
                return self.cpu_s(d) - before
            compared = cpu_s('alice:secret', 200)
            self.assertLess(cpu_s('alice:secret', 200), compared / 2)
            for i in range(300):
                get(d.port, user=f'bob:{i}')
            self.assertLess(cpu_s('alice:secret', 200), compared / 2)
            cpu_s('alice:wrong', 401)
            self.assertLess(cpu_s('alice:wrong', 401), compared / 2)  # a wrong one is remembered too

    @staticmethod
    def cpu_s(d):
        with open(f'/proc/{d.p.pid}/stat') as f:
            return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13])) / os.sysconf('SC_CLK_TCK')

    def test_headers_and_rate(self):
        text = ('http_server_config:\n  http2: false\n  headers: {X-Frame-Options: deny, X-Content-Type-Options: nosniff, Strict-Transport-Security: max-age=1}\n'
                'rate_limit: {interval: 1h, burst: 3}\n')
        with Server(self.f, text) as d:
            got = [get(d.port) for _ in range(5)]
            self.assertEqual([g[0] for g in got], [200, 200, 200, 429, 429])
            self.assertEqual((got[0][1]['X-Frame-Options'], got[0][1]['Strict-Transport-Security']), ('deny', 'max-age=1'))
            self.assertEqual(got[0][1].get_all('X-Content-Type-Options'), ['nosniff'])
            self.f.write('{}\n')
            wait_for('the rate to be lifted', lambda: get(d.port)[0] == 200)
            self.assertIsNone(get(d.port)[1]['X-Frame-Options'])

    def test_a_bad_file_changes_nothing(self):
        with Server(self.f, TLS) as d:
            self.f.write('tls_server_config: {cert_file: missing.pem, key_file: server.key}\n')
            wait_for('the message', lambda: 'missing.pem: No such file' in d.output())
            status, _, body = get(d.port, '/metrics', context=self.f.context())
            self.assertIn(b'sonde_web_config_last_reload_successful 0', body)
            self.assertEqual(stays('one bad file is reported once', lambda: d.output().count('not reloaded'), 2.5), 1)
            self.f.write('{}\n')
            wait_for('the message', lambda: 'cannot be switched off without a restart' in d.output())
            self.assertEqual(get(d.port, context=self.f.context())[0], 200)

    def test_a_new_certificate_is_served(self):
        def serial(d):
            pem = ssl.get_server_certificate(('127.0.0.1', d.port))
            return subprocess.run(['openssl', 'x509', '-noout', '-serial'], input=pem, capture_output=True, text=True, check=True).stdout
        with Server(self.f, TLS) as d:
            before = serial(d)
            c = http.client.HTTPSConnection('127.0.0.1', d.port, context=self.f.context(), timeout=60)
            c.request('GET', '/-/healthy')
            c.getresponse().read()
            self.f.certificate('server', 'IP:127.0.0.1', out='next')
            os.rename(self.f['next.key'], self.f['server.key'])
            os.rename(self.f['next.pem'], self.f['server.pem'])
            wait_for('the new certificate', lambda: serial(d) != before)
            c.request('GET', '/-/healthy')  # the old connection goes on
            self.assertEqual(c.getresponse().status, 200)
            c.close()

    def test_check_agrees_with_promtool(self):
        hashed = bcrypt('x')
        cases = [
            (TLS, True), ('{}', True), ('', True), ('tls_server_config: {cert_file: server.pem}', False),
            ('tls_server_config: {cert_file: server.pem, key_file: nowhere}', False),
            ('tls_server_config: {cert_file: server.pem, key_file: good.key}', False),
            (TLS + '  min_version: TLS13\n', True), (TLS + '  min_version: TLS14\n', False),
            (TLS + '  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n', True), (TLS + '  cipher_suites: [NOPE]\n', False),
            (TLS + '  curve_preferences: [X25519, CurveP256]\n', True), (TLS + '  curve_preferences: [CurveX]\n', False),
            (TLS + '  client_auth_type: RequireAndVerifyClientCert\n', True), (TLS + '  client_auth_type: Never\n', False),
            (TLS + '  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n', True),
            (TLS + '  client_auth_type: RequireClientCert\n', True),
            (TLS + '  client_ca_file: ca.pem\n', False), (TLS + '  unknown: 1\n', False), ('unknown: {}', False),
            (f'basic_auth_users: {{a: "{hashed}"}}', True), ('basic_auth_users: {a: plain}', False),
            ('http_server_config: {http2: true, headers: {X-Frame-Options: deny}}', True),
            ('http_server_config: {headers: {X-Other: 1}}', False), ('[1]', False), ('a: [', False),
            ('http_server_config: {headers: {X-Frame-Options: DENY}}', False), ('http_server_config: {headers: {X-Content-Type-Options: nosniff}}', True),
            ('http_server_config: {headers: {X-Content-Type-Options: sniff}}', False), ('http_server_config: {headers: {X-Frame-Options: ""}}', True),
            (TLS + '  client_auth_type: {a: b}\n', False), (TLS + '  client_auth_type: [NoClientCert]\n', False), (TLS + '  min_version: [TLS12]\n', False),
            (TLS + '  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n', True),
            (TLS + '  cipher_suites: [TLS_AES_128_GCM_SHA256]\n', True),
        ]
        # exporter-toolkit is younger than promtool here; ours is stricter about names that nobody proves
        verify = TLS + '  client_auth_type: %s\n  client_ca_file: ca.pem\n  client_allowed_sans: [a]\n'
        ours = [
            (verify % 'RequireAndVerifyClientCert', True), (verify % 'VerifyClientCertIfGiven', False), (verify % 'RequireAnyClientCert', False),
            ('rate_limit: {interval: 1.5s, burst: 2}', True), ('rate_limit: {interval: 500us, burst: 2}', True), ('rate_limit: {interval: 1d, burst: 2}', False),
        ]
        for text, good in cases + ours:
            with self.subTest(text):
                self.f.write(text)
                r = sonde('check', 'web-config', self.f.path)
                self.assertEqual(r.returncode == 0, good, r.stderr)
                if not good:
                    self.assertIn(self.f.path, r.stderr)
                # promtool 2.42 knows no empty value of a header
                if os.path.exists(PROMTOOL) and (text, good) in cases and ('headers' not in text or not text.endswith('""}}')):
                    p = subprocess.run([PROMTOOL, 'check', 'web-config', self.f.path], capture_output=True, text=True)
                    self.assertEqual(p.returncode == 0, good, p.stdout + p.stderr)

    def test_errors_name_the_place_and_hide_secrets(self):
        for text, want in ((TLS + '  min_version: TLS9\n', 'web.yml:4:16: tls_server_config.min_version: "TLS9" is not known'),
                           ('basic_auth_users:\n  alice: hunter2\n', 'web.yml:2:10: basic_auth_users.alice: expected a bcrypt hash'),
                           ('rate_limit: {interval: 1s}\n', 'rate_limit.burst: must be at least 1'),
                           (TLS + '  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n  client_allowed_sans: [a]\n',
                            'client_allowed_sans: needs client_auth_type RequireAndVerifyClientCert'),
                           ('http_server_config: {headers: {X-Frame-Options: DENY}}\n', 'X-Frame-Options: "DENY" is not known, expected deny or sameorigin'),
                           ('rate_limit: {interval: soon, burst: 1}\n', 'rate_limit.interval: expected a duration'),
                           (TLS + '  cert: x\n', 'tls_server_config.cert_file: stands beside cert')):
            self.f.write(text)
            r = sonde('check', 'web-config', self.f.path)
            self.assertEqual(r.returncode, 1)
            self.assertIn(want, r.stderr)
            self.assertNotIn('hunter2', r.stderr)

    def test_bad_at_start(self):
        self.f.write('basic_auth_users: 5\n')
        with open(self.f['sonde.yml'], 'w') as f:
            f.write('scrape_configs: []\n')
        p = subprocess.run([program('sonde-scraper'), f'--config.file={self.f["sonde.yml"]}', f'--storage.path={self.f["data"]}',
                            f'--web.listen-address=127.0.0.1:0', f'--web.config.file={self.f.path}'], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn('basic_auth_users: expected a mapping', p.stderr)

    @needs_kernel
    def test_exporter(self):
        self.f.write(TLS + f'basic_auth_users:\n  alice: {bcrypt("secret")}\n')
        d = exporter(f'--web.config.file={self.f.path}', wait_ready=False)
        with d:
            def profile():
                try:
                    return get(d.port, '/debug/pprof/profile?seconds=1', context=self.f.context(), user='alice:secret')
                except OSError:
                    return None
            got = wait_for('the exporter', profile)
            self.assertEqual(got[0], 200)
            self.assertEqual(got[2][:2], b'\x1f\x8b')
            self.assertEqual(get(d.port, '/debug/pprof/profile?seconds=1', context=self.f.context())[0], 401)
            self.f.write(TLS)
            wait_for('the users to go', lambda: get(d.port, context=self.f.context())[0] == 200)


if __name__ == '__main__':
    unittest.main()
