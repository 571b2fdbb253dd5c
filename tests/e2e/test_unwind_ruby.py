"""Stacks of Ruby programs that know nothing of it: order, names and lines against what the program is known to do, on all Rubies that are here."""
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

import sonde_e2e as e2e
from sonde_languages import Counts, SampledLanguage, is_named

STORY = f'{e2e.TOP}/tests/data/ruby/stories.rb'
with open(STORY) as source:
    TEXT = source.read().split('\n')

# Who calls whom, and what the line of the call has in it: {callee: {caller: text}}. Blocks of f are f{}, its rescue f!. None: a fiber begins there.
CALLERS = {
    'worker': {'<main>': 'worker', '<main>{}': 'worker'},
    'sleeper': {'<main>{}': 'sleeper'},
    'sleeper{}': {'sleeper': 'loop'},
    'worker{}': {'worker': 'loop'},
    'rounds': {'worker{}': 'rounds'},
    'rounds{}': {'rounds': 'STORIES.each'},
    'recursive': {'rounds': 'recursive(60)', 'recursive': 'recursive(n - 1)'},
    'key': {'sort{}': 'key(n)', 'slices{}': 'key(n)'},
    'sort{}': {'sort': 'sort_by'},
    'sort_of_sort{}': {'sort_of_sort': 'sort_by'},
    'slices{}': {'slices': 'sort_by', 'slices{}': 'a.map'},
    'reduce{}': {'reduce': 'inject'},
    'yielder': {'blocks': 'yielder', 'blocks{}': 'yielder'},
    'blocks{}': {'yielder': 'yield'},
    'in_fiber': {'fiber{}': 'in_fiber'},
    'numbers': {None: '', 'in_fiber': 'numbers'},
    'numbers{}': {'numbers': 'NUMBERS.each'},
    'fiber{}': {None: ''},
    'initialize': {'things': 'Thing.new'},
    'method': {'initialize': 'method', 'things': 'a.send'},
    '<=>': {'things': 'a'},
    'made': {'things': 'Thing.made'},
    '<class:Thing>{}': {'things': 'a.defined'},
    'method_missing': {'things': 'a.absent'},
    'to_s': {'things': '#{a}'},
    'lambdas{}': {'lambdas': 'l'},
    'raises': {'exceptions': 'raises'},
    'exceptions!': {'exceptions': 'r'},
    'text{}': {'text': 'gsub'},
    'hash{}': {'hash': 'h[1]'},
    'thrown{}': {'thrown': 'catch'},
}
STORIES = ('plain', 'sort', 'sort_of_sort', 'slices', 'reduce', 'blocks', 'fiber', 'fiber_in_c', 'things', 'lambdas', 'exceptions', 'evaluated', 'text', 'hash', 'thrown',
           'checksum', 'churn')
for name in STORIES:
    CALLERS[name] = {'rounds{}': 'send(story)'}
CALLERS['sort']['sort_of_sort{}'] = 'sort; n'
SPINS = ('plain', 'recursive', 'key', 'reduce{}', 'blocks{}', 'numbers{}', 'fiber{}', 'method', '<=>', 'made', '<class:Thing>{}', 'method_missing', 'to_s',
         'lambdas{}', 'raises', 'exceptions', 'text{}', 'hash{}', 'thrown{}', 'churn_mark')
CALLERS['spin'] = {**dict.fromkeys(SPINS, 'spin'), 'exceptions!': 'spin', **{f'churn_mark_{i}': 'spin' for i in range(4)}}
# Methods in C, root first, between a caller and a callee. The last slice is not full: it is handed out when `each` is over.
IN_C = {('sort', 'sort{}'): ['sort_by', 'each'], ('sort_of_sort', 'sort_of_sort{}'): ['sort_by', 'each'], ('slices', 'slices{}'): ['sort_by', 'each', 'each_slice', 'each'],
        ('reduce', 'reduce{}'): ['inject', 'each'], ('text', 'text{}'): ['gsub'], ('thrown', 'thrown{}'): ['catch'], ('things', 'initialize'): ['new']}
CHURNED = re.compile(r'churned_(\d+)_\d+$')
OF_A_MOMENT = ('send', 'eval', 'class_eval')  # what these call may live for microseconds, some of it too briefly to be read


