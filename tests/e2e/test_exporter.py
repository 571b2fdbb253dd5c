"""The exporter on the real kernel: names of every runtime, labels, pprof tooling, pages, errors."""
import os
import re
import socket
import subprocess
import tempfile
import time
import unittest

import sonde_e2e as e2e

C_SOURCE = r'''
#include <unistd.h>
#include <fcntl.h>
static volatile unsigned long x;
__attribute__((noinline)) static void leaf_work(void) { for (int i = 0; i < 2000000; i++) x += i * x; }
__attribute__((noinline)) static void middle_work(void) { leaf_work(); x++; }
__attribute__((noinline)) static int recursion(int n) { if (!n) { leaf_work(); return 0; } int r = recursion(n - 1); x++; return r + 1; }
__attribute__((noinline)) static void system_calls(void)
{
	static char buf[1 << 16];
	int fd = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 3000; i++) {
		long r; /* not through libc, which has no frame pointers */
		__asm__ volatile("syscall" : "=a"(r) : "0"(0L), "D"((long)fd), "S"(buf), "d"(sizeof(buf)) : "rcx", "r11", "memory");
		x += r;
	}
	close(fd);
}
int main(void) { for (;;) { middle_work(); recursion(100); system_calls(); } }
'''
# Without optimization gcc keeps frame pointers in leaf functions too.
FRAME_POINTERS = ['-O0', '-g', '-fno-omit-frame-pointer']
GO_SOURCE = '''package main
var x uint64
//go:noinline
func goNothing() {}
//go:noinline
func goLeaf() { for i := uint64(0); i < 1000000; i++ { x += i * x }; goNothing() }
//go:noinline
func goMiddle() { goLeaf(); x++ }
func main() { for { goMiddle() } }
'''
JAVA_SOURCE = '''public class Burn { static volatile long x; static void leaf() { for (int i = 0; i < 100000; i++) x += i * x; }
public static void main(String[] a) { while (true) leaf(); } }
'''
PYTHON_SOURCE = 'while True: sum(i * i for i in range(10000))'
NODE_SOURCE = 'function leaf() { let s = 0; for (let i = 0; i < 1e6; i++) s += i * i; return s } let t = 0; for (;;) t += leaf()'


def go_program(dir):
    with open(f'{dir}/burn.go', 'w') as f:
        f.write(GO_SOURCE)
    subprocess.run([e2e.GO, 'build', '-o', f'{dir}/burngo', f'{dir}/burn.go'], check=True, capture_output=True,
                   env=e2e.go_env())
    return f'{dir}/burngo'


def not_run_seconds():
    """CPU time in which nothing ran here: idle, or taken by the machine that this one is a guest of."""
    with open('/proc/stat') as f:
        fields = f.readline().split()
    return sum(int(fields[i]) for i in (4, 5, 8)) / os.sysconf('SC_CLK_TCK')


def raw_request(port, head):
    with socket.create_connection(('127.0.0.1', port), 10) as s:
        s.sendall(head.encode())
        return s.makefile('rb').read().decode(errors='replace')


