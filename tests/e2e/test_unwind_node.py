"""Stacks of Node.js programs that know nothing of it: order, names, files and lines against what the programs print of themselves."""
import collections
import re
import subprocess
import sys
import unittest

import sonde_e2e as e2e
from sonde_languages import Counts, SampledLanguage, is_named
from sonde_nodes import nodes

TRUTH = f'{e2e.TOP}/tests/data/node/truth.js'
OURS = re.compile(r'/|ctx\.js$|\[eval\]$')  # files of the program, not of what Node.js has of its own

Place = collections.namedtuple('Place', 'name file line')


def truth(node):
    """The stacks that the program prints, leaf first, each without the function work that it ends in."""
    stacks = []
    for line in subprocess.run([node, TRUTH, 'stacks'], capture_output=True, text=True, check=True, timeout=120).stdout.split('\n'):
        if line == 'S':
            stacks.append([])
        elif line.startswith('F '):
            _, at, _, rest = line.split(' ', 3)
            name, _, file = rest.rpartition(' ')
            stacks[-1].append(Place('(anonymous)' if name == '-' else name, '' if file == '-' else file, int(at)))
    assert len(stacks) >= 20 and line == '', stacks
    return stacks


def same_name(got, true):
    """What a function without a name in its source is called comes from a property that each closure has."""
    return got == true or (got == '(anonymous)' and (true == 'eval' or true.startswith(('[', 'get ', 'set '))))


def same(got, true):
    """Machine code has no frames of the builtins in it, and builtins that are C++ have none: the truth may have more."""
    got, true = [f for f in got if f.file], [f for f in true if f.file]
    return len(got) == len(true) and all(same_name(a.name, b.name) and (a.file, a.line) == (b.file, b.line) for a, b in zip(got, true))


def is_true(chain, stacks):
    """Is this, leaf first, one of the stacks, or the outer part of one that is on its way to work?"""
    if chain[0].name == 'work':
        return any(same(chain[1:], s) for s in stacks)
    return any(same_name(chain[0].name, s[k].name) and same(chain[1:], s[k + 1:]) for s in stacks for k in range(len(s)))


class Nodes(SampledLanguage):
    mapping = r'\[v8\]$'


@e2e.needs_kernel
class Truth(Nodes):
    """All versions at once."""

    @classmethod
    def start(cls):
        cls.found = nodes()
        if not cls.found:
            raise unittest.SkipTest('no Node.js is here')
        cls.truths = {node: truth(node) for node in cls.found}
        for node in cls.found:
            cls.loads[node] = e2e.Workload(node, TRUTH)
        cls.begin_window()
        cls.wait_samples()

    def test_order_names_lines(self):
        faults, lines = [], []
        for node in self.found:
            counts, true, alone = Counts(node), 0, 0
            for frames, values, labels in self.of(node):
                chain = [Place(f.name, f.file, f.line) for f in frames if self.is_language(f)]
                counts.add(values[0], labels, chain, chain)
                if labels['stack'] != 'complete' or not chain or not OURS.match(chain[0].file) or not all(map(is_named, chain)):
                    continue
                if any(f.file and not f.line for f in chain):  # its machine code had gone before it was read: of that frame the function is known
                    alone += values[0]
                    continue
                if is_true(chain, self.truths[node]):
                    true += values[0]
                else:
                    faults.append((node, chain, [f.name for f in frames]))
            lines.append(f"{counts}; {true} of the program's own and right, {alone} with a function alone")
            with self.subTest(node):
                self.assertGreaterEqual(counts.whole, 0.99 * counts.stacks - 3)
                self.assertGreaterEqual(counts.named, 0.999 * counts.frames - 3)
                self.assertGreaterEqual(true, 0.5 * counts.stacks)
                self.assertLessEqual(alone, 0.01 * counts.stacks + 2)
        print('\n' + '\n'.join(lines), file=sys.stderr)
        self.assertFalse(faults, f'{len(faults)}, such as {faults[:2]}')

    def test_the_interpreter_is_one_frame(self):
        for node in self.found:
            for frames, _, _ in self.of(node):
                for leafward, f in zip(frames, frames[1:]):
                    if self.is_language(f):
                        self.assertFalse(leafward.name.startswith('Builtins_'), (node, frames))

    def test_language(self):
        for node in self.found:
            self.assertEqual({labels.get('language') for frames, _, labels in self.of(node) if any(map(self.is_language, frames))}, {'javascript'})


