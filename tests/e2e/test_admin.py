"""The TSDB admin API: snapshots, deletions, clean_tombstones, in Prometheus' paths and shapes; and what a damaged block leaves on the pages."""
import json
import os
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from pprof_target import PprofTarget, encode
from sonde_e2e import scraper, sonde, wait_for

BESIDE_OTHERS = True

CONFIG = """
scrape_configs:
  - job_name: app
    scrape_interval: 1s
    static_configs:
      - targets: ['{address}']
        labels: {{team: a}}
      - targets: ['{other}']
        labels: {{team: b}}
    profiling_config:
      preset: go
"""
ADMIN = '/api/v1/admin/tsdb/'


def post(s, path, *params, method='POST'):
    """Status and body."""
    url = f'http://127.0.0.1:{s.port}{path}?{urllib.parse.urlencode(params)}'
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, data=b''), timeout=60) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def post_body(s, path, body):
    with urllib.request.urlopen(urllib.request.Request(f'http://127.0.0.1:{s.port}{path}', method='POST', data=body), timeout=60) as r:
        return r.status, r.read()


def teams(s):
    return json.loads(s.get('/api/v1/label/team/values').text)['data']


def target(s, team):
    return next(t for t in s.get('/api/v1/targets').json['data']['activeTargets'] if t['labels']['team'] == team)


