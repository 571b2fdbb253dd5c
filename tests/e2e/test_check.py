"""sonde check: exit statuses and texts, what promtool says of the same file, and Prometheus's own relabeling beside ours."""
import glob
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

import go_modules
import sonde_e2e as e2e

BESIDE_OTHERS = True

SONDE = e2e.program('sonde')

GOOD = '''
global:
  scrape_interval: 1m
  scrape_timeout: 10s
scrape_configs:
  - job_name: node
    params: {module: [a, b]}
    static_configs:
      - targets: ["h1:1", "h2:2", "drop:3"]
        labels: {team: storage, __meta_x: m, job: own}
      - targets: ["h4:4"]
    file_sd_configs:
      - files: [t*.json, other.yml]
    relabel_configs:
      - {source_labels: [__address__], regex: "drop.*", action: drop}
      - {source_labels: [__address__], regex: "(.*):(\\\\d+)", target_label: port, replacement: "$2"}
      - {source_labels: [team], target_label: TEAM, action: uppercase}
      - {regex: "__meta_(.*)", action: labelmap}
      - {source_labels: [__address__], modulus: 4, target_label: shard, action: hashmod}
      - {target_label: __scrape_interval__, replacement: 30s}
      - {source_labels: [__address__], regex: "h4.*", target_label: __param_module, replacement: c}
'''


def sonde(*args):
    r = subprocess.run([SONDE, *args], capture_output=True, text=True, timeout=60)
    return r.returncode, r.stdout, r.stderr


class Dir(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='sonde-check.')
        self.addCleanup(shutil.rmtree, self.dir)

    def write(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, 'wb') as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path


class CheckConfig(Dir):
    def test_good(self):
        path = self.write('a.yml', GOOD)
        self.write('t.json', '[{"targets": ["f:1"]}]')
        status, out, err = sonde('check', 'config', path)
        self.assertEqual((status, out), (0, f'SUCCESS: {path} is valid, 1 job\n'), err)
        self.assertIn('other.yml does not exist', err)

    def test_bad(self):
        for content, error in [
            ('scrape_configs: [{job_name: a}, {job_name: a}]', ':1:44: scrape_configs[1].job_name: "a" is listed twice, '
             'first as scrape_configs[0] in line 1'),
            ('scrape_configs:\n- job_name: a\n  scrape_interval: -1s', ':3:20: scrape_configs[0].scrape_interval: "-1s" is '
             'negative, expected a duration such as 15s or 1h30m'),
            (b'scrape_configs:\n- job_name: \xff', ':2:13: byte 0xff is not valid UTF-8'),
            ('scrape_configs: [{job_name: a, relabel_configs: [{regex: "a(?=b)", target_label: x}]}]', ':1:58: '
             'scrape_configs[0].relabel_configs[0].regex: "a(?=b)" is not a regular expression of RE2: position 2: '
             'lookahead is not supported'),
        ]:
            path = self.write('a.yml', content)
            self.assertEqual(sonde('check', 'config', path), (1, '', f'{path}{error}\n'))
        self.assertEqual(sonde('check', 'config', self.dir), (1, '', f'{self.dir}: is a directory, expected a YAML file\n'))
        missing = os.path.join(self.dir, 'none')
        self.assertEqual(sonde('check', 'config', missing), (1, '', f'{missing}: No such file or directory\n'))
        self.assertEqual(sonde('check', 'config')[0], 2)

    def test_files_of_credentials(self):
        """As promtool: what a job names must be there, unless only the syntax is asked for."""
        for keys, named in (('tls_config: {cert_file: c.pem, key_file: k.pem}', 'tls_config.cert_file'), ('bearer_token_file: t', 'bearer_token_file'),
                            ('basic_auth: {username: u, password_file: p}', 'basic_auth.password_file'), ('http_headers: {X-A: {files: [h]}}', 'http_headers.X-A.files'),
                            ('oauth2: {client_id: a, token_url: "http://h/", client_secret_file: s}', 'oauth2.client_secret_file'),
                            ('http_sd_configs: [{url: "http://h/"}, {url: "http://h/", tls_config: {ca_file: ca.pem}}]', 'http_sd_configs[1].tls_config.ca_file'),
                            ('kubernetes_sd_configs: [{role: pod, kubeconfig_file: k}]', 'kubernetes_sd_configs[0].kubeconfig_file')):
            path = self.write('a.yml', f'scrape_configs:\n- job_name: j\n  scrape_failure_log_file: not.yet\n  {keys}\n')
            status, out, err = sonde('check', 'config', path)
            self.assertEqual((status, out), (1, ''))
            self.assertRegex(err, rf'(?m)^{re.escape(path)}: job j: {re.escape(named)}: {re.escape(self.dir)}/[\w.]+: No such file or directory$')
            self.assertEqual(sonde('check', 'config', '--syntax-only', path)[0], 0)
        path = self.write('a.yml', 'scrape_configs:\n- job_name: j\n  bearer_token_file: t\n')
        self.write('t', 'secret')
        self.assertEqual(sonde('check', 'config', path)[0], 0)

    def test_one_of_several(self):
        good, bad = self.write('a.yml', ''), self.write('b.yml', 'x: y')
        status, out, err = sonde('check', 'config', good, bad, good)
        self.assertEqual((status, out.count('SUCCESS')), (1, 2))
        self.assertTrue(err.startswith(f'{bad}:1:1: x: unknown key'), err)

    def test_broken_sd_file(self):
        path = self.write('a.yml', GOOD)
        other = self.write('other.yml', '- target: [x]\n')
        self.assertEqual(sonde('check', 'config', path), (1, '', f'{other}:1:3: [0].target: unknown key; did you mean targets?\n'))

    def test_examples(self):
        files = [f'{e2e.TOP}/configs/sonde.yml', *glob.glob(f'{e2e.TOP}/configs/scraper/*.yml')]
        self.assertGreaterEqual(len(files), 5)
        status, _, err = sonde('check', 'config', *files)
        self.assertEqual(status, 0, err)


