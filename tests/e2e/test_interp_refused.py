"""Language runtimes of processes: those that are walked, those that are refused and where that is said, and --interp."""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import sonde_e2e as e2e

SPIN = 'def spin():\n    while True: pass\nspin()'
PROGRAM = '/usr/bin/python3'


def changed_copy(folder):
    """A copy of the program that says it is Python 3.99, with a build id of its own; None where it does not say its version in a word."""
    source = os.path.realpath(PROGRAM)
    path = f'{folder}/python3.99'
    with open(source, 'rb') as f:
        data = bytearray(f.read())
    symbols = subprocess.run(['readelf', '-W', '--dyn-syms', source], capture_output=True, text=True, check=True).stdout
    found = re.search(r':\s+([0-9a-f]+)\s+[48] OBJECT\s.*\sPy_Version$', symbols, re.M)
    build_id = re.search(r'Build ID: ([0-9a-f]+)', subprocess.run(['readelf', '-n', source], capture_output=True, text=True).stdout)
    if not found or not build_id:
        return None
    at = int(found[1], 16)
    for off, vaddr, size in re.findall(r'LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+)',
                                       subprocess.run(['readelf', '-Wl', source], capture_output=True, text=True, check=True).stdout):
        if 0 <= at - int(vaddr, 16) < int(size, 16):
            word = at - int(vaddr, 16) + int(off, 16)
            data[word + 2] = 99  # major, minor, patch, level: the lowest byte first
            break
    else:
        return None
    old = bytes.fromhex(build_id[1])
    data = data.replace(old, bytes(b ^ 0xff for b in old))
    with open(path, 'wb') as f:
        f.write(data)
    os.chmod(path, 0o755)
    return path


@e2e.needs_kernel
class Refused(unittest.TestCase):
    def targets(self, d, pid):
        return [t['labels'] for t in d.get('/targets').json if t['labels'].get('__param_pid') == str(pid)]

    def test_what_is_walked_and_what_is_refused(self):
        with tempfile.TemporaryDirectory(dir=e2e.program_dir()) as folder, e2e.exporter('--profile.frequency=99') as d:
            path = changed_copy(folder)
            if not path:
                self.skipTest(f'{PROGRAM} does not have its version in a word')
            walked, refused = 'sonde_interp_processes{runtime="python",state="walked"}', 'sonde_interp_processes{runtime="python",state="refused"}'
            count = 'sonde_interp_refused_total{runtime="python",reason="unknown_version"}'
            begin = time.time()
            # The copy has no library beside it.
            with e2e.Workload(PROGRAM, '-c', SPIN) as known, e2e.Workload(path, '-c', SPIN, env={**os.environ, 'PYTHONHOME': '/usr'}) as unknown:
                e2e.wait_for('a process that is walked', lambda: d.metrics()[walked] >= 1, interval=0.05)
                e2e.wait_for('a process that is refused', lambda: d.metrics()[refused] >= 1, interval=0.05)
                print(f'\nwalked and refused after {time.time() - begin:.2f} s', file=sys.stderr)
                self.assertGreaterEqual(d.metrics()[count], 1)
                e2e.wait_for('both as targets', lambda: self.targets(d, known.p.pid) and self.targets(d, unknown.p.pid))
                labels = self.targets(d, unknown.p.pid)[0]
                sentence = labels['__meta_process_runtime_refused']
                self.assertIn('version', sentence)
                self.assertEqual((labels['__meta_process_runtime'], labels['__meta_process_runtime_version'].split('.')[:2]), ('python', ['3', '99']))
                labels = self.targets(d, known.p.pid)[0]
                self.assertEqual(labels['__meta_process_runtime'], 'python')
                self.assertNotIn('__meta_process_runtime_refused', labels)
                page = d.get('/unwind').text.split('<h2>Language runtimes')[1]
                row = page[page.index(path):].split('</tr>')[0]
                self.assertIn(sentence, row)
                self.assertIn('python 3.99', row)
                e2e.wait_for('the refusal in the log', lambda: f'{path}: python 3.99: {sentence}' in d.output(), timeout=5)
            self.assertEqual(d.output().count(f'{path}: python 3.99: {sentence}'), 1)

    def test_none(self):
        with e2e.exporter('--profile.frequency=99', '--interp=none') as d, e2e.Workload(PROGRAM, '-c', SPIN) as p:
            e2e.wait_for('samples', lambda: self.targets(d, p.p.pid))
            profile = e2e.Pprof(d.get(f'/debug/pprof/profile?seconds=2&pid={p.p.pid}').body)
            self.assertTrue(profile.functions())
            self.assertNotIn('spin', profile.functions())
            self.assertFalse([k for k, v in d.metrics().items() if k.startswith('sonde_interp_processes') and v])

    def test_names_that_are_none(self):
        for flag, name in (('--interp=cobol', 'cobol'), ('--interp=python,python', 'python'), ('--interp=', ''), ('--interp=python,', '')):
            r = subprocess.run([e2e.program('sonde-exporter'), flag], capture_output=True, text=True, timeout=30)
            self.assertNotEqual(r.returncode, 0, flag)
            self.assertIn(f'--interp={name}: unknown or repeated; expected none, or some of python, ruby', r.stderr)


if __name__ == '__main__':
    unittest.main()