def rubies():
    """Debian's, those of rbenv, and those that SONDE_RUBIES lists, with `:` between them; /./ ends the root that one runs in."""
    found = glob.glob('/usr/bin/ruby[0-9]*') + glob.glob(os.path.expanduser('~/.rbenv/versions/*/bin/ruby'))
    found += [p for p in os.environ.get('SONDE_RUBIES', '').split(':') if p]
    return [p for p in sorted(found) if os.access(p, os.X_OK)]


def command(ruby):
    root, inside, path = ruby.partition('/./')
    return ('chroot', root, f'/{path}') if inside else (ruby,)


@functools.lru_cache(maxsize=None)
def version(ruby):
    said = subprocess.run([*command(ruby), '--disable-gems', '-e', 'print RUBY_VERSION'], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, said.split('.')[:2]))


def newer_than(least):
    """A Ruby of that version or a newer one; None: there is none. Not one with a root of its own, where it cannot read a test's programs."""
    return next((r for r in rubies() if '/./' not in r and version(r) >= least), None)


def short(frame):
    """A block's level says nothing of who called it; from 3.4 on names have classes."""
    kind, _, name = frame.name.rpartition(' in ')
    name = re.sub(r'^[\w:]+[#.](?=.)', '', name) if not name.startswith('<') else name
    return name + ('{}' if kind.startswith('block') else '!' if kind else '')


def own(chain):
    """[(caller, methods in C or of Ruby itself between, callee)] of the program's own frames; the first one has no caller."""
    found, caller, between = [], None, []
    for f in chain:
        if f.file == STORY or f.file.startswith(('<churn', '<evaluated')):
            found.append((caller, between, f))
            caller, between = f, []
        else:
            between = between + [f]
    return found


def fault_of(chain):
    """What is wrong with a chain of language frames, root first; None when the program makes such calls."""
    for caller, between, callee in own(chain):
        a, b = caller and short(caller), short(callee)
        churned, calling = CHURNED.match(b), caller and CHURNED.match(a)
        if churned:
            right = (a, callee.file, callee.line) == ('churn', f'<churn {churned[1]}>', int(churned[1]) + 1)
        elif callee.file.startswith('<churn'):
            right = (a, b) == ('churn', 'churn')  # it defines the method
        elif calling:
            right = b == f'churn_mark_{int(calling[1]) % 4}'
        elif callee.file == '<evaluated>':
            right = (a, b, callee.line) == ('evaluated', 'evaluated', 7)
        elif caller and caller.file == '<evaluated>':
            right = b == 'spin'
        elif a is None:
            right = b in ('<main>', '<main>{}') or None in CALLERS.get(b, {})
        else:
            right = callee.file == STORY and a in CALLERS.get(b, {}) and CALLERS[b][a] in TEXT[caller.line - 1]
        if not right:
            return caller, callee
        wanted, methods = IN_C.get((a, b)), [short(f) for f in between]
        if wanted and methods != wanted and (a != 'slices' or methods != wanted[:-1]):
            return caller, between, callee
    return None


class Rubies(SampledLanguage):
    mapping = r'\[ruby(\d\.\d)?\]$'


