"""ec2_sd_configs against a server that speaks EC2's Query API and verifies the signatures of version 4."""
import hashlib
import hmac
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

from sonde_e2e import scraper, sonde, wait_for
from test_http_client import Target

BESIDE_OTHERS = True

KEY, SECRET, REGION = 'AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY', 'eu-west-1'


def signature_of(handler, body, secret):
    """What the Authorization header must end in: docs.aws.amazon.com, "Create a signed AWS API request"."""
    auth = handler.headers['Authorization']
    fields = dict(f.strip().split('=', 1) for f in auth.removeprefix('AWS4-HMAC-SHA256 ').split(','))
    signed = fields['SignedHeaders'].split(';')
    canonical = '\n'.join(['POST', urllib.parse.quote(handler.path), '', *(f'{h}:{" ".join(handler.headers[h].split())}' for h in signed), '',
                           fields['SignedHeaders'], hashlib.sha256(body).hexdigest()])
    key, date, region, service, kind = fields['Credential'].split('/')
    to_sign = '\n'.join(['AWS4-HMAC-SHA256', handler.headers['X-Amz-Date'], '/'.join([date, region, service, kind]), hashlib.sha256(canonical.encode()).hexdigest()])
    k = ('AWS4' + secret).encode()
    for part in (date, region, service, kind):
        k = hmac.new(k, part.encode(), hashlib.sha256).digest()
    return key, region, service, hmac.new(k, to_sign.encode(), hashlib.sha256).hexdigest(), fields['Signature'], signed


NS = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
ZONES = f'''<?xml version="1.0" encoding="UTF-8"?>
<DescribeAvailabilityZonesResponse {NS}><requestId>r</requestId><availabilityZoneInfo>
<item><zoneName>eu-west-1a</zoneName><zoneState>available</zoneState><regionName>eu-west-1</regionName><zoneId>euw1-az3</zoneId></item>
</availabilityZoneInfo></DescribeAvailabilityZonesResponse>'''
FULL = '''<item><instanceId>i-1</instanceId><imageId>ami-1</imageId><instanceState><code>16</code><name>running</name></instanceState>
<privateDnsName>ip-10-0-0-1.internal</privateDnsName><dnsName>ec2-1.amazonaws.com</dnsName><reason/><instanceType>t4g.small</instanceType>
<placement><availabilityZone>eu-west-1a</availabilityZone><groupName/><tenancy>default</tenancy></placement><platform>windows</platform>
<monitoring><state>disabled</state></monitoring><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><privateIpAddress>10.0.0.1</privateIpAddress>
<ipAddress>54.1.2.3</ipAddress><architecture>arm64</architecture><instanceLifecycle>spot</instanceLifecycle><ipv6Address>2001:db8::2</ipv6Address>
<tagSet><item><key>Name</key><value>a &lt;&amp;&gt; b</value></item><item><key>k8s.io/role:x</key><value>node</value></item></tagSet>
<networkInterfaceSet>
<item><subnetId>subnet-1</subnetId><attachment><deviceIndex>1</deviceIndex></attachment><ipv6AddressesSet>
 <item><ipv6Address>2001:db8::1</ipv6Address><isPrimaryIpv6>false</isPrimaryIpv6></item>
 <item><ipv6Address>2001:db8::2</ipv6Address><isPrimaryIpv6>true</isPrimaryIpv6></item></ipv6AddressesSet></item>
<item><subnetId>subnet-2</subnetId><attachment><deviceIndex>0</deviceIndex></attachment><ipv6AddressesSet/></item>
<item><subnetId>subnet-1</subnetId><attachment><deviceIndex>2</deviceIndex></attachment></item>
</networkInterfaceSet></item>'''
LABELS = {
    'instance_id': 'i-1', 'ami': 'ami-1', 'instance_state': 'running', 'private_dns_name': 'ip-10-0-0-1.internal', 'public_dns_name': 'ec2-1.amazonaws.com',
    'instance_type': 't4g.small', 'availability_zone': 'eu-west-1a', 'availability_zone_id': 'euw1-az3', 'platform': 'windows', 'primary_subnet_id': 'subnet-1',
    'vpc_id': 'vpc-1', 'private_ip': '10.0.0.1', 'public_ip': '54.1.2.3', 'architecture': 'arm64', 'instance_lifecycle': 'spot', 'owner_id': '123456789012',
    'region': REGION, 'default_ipv6_address': '2001:db8::2', 'subnet_id': ',subnet-1,subnet-2,', 'ipv6_addresses': ',2001:db8::1,2001:db8::2,',
    'primary_ipv6_addresses': ',,2001:db8::2,', 'tag_Name': 'a <&> b', 'tag_k8s_io_role_x': 'node'}