SERVER = """
const http = require('http');
function spin(ms) { const end = process.cpuUsage().user + ms * 1000; let n = 0; while (process.cpuUsage().user < end) for (let i = 0; i < 1000; i++) n += i; return n; }
async function render(n) { await null; return JSON.stringify({ n: spin(2), toJSON() { return spinInJson(n); } }); }
function spinInJson(n) { return spin(1) + n; }
async function handle(request, response) { const body = await render(1); response.end(body); }
const server = http.createServer((request, response) => { handle(request, response); });
server.listen(0, '127.0.0.1', async () => {
  for (;;) await new Promise((done) => http.get(server.address(), (r) => { r.resume(); r.on('end', done); }));
});
"""
WORKERS = """
const { Worker, isMainThread } = require('worker_threads');
function inWorker() { let n = 0; for (let i = 0; i < 1e6; i++) n = (n + i * 7) % 1000003; return n; }
if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);
else setInterval(() => { for (let i = 0; i < 20; i++) inWorker(); }, 1);
"""


@e2e.needs_kernel
class Programs(Nodes):
    def sample(self, name, source):
        found = nodes()
        if not found:
            self.skipTest('no Node.js is here')
        self.loads[name] = e2e.Workload(found[0], self.write(name, source))
        self.begin_window()
        self.wait_samples()
        stacks = self.of(name)
        self.stop_all()
        return stacks

    def callers(self, stacks, callee):
        """What called it, with the number of samples; native frames between are left out."""
        found = collections.Counter()
        for frames, values, labels in stacks:
            chain = [f.name for f in frames if self.is_language(f)]
            for a, b in zip(chain, chain[1:] + ['']):
                if a == callee and labels['stack'] == 'complete':
                    found[b] += values[0]
        return found

    def test_a_server(self):
        stacks = self.sample('server.js', SERVER)
        self.assertEqual(set(self.callers(stacks, 'spinInJson')), {'toJSON'})
        self.assertEqual(set(self.callers(stacks, 'spin')), {'render', 'spinInJson'})
        self.assertIn(set(self.callers(stacks, 'toJSON')), ({'render'}, {'stringify'}))  # which C++ implements
        whole = sum(v[0] for _, v, labels in stacks if labels['stack'] == 'complete')
        self.assertGreaterEqual(whole, 0.99 * sum(v[0] for _, v, _ in stacks) - 3)

    def test_workers(self):
        stacks = self.sample('workers.js', WORKERS)
        self.assertGreater(sum(self.callers(stacks, 'inWorker').values()), 0.8 * sum(v[0] for _, v, _ in stacks))


BRIEF = """
function leaf() { let x = 1; for (let i = 0; i < 2000; i++) x = (x * 31 + i) & 0xffff; return x; }
function brief() { return leaf(); }
while (process.cpuUsage().user < 300e3) brief();
"""


@e2e.needs_kernel
class Brief(Nodes):
    def test_programs_of_300_ms(self):
        found = nodes()
        if not found:
            self.skipTest('no Node.js is here')
        named, leaves = self.run_briefly([found[0], self.write('brief.js', BRIEF)], lambda f: f.name == 'leaf', n=20)
        self.assertGreaterEqual(named, 0.9)
        self.assertGreater(leaves, 0.25 * self.hz)


if __name__ == '__main__':
    unittest.main()