@e2e.needs_kernel
class Truth(Rubies):
    """All at once, each with a second thread at work and a third that sleeps."""

    @classmethod
    def start(cls):
        cls.found = rubies()
        if not cls.found:
            raise unittest.SkipTest('no Ruby is here')
        for ruby in cls.found:
            path = STORY
            if '/./' in ruby:
                root = ruby.partition('/./')[0]
                os.makedirs(os.path.dirname(f'{root}{STORY}'), exist_ok=True)
                shutil.copy(STORY, f'{root}{STORY}')
            cls.loads[ruby] = e2e.Workload(*command(ruby), path, 'threads')
        cls.begin_window()
        cls.wait_samples(lambda: not set(SPINS) - cls.seen())

    @classmethod
    def seen(cls):
        return {re.sub(r'_\d$', '', short(f)) for frames in cls.window.frames for f in frames if cls.is_language(f)}

    def test_order_names_lines(self):
        faults, lines = [], []
        for ruby in self.found:
            counts = Counts(ruby)
            for frames, values, labels in self.of(ruby):
                chain = self.chain(frames)
                lasting = [f for caller, f in zip([None] + chain, chain) if is_named(f) or not caller or short(caller) not in OF_A_MOMENT]
                counts.add(values[0], labels, chain, lasting)
                fault = labels['stack'] == 'complete' and all(map(is_named, chain)) and fault_of(chain)
                if fault:
                    faults.append((ruby, *fault, [(f.name, f.line) for f in chain]))
            lines.append(str(counts))
            # Up to 2.7 a thread that waits for its turn has no state that it could be found by.
            least = 0.97 if version(ruby) < (3, 0) else 0.995
            with self.subTest(ruby):
                self.assertGreaterEqual(counts.with_language, min(least, 0.98) * counts.stacks - 3)  # Ruby has threads of its own
                self.assertGreaterEqual(counts.named, 0.999 * counts.frames - 3)
                self.assertGreaterEqual(counts.whole, least * counts.stacks - 3)
        print('\n' + '\n'.join(lines), file=sys.stderr)
        self.assertFalse(faults, f'{len(faults)}, such as {faults[:2]}')

    def test_each_story_is_seen(self):
        for ruby in self.found:
            seen = {short(f) for frames, _, _ in self.of(ruby) for f in frames if self.is_language(f)}
            self.assertFalse({'spin', 'key', 'sort{}', 'worker', 'rounds'} - seen, ruby)  # others take too little of a round to be in each
        self.assertFalse(set(SPINS) - self.seen())

    def test_classes(self):
        """From 3.4 on names have them, as Thread#backtrace has."""
        seen = False
        for ruby in self.found:
            frames = [f for stack, _, _ in self.of(ruby) for f in stack if self.is_language(f)]
            qualified = re.match(r'\[ruby(3\.[4-9]|4)', frames[0].mapping) is not None
            seen |= qualified
            for plain, name in ('spin', 'Object#spin'), ('block in sort', 'block in Object#sort'), ('method', 'Thing#method'), ('made', 'Thing.made'), ('each', 'Array#each'):
                named = [f for f in frames if f.name in (plain, name)]
                with self.subTest(ruby, name=name):
                    self.assertTrue(named)
                    self.assertFalse([f for f in named if f.name != (name if qualified else plain) and f.name != 'each'])
        if not seen:
            self.skipTest('no Ruby here has classes in its names')

    def test_native_code_at_the_leaf(self):
        for ruby in self.found:
            crc = 0
            for frames, _, _ in self.of(ruby):
                at = [i for i, f in enumerate(frames) if self.is_language(f)]
                names = [short(frames[i]) for i in at]
                if names[:2] == ['crc32', 'checksum']:
                    crc += any('libz' in f.mapping for f in frames[:at[0]])
                self.assertFalse(any('libz' in f.mapping for f in frames[at[0]:]) if at else False, (ruby, frames))
            self.assertGreater(crc, 0, ruby)

    def test_fiber_of_methods_in_c(self):
        """Nothing entered the interpreter there: they stand at its root, rootward of their native frames."""
        for ruby in self.found:
            n = 0
            for frames, _, labels in self.of(ruby):
                if labels['stack'] == 'complete' and [short(f) for f in frames if self.is_language(f)][-2:] == ['each_slice', 'each']:
                    n += 1
                    self.assertTrue(all(map(self.is_language, frames[-2:])), (ruby, frames))
            self.assertGreater(n, 0, ruby)

    def test_the_interpreter_is_one_frame(self):
        for ruby in self.found:
            for frames, _, _ in self.of(ruby):
                for f in frames if any(map(self.is_language, frames)) else []:
                    self.assertFalse(re.match('rb_|vm_exec', f.name) and 'libruby' in f.mapping, (ruby, frames))

    def test_who_sleeps_is_not_there(self):
        for ruby in self.found:
            stacks = self.of(ruby)
            asleep = sum(v[0] for frames, v, _ in stacks if any(self.is_language(f) and short(f).startswith('sleeper') for f in frames))
            self.assertLess(asleep, 0.1 * sum(v[0] for _, v, _ in stacks), ruby)

    def test_language(self):
        for ruby in self.found:
            self.assertEqual({labels.get('language') for frames, _, labels in self.of(ruby) if any(map(self.is_language, frames))}, {'ruby'})

    def test_version(self):
        for ruby in self.found:
            said = subprocess.run([*command(ruby), '-e', 'puts "[ruby#{RUBY_VERSION[/^\\d+\\.\\d+/]}]"'], capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual({f.mapping for frames, _, _ in self.of(ruby) for f in frames if self.is_language(f)}, {said})


@e2e.needs_kernel
class Jit(Rubies):
    def test_with_yjit(self):
        """Its code keeps no frame pointers, so that native frames end there. Those of the language are all there, in their order."""
        has_jit = 'exit(RubyVM::YJIT.enabled?)'
        ruby = next((r for r in rubies() if '/./' not in r and version(r) >= (3, 1) and subprocess.run([r, '--yjit', '-e', has_jit], capture_output=True).returncode == 0), None)
        if not ruby:
            self.skipTest('no Ruby with YJIT is here')
        self.loads['yjit'] = e2e.Workload(ruby, '--yjit', '--yjit-call-threshold=2', STORY, 'threads')
        self.begin_window()
        self.wait_samples()
        faults, cuts, total, rooted = [], {}, 0, 0
        for frames, values, labels in self.of('yjit'):
            chain = self.chain(frames)
            total += values[0]
            cuts[labels['stack']] = cuts.get(labels['stack'], 0) + values[0]
            rooted += values[0] * (bool(chain) and (chain[0].name.endswith('<main>') or short(chain[0]) in ('fiber{}', 'numbers', 'each', 'enum_for')))
            fault = all(map(is_named, chain)) and fault_of(chain)
            if fault:
                faults.append((*fault, [(f.name, f.line) for f in chain]))
        print(f'\n{total} stacks: {cuts}, {rooted} with Ruby to its root', file=sys.stderr)
        self.assertFalse(faults, f'{len(faults)} of {total}, such as {faults[:2]}')
        self.assertGreater(rooted, 0.98 * total)


@e2e.needs_kernel
class Deep(Rubies):
    def test_classes_of_a_deep_stack(self):
        """From 3.4 on what a function ran for is looked for in the first samples that have it: as far as the stack is deep."""
        ruby = next((r for r in rubies() if version(r) >= (3, 4)), None)
        if not ruby:
            self.skipTest('no Ruby here has classes in its names')
        n = 500
        methods = ''.join(f'def at_{i}; at_{i + 1}; end\n' for i in range(n))
        program = f'class Deep\n{methods}def at_{n}\ni = 0\ni += 1 while i < 100_000\nend\nend\nDeep.new.at_0 while true\n'
        self.loads['deep'] = e2e.Workload(*command(ruby), '--disable-gems', '-e', program)
        self.begin_window()
        self.wait_samples()
        names = {f.name for frames, _, _ in self.of('deep') for f in frames if 'at_' in f.name}
        self.assertEqual(names, {f'Deep#at_{i}' for i in range(n + 1)})


BRIEF = """
def brief_leaf(n)
  x = 1
  n.times { |i| x = (x * 31 + i) & 0xffff }
end
def brief
  brief_leaf(2000)
end
brief while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < 0.2
"""


@e2e.needs_kernel
class Brief(Rubies):
    def test_programs_of_200_ms(self):
        ruby = newer_than((2, 5))
        if not ruby:
            self.skipTest('no Ruby is here')
        program = (ruby, '--disable-gems', '-e', BRIEF)
        named, leaves = self.run_briefly(program, lambda f: short(f).startswith('brief_leaf'))
        self.assertGreaterEqual(named, 0.9)
        self.assertGreater(leaves, 0.25 * self.hz)  # the start of each is without Ruby's frames


FORKS = """
def child_spin
  x = 1
  x = (x * 31 + 7) & 0xffff while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < 0.3
end
File.open(ARGV[0], 'a') do |out|
  out.sync = true
  loop do
    child = fork { child_spin }
    out.puts(child)
    Process.wait(child)
  end
end
"""
RACTORS = """
def ractor_spin
  x = 0
  x += 1 while x < 100_000
end
made = 2.times.map { Ractor.new { loop { ractor_spin } } }
made.each { |r| r.respond_to?(:value) ? r.value : r.take }
"""


@e2e.needs_kernel
class Children(Rubies):
    def counts(self, pids, function):
        """Samples of these processes; of them whole; with that function."""
        n = whole = right = 0
        for frames, values, labels in self.of_pids(pids):
            n += values[0]
            whole += values[0] * (labels['stack'] == 'complete')
            right += values[0] * (function in map(short, self.chain(frames)))
        return n, whole, right

    def check(self, n, whole, right):
        print(f'\n{n} stacks, {whole} whole, {right} in the function', file=sys.stderr)
        self.assertGreaterEqual(whole, 0.98 * n)
        self.assertGreaterEqual(right, 0.9 * n)

    def test_forked(self):
        """A child has its parent's row from its first moment on."""
        ruby = newer_than((2, 5))
        if not ruby:
            self.skipTest('no Ruby is here')
        printed = self.write('children', '')
        self.loads['forks'] = e2e.Workload(ruby, self.write('forks.rb', FORKS), printed)
        self.begin_window()

        def count():
            with open(printed) as f:
                return self.counts(set(map(int, f.read().split())), 'child_spin')
        self.window.wait_for('samples of children', lambda _: count()[0] > 300)
        self.check(*count())

    def test_in_ractors(self):
        """Each has threads of its own."""
        ruby = newer_than((3, 0))
        if not ruby:
            self.skipTest('no Ruby with ractors is here')
        self.loads['ractors'] = load = e2e.Workload(ruby, '-W0', self.write('ractors.rb', RACTORS))
        self.begin_window()
        self.window.wait_for('samples of ractors', lambda _: load.p.poll() is not None or self.count('ractors') > self.least)
        if load.p.poll() is not None:
            self.skipTest(f'the program of ractors, which are an experiment of Ruby, ended by itself with status {load.p.returncode}')
        self.check(*self.counts({load.pid}, 'ractor_spin'))


def changed_library(ruby, folder):
    """A copy of libruby, beside which `ruby` runs, that says it is Ruby 9, with a build id of its own; None where it has none or does not say its version."""
    found = re.search(r'(libruby\S*) => (\S+)', subprocess.run(['ldd', ruby], capture_output=True, text=True).stdout)
    if not found:
        return None
    with open(found[2], 'rb') as f:
        data = f.read()
    version = subprocess.run([ruby, '-e', 'print RUBY_VERSION'], capture_output=True, check=True).stdout
    build_id = re.search(r'Build ID: ([0-9a-f]+)', subprocess.run(['readelf', '-n', found[2]], capture_output=True, text=True).stdout)
    if not build_id or data.count(b'\0' + version + b'\0') != 1:
        return None
    old = bytes.fromhex(build_id[1])
    data = data.replace(b'\0' + version + b'\0', b'\0' + b'9' + version[1:] + b'\0').replace(old, bytes(b ^ 0xff for b in old))
    with open(f'{folder}/{found[1]}', 'wb') as f:
        f.write(data)
    return f'{folder}/{found[1]}'


@e2e.needs_kernel
class Refused(Rubies):
    def test_a_version_that_is_not_known(self):
        ruby = newer_than((2, 5))
        library = ruby and changed_library(ruby, self.dir)
        if not library:
            self.skipTest('no Ruby with a library that says its version is here')
        os.chmod(library, 0o755)
        self.loads['refused'] = e2e.Workload(ruby, '--disable-gems', '-e', 'def spin; loop { }; end; spin', env={**os.environ, 'LD_LIBRARY_PATH': self.dir})
        count = 'sonde_interp_refused_total{runtime="ruby",reason="unknown_version"}'
        e2e.wait_for('a process that is refused', lambda: self.exporter.metrics()[count] == 1, interval=0.05)
        e2e.wait_for('the refusal in the log', lambda: f'{library}: ruby 9.' in self.exporter.output(), timeout=5)
        self.begin_window()
        self.wait_samples()
        stacks = [frames for frames, _, _ in self.of('refused')]
        self.assertFalse([f for frames in stacks for f in frames if f.mapping.startswith('[ruby')])
        self.assertTrue(all(any(f.mapping == library for f in frames) for frames in stacks))


if __name__ == '__main__':
    unittest.main()