class CheckServiceDiscovery(Dir):
    def test_targets(self):
        path = self.write('a.yml', GOOD)
        self.write('t1.json', '[{"targets": ["f:1", "f:2"], "labels": {"x": "y"}}]')
        self.write('other.yml', '- targets: ["o:1"]\n')
        status, out, err = sonde('check', 'service-discovery', path, 'node')
        self.assertEqual(status, 0, err)
        ours = json.loads(out)
        self.assertEqual(len(ours), 7)
        by_address = {t['discoveredLabels']['__address__']: t for t in ours}
        self.assertEqual(by_address['drop:3']['labels'], {})
        self.assertEqual(by_address['f:2']['labels']['filepath'], f'{self.dir}/t1.json')
        self.assertEqual(by_address['h4:4']['labels']['__param_module'], 'c')
        self.assertEqual(by_address['h1:1']['labels']['job'], 'own')

    @unittest.skipUnless(shutil.which('promtool'), 'promtool is not installed (Debian package prometheus)')
    def test_like_promtool(self):
        """Version 2.42 appends default ports, so all addresses here have one; its file discovery panics when it stops, so there is none."""
        path = self.write('a.yml', re.sub(r'    file_sd_configs:\n.*\n', '', GOOD))
        r = subprocess.run(['promtool', 'check', 'service-discovery', '--timeout=3s', path, 'node'], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        theirs = [{**t, 'labels': t['labels'] or {}} for t in json.loads(r.stdout)]
        ours = json.loads(sonde('check', 'service-discovery', path, 'node')[1])
        self.assertEqual(len(ours), 4)
        key = lambda t: t['discoveredLabels']['__address__']
        self.assertEqual(sorted(ours, key=key), sorted(theirs, key=key))

    def test_errors(self):
        path = self.write('a.yml', 'scrape_configs: [{job_name: a, static_configs: [{targets: [h]}],'
                          'relabel_configs: [{target_label: __address__, replacement: ""}]}, {job_name: b}]')
        status, out, _ = sonde('check', 'service-discovery', path, 'a')
        self.assertEqual(json.loads(out)[0]['error'], 'no address: relabeling left no __address__')
        self.assertEqual(json.loads(out)[0]['labels'], {})
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(sonde('check', 'service-discovery', path, 'b')[1]), [])
        status, out, err = sonde('check', 'service-discovery', path, 'c')
        self.assertEqual((status, out, err), (1, '', f'sonde: {path} has no job "c"; its jobs are a, b\n'))


class CheckRelabel(Dir):
    def run_rules(self, rules, labels):
        return sonde('check', 'relabel', '--rules', self.write('r.yml', rules), '--labels', json.dumps(labels))

    def test_steps(self):
        status, out, _ = self.run_rules('- {source_labels: [a], target_label: b}\n- {action: labeldrop, regex: a}\n', {'a': '1"\n'})
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out), {'labels': {'b': '1"\n'}, 'steps': [
            {'rule': {'source_labels': ['a'], 'target_label': 'b'}, 'labels': {'a': '1"\n', 'b': '1"\n'}},
            {'rule': {'action': 'labeldrop', 'regex': 'a'}, 'labels': {'b': '1"\n'}}]})

    def test_dropped(self):
        _, out, _ = self.run_rules('[{source_labels: [a], action: drop, regex: "1"}, {target_label: x, replacement: y}]', {'a': '1'})
        self.assertEqual(json.loads(out), {'labels': None, 'steps': [
            {'rule': {'source_labels': ['a'], 'action': 'drop', 'regex': '1'}, 'labels': None}]})

    def test_nothing(self):
        self.assertEqual(json.loads(self.run_rules('[]', {'a': '1', 'b': ''})[1]), {'labels': {'a': '1'}, 'steps': []})

    def test_errors(self):
        rules = os.path.join(self.dir, 'r.yml')
        self.assertEqual(self.run_rules('[{regex: "("}]', {}), (1, '', f'{rules}:1:10: [0].regex: "(" is not a regular expression '
                         'of RE2: position 1: missing ) of this group\n'))
        self.write('r.yml', '[]')
        for labels, text in [('[]', 'expected an object of names and values, got an array'), ('{"a":1}', 'the value of "a" is an integer'),
                             ('{"":"x"}', 'a label name cannot be empty'), ('{"a":"1","a":"2"}', 'line 1')]:
            status, out, err = sonde('check', 'relabel', '--rules', rules, '--labels', labels)
            self.assertEqual((status, out), (1, ''))
            self.assertIn(text, err)
        self.assertEqual(sonde('check', 'relabel', '--rules', rules)[0], 2)