class Admin(unittest.TestCase):
    def test_off_by_default(self):
        with scraper('scrape_configs: []') as s:
            for name in ('snapshot', 'delete_series', 'clean_tombstones'):
                code, body = post(s, ADMIN + name)
                self.assertEqual((code, json.loads(body)['errorType']), (503, 'unavailable'))

    def test_snapshot_and_deletion(self):
        with PprofTarget() as a, PprofTarget() as b:
            with scraper(CONFIG.format(address=a.address, other=b.address), '--web.enable-admin-api') as s:
                wait_for('both', lambda: a.served > 2 and b.served > 2 and teams(s) == ['a', 'b'])
                code, body = post(s, ADMIN + 'snapshot')
                self.assertEqual(code, 200, body)
                answer = json.loads(body)
                self.assertEqual(answer['status'], 'success')
                snapshot = f'{s.data}/snapshots/{answer["data"]["name"]}'
                self.assertEqual(sonde('tsdb', 'verify', snapshot).returncode, 0)
                for bad in ((), (('match[]', 'x{'),), (('match[]', '{}'),), (('match[]', 'a:b:c:d:e{}'),),
                            (('match[]', '{__type__="x"}'),), (('match[]', 'x'), ('start', 'soon')), (('nonsense', '1'),)):
                    code, body = post(s, ADMIN + 'delete_series', *bad)
                    self.assertEqual((code, json.loads(body)['errorType']), (400, 'bad_data'), bad)
                b.__exit__(None, None, None)
                # Nothing of it is under way any more.
                wait_for('b to be gone', lambda: all(p['lastError'] for p in target(s, 'b')['profiles']))
                # What team b left: its profiles go, what is scraped later (up = 0) is new.
                before = time.time()
                code, body = post(s, ADMIN + 'delete_series', ('match[]', '{team="b",__name__!~"up|scrape_.*"}'), ('match[]', 'nothing_of_the_kind'), ('end', str(before)))
                self.assertEqual((code, body), (204, b''))
                query = urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{team="b"}')
                gone = json.loads(s.get(f'/api/v1/flamegraph?query={query}&start={before - 3600}&end={before}').text)
                self.assertEqual(gone['data']['total'], 0, gone)
                there = json.loads(s.get(f'/api/v1/flamegraph?query={query.replace("b%22", "a%22")}&start={before - 3600}&end={before}').text)
                self.assertGreater(there['data']['total'], 0)
                self.assertEqual(post(s, ADMIN + 'clean_tombstones', method='PUT'), (204, b''))
                self.assertEqual(s.metrics()['sonde_store_tombstones'], 0)
                dump = sonde('tsdb', 'dump', s.data).stdout
                kept = sonde('tsdb', 'dump', snapshot).stdout
            self.assertNotRegex(dump, r'__name__="process_cpu"[^\n]*team="b"')
            self.assertRegex(dump, r'__name__="process_cpu"[^\n]*team="a"')
            self.assertRegex(kept, r'__name__="process_cpu"[^\n]*team="b"')

    def test_queries_see_a_deletion_at_once(self):
        """Twelve profiles worth 1, 2, 4 … go one after the other, while others ask: an answer is always that of one moment."""
        n, now = 12, int(time.time()) // 60 * 60
        with scraper('scrape_configs: []', '--web.enable-admin-api') as s:
            for i in range(n):
                body = encode([('cpu', 'nanoseconds')], ('cpu', 'nanoseconds'), [(['work', 'main'], [1 << i], {'thread_name': f't{i % 3}'})],
                              (now - 3600 + 60 * i) * 10**9, 10**9)
                code, answer = post_body(s, '/api/v1/import?name=process_cpu&label.job=app&label.instance=a', body)
                self.assertEqual(code, 200, answer)
            query = urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{thread_name=~".+"}')
            whole, seen, over = (1 << n) - 1, [[] for _ in range(4)], threading.Event()

            def ask(k):
                while not over.is_set():
                    if k % 2:
                        total = s.get(f'/api/v1/flamegraph?query={query}&start={now - 7200 - k}').json['data']['total']
                    else:
                        d = s.get(f'/api/v1/query_series?query={query}&start={now - 3600}&end={now}&step=3600&group_by=job&_={k}').json['data']['result']
                        total = round(sum(float(v) for line in d for _, v in line['values']))
                    seen[k].append(total)
            threads = [threading.Thread(target=ask, args=(k,)) for k in range(len(seen))]
            for t in threads:
                t.start()
            try:
                for i in range(n - 1):
                    at = now - 3600 + 60 * i
                    self.assertEqual(post(s, ADMIN + 'delete_series', ('match[]', 'process_cpu{job="app"}'), ('start', str(at - 1)), ('end', str(at + 2)))[0], 204)
                    if i % 4 == 3:
                        self.assertEqual(post(s, ADMIN + 'clean_tombstones')[0], 204)
                    if i % 5 == 4:
                        self.assertEqual(post(s, ADMIN + 'snapshot')[0], 200)
                wait_for('answers for each', lambda: all(len(answers) > 3 for answers in seen))
            finally:
                over.set()
                for t in threads:
                    t.join()
            allowed = {whole & ~((1 << i) - 1) for i in range(n)}
            for answers in seen:
                self.assertLessEqual(set(answers), allowed)
                self.assertEqual(answers, sorted(answers, reverse=True))
            self.assertEqual(s.metrics()['sonde_store_blocks_quarantined'], 0)

    def test_damage_is_shown(self):
        with PprofTarget() as a:
            with scraper(CONFIG.format(address=a.address, other=a.address), '--web.enable-admin-api') as s:
                query = urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{}')
                # Stored, not only served: a block without what is asked for below is not read.
                wait_for('profiles', lambda: s.get(f'/api/v1/profiles?query={query}').json['data'].get('n_profiles', 0) > 2)
                self.assertEqual(post(s, ADMIN + 'snapshot')[0], 200)
                block = os.listdir(f'{s.data}/blocks')[0]
                # Not its symbols: a new block's labels are read ahead, and what is in the cache is not read again.
                with open(f'{s.data}/blocks/{block}/stacks', 'r+b') as f:
                    f.seek(20)
                    f.write(b'damage')

                def ask():
                    try:
                        s.get(f'/api/v1/flamegraph?query={query}')
                    except urllib.error.HTTPError:
                        pass
                    return s.metrics().get('sonde_store_blocks_quarantined', 0) == 1
                wait_for('the quarantine', ask)
                page = s.get('/plain/status').text
                self.assertIn(block, page)
                self.assertIn('wrong checksum', page)
                self.assertTrue(os.path.exists(f'{s.data}/quarantine/{block}/reason'))
                self.assertRegex(s.output(), f'level=warn.*{block} is damaged and was moved to quarantine.*wrong checksum')
                # Everything else is served.
                wait_for('more', lambda: json.loads(s.get(f'/api/v1/flamegraph?query={query}').text)['data']['total'] > 0)


if __name__ == '__main__':
    unittest.main()
