"""Stacks of Python programs that know nothing of it: order, names and lines against what the program is known to do, on all Pythons that are here."""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

import sonde_e2e as e2e
from sonde_languages import Counts, SampledLanguage, is_named

STORY = f'{e2e.TOP}/tests/data/python/stories.py'
with open(STORY) as source:
    TEXT = source.read().split('\n')

STORIES = ('plain', 'sort', 'mapped', 'reduce', 'sort_of_sort', 'generator', 'delegated', 'things', 'lambdas', 'decorators', 'coroutine', 'event_loop', 'parse',
           'compress', 'exceptions', 'evaluated', 'churn')
# Who calls whom, and what the line of the call has in it: {callee: {caller: text}}.
CALLERS = {
    'main': {'<module>': 'main()'},
    'rounds': {'main': 'rounds()', 'worker': 'rounds()'},
    **{story: {'rounds': 'story()'} for story in STORIES},
    'recursive': {'rounds': 'recursive(60)', 'recursive': 'recursive(n - 1)'},
    'nested_key': {'sort_of_sort': 'key=nested_key'},
    'key': {'sort': 'key=key', 'mapped': 'deque(map'},
    'reduced': {'reduce': 'functools.reduce'},
    'numbers': {'generator': 'in numbers()', 'outer_numbers': 'yield from'},
    'outer_numbers': {'delegated': 'list(outer_numbers'},
    '__init__': {'things': 'Thing('},
    'method': {'__init__': 'self.method()'},
    'value': {'things': 'a.value'},
    '__lt__': {'things': 'a, b'},
    'static': {'things': 'Thing.static()'},
    '__call__': {'things': 'partial(b)()'},
    '<lambda>': {'lambdas': 'lambda: spin()'},
    'wrapper': {'decorators': 'wrapped_twice()', 'wrapper': 'f(*args)'},
    'wrapped': {'wrapper': 'f(*args)'},
    'middle': {'coroutine': 'middle().send'},
    'inner': {'middle': 'await inner()'},
    'element': {'parse': 'parser.Parse('},
    'raises': {'exceptions': 'raises()'},
    'churned': {'churn': 'churned('},
}
CALLERS['sort'] = {'rounds': 'story()', 'nested_key': 'sort()'}
SPINS = ('plain', 'recursive', 'key', 'reduced', 'numbers', 'generator', 'method', 'value', '__lt__', 'static', '__call__', '<lambda>', 'wrapped', 'inner', 'sleeper',
         'element', 'raises', 'exceptions', 'mark_0', 'mark_1', 'mark_2', 'mark_3')
CALLERS['spin'] = dict.fromkeys(SPINS, 'spin()')
FROM_LIBRARY = ('worker', 'sleeper', 'gathered')  # of threading and asyncio
MADE_BY = {'sleeper': 'gathered', 'gathered': 'event_loop'}  # a call makes the coroutine: its frame is there for an instruction or two
OF_A_MOMENT = ('churned', 'evaluated')  # what these compile lives for microseconds, some of it too briefly to be read
CHURN = re.compile(r'churn_(\d+)_(\d+)$')


def pythons():
    """name → program: Debian's, pyenv's, and those that SONDE_PYTHONS lists, with `:` between them."""
    found = glob.glob('/usr/bin/python3.[0-9]*[0-9]') + glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3'))
    found += [p for p in os.environ.get('SONDE_PYTHONS', '').split(':') if p and '/./' not in p]
    return {p: p for p in sorted(found) if os.access(p, os.X_OK)}


def short(frame):
    """Qualified names are of 3.11 and newer."""
    return frame.name.rpartition('.')[2]


def fault_of(chain):
    """What is wrong with a chain of language frames, root first; None when the program makes such calls."""
    for caller, callee in zip(chain, chain[1:]):
        if callee.file != STORY and not callee.file.startswith('<churn'):
            continue  # a library's: who calls it is not said here
        a, b = short(caller), short(callee)
        churn, called = CHURN.match(a), CHURN.match(b)
        if called:
            if caller.file != STORY or a != 'churned' or callee.file != f'<churn {called[1]} {called[2]}>':
                return caller, callee
        elif churn:
            if b != f'mark_{churn[1]}':
                return caller, callee
        elif callee.file.startswith('<churn') or caller.file == '<string>':
            if (a, b) not in (('churned', '<module>'), ('<module>', 'spin')):
                return caller, callee
        elif b in FROM_LIBRARY:
            if caller.file == STORY and MADE_BY.get(b) != a:
                return caller, callee
        elif caller.file != STORY or a not in CALLERS.get(b, {}) or CALLERS[b][a] not in TEXT[caller.line - 1]:
            return caller, callee
    return None


class Pythons(SampledLanguage):
    mapping = r'\[python3?(\.\d+)?\]$'