ORACLE = '''package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"gopkg.in/yaml.v2"
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var i struct {
			Rules  string
			Labels map[string]string
		}
		if err := json.Unmarshal(in.Bytes(), &i); err != nil {
			panic(err)
		}
		var rules []*relabel.Config
		err := yaml.UnmarshalStrict([]byte(i.Rules), &rules)
		for _, r := range rules {
			if err == nil {
				err = r.Validate(model.UTF8Validation)
			}
		}
		if err != nil {
			fmt.Println(`"error"`)
			continue
		}
		b := labels.NewBuilder(labels.FromMap(i.Labels))
		if !relabel.ProcessBuilder(b, rules...) {
			fmt.Println("null")
			continue
		}
		out, _ := json.Marshal(b.Labels().Map())
		fmt.Println(string(out))
	}
}
'''


class AgainstPrometheus(Dir):
    """Random rules and labels: the same labels, drops and refusals as github.com/prometheus/prometheus/model/relabel 3.14."""
    N = 600 if e2e.build_dir().endswith('release') else 120

    def rule(self, r):
        names = ['a', 'b', 'c', '__address__', 'utf-8.x', 'é']
        action = r.choice(['replace'] * 4 + ['keep', 'drop', 'keepequal', 'dropequal', 'hashmod', 'labelmap', 'labeldrop', 'labelkeep',
                                             'lowercase', 'uppercase', 'LabelMap', 'frob'])
        rule = {} if action == 'replace' and r.random() < 0.5 else {'action': action}
        if r.random() < 0.8 and action not in ('labelmap', 'labeldrop', 'labelkeep'):
            rule['source_labels'] = r.sample(names, r.randint(1, 2))
        if r.random() < 0.5 and not action.endswith('equal') or action.startswith('label'):
            rule['regex'] = r.choice(['(.*)', '.*', 'a|b', '([a-z]+)', '(?i)A.*', '(.)(.*)', '(?P<x>.+)', '[^1]*', '.+;.*', '', 'x(y)?.*', '\\w+', '1(2|$)'])
        if action in ('replace', 'hashmod', 'lowercase', 'uppercase', 'keepequal', 'dropequal') and r.random() < 0.95:
            rule['target_label'] = r.choice(names + ['$1', '${1}_x', 'n$x'])
        if action in ('replace', 'labelmap', 'LabelMap') and r.random() < 0.6:
            rule['replacement'] = r.choice(['', 'const', '$1', '$2$1', '${x}!', '$$', 'p_$1', '$1x'])
        if action.lower() == 'labelmap':
            # Names that stay apart: which of two labels wins one name depends on the order of earlier rules there.
            rule['regex'] = r.choice(['(.*)', '(?i)(A.*)', '(.+)', '(a|b)', '(1(2|$))'])
            rule['replacement'] = r.choice(['$1', 'p_$1', '${1}!', '', '$1-$1'])
        if action == 'hashmod':
            rule['modulus'] = r.choice([0, 1, 7, 1000])
        if r.random() < 0.15:
            rule['separator'] = r.choice(['', ',', '$1'])
        return rule

    def test_same_result(self):
        oracle = go_modules.build('relabel-oracle', ORACLE, 'github.com/prometheus/prometheus/model/relabel@v0.314.0', 'gopkg.in/yaml.v2@v2.4.0')
        r = random.Random(20261121)
        cases = []
        for _ in range(self.N):
            values = ['', '1', '12', 'aB', 'x', 'xyz', 'É9', 'a\nb', 'h:1']
            cases.append({'rules': json.dumps([self.rule(r) for _ in range(r.randint(1, 3))]),
                          'labels': {n: r.choice(values) for n in r.sample(['a', 'b', 'c', '__address__', 'utf-8.x', 'é'], 4)}})
        theirs = subprocess.run([oracle], input=''.join(json.dumps(c) + '\n' for c in cases), capture_output=True, text=True, check=True)
        kinds = {'labels': 0, 'dropped': 0, 'refused': 0}
        for case, line in zip(cases, theirs.stdout.splitlines(), strict=True):
            want = json.loads(line)
            path = self.write('r.yml', case['rules'])
            status, out, err = sonde('check', 'relabel', '--rules', path, '--labels', json.dumps(case['labels']))
            got = json.loads(out)['labels'] if status == 0 else 'error'
            # The module keeps empty labels of the input until they are touched, and labelmap there can make a label without a name.
            if isinstance(want, dict):
                want = {k: v for k, v in want.items() if k and v}
            self.assertEqual(got, want, f'{case} {err}')
            kinds['refused' if got == 'error' else 'dropped' if got is None else 'labels'] += 1
        for kind, n in kinds.items():
            self.assertGreater(n, self.N // 30, kinds)


if __name__ == '__main__':
    unittest.main()