def instance(n):
    return f'<item><instanceId>i-{n}</instanceId><privateIpAddress>10.0.0.{n}</privateIpAddress></item>'


def page(items, next_token=''):
    token = f'<nextToken>{next_token}</nextToken>' if next_token else ''
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<DescribeInstancesResponse {NS}><requestId>r</requestId><reservationSet><item><reservationId>x</reservationId>'
            f'<ownerId>123456789012</ownerId><groupSet/><instancesSet>{items}</instancesSet></item></reservationSet>{token}</DescribeInstancesResponse>')


def error(code):
    return f'<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>AWS was not able to</Message></Error></Errors><RequestID>r</RequestID></Response>'


class Ec2:
    """Pages by token; wrong signatures get what AWS answers."""

    def __init__(self):
        self.pages, self.status, self.asked, self.secret = {'': page('')}, {}, [], SECRET
        self.key, self.session = KEY, None

    def __call__(self, handler, body):
        q = dict(urllib.parse.parse_qsl(body.decode()))
        key, region, service, expected, got, signed = signature_of(handler, body, self.secret)
        if self.session and handler.headers['X-Amz-Security-Token'] != self.session:
            return 401, {}, error('AuthFailure').encode()
        if (key, region, service) != (self.key, REGION, 'ec2') or expected != got or not {'host', 'x-amz-date'} <= set(signed):
            return 401, {}, error('AuthFailure').encode()
        self.asked.append((q, handler.headers, signed))
        if q['Action'] == 'DescribeAvailabilityZones':
            return 200, {}, ZONES.encode()
        token = q.get('NextToken', '')
        return self.status.get(token, 200), {}, self.pages[token].encode()


def utc(seconds):
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + seconds))


class Metadata:
    """The metadata service of an instance, version 2 alone: a token by PUT, then the region and the credentials of the instance's role."""

    def __init__(self):
        self.role, self.lifetime, self.asked, self.n = 'profiler', 3600, [], 0

    def __call__(self, handler, body):
        path = handler.path
        self.asked.append(f'{handler.command} {path}')
        if handler.command == 'PUT' and path == '/latest/api/token':
            ok = 1 <= int(handler.headers.get('X-aws-ec2-metadata-token-ttl-seconds', 0)) <= 21600
            return (200, {}, b'TOKEN==') if ok else (400, {}, b'')
        if handler.command != 'GET' or handler.headers.get('X-aws-ec2-metadata-token') != 'TOKEN==':
            return 401, {}, b'Unauthorized'
        if path == '/latest/meta-data/placement/region':
            return 200, {}, REGION.encode()
        if path == '/latest/meta-data/iam/security-credentials/':
            return (200, {}, self.role.encode()) if self.role else (404, {}, b'')
        if path == f'/latest/meta-data/iam/security-credentials/{self.role}':
            self.n += 1
            return 200, {}, json.dumps({'Code': 'Success', 'Type': 'AWS-HMAC', 'AccessKeyId': KEY, 'SecretAccessKey': SECRET,
                                        'Token': 'of-instance', 'Expiration': utc(self.lifetime)}).encode()
        return 404, {}, b''