@e2e.needs_kernel
class Truth(Pythons):
    """All at once, each with a second thread."""

    @classmethod
    def start(cls):
        cls.found = pythons()
        if not cls.found:
            raise unittest.SkipTest('no Python 3 is here')
        for name, program in cls.found.items():
            cls.loads[name] = e2e.Workload(program, STORY, 'threads')
        cls.begin_window()
        cls.wait_samples(lambda: not set(SPINS) - cls.seen())

    @classmethod
    def seen(cls):
        return {short(f) for frames in cls.window.frames for f in frames if cls.is_language(f)}

    def test_order_names_lines(self):
        faults, lines = [], []
        for name in self.found:
            counts = Counts(name)
            for frames, values, labels in self.of(name):
                chain = self.chain(frames)
                lasting = [f for caller, f in zip([None] + chain, chain) if is_named(f) or not caller or short(caller) not in OF_A_MOMENT]
                counts.add(values[0], labels, chain, lasting)
                fault = all(map(is_named, chain)) and fault_of(chain)
                if fault:
                    faults.append((name, *fault, [f.name for f in chain]))
            lines.append(str(counts))
            with self.subTest(name):
                self.assertGreaterEqual(counts.with_language, 0.995 * counts.stacks - 3)
                self.assertGreaterEqual(counts.named, 0.999 * counts.frames - 3)
                self.assertGreaterEqual(counts.whole, 0.995 * counts.stacks - 3)
        print('\n' + '\n'.join(lines), file=sys.stderr)
        self.assertFalse(faults, f'{len(faults)}, such as {faults[:3]}')

    def test_each_story_is_seen(self):
        for name in self.found:
            seen = {short(f) for frames, _, _ in self.of(name) for f in frames if self.is_language(f)}
            self.assertFalse({'spin', 'key', 'numbers', 'worker', 'rounds'} - seen, name)  # others take too little of a round to be in each
        self.assertFalse(set(SPINS) - self.seen())

    def test_native_code_between(self):
        """What C calls back, and C code at the leaf, have their native frames on the right side."""
        for name in self.found:
            deflate = parsers = 0
            for frames, _, _ in self.of(name):
                at = [i for i, f in enumerate(frames) if self.is_language(f)]
                names = [short(frames[i]) for i in at]
                for below, above in zip(at, at[1:]):
                    if (short(frames[below]), short(frames[above])) == ('element', 'parse'):
                        parsers += 1
                        between = [f.mapping for f in frames[below + 1:above]]
                        self.assertTrue(any('expat' in m for m in between), (name, between))
                if names and names[0] == 'compress':
                    deflate += any('libz' in f.mapping for f in frames[:at[0]])
                self.assertFalse(any('libz' in f.mapping for f in frames[at[0]:]) if at else False, (name, frames))
            self.assertGreater(deflate, 0, name)
            self.assertGreater(parsers, 0, name)

    def test_language(self):
        for name in self.found:
            self.assertEqual({labels.get('language') for frames, _, labels in self.of(name) if any(map(self.is_language, frames))}, {'python'})

    def test_version(self):
        for name in self.found:
            said = subprocess.run([name, '-c', 'import sys; print("[python%d.%d]" % sys.version_info[:2])'], capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual({f.mapping for frames, _, _ in self.of(name) for f in frames if self.is_language(f)}, {said})


@e2e.needs_kernel
class Embedded(Pythons):
    def test_in_a_debugger(self):
        """gdb has Python as a library: its own frames stay, whichever fold."""
        if not shutil.which('gdb'):
            self.skipTest('gdb is not installed')
        self.loads['gdb'] = e2e.Workload('gdb', '-nx', '-batch', '-x', STORY)
        self.begin_window()
        self.wait_samples()
        stacks = [frames for frames, _, _ in self.of('gdb')]
        chains = [self.chain(frames) for frames in stacks]
        faults = [fault for chain in chains if all(map(is_named, chain)) for fault in [fault_of(chain)] if fault]
        self.assertFalse(faults, faults[:3])
        self.assertGreater(sum(map(bool, chains)), 0.95 * len(chains))
        program = os.path.realpath(shutil.which('gdb'))
        for frames in stacks:
            root = [f.mapping for f in frames[max((i for i, f in enumerate(frames) if self.is_language(f)), default=0):]]
            self.assertGreater(root.count(program), 3, root)


BRIEF = """
import time
def brief_leaf(n):
    x = 1
    for i in range(n): x = (x * 31 + i) & 0xffff
def brief():
    brief_leaf(2000)
while time.process_time() < 0.2: brief()
"""


@e2e.needs_kernel
class Brief(Pythons):
    def test_programs_of_200_ms(self):
        program = '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else next(iter(pythons()), None)
        if not program:
            self.skipTest('no Python 3 is here')
        named, leaves = self.run_briefly([program, '-c', BRIEF], lambda f: f.name == 'brief_leaf')
        self.assertGreaterEqual(named, 0.9)
        self.assertGreater(leaves, 0.25 * self.hz)  # the first 60 ms or so of each are without Python


if __name__ == '__main__':
    unittest.main()