@e2e.needs_kernel
class Runtimes(unittest.TestCase):
    """One window over workloads of five languages, looked at from many sides."""

    @classmethod
    def setUpClass(cls):
        cls.stack = []
        dir = tempfile.TemporaryDirectory()
        cls.stack.append(dir)
        java = f'{dir.name}/Burn.java'
        with open(java, 'w') as f:
            f.write(JAVA_SOURCE)
        burn_c = e2e.compile_c(C_SOURCE, *FRAME_POINTERS, name='burnc')
        commands = {
            'c': [burn_c],
            'go': [go_program(dir.name)],
            'python': ['/usr/bin/python3', '-c', PYTHON_SOURCE],
            'java': ['/usr/bin/java', '-XX:+UseSerialGC', '-XX:+PreserveFramePointer', java],
            'node': ['/usr/bin/node', '-e', NODE_SOURCE],
        }
        try:
            cls.exporter = cls.enter(e2e.exporter('--profile.frequency=99', '--external-label=dc=ams', '--node.name=n1', '--profile.max-overhead=0'))
            cls.work = {name: cls.enter(e2e.Workload(*cmd)) for name, cmd in commands.items()}
            cls.first = cls.exporter.get('/debug/pprof/profile?seconds=4')  # the JVM compiles, symbol files get built
            e2e.wait_symbol_files(cls.exporter)
            before = not_run_seconds()
            cls.response = cls.exporter.get('/debug/pprof/profile?seconds=6')
            cls.not_run = not_run_seconds() - before
            cls.profile = e2e.Pprof(cls.response.body)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def enter(cls, thing):
        cls.stack.append(thing)
        return thing.__enter__()

    @classmethod
    def tearDownClass(cls):
        while cls.stack:
            thing = cls.stack.pop()
            if hasattr(thing, 'cleanup'):
                thing.cleanup()
            else:
                thing.__exit__(None, None, None)

    def of(self, name):
        pid = str(self.work[name].pid)
        samples = [s for s in self.profile.samples if s[2].get('pid') == pid]
        self.assertTrue(samples, f'no samples of {name}')
        return samples

    def functions(self, name):
        return {f for stack, _, _ in self.of(name) for f in stack}

    def test_header(self):
        r, p = self.response, self.profile
        self.assertEqual(r.status, 200)
        self.assertEqual(r.headers['Content-Type'], 'application/octet-stream')
        self.assertEqual(r.headers['Content-Disposition'], 'attachment; filename="profile"')
        self.assertIsNone(r.headers['Content-Encoding'])
        self.assertEqual(r.headers['Sonde-Types'], 'process_cpu=profile')
        self.assertEqual(r.headers['Sonde-Retention-Seconds'], '300')
        self.assertEqual(r.body[:2], b'\x1f\x8b')
        self.assertEqual(p.types, [('samples', 'count'), ('cpu', 'nanoseconds')])
        self.assertEqual(p.duration_nanos, 6 * 10**9)
        self.assertLess(abs(p.time_nanos / 1e9 + 6 - time.time()), 600)
        self.assertEqual(p.period, 10**9 // 99)
        self.assertEqual(p.total(1), p.total(0) * p.period)

    def test_c_stacks_are_whole(self):
        stacks = [s for s, _, _ in self.of('c')]
        self.assertTrue(any(s[0] == 'leaf_work' and s[1] == 'middle_work' and s[2] == 'main' for s in stacks), stacks[:5])
        deep = [s for s in stacks if s[0] == 'leaf_work' and 'recursion' in s]
        self.assertTrue(deep)
        for s in deep:
            self.assertEqual(s.count('recursion'), 101)

    def test_kernel_frames_sit_on_the_user_stack(self):
        stacks = [s for s, _, _ in self.of('c') if 'system_calls' in s and s[0] != 'system_calls']
        whole = [s for s in stacks if any('read' in f for f in s[:s.index('system_calls')])]
        self.assertTrue(whole, stacks[:5])
        self.assertIn('[kernel.kallsyms]', {m['file'] for m in self.profile.mappings.values()})

    def test_go_names(self):
        stacks = [s for s, _, _ in self.of('go')]
        self.assertTrue(any(s[:3] == ['main.goLeaf', 'main.goMiddle', 'main.main'] for s in stacks), stacks[:5])

    def test_python_is_seen_as_itself(self):
        self.assertLessEqual({'<module>', '[interpreter]'}, set(self.functions('python')))

    def test_java_and_node_have_native_names(self):
        named = {f for f in self.functions('java') if '+0x' not in f and not f.startswith('[')}
        self.assertTrue(named & {'JavaMain', 'start_thread', 'jni_CallStaticVoidMethod', 'ThreadJavaMain', 'JNI_CreateJavaVM'}, named)
        self.assertTrue(any(f.startswith('node::') or f.startswith('v8::') for f in self.functions('node')), list(self.functions('node'))[:20])

    def test_cut_stacks_are_visible(self):
        for stack, _, labels in self.profile.samples:
            if labels['stack'] == 'complete':
                self.assertFalse(any(f.startswith('[truncated') for f in stack))
            else:
                self.assertEqual(stack[-1], '[truncated: %s]' % labels['stack'].split(':')[1])

    def test_labels(self):
        names = {'comm', 'thread_name', 'pid', 'tid', 'stack', 'node', 'dc'}
        for _, _, labels in self.profile.samples:
            self.assertLessEqual(names, set(labels))
            self.assertEqual((labels['node'], labels['dc']), ('n1', 'ams'))
            self.assertNotIn('cpu', labels)
        _, _, labels = self.of('c')[0]
        self.assertEqual(labels['comm'], 'burnc')
        self.assertEqual(labels['executable'], os.path.realpath(self.work['c'].p.args[0]))
        self.assertEqual(labels['tid'], labels['pid'])
        self.assertEqual({s[2]['comm'] for s in self.of('java')}, {'java'})

    def test_time_is_what_the_kernel_says(self):
        """Each burner is single-threaded and always ready to run: its sampled time cannot pass the window."""
        for name in 'c', 'go', 'python', 'node':
            ns = sum(v[1] for _, v, _ in self.of(name))
            self.assertGreater(ns, 0.2e9, name)
            self.assertLess(ns, 6.6e9 * 1.3, name)
        busy = self.profile.total(1) / 1e9
        self.assertGreater(busy, 0.9 * (6 * os.cpu_count() - self.not_run))
        self.assertLess(busy, 1.05 * 6 * os.cpu_count())

    def test_go_tool_pprof(self):
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f, tempfile.NamedTemporaryFile(suffix='.pb.gz') as base:
            f.write(self.response.body)
            f.flush()
            base.write(self.first.body)
            base.flush()
            top = e2e.go_pprof('-top', '-nodecount=50', f.name)
            self.assertEqual(top.returncode, 0, top.stderr)
            self.assertEqual(top.stderr, '')  # nothing to symbolize, nothing to warn of
            self.assertIn('Type: cpu', top.stdout)
            self.assertIn('Duration: 6s', top.stdout)
            self.assertRegex(top.stdout, r'(?m) leaf_work$')
            self.assertRegex(top.stdout, r'(?m) main\.goLeaf$')
            tags = e2e.go_pprof('-tags', f.name).stdout
            for key in 'comm', 'pid', 'executable', 'node', 'stack':
                self.assertRegex(tags, rf'(?m)^ *{key}: Total')
            focus = e2e.go_pprof('-top', '-tagfocus=comm:burngo', f.name).stdout
            self.assertIn('main.goLeaf', focus)
            self.assertNotIn('leaf_work', focus)
            diff = e2e.go_pprof('-top', '-normalize', f'-diff_base={base.name}', f.name)
            self.assertEqual(diff.returncode, 0, diff.stderr)
            self.assertIn('leaf_work', diff.stdout)
            raw = e2e.go_pprof('-raw', f.name).stdout
            self.assertIn('PeriodType: cpu nanoseconds', raw)

    def test_go_tool_pprof_fetches(self):
        r = e2e.go_pprof('-top', '-seconds=2', self.exporter.url)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('leaf_work', r.stdout)
        r = e2e.go_pprof('-top', f'{self.exporter.url}/debug/pprof/profile?seconds=1&bogus=1')
        self.assertNotEqual(r.returncode, 0)
        self.assertIn('unknown parameter "bogus": valid ones are seconds since span debug gc hz symbolize interp format pid', r.stderr)

    def test_mappings_have_build_ids(self):
        files = [m for m in self.profile.mappings.values() if m['file'].startswith('/')]
        self.assertTrue(files)
        with_id = [m for m in files if m['build_id']]
        self.assertGreater(len(with_id), len(files) / 2)
        first = self.profile.mappings[1]['file']
        self.assertTrue(first.startswith('/'), first)

    def test_other_formats(self):
        get = lambda q: self.exporter.get('/debug/pprof/profile?since=&' + q)
        folded = get('format=folded&comm=burnc')
        self.assertEqual(folded.headers['Content-Type'], 'text/plain; charset=utf-8')
        for line in folded.text.splitlines():
            self.assertRegex(line, r'^\S.* \d+$')
        self.assertRegex(folded.text, r'main;middle_work;leaf_work \d+')
        svg = get('format=svg')
        self.assertEqual(svg.headers['Content-Type'], 'image/svg+xml')
        self.assertIn('<svg', svg.text)
        html = get('format=html')
        self.assertIn('<html', html.text)
        text = get('debug=1')
        self.assertTrue(text.text.startswith('# cpu profile in nanoseconds: '), text.text[:200])
        self.assertIn('leaf_work', text.text)
        self.assertEqual(get('format=flame').status, 400)

    def test_symbolize_modes(self):
        none = e2e.Pprof(self.exporter.get('/debug/pprof/profile?since=&symbolize=none&comm=burnc').body)
        self.assertFalse({'leaf_work', 'main'} & set(none.functions()))
        lines = self.exporter.get('/debug/pprof/profile?since=&symbolize=lines&comm=burnc')
        self.assertEqual(lines.status, 200)
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f:
            f.write(lines.body)
            f.flush()
            self.assertIn('leaf_work', e2e.go_pprof('-top', '-lines', f.name).stdout)

    def test_targets(self):
        pid = str(self.work['c'].pid)
        items = self.exporter.get('/targets?min_cpu=0.05').json
        mine = [i for i in items if i['labels']['__param_pid'] == pid]
        self.assertEqual(len(mine), 1)
        labels = mine[0]['labels']
        self.assertEqual(mine[0]['targets'], [f'127.0.0.1:{self.exporter.port}'])
        self.assertEqual(labels['__meta_process_pid'], pid)
        self.assertEqual(labels['__meta_process_ppid'], str(os.getpid()))
        self.assertEqual(labels['__meta_process_comm'], 'burnc')
        self.assertEqual(labels['__meta_process_cmdline'], self.work['c'].p.args[0])
        self.assertLess(abs(int(labels['__meta_process_start_time']) - time.time()), 600)
        for i in items:
            self.assertTrue(all(isinstance(v, str) and v for v in i['labels'].values()), i)
            self.assertIn('__meta_process_executable', i['labels'])  # no kernel threads
        self.assertEqual(self.exporter.get('/targets?min_cpu=1000').json, [])
        for by in 'container', 'unit':
            for i in self.exporter.get(f'/targets?by={by}').json:
                self.assertIn(f'__param_{by}', i['labels'])
        self.assertEqual(self.exporter.get('/targets?by=pod').status, 400)

    def test_index_page(self):
        page = self.exporter.get('/').text
        for text in 'own cost', 'sampled share of busy CPU time', 'complete', '<td>complete</td>', 'samples since start', 'n1':
            self.assertIn(text, page)
        flags = self.exporter.get('/flags').text
        self.assertIn('<td>--profile.frequency</td><td>99</td>', flags)
        self.assertIn('profile', self.exporter.get('/debug/pprof/').text)

    def test_own_cost_is_measured(self):
        m = self.exporter.metrics()
        for role in 'main', 'keeper', 'parser':
            self.assertIn(f'sonde_self_cpu_seconds_total{{role="{role}"}}', m)
        self.assertGreater(m['sonde_self_cpu_seconds_total{role="main"}'], 0)
        self.assertGreater(m['sonde_bpf_seconds_total'], 0)
        self.assertGreater(m['sonde_overhead_ratio'], 0)
        self.assertEqual(m['sonde_profile_frequency_hz{event="cpu"}'], 99)
        self.assertEqual(m['sonde_cpus_attached'], os.cpu_count())
        self.assertEqual(m['process_resident_memory_bytes'] > 0, True)

    def test_metrics_page_is_well_formed(self):
        seen, families = set(), set()
        for line in self.exporter.get('/metrics').text.splitlines():
            if line.startswith('# TYPE'):
                name = line.split()[2]
                self.assertNotIn(name, families, 'a family twice')
                families.add(name)
            elif not line.startswith('#'):
                key = line.rpartition(' ')[0]
                self.assertNotIn(key, seen, 'a series twice')
                seen.add(key)

    def test_promtool_likes_the_metrics(self):
        r = subprocess.run(['/usr/bin/promtool', 'check', 'metrics'], input=self.exporter.get('/metrics').text, capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stdout + r.stderr), (0, ''))

    def test_prometheus_scrapes_and_discovers(self):
        """Debian's Prometheus reads /metrics, and /targets as HTTP service discovery."""
        port = e2e.free_port()
        with tempfile.TemporaryDirectory() as dir:
            with open(f'{dir}/prometheus.yml', 'w') as f:
                f.write(f'''
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: node
  static_configs: [{{targets: ['127.0.0.1:{self.exporter.port}']}}]
- job_name: processes
  http_sd_configs: [{{url: '{self.exporter.url}/targets?min_cpu=0.05', refresh_interval: 1s}}]
  relabel_configs:
  - {{source_labels: [__meta_process_comm], target_label: comm}}
  - {{source_labels: [__param_pid], target_label: instance}}
''')
            with e2e.Workload('/usr/bin/prometheus', f'--config.file={dir}/prometheus.yml', f'--storage.tsdb.path={dir}/data',
                              f'--web.listen-address=127.0.0.1:{port}'):
                pid = str(self.work['c'].pid)

                def ask(query):
                    try:
                        r = e2e.http_get(f'http://127.0.0.1:{port}/api/v1/query?query={query}')
                        return [x for x in r.json['data']['result'] if x['value'][1] != '0']
                    except (OSError, KeyError, ValueError):  # Prometheus says in plain text that it is not ready
                        return None

                e2e.wait_for('a scrape of the node', lambda: ask('sonde_samples_total'))
                up = e2e.wait_for('a discovered process', lambda: ask(f'up%7Bjob=%22processes%22,instance=%22{pid}%22%7D'))
                self.assertEqual(up[0]['metric']['comm'], 'burnc')

    def test_every_metric_is_documented(self):
        with open(f'{e2e.TOP}/docs/metrics-exporter.md') as f:
            text = f.read()
        documented = set(re.findall(r'`((?:sonde|process)_\w+)', text))
        # rows of metrics that only a flag brings begin their text with it
        optional = set(re.findall(r'`((?:sonde|process)_\w+)`[^|]*\|[^|]*\| with `--', text))
        families = set(re.findall(r'(?m)^# TYPE (\S+)', self.exporter.get('/metrics').text))
        self.assertEqual(families - documented, set())
        self.assertEqual(documented - families - optional, set())

    def test_http_rules(self):
        x = self.exporter
        for path, text in (
                ('/debug/pprof/profile?seconds=301', 'above --profile.retention'),
                ('/debug/pprof/profile?seconds=x', 'seconds=x: expected a whole number'),
                ('/debug/pprof/profile?hz=1000', '--profile.max-frequency'),
                ('/debug/pprof/profile?hz=0', 'expected a rate from 1 to 999'),
                ('/debug/pprof/profile?pid=me', 'pid=me: expected a process id'),
                ('/debug/pprof/profile?comm=~(', 'position'),
                ('/debug/pprof/profile?label.zone=1', 'unknown label "zone": valid ones are comm'),
                ('/debug/pprof/profile?since=bogus', 'malformed cursor'),
                ('/debug/pprof/profile?since=0000000000000000', 'malformed cursor'),
                ('/debug/pprof/profile?since=&span=0', 'span=0'),
                ('/debug/pprof/profile?symbolize=all', 'expected one of none, functions, lines')):
            r = x.get(path)
            self.assertEqual((path, r.status), (path, 400))
            self.assertIn(text, r.text)
            self.assertEqual(r.headers['X-Go-Pprof'], '1')
            self.assertIn('text/plain', r.headers['Content-Type'])
        r = x.get('/debug/pprof/heap')
        self.assertEqual((r.status, r.headers['X-Go-Pprof']), (404, '1'))
        self.assertEqual(x.get('/nothing').status, 404)
        self.assertEqual(x.get('/metrics', method='POST').status, 405)
        self.assertEqual(x.get('/-/healthy').status, 200)
        self.assertIn('sonde-exporter', x.get('/debug/pprof/cmdline').text)
        self.assertIn('\0--profile.frequency=99', x.get('/debug/pprof/cmdline').text)
        self.assertEqual(x.get('/debug/pprof/symbol', method='POST', body=b'0x1+0x2').text.strip(), 'num_symbols: 0')
        head = x.get('/-/ready', method='HEAD')
        self.assertEqual((head.status, head.body), (200, b''))
        foreign = raw_request(x.port, 'GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')
        self.assertIn(' 403 ', foreign.splitlines()[0])

    def test_no_match_is_a_valid_empty_profile(self):
        r = self.exporter.get('/debug/pprof/profile?since=&comm=no-such-program')
        p = e2e.Pprof(r.body)
        self.assertEqual((r.status, p.samples, len(p.types)), (200, [], 2))
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f:
            f.write(r.body)
            f.flush()
            self.assertEqual(e2e.go_pprof('-top', f.name).returncode, 0)


if __name__ == '__main__':
    unittest.main()