class Sts:
    """AssumeRole: signed by the instance's credentials, answers with those of the role."""

    def __init__(self):
        self.asked, self.refuses, self.lifetime = [], False, 3600

    def __call__(self, handler, body):
        key, region, service, expected, got, _ = signature_of(handler, body, SECRET)
        q = dict(urllib.parse.parse_qsl(body.decode()))
        if (key, region, service) != (KEY, REGION, 'sts') or expected != got or self.refuses:
            return 403, {}, (b'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code>'
                             b'<Message>not authorized to perform: sts:AssumeRole</Message></Error><RequestId>r</RequestId></ErrorResponse>')
        self.asked.append((q, handler.headers.get('X-Amz-Security-Token')))
        return 200, {}, (f'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><AssumedRoleUser><Arn>a</Arn></AssumedRoleUser>'
                         f'<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role/secret+</SecretAccessKey><SessionToken>of-role</SessionToken>'
                         f'<Expiration>{utc(self.lifetime)}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>').encode()


def targets(s):
    return {t['labels']['instance']: {k[11:]: v for k, v in t['discoveredLabels'].items() if k.startswith('__meta_ec2_')}
            for t in s.get('/api/v1/targets').json['data']['activeTargets']}


class Ec2SdTest(unittest.TestCase):
    def setUp(self):
        self.ec2 = Ec2()
        self.server = self.enterContext(Target(self.ec2))

    def config(self, keys=''):
        return (f'scrape_configs:\n- job_name: j\n  scrape_interval: 1h\n  ec2_sd_configs:\n'
                f'  - {{region: {REGION}, endpoint: "http://{self.server.address}", refresh_interval: 1s{keys}}}\n')

    def keys(self):
        return f', access_key: {KEY}, secret_key: "{SECRET}"'

    def test_labels_pages_and_failures(self):
        self.ec2.pages = {'': page(FULL, 'next+/='), 'next+/=': page(instance(2) + '<item><instanceId>i-9</instanceId></item>')}
        filters = ', port: 7273, filters: [{name: "tag:a b", values: [x, "y/z"]}, {name: instance-state-name, values: [running]}]'
        with scraper(self.config(self.keys() + filters)) as s:
            wait_for('both pages', lambda: set(targets(s)) == {'10.0.0.1:7273', '10.0.0.2:7273'})
            self.assertEqual(targets(s), {'10.0.0.1:7273': LABELS, '10.0.0.2:7273': {'instance_id': 'i-2', 'private_ip': '10.0.0.2', 'region': REGION, 'owner_id': '123456789012'}})
            self.assertEqual(self.ec2.asked[1][0], {
                'Action': 'DescribeInstances', 'Version': '2016-11-15', 'MaxResults': '1000', 'Filter.1.Name': 'tag:a b', 'Filter.1.Value.1': 'x', 'Filter.1.Value.2': 'y/z',
                'Filter.2.Name': 'instance-state-name', 'Filter.2.Value.1': 'running'})
            self.assertNotIn(SECRET, s.output() + s.get('/plain/config').text)

            def failures():
                return s.metrics()['sonde_discover_refresh_failures_total{kind="ec2"}']
            for token, status, text in (('next+/=', 503, error('Unavailable')), ('', 200, page('')[:-9]), ('', 200, '<!DOCTYPE a []><a/>'), ('', 200, '<a/>'), ('', 500, 'no XML')):
                before, good = failures(), dict(self.ec2.pages)
                self.ec2.pages[token], self.ec2.status = text, {token: status}
                wait_for(f'failures of {text[:40]}', lambda: failures() > before + 1)
                self.assertEqual(set(targets(s)), {'10.0.0.1:7273', '10.0.0.2:7273'})
                self.ec2.pages, self.ec2.status = good, {}
            self.ec2.secret = 'another'
            before = failures()
            wait_for('a wrong signature', lambda: failures() > before)
            self.ec2.secret, self.ec2.pages = SECRET, {'': page(instance(3))}
            wait_for('the change', lambda: set(targets(s)) == {'10.0.0.3:7273'})

    def test_addresses(self):
        """What an instance in a VPC and one without tell of their addresses, as Prometheus 3.16 has it."""
        def item(n, *texts):
            return f'<item><instanceId>i-{n}</instanceId>{"".join(texts)}</item>'

        def interface(device, *addresses, subnet='s-0'):
            v6 = ''.join(f'<item><ipv6Address>2001:db8::{a}</ipv6Address><isPrimaryIpv6>{str(is_primary).lower()}</isPrimaryIpv6></item>' for a, is_primary in addresses)
            return (f'<item>{f"<subnetId>{subnet}</subnetId>" if subnet else ""}<attachment><deviceIndex>{device}</deviceIndex></attachment>'
                    f'<ipv6AddressesSet>{v6}</ipv6AddressesSet></item>')

        def interfaces(*items):
            return f'<networkInterfaceSet>{"".join(items)}</networkInterfaceSet>'
        vpc = '<vpcId>vpc-1</vpcId><subnetId>s-0</subnetId>'

        def ip(n):
            return f'<privateIpAddress>10.0.0.{n}</privateIpAddress>'
        of_vpc = {'vpc_id': 'vpc-1', 'primary_subnet_id': 's-0', 'subnet_id': ',s-0,'}
        cases = {
            'an instance with IPv6 alone': (item(1, vpc, interfaces(interface(0, (1, False), (2, True)))), '[2001:db8::2]:80', {
                **of_vpc, 'ipv6_addresses': ',2001:db8::1,2001:db8::2,', 'primary_ipv6_addresses': ',2001:db8::2,', 'default_ipv6_address': '2001:db8::2'}),
            'the first where none is primary': (item(2, ip(2), vpc, '<ipv6Address>2001:db8::9</ipv6Address>', interfaces(interface(0, (3, False), (4, False)))), '10.0.0.2:80', {
                **of_vpc, 'private_ip': '10.0.0.2', 'ipv6_addresses': ',2001:db8::3,2001:db8::4,', 'default_ipv6_address': '2001:db8::3'}),
            'no interface': (item(3, ip(3), vpc), '10.0.0.3:80', {**of_vpc, 'private_ip': '10.0.0.3', 'subnet_id': ',,'}),
            'an interface without subnet': (item(4, ip(4), vpc, interfaces(interface(0, (5, True), subnet=None))), '10.0.0.4:80', {
                **of_vpc, 'private_ip': '10.0.0.4', 'subnet_id': ',,'}),
            'no VPC': (item(5, ip(5), '<subnetId>s-0</subnetId>', interfaces(interface(0, (6, True)))), '10.0.0.5:80', {'private_ip': '10.0.0.5'}),
            'a public name without address': (item(6, ip(6), '<dnsName>ec2-1.amazonaws.com</dnsName>'), '10.0.0.6:80', {'private_ip': '10.0.0.6'}),
            'an address without public name': (item(7, ip(7), '<dnsName/><ipAddress>54.1.2.3</ipAddress>'), '10.0.0.7:80', {'private_ip': '10.0.0.7', 'public_ip': '54.1.2.3'})}
        self.ec2.pages = {'': page(''.join(text for text, _, _ in cases.values()) + item(8, vpc))}
        with scraper(self.config(self.keys())) as s:
            wait_for('the targets', lambda: targets(s))
            found = targets(s)
            self.assertEqual(set(found), {address for _, address, _ in cases.values()})
            for name, (_, address, labels) in cases.items():
                got = {k: v for k, v in found[address].items() if k not in ('instance_id', 'owner_id', 'region')}
                self.assertEqual(got, labels, name)

    def test_credentials_of_the_environment(self):
        self.ec2.pages = {'': page(instance(4))}
        env = {**os.environ, 'AWS_ACCESS_KEY_ID': KEY, 'AWS_SECRET_ACCESS_KEY': SECRET, 'AWS_SESSION_TOKEN': 'session'}
        with scraper(self.config(), env=env) as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.0.0.4:80'})
            _, headers, signed = self.ec2.asked[0]
            self.assertEqual(headers['X-Amz-Security-Token'], 'session')
            self.assertIn('x-amz-security-token', signed)

    def failures(self, s):
        return s.metrics().get('sonde_discover_refresh_failures_total{kind="ec2"}', 0)

    def check_service_discovery(self, s, env):
        return sonde('check', 'service-discovery', '--timeout=5s', s.config, 'j', env=env)

    def test_instance_and_role(self):
        """Nothing but the instance's metadata to begin with; then a role is assumed with what it gives."""
        metadata, sts, home = Metadata(), Sts(), self.enterContext(tempfile.TemporaryDirectory(prefix='sonde-aws.'))
        self.ec2.pages, self.ec2.session = {'': page(instance(5))}, 'of-instance'
        env = {k: v for k, v in os.environ.items() if not k.startswith('AWS_')}
        env.update(HOME=home, AWS_EC2_METADATA_SERVICE_ENDPOINT=f'http://{self.enterContext(Target(metadata)).address}/',
                   AWS_ENDPOINT_URL_STS=f'http://{self.enterContext(Target(sts)).address}/')
        without_region = self.config().replace(f'region: {REGION}, ', '')
        with scraper(without_region, env=env) as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.0.0.5:80'})
            self.assertEqual(targets(s)['10.0.0.5:80']['region'], REGION)
            refreshed = len(self.ec2.asked)
            wait_for('further refreshes', lambda: len(self.ec2.asked) > refreshed + 2)
            self.assertEqual(metadata.n, 1, 'kept while they hold')
            self.assertEqual(metadata.asked.count('PUT /latest/api/token'), 1)
            metadata.lifetime, self.ec2.session = 200, 'another'  # they were revoked
            wait_for('new ones', lambda: metadata.n > 1)
            self.ec2.session = 'of-instance'
            wait_for('short-lived ones', lambda: metadata.n > 4)  # within five minutes of their end: new ones each time
            metadata.role = ''
            wait_for('no role', lambda: 'the instance has no role' in (self.check_service_discovery(s, env).stderr + s.output()))

            metadata.role, metadata.lifetime = 'profiler', 3600
            self.ec2.key, self.ec2.secret, self.ec2.session, self.ec2.pages = 'ASIAROLE', 'role/secret+', 'of-role', {'': page(instance(6))}
            s.set_config(without_region.replace('refresh_interval: 1s', 'refresh_interval: 1s, role_arn: "arn:aws:iam::1:role/r", external_id: "x y"'))
            s.p.send_signal(signal.SIGHUP)
            wait_for('the target by the role', lambda: set(targets(s)) == {'10.0.0.6:80'})
            q, token = sts.asked[0]
            self.assertEqual((q['Action'], q['RoleArn'], q['ExternalId'], token), ('AssumeRole', 'arn:aws:iam::1:role/r', 'x y', 'of-instance'))
            self.assertRegex(q['RoleSessionName'], r'^[\w+=,.@-]{2,64}$')
            self.assertEqual(len(sts.asked), 1, 'kept while they hold')
            sts.refuses = True
            out = self.check_service_discovery(s, env)
            self.assertIn('AccessDenied: not authorized to perform: sts:AssumeRole', out.stdout + out.stderr)
            self.assertEqual(set(targets(s)), {'10.0.0.6:80'}, 'the last good ones stay')
            for secret in (SECRET, 'role/secret+'):
                self.assertNotIn(secret, s.output() + s.get('/plain/config').text)

    def test_profiles(self):
        home = self.enterContext(tempfile.TemporaryDirectory(prefix='sonde-aws.'))
        os.mkdir(f'{home}/.aws')
        with open(f'{home}/.aws/credentials', 'w') as f:
            f.write(f'# comment\n[other]\naws_access_key_id = WRONG\naws_secret_access_key = wrong\n\n[ mine ]\n'
                    f'aws_access_key_id={KEY}\r\naws_secret_access_key =  {SECRET}\n; end')
        with open(f'{home}/.aws/config', 'w') as f:
            f.write(f'[default]\nregion = us-east-1\n[profile mine]\ns3 =\n  region = nested\nregion = {REGION}\n[profile empty]\noutput = json\n')
        env = {k: v for k, v in os.environ.items() if not k.startswith('AWS_')}
        env.update(HOME=home, AWS_EC2_METADATA_DISABLED='true')
        self.ec2.pages = {'': page(instance(7))}
        config = self.config(', profile: mine').replace(f'region: {REGION}, ', '')
        with scraper(config, env=env) as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.0.0.7:80'})
            for profile, why in ((', profile: none', 'there is no profile "none"'), (', profile: empty', 'has no aws_access_key_id'),
                                 ('', 'AWS_EC2_METADATA_DISABLED')):
                s.set_config(self.config(profile))
                out = self.check_service_discovery(s, env)
                self.assertIn(why, out.stdout + out.stderr)
        env['AWS_PROFILE'] = 'mine'
        self.ec2.pages = {'': page(instance(8))}
        with scraper(self.config(), env=env) as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.0.0.8:80'})

    # Credentials for a token: each is found by `sonde check service-discovery`, which asks as the scraper does.

    def found(self, env, keys='', config=None):
        """What the check says with nothing but these variables; the instances are asked for with what was found."""
        home = self.enterContext(tempfile.TemporaryDirectory(prefix='sonde-aws.'))
        clean = {k: v for k, v in os.environ.items() if not k.startswith('AWS_')}
        clean.update(HOME=home, AWS_EC2_METADATA_DISABLED='true')
        clean.update({k: v.replace('HOME', home) for k, v in env.items() if not k.startswith('/')})
        for name, text in env.items():
            if name.startswith('/'):
                os.makedirs(os.path.dirname(home + name), exist_ok=True)
                with open(home + name, 'w') as f:
                    f.write(text.replace('HOME', home))
        with open(f'{home}/sonde.yml', 'w') as f:
            f.write(config or self.config(keys))
        out = sonde('check', 'service-discovery', '--timeout=20s', f'{home}/sonde.yml', 'j', env=clean)
        return out.stdout + out.stderr

    def serve(self, answer):
        return self.enterContext(Target(answer))

    def roles_own(self, n):
        """From now on only the credentials that the servers below give are good."""
        self.ec2.key, self.ec2.secret, self.ec2.session, self.ec2.pages = 'ASIAROLE', 'role/secret+', 'of-role', {'': page(instance(n))}

    def test_web_identity(self):
        """As EKS sets it for a service account: a token in a file, which is renewed, becomes a role's credentials at STS, without a signature."""
        asked = []

        def sts(handler, body):
            q = dict(urllib.parse.parse_qsl(body.decode()))
            asked.append((q, handler.headers.get('Authorization')))
            if q.get('WebIdentityToken') != 'eyJ.token':
                return 400, {}, (b'<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>Incorrect token audience</Message></Error>'
                                 b'</ErrorResponse>')
            return 200, {}, (f'<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>'
                             f'<SubjectFromWebIdentityToken>s</SubjectFromWebIdentityToken><Credentials><SessionToken>of-role</SessionToken>'
                             f'<SecretAccessKey>role/secret+</SecretAccessKey><Expiration>{utc(3600)}</Expiration><AccessKeyId>ASIAROLE</AccessKeyId>'
                             f'</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>').encode()
        self.roles_own(9)
        env = {'AWS_ENDPOINT_URL_STS': f'http://{self.serve(sts).address}/', '/token': 'eyJ.token\n'}
        pod = {**env, 'AWS_WEB_IDENTITY_TOKEN_FILE': 'HOME/token', 'AWS_ROLE_ARN': 'arn:aws:iam::1:role/pod', 'AWS_ROLE_SESSION_NAME': 'of pod'}
        self.assertIn('10.0.0.9:80', self.found(pod))
        self.assertEqual(asked[0], ({'Action': 'AssumeRoleWithWebIdentity', 'Version': '2011-06-15', 'RoleArn': 'arn:aws:iam::1:role/pod', 'RoleSessionName': 'of pod',
                                     'WebIdentityToken': 'eyJ.token'}, None))
        profile = '[profile p]\nrole_arn = arn:aws:iam::1:role/p\nweb_identity_token_file = HOME/token\n'
        self.assertIn('10.0.0.9:80', self.found({**env, '/.aws/config': profile}, ', profile: p'))
        self.assertEqual(asked[1][0]['RoleArn'], 'arn:aws:iam::1:role/p')
        for change, why in (({'/token': 'old'}, 'web identity: the server answered with status 400: InvalidIdentityToken: Incorrect token audience'),
                            ({'/token': '\n'}, 'there is no token in it'), ({'/token': 'a\nb'}, 'a token is one line of ASCII'),
                            ({'AWS_WEB_IDENTITY_TOKEN_FILE': 'HOME/none'}, '/none'), ({'AWS_ROLE_ARN': ''}, 'AWS_ROLE_ARN is not set')):
            self.assertIn(why, self.found({**pod, **change}))

    def test_container(self):
        """The agent of an EKS pod identity or an ECS task, and roles assumed from what it gives."""
        asked, answer = [], {'status': 200}

        def agent(handler, body):
            asked.append((handler.path, handler.headers.get('Authorization')))
            if answer['status'] != 200:
                return answer['status'], {}, b'{"code":"AccessDenied","message":"token is not valid"}'
            return 200, {}, json.dumps({'RoleArn': 'r', 'AccessKeyId': 'ASIAROLE', 'SecretAccessKey': 'role/secret+', 'Token': 'of-role', 'Expiration': utc(3600)}).encode()
        self.roles_own(10)
        env = {'AWS_CONTAINER_CREDENTIALS_FULL_URI': f'http://{self.serve(agent).address}/v1/credentials', 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE': 'HOME/token',
               '/token': 'eyJ.pod\n'}
        self.assertIn('10.0.0.10:80', self.found(env))
        self.assertEqual(asked, [('/v1/credentials', 'eyJ.pod')])
        self.assertIn('10.0.0.10:80', self.found({**env, 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE': '', 'AWS_CONTAINER_AUTHORIZATION_TOKEN': 'Basic x'}))
        self.assertEqual(asked[-1], ('/v1/credentials', 'Basic x'))
        answer['status'] = 403
        self.assertIn("the container's credentials: the server answered with status 403: token is not valid", self.found(env))
        self.assertIn('"10.1.2.3" is neither this machine nor an agent of ECS or EKS, expected https',
                      self.found({**env, 'AWS_CONTAINER_CREDENTIALS_FULL_URI': 'http://10.1.2.3/'}))

    @unittest.skipIf(os.geteuid() != 0, 'needs root, for a network of its own')
    def test_container_of_ecs(self):
        """AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is asked of an address that only exists in a network of its own."""
        script = 'ip link set lo up && ip addr add 169.254.170.2/32 dev lo && exec "$@"'
        here = os.path.dirname(os.path.abspath(__file__))
        inside = f"""
import sys, unittest
sys.path.insert(0, {here!r})
import test_ec2_sd
sys.exit(not unittest.TextTestRunner().run(test_ec2_sd.Ec2SdTest('inside_ecs')).wasSuccessful())
"""
        r = subprocess.run(['unshare', '--net', 'sh', '-c', script, 'sh', sys.executable, '-c', inside], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def inside_ecs(self):
        body = json.dumps({'AccessKeyId': 'ASIAROLE', 'SecretAccessKey': 'role/secret+', 'Token': 'of-role', 'Expiration': utc(3600)}).encode()

        class Agent(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == '/v2/credentials/1-2' else 404)
                self.end_headers()
                self.wfile.write(body)
        agent = http.server.HTTPServer(('169.254.170.2', 80), Agent)
        threading.Thread(target=agent.serve_forever, daemon=True).start()
        self.roles_own(11)
        self.assertIn('10.0.0.11:80', self.found({'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI': '/v2/credentials/1-2'}))

    def test_sign_on(self):
        """A profile of IAM Identity Center: the token that `aws sso login` left becomes a role's credentials."""
        asked = []

        def portal(handler, body):
            asked.append(handler.path)
            if handler.headers.get('x-amz-sso_bearer_token') != 'bearer':
                return 401, {}, b'{"message":"Session token not found or invalid","__type":"com.amazonaws.switchboard.portal#UnauthorizedException"}'
            return 200, {}, json.dumps({'roleCredentials': {'accessKeyId': 'ASIAROLE', 'secretAccessKey': 'role/secret+', 'sessionToken': 'of-role',
                                                            'expiration': int(time.time() + 3600) * 1000}}).encode()

        def cached(name, token='bearer', expires=3600):
            return {f'/.aws/sso/cache/{hashlib.sha1(name.encode()).hexdigest()}.json':
                    json.dumps({'startUrl': 'https://x.awsapps.com/start', 'region': REGION, 'accessToken': token, 'expiresAt': utc(expires)})}
        self.roles_own(12)
        keys = 'sso_account_id = 123456789012\nsso_role_name = Read Only\n'
        env = {'AWS_ENDPOINT_URL_SSO': f'http://{self.serve(portal).address}',
               '/.aws/config': f'[profile new]\nsso_session = corp\n{keys}[sso-session corp]\nsso_start_url = https://x.awsapps.com/start\nsso_region = {REGION}\n'
                               f'[profile old]\nsso_start_url = https://x.awsapps.com/start\nsso_region = {REGION}\n{keys}[profile lost]\nsso_session = none\n{keys}'
                               f'[profile part]\nsso_start_url = https://x.awsapps.com/start\n'}
        self.assertIn('10.0.0.12:80', self.found({**env, **cached('corp')}, ', profile: new'))
        self.assertEqual(asked, ['/federation/credentials?account_id=123456789012&role_name=Read%20Only'])
        self.assertIn('10.0.0.12:80', self.found({**env, **cached('https://x.awsapps.com/start')}, ', profile: old'))
        for profile, files, why in (('new', {}, 'aws sso login'), ('new', cached('corp', expires=-5), 'has expired: aws sso login'),
                                    ('new', cached('corp', 'other'), 'status 401: Session token not found or invalid'),
                                    ('lost', {}, 'there is no [sso-session none]'), ('part', {}, 'expected sso_start_url, sso_region, sso_account_id and sso_role_name')):
            out = self.found({**env, **files}, f', profile: {profile}')
            self.assertIn(why, out)
            self.assertNotIn('bearer', out)

    def test_profiles_with_roles(self):
        """role_arn of a profile with the keys of another one, and what is not read is named."""
        sts = Sts()
        self.roles_own(13)
        kinds = {'role': 'role_arn = arn:aws:iam::1:role/p\nsource_profile = keys\nexternal_id = x\nrole_session_name = me\n',
                 'variables': 'role_arn = arn:aws:iam::1:role/p\ncredential_source = Environment\n', 'mfa': 'role_arn = r\nmfa_serial = m\nsource_profile = keys\n',
                 'program': 'credential_process = /bin/true\n', 'chain': 'role_arn = r\nsource_profile = role\n', 'alone': 'role_arn = r\n',
                 'strange': 'role_arn = r\ncredential_source = Moon\n'}
        env = {'AWS_ENDPOINT_URL_STS': f'http://{self.serve(sts).address}', '/.aws/config': ''.join(f'[profile {k}]\n{v}' for k, v in kinds.items()),
               '/.aws/credentials': f'[keys]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n'}
        self.assertIn('10.0.0.13:80', self.found(env, ', profile: role'))
        q, _ = sts.asked[0]
        self.assertEqual((q['RoleArn'], q['ExternalId'], q['RoleSessionName']), ('arn:aws:iam::1:role/p', 'x', 'me'))
        self.assertIn('10.0.0.13:80', self.found({**env, 'AWS_ACCESS_KEY_ID': KEY, 'AWS_SECRET_ACCESS_KEY': SECRET}, ', profile: variables'))
        for profile, why in (('mfa', 'mfa_serial: its role wants a code'), ('program', 'credential_process: programs are not run'),
                             ('chain', 'source_profile "role" has no aws_access_key_id'), ('alone', 'stands without source_profile'),
                             ('variables', 'it has no AWS_ACCESS_KEY_ID'), ('strange', 'expected Environment, Ec2InstanceMetadata or EcsContainer')):
            self.assertIn(why, self.found(env, f', profile: {profile}'))


if __name__ == '__main__':
    unittest.main()
