"""dns_sd_configs against a DNS server on loopback: record types, search list, truncation, errors that keep the last good targets."""
import json
import os
import random
import shlex
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import unittest

from sonde_e2e import own_mounts, program, scraper, wait_for

BESIDE_OTHERS = True

A, NS, CNAME, MX, AAAA, SRV, OPT = 1, 2, 5, 15, 28, 33, 41
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3


def wire_name(name):
    return b''.join(bytes([len(p)]) + p.encode() for p in name.rstrip('.').split('.') if p) + b'\0'


def data(kind, value):
    if kind == A:
        return socket.inet_aton(value)
    if kind == AAAA:
        return socket.inet_pton(socket.AF_INET6, value)
    if kind == MX:
        return struct.pack('!H', 10) + wire_name(value)
    if kind == SRV:
        return struct.pack('!HHH', 0, 5, value[1]) + wire_name(value[0])
    return wire_name(value)


class Dns:
    """Answers on port 53 of an own address in 127/8, over UDP and TCP. `zone` is {(name, type): [(type, value)] or rcode}; unknown names do not
    exist. UDP answers above what the client allows (512 bytes, or its EDNS size) are truncated."""

    def __init__(self):
        self.zone, self.asked, self.silent = {}, [], False
        dns = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self):
                if not dns.silent:
                    self.request[1].sendto(dns.answer(self.request[0], True), self.client_address)

        class Tcp(socketserver.BaseRequestHandler):
            def handle(self):
                n = struct.unpack('!H', self.request.recv(2, socket.MSG_WAITALL))[0]
                out = dns.answer(self.request.recv(n, socket.MSG_WAITALL), False)
                self.request.sendall(struct.pack('!H', len(out)) + out)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self.ip = f'127.77.{random.randrange(1, 255)}.{random.randrange(1, 255)}'
        self.servers = [socketserver.ThreadingUDPServer((self.ip, 53), Udp), socketserver.ThreadingTCPServer((self.ip, 53), Tcp)]
        for s in self.servers:
            s.daemon_threads = True
            threading.Thread(target=s.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for s in self.servers:
            s.shutdown()
            s.server_close()

    def answer(self, q, is_udp):
        labels, at = [], 12
        while q[at]:
            labels.append(q[at + 1:at + 1 + q[at]].decode())
            at += 1 + q[at]
        kind = struct.unpack('!H', q[at + 1:at + 3])[0]
        question = q[12:at + 5]
        name = '.'.join(labels)
        edns = struct.unpack('!H', q[at + 8:at + 10])[0] if q[11] and q[at + 6:at + 8] == struct.pack('!H', OPT) else 0
        self.asked.append((name, kind, 'udp' if is_udp else 'tcp', edns))
        known = self.zone.get((name, kind))
        if known is None:
            known = [] if any(n == name for n, _ in self.zone) else NXDOMAIN
        rcode, records = (known, []) if isinstance(known, int) else (NOERROR, known)
        body, owner = b'', b'\xc0\x0c'
        for k, value in records:
            d = data(k, value)
            body += owner + struct.pack('!HHIH', k, 1, 5, len(d)) + d
            if k == CNAME:
                owner = d  # what follows belongs to the name that it is an alias of
        if is_udp and 12 + len(question) + len(body) > max(512, edns):
            return q[:2] + struct.pack('!HHHHH', 0x8380 | rcode, 1, 0, 0, 0) + question
        return q[:2] + struct.pack('!HHHHH', 0x8180 | rcode, 1, len(records), 0, 0) + question + body


def prefix(resolv_conf, host=None):
    """Runs a program with that /etc/resolv.conf, in a mount namespace of its own; with that name of the machine."""
    name = f'hostname {shlex.quote(host)} && ' if host else ''
    return (*own_mounts(), *(['unshare', '--uts'] if host else []), 'sh', '-c', f'{name}mount --bind {shlex.quote(resolv_conf)} /etc/resolv.conf && exec "$@"', 'sh')


def config(keys):
    return f'scrape_configs:\n- job_name: j\n  scrape_interval: 1h\n  dns_sd_configs:\n  - {{refresh_interval: 1s, {keys}}}\n'


def targets(s):
    return {t['labels']['instance']: t['discoveredLabels'] for t in s.get('/api/v1/targets').json['data']['activeTargets']}


@unittest.skipUnless(os.geteuid() == 0 and subprocess.run([*own_mounts(), 'true'], stderr=subprocess.DEVNULL).returncode == 0,
                     'needs root and mount namespaces, for port 53 and a resolv.conf of its own')
class DnsSdTest(unittest.TestCase):
    def setUp(self):
        self.dns = Dns()
        self.enterContext(self.dns)
        self.dir = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        self.resolv = os.path.join(self.dir, 'resolv.conf')
        self.write(f'nameserver {self.dns.ip}\nsearch one.test two.test\n')

    def write(self, text):
        with open(self.resolv, 'w') as f:
            f.write(text)

    def scraper(self, keys):
        return scraper(config(keys), prefix=prefix(self.resolv))

    def failures(self, s):
        return s.metrics().get('sonde_discover_refresh_failures_total{kind="dns"}', 0)

    def test_srv_changes_and_failures(self):
        name = '_pprof._tcp.one.test'
        self.dns.zone[name, SRV] = [(SRV, ('a.one.test.', 1001)), (SRV, ('b.one.test.', 1002))]
        with self.scraper('names: [_pprof._tcp.one.test.]') as s:
            wait_for('two targets', lambda: set(targets(s)) == {'a.one.test:1001', 'b.one.test:1002'})
            labels = targets(s)['a.one.test:1001']
            self.assertEqual({k: v for k, v in labels.items() if k.startswith('__meta')},
                             {'__meta_dns_name': name + '.', '__meta_dns_srv_record_target': 'a.one.test.', '__meta_dns_srv_record_port': '1001'})
            self.assertTrue(all(edns > 512 for n, k, how, edns in self.dns.asked), self.dns.asked)
            self.dns.zone[name, SRV] = [(SRV, ('c.one.test.', 1003))]
            wait_for('the change', lambda: set(targets(s)) == {'c.one.test:1003'})
            self.dns.zone[name, SRV] = SERVFAIL
            before = self.failures(s)
            wait_for('failures', lambda: self.failures(s) > before + 1)
            self.assertEqual(set(targets(s)), {'c.one.test:1003'})
            self.dns.silent = True
            before = self.failures(s)
            wait_for('a failure without answer', lambda: self.failures(s) > before)
            self.assertEqual(set(targets(s)), {'c.one.test:1003'})
            self.dns.silent = False
            del self.dns.zone[name, SRV]
            wait_for('no targets once the name is gone', lambda: not targets(s))

    def test_other_types(self):
        z = self.dns.zone
        z['v4.test', A] = [(CNAME, 'real.test'), (A, '10.0.0.1'), (A, '10.0.0.2')]
        z['v6.test', AAAA] = [(AAAA, 'fd00::1')]
        z['mail.test', MX] = [(MX, 'mx1.test.')]
        z['zone.test', NS] = [(NS, 'ns1.test.')]
        text = 'scrape_configs:\n' + ''.join(
            f'- job_name: {kind}\n  scrape_interval: 1h\n  dns_sd_configs: [{{names: [{name}.], type: {kind}, port: 7273, refresh_interval: 1s}}]\n'
            for kind, name in (('A', 'v4.test'), ('AAAA', 'v6.test'), ('MX', 'mail.test'), ('NS', 'zone.test')))
        with scraper(text, prefix=prefix(self.resolv)) as s:
            wait_for('all targets', lambda: set(targets(s)) == {'10.0.0.1:7273', '10.0.0.2:7273', '[fd00::1]:7273', 'mx1.test:7273', 'ns1.test:7273'})
            self.assertEqual({address: {k[11:]: v for k, v in labels.items() if k.startswith('__meta_')} for address, labels in targets(s).items()}, {
                '10.0.0.1:7273': {'name': 'v4.test.'}, '10.0.0.2:7273': {'name': 'v4.test.'}, '[fd00::1]:7273': {'name': 'v6.test.'},
                'mx1.test:7273': {'name': 'mail.test.', 'mx_record_target': 'mx1.test.'}, 'ns1.test:7273': {'name': 'zone.test.', 'ns_record_target': 'ns1.test.'}})

    def addresses(self, keys, env=None, host=None):
        """Those that the check finds."""
        path = os.path.join(self.dir, 'c.yml')
        with open(path, 'w') as f:
            f.write(config(keys))
        r = subprocess.run([*prefix(self.resolv, host), program('sonde'), 'check', 'service-discovery', path, 'j'], capture_output=True, text=True,
                           env={**os.environ, **(env or {})})
        self.assertEqual(r.returncode, 0, r.stderr)
        return {t['discoveredLabels']['__address__'] for t in json.loads(r.stdout)}

    def test_addresses_are_written_as_go_writes_them(self):
        self.dns.zone['v6.test', AAAA] = [(AAAA, a) for a in ('::ffff:10.1.2.3', '::1.2.3.4', '::1', '::2', '2001:db8::1:0:0:1', 'fd00:0:0:1::')]
        self.assertEqual(self.addresses('names: [v6.test.], type: Aaaa, port: 80'),
                         {'10.1.2.3:80', '[::102:304]:80', '[::1]:80', '[::2]:80', '[2001:db8::1:0:0:1]:80', '[fd00:0:0:1::]:80'})

    def test_search_list_is_that_of_the_file_alone(self):
        """Not the domain of the machine's name, nor LOCALDOMAIN: with those the targets would be others than Prometheus finds."""
        for n, name in enumerate(('node', 'node.host.test', 'node.env.test', 'node.one.test', 'node.two.test')):
            self.dns.zone[name, A] = [(A, f'10.0.0.{n}')]
        for text, found in (('', 0), ('search one.test', 3), ('search one.test two.test', 3), ('search two.test.\tone.test', 4), ('domain two.test one.test', 4),
                            ('search one.test\ndomain two.test', 4), ('domain one.test\nsearch two.test', 4), ('#search one.test\n;domain one.test\nsearch', 0),
                            ('search one.test\noptions ndots:0', 0), ('  search none.test', 0)):
            self.write(f'nameserver {self.dns.ip}\n{text}\n')
            self.assertEqual(self.addresses('names: [node], type: A, port: 80', {'LOCALDOMAIN': 'env.test'}, 'me.host.test'), {f'10.0.0.{found}:80'}, text)
            self.assertEqual(self.addresses('names: [node.], type: a, port: 80'), {'10.0.0.0:80'}, text)

    def test_check_prints_what_was_found_beside_an_error(self):
        self.dns.zone['bad.test', A], self.dns.zone['good.test', A] = SERVFAIL, [(A, '10.0.0.1')]
        path = os.path.join(self.dir, 'c.yml')
        with open(path, 'w') as f:
            f.write(config('names: [bad.test., good.test.], type: A, port: 80'))
        r = subprocess.run([*prefix(self.resolv), program('sonde'), 'check', 'service-discovery', path, 'j'], capture_output=True, text=True)
        self.assertEqual([t['discoveredLabels']['__address__'] for t in json.loads(r.stdout)], ['10.0.0.1:80'])
        self.assertEqual((r.returncode, r.stderr), (1, 'dns_sd bad.test.: bad.test.: no server gave an answer (none reached, or each refused or failed)\n'))

    def test_truncated_answer_comes_over_tcp(self):
        self.dns.zone['big.test', A] = [(A, f'10.1.{i // 250}.{i % 250 + 1}') for i in range(300)]
        with self.scraper('names: [big.test.], type: A, port: 1') as s:
            wait_for('300 targets', lambda: len(targets(s)) == 300)
        self.assertEqual({how for _, _, how, _ in self.dns.asked}, {'udp', 'tcp'})

    def test_search_list_and_a_server_that_refuses(self):
        with Dns() as first:
            self.write(f'nameserver {first.ip}\nnameserver {self.dns.ip}\nsearch one.test two.test\n')
            for name in ('node', 'node.one.test', 'node.two.test', 'x.y', 'x.y.two.test'):
                first.zone[name, A] = SERVFAIL
            self.dns.zone['node.two.test', A] = [(A, '10.0.0.7')]
            self.dns.zone['x.y', A] = [(A, '10.0.0.8')]
            self.dns.zone['x.y.two.test', A] = [(A, '10.0.0.9')]
            with self.scraper('names: [node, x.y], type: A, port: 1') as s:
                wait_for('both', lambda: set(targets(s)) == {'10.0.0.7:1', '10.0.0.8:1'})
            self.assertIn('node.two.test', [n for n, *_ in first.asked])
            # one name of the search list without an answer: nobody can say that none exists
            self.dns.zone = {('node.one.test', A): SERVFAIL}
            first.zone = {('node.one.test', A): SERVFAIL}
            path = os.path.join(self.dir, 'c.yml')
            with open(path, 'w') as f:
                f.write(config('names: [node], type: A, port: 1'))
            check = [*prefix(self.resolv), program('sonde'), 'check', 'service-discovery', path, 'j']
            r = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual(r.returncode, 1, r.stdout)
            self.assertIn('node.one.test', r.stderr)
            self.dns.zone, first.zone = {}, {}
            r = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual((r.returncode, json.loads(r.stdout)), (0, []), r.stderr)


if __name__ == '__main__':
    unittest.main()
