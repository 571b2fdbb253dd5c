"""Every command of `sonde` that talks to a server reaches one with TLS and users by --http.config.file, and not without."""
import os
import re
import unittest

from sonde_e2e import exporter, needs_kernel, sonde, wait_for
from test_bad_targets import pprof
from test_web_config import TLS, Files, Server, bcrypt, get

BESIDE_OTHERS = True

CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'


class ServersTest(unittest.TestCase):
    def setUp(self):
        self.f = Files()
        self.addCleanup(self.f.close)
        self.web = TLS + f'basic_auth_users: {{alice: "{bcrypt("secret")}"}}\n'
        self.client = self.f['client.yml']
        self.stranger = self.f['stranger.yml']
        for path, keys in ((self.client, 'basic_auth: {username: alice, password: secret}\n'), (self.stranger, '')):
            with open(path, 'w') as out:
                out.write('tls_config: {ca_file: ca.pem}\n' + keys)

    def check(self, *args, timeout=120):
        """Good credentials work; none is refused by the server, no CA by the tool itself."""
        rest = args[args.index('--'):] if '--' in args else ()
        own = args[:len(args) - len(rest)]
        good = sonde(*own, '--http.config.file', self.client, *rest, timeout=timeout)
        self.assertEqual(good.returncode, 0, f'{args}: {good.stderr}')
        for flags, text in ((['--http.config.file', self.stranger], '401'), ([], 'certificate')):
            bad = sonde(*own, *flags, *rest, timeout=timeout)
            self.assertNotEqual(bad.returncode, 0, args)
            self.assertIn(text, bad.stderr.lower(), args)
            self.assertNotIn('secret', bad.stdout + bad.stderr)
        return good.stdout

    def test_all_take_the_flag(self):
        """What takes a URL takes the file; the commands below are all of them."""
        commands = re.findall(r'^  ((?:[a-z-]+ )?[a-z-]+)  ', sonde('--help').stdout, re.M)
        self.assertGreater(len(commands), 15)
        talking = set()
        for c in commands:
            text = sonde(*c.split(), '--help').stdout
            if re.search(r'^ +--[a-z.-]+[= ]URL', text, re.M):
                talking.add(c)
                self.assertIn('--http.config.file', text, c)
        self.assertEqual(talking, {'bench', 'check healthy', 'check ready', 'diff', 'push', 'query', 'record', 'top'})

    def test_scraper(self):
        profile = self.f['cpu.pb']
        with open(profile, 'wb') as out:
            out.write(pprof())
        with Server(self.f, self.web) as d:
            url = f'https://127.0.0.1:{d.port}'
            wait_for('the store', lambda: get(d.port, '/-/ready', context=self.f.context(), user='alice:secret')[0] == 200)
            self.check('check', 'healthy', '--url', url)
            self.check('check', 'ready', '--url', url)
            self.check('push', '--server', url, '--label', 'job=x', profile)
            selector = CPU + '{job="x"}'
            self.assertIn('work', self.check('query', '--server', url, '--format', 'folded', selector))
            self.assertIn('work', self.check('top', '--server', url, '--query', selector))
            self.check('diff', '--server', url, selector, '--', selector)

    @needs_kernel
    def test_exporter(self):
        self.f.write(self.web)
        with exporter(f'--web.config.file={self.f.path}', wait_ready=False) as d:
            def answers():
                try:
                    return get(d.port, '/-/ready', context=self.f.context(), user='alice:secret')[0] == 200
                except OSError:
                    return False
            wait_for('the exporter', answers)
            url = f'https://127.0.0.1:{d.port}'
            self.check('check', 'healthy', '--url', url)
            self.check('top', '--exporter', url, '--seconds', '1s')
            out = self.f['record.pb.gz']
            self.check('record', '--exporter', url, '--output', out, '--', 'true')
            self.assertTrue(os.path.getsize(out))


if __name__ == '__main__':
    unittest.main()
