"""What tests of the stacks of language runtimes share: programs by name, their samples in one window, what of them is whole and named."""
import collections
import os
import re
import subprocess
import sys

import sonde_e2e as e2e


def is_named(frame):
    return frame.name != '' and not frame.name.startswith('[')


class SampledLanguage(e2e.SampledPrograms):
    """A subclass says which mappings the frames of its language have (`mapping`, a regular expression), and starts `loads`."""

    mapping = None
    least = int(os.environ.get('SONDE_STOPS', '300'))  # samples of each

    @classmethod
    def is_language(cls, frame):
        """Not the interpreter's own frames, which are one `[interpreter]`."""
        return frame.name != '[interpreter]' and re.match(cls.mapping, frame.mapping) is not None

    @classmethod
    def begin_window(cls):
        cls.wait_for_tables()
        cls.window = e2e.Window(cls.exporter)

    @classmethod
    def wait_samples(cls, also=lambda: True):
        """Until there are so many of each program, and also() is true."""
        cls.window.wait_for('samples of each, and of each function', lambda _: all(cls.count(name) >= cls.least for name in cls.loads) and also())

    @classmethod
    def of(cls, *names):
        """(frames, values, labels) of the samples of these programs."""
        return cls.of_pids({cls.loads[name].pid for name in names})

    @classmethod
    def of_pids(cls, pids):
        return [(frames, values, labels) for (_, values, labels), frames in zip(cls.window.samples, cls.window.frames) if int(labels['pid']) in pids]

    @classmethod
    def count(cls, name):
        return sum(values[0] for _, values, _ in cls.of(name))

    @classmethod
    def chain(cls, frames):
        """Those of the language, root first."""
        return [f for f in reversed(frames) if cls.is_language(f)]

    def run_briefly(self, program, leaf, n=30):
        """Runs a program so often, one after the other: the share of its language's frames that are named, and samples with this function a second."""
        subprocess.run(program, check=True)
        self.begin_window()
        pids, seconds = set(), 0
        for _ in range(n):
            p = subprocess.Popen(program)
            pids.add(p.pid)
            used = os.wait4(p.pid, 0)[2]
            p.returncode = 0
            seconds += used.ru_utime + used.ru_stime
        self.window.read_until_now()
        frames = named = leaves = 0
        for stack, values, _ in self.of_pids(pids):
            own = self.chain(stack)
            frames += len(own) * values[0]
            named += sum(map(is_named, own)) * values[0]
            leaves += values[0] * any(leaf(f) for f in own)
        print(f'\n{n} programs, {seconds:.1f} s of CPU: {frames} frames, {100 * named / max(1, frames):.2f} % named, {leaves} samples in the loop', file=sys.stderr)
        return named / max(1, frames), leaves / seconds


class Counts:
    """Of one program's samples. A sample counts as often as it was taken."""

    def __init__(self, name):
        self.name = name
        self.stacks = self.whole = self.with_language = self.frames = self.named = 0
        self.cuts = collections.Counter()

    def add(self, n, labels, chain, lasting):
        """chain: all frames of the language; lasting: those that live long enough to be read."""
        self.stacks += n
        self.whole += n * (labels['stack'] == 'complete')
        self.cuts[labels['stack']] += n
        self.with_language += n * bool(chain)
        self.frames += n * len(lasting)
        self.named += n * sum(map(is_named, lasting))

    def __str__(self):
        return (f'{self.name}: {self.stacks} stacks, {100 * self.whole / self.stacks:.2f} % whole, {100 * self.with_language / self.stacks:.2f} % with the language, '
                f'{self.frames} frames, {100 * self.named / max(1, self.frames):.3f} % named; {dict(self.cuts)}')
