"""What test_debian_kernel.py runs on another kernel than this machine's: all of the exporter that hangs on the kernel."""
import os
import shutil
import subprocess

from sonde_e2e import Pprof, SampledPrograms, Workload, compile_c, wait_drained, wait_for

DEEP = '''
volatile unsigned long sink;
#define F(n, m) __attribute__((noinline, noipa)) void deep_##n(void) { volatile char room[40 + n]; room[n] = n; deep_##m(); sink += room[n]; }
__attribute__((noinline, noipa)) void deep_0(void) { volatile char room[9]; room[1] = 1; for (;;) sink += room[1]; }
F(1, 0) F(2, 1) F(3, 2) F(4, 3) F(5, 4) F(6, 5) F(7, 6) F(8, 7)
int main(void) { deep_8(); return 0; }
'''
SHORT = ('xz', 'sha512sum')  # each runs some hundredth of a second, or ten times that where it is emulated
LOOP = 'while :; do xz -1 <data >out; sha512sum <data >out; done'


class Exporter(SampledPrograms):
    hz = 199
    top = '/run'  # what is mapped from an overlay has another file than the path names

    @classmethod
    def build(cls):
        cls.deep = compile_c(DEEP, '-O2', '-fomit-frame-pointer', name='deep')
        os.makedirs(f'{cls.dir}/bin')
        for name in ('dash', *SHORT):
            path = shutil.which(name)
            shutil.copy(path, f'{cls.dir}/bin')
            for word in subprocess.run(['ldd', path], capture_output=True, text=True, check=True).stdout.split():
                if word.startswith('/'):
                    os.makedirs(cls.dir + os.path.dirname(word), exist_ok=True)
                    shutil.copy(word, cls.dir + word)
        with open(f'{cls.dir}/data', 'wb') as f:
            f.write(os.urandom(200000))

    @classmethod
    def start(cls):
        cls.loads['deep'] = Workload(cls.deep)
        cls.loads['short'] = Workload('chroot', cls.dir, '/bin/dash', '-c', LOOP)
        wait_for('both programs', lambda: {'xz', 'deep'} <= {labels.get('comm') for _, _, labels in cls.profile_of(1).samples})
        cls.wait_for_tables()
        cls.before = cls.exporter.metrics()
        cls.profile = cls.profile_of(10)
        wait_drained(cls.exporter)
        cls.after = cls.exporter.metrics()

    @classmethod
    def profile_of(cls, seconds):
        return Pprof(cls.exporter.get(f'/debug/pprof/profile?seconds={seconds}').body)

    def grown(self, key):
        """By how much the counter grew, or all whose names begin so."""
        return sum(v - self.before.get(k, 0) for k, v in self.after.items() if k.startswith(key))

    def stacks_of(self, *comms):
        """(stack, weight, labels) of each."""
        return [(stack, values[-1], labels) for stack, values, labels in self.profile.samples if labels.get('comm') in comms]

    def test_nothing_is_missing(self):
        self.assertNotIn('capability missing', self.exporter.output())
        self.assertEqual([k for k, v in self.after.items() if k.startswith('sonde_kernel_walk_info') and v], ['sonde_kernel_walk_info{walk="orc",reason=""}'])

    def test_code_without_frame_pointers(self):
        deep = self.stacks_of('deep')
        want = [f'deep_{i}' for i in range(9)] + ['main']
        whole = sum(weight for stack, weight, labels in deep if labels['stack'] == 'complete' and stack[-len(want) - 3:-3] == want)
        self.assertGreater(whole, 0.995 * sum(weight for _, weight, _ in deep), deep[:9])

    def test_programs_of_a_moment(self):
        short = self.stacks_of(*SHORT)
        whole = sum(weight for _, weight, labels in short if labels['stack'] == 'complete')
        self.assertGreater(whole, 0.98 * sum(weight for _, weight, _ in short), [s for s in short if s[2]['stack'] != 'complete'][:9])
        # By the kernel's own list of their mappings: else nearly each stack would be copied.
        self.assertLess(self.grown('sonde_stack_copies_total{event="cpu",result="sent"}'), 0.1 * self.grown('sonde_samples_total'))

    def test_the_kernels_frames(self):
        self.assertGreater(self.grown('sonde_kernel_stacks_total{event="cpu",walk="orc"}'), 50)
