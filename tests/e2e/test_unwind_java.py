"""Stacks of Java programs that know nothing of it: order, names and lines against what the program is known to do, on all Java VMs that are here."""
import os
import re
import shutil
import subprocess
import sys
import unittest

import sonde_e2e as e2e
from sonde_javas import javas
from sonde_languages import Counts, SampledLanguage, is_named

SOURCE = f'{e2e.TOP}/tests/data/java/Truth.java'
with open(SOURCE) as source:
    TEXT = source.read().split('\n')

METHOD = re.compile(r'Truth(\$\w+)?\.(lambda\$)?n(\d+)From([\d_]+)')
MODES = {'': (), ' interpreted': ('-Xint',), ' C1': ('-XX:TieredStopAtLevel=1',), ' C2': ('-XX:-TieredCompilation',), ' parallel': ('-XX:+UseParallelGC',)}


def javac():
    return shutil.which('javac') or next((p for p in (os.path.join(os.path.dirname(java), 'javac') for java in javas()) if os.path.exists(p)), None)


def number(frame):
    """(number of the program's method, numbers of its callers); None: it is none of them."""
    if re.fullmatch(r'Truth\.run', frame.name):
        return 0, ()
    m = METHOD.match(frame.name)
    if not m:
        return None
    own = int(m[3])
    return own, (own,) if m[2] else tuple(map(int, m[4].split('_')))


def lines_of(name):
    """The lines of the method with that name, from its head to the closing brace of its indentation."""
    at = next(i for i, line in enumerate(TEXT) if re.search(rf'\b{name}\(', line) and line.rstrip().endswith('{'))
    indent = re.match(r'\t*', TEXT[at])[0]
    end = next(i for i in range(at, len(TEXT)) if TEXT[i] == f'{indent}}}')
    return range(at + 1, end + 2)


def fault_of(chain, is_whole):
    """What is wrong with a chain of language frames, root first; None when the program makes such calls. Who calls the first is known of a whole stack only."""
    last = None if is_whole else -1
    for frame in chain:
        found = number(frame)
        if not found:
            continue
        own, callers = found
        if callers and last != -1 and (last is None or last not in callers):
            return frame
        last = own
        method = frame.name.rpartition('.')[2]
        if frame.file != 'Truth.java':
            return frame
        # A class may have its own of that name: any of them will do.
        if frame.line and not method.startswith('lambda') and method != 'n3From2' and frame.line not in lines_of(method):
            return frame
    return None


class Javas(SampledLanguage):
    mapping = r'\[hotspot\d*\]$'

    @classmethod
    def is_language(cls, frame):
        """Not HotSpot's own code: [interpreter], [vtable stub]."""
        return super().is_language(frame) and not frame.name.startswith('[') or frame.name == '[hotspot]'

    @classmethod
    def compile(cls):
        compiler = javac()
        if not compiler:
            raise unittest.SkipTest('no javac is here')
        subprocess.run([compiler, '-nowarn', '--release', '8', '-d', cls.dir, SOURCE], check=True, stderr=subprocess.DEVNULL)


@e2e.needs_kernel
class Truth(Javas):
    """All at once, and the newest in the modes of its compilers."""

    @classmethod
    def start(cls):
        found = javas()
        if not found:
            raise unittest.SkipTest('no Java VM is here')
        cls.compile()
        cls.versions = {}
        for java in found:
            text = subprocess.run([java, '-version'], capture_output=True, text=True, check=True).stderr
            for mode, flags in MODES.items():
                if mode and (java != found[-1] or e2e.is_sanitized()):
                    continue  # the kernel half is the same in both builds
                cls.loads[java + mode] = e2e.Workload(java, *flags, '-Xmx64m', '-cp', cls.dir, 'Truth')
                cls.versions[java + mode] = int(re.search(r'version "(?:1\.)?(\d+)', text)[1])
        cls.wait_for_names()
        cls.begin_window()
        cls.wait_samples()

    @classmethod
    def wait_for_names(cls):
        """Eight VMs compile all at once when they begin, faster than the exporter reads."""
        few = 0

        def is_calm():
            nonlocal few
            few = few + 1 if cls.exporter.metrics()['sonde_interp_waiting'] < 10 else 0
            return few > 5

        e2e.wait_for('programs to be sampled', lambda: cls.exporter.metrics()['sonde_interp_names_total{runtime="hotspot",result="ok"}'] > 500)
        e2e.wait_for('names', is_calm, interval=0.5)

    def test_order_names_lines(self):
        faults, lines = [], []
        for name in self.loads:
            counts = Counts(name)
            for frames, values, labels in self.of(name):
                chain = self.chain(frames)
                # Threads of the compilers and collectors run C++ alone.
                if labels.get('thread_name') != 'truth':
                    continue
                counts.add(values[0], labels, chain, chain)
                fault = fault_of(chain, labels['stack'] == 'complete')
                if fault or (chain and labels['stack'] == 'complete' and not chain[0].name.startswith('java.lang.Thread.run')):
                    faults.append((name, fault, [(f.name, f.file, f.line) for f in chain]))
            lines.append(str(counts))
            with self.subTest(name):
                self.assertGreater(counts.stacks, 100)
                self.assertGreaterEqual(counts.whole, 0.99 * counts.stacks - 3)
                self.assertGreaterEqual(counts.named, 0.995 * counts.frames - 3)
        print('\n' + '\n'.join(lines), file=sys.stderr)
        self.assertFalse(faults, f'{len(faults)}, such as {faults[:3]}')

    def test_lines(self):
        """Callers have one. At a leaf a compiler may have left all of them out."""
        for name in self.loads:
            own = [f for frames, _, _ in self.of(name) for f in [f for f in frames if self.is_language(f)][1:] if number(f)]
            self.assertGreaterEqual(sum(f.line > 0 for f in own), 0.99 * len(own), name)

    def test_native_code(self):
        """C++ calls Java, and Java calls it: nothing of libjvm stands between two functions of the program but where they go through it."""
        for name in self.loads:
            for frames, _, labels in self.of(name):
                at = [i for i, f in enumerate(frames) if number(f)]
                if labels['stack'] == 'complete' and at:
                    self.assertIn('libjvm', ' '.join(f.mapping for f in frames[at[-1]:]), name)

    def test_language(self):
        for name in self.loads:
            self.assertEqual({labels.get('language') for frames, _, labels in self.of(name) if any(map(self.is_language, frames))}, {'java'})

    def test_version(self):
        for name, version in self.versions.items():
            said = f'[hotspot{version}]' if version > 8 else '[hotspot]'
            self.assertEqual({f.mapping for frames, _, _ in self.of(name) for f in frames if self.is_language(f)}, {said})

    def test_page(self):
        """/unwind has a row for each file, and none is refused."""
        page = self.exporter.get('/unwind').text
        for name in {name.split(' ')[0] for name in self.loads}:
            self.assertIn(os.path.realpath(os.path.join(os.path.dirname(name), '../lib/server/libjvm.so')), page)
        metrics = self.exporter.metrics()
        self.assertEqual(sum(n for m, n in metrics.items() if m.startswith('sonde_interp_refused_total{runtime="hotspot"')), 0)
        self.assertGreaterEqual(metrics['sonde_interp_processes{runtime="hotspot",state="walked"}'], len(self.loads))


if __name__ == '__main__':
    unittest.main()
