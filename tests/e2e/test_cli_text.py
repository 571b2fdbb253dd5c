"""sonde reads what other tools write: one bad byte or line costs itself, and what sonde fold writes is read back."""
import unittest

from test_cli_merge import blob, encode, num
from test_cli_stacks import WithFiles

HEAD = ' 4711   100.010100:    1000000          cpu-clock: \n'
CHAIN = '\t            1135 work+0xc (/usr/bin/app)\n\t            11a4 main+0x24 (/usr/bin/app)\n\n'


class Texts(WithFiles):
    def fold(self, text, *args):
        p = self.run_sonde('fold', *args, self.file('in', text))
        return p.stdout, p.stderr.replace(f'sonde: {self.top}/in: ', '')

    def check_again(self, text):
        self.assertEqual(self.run_sonde('fold', '-', input=text).stdout, text)

    def test_control_characters(self):
        for byte in (b'\0', b'\1', b'\7', b'\x1b', b'\x7f'):
            for before in (b'', b'main;long 1\n' * 1000):  # also where no reader looks to tell text from pprof
                out, err = self.fold(before + b'main;x' + byte + b'y 5\nmain;read 6\n')
                self.assertIn('main;read 6\n', out)
                self.assertIn('main;x�y 5\n', out)
                self.assertEqual(err, f'replaced 1 control character, the first 0x{byte[0]:02x} in line {before.count(10) + 1}\n')
                self.check_again(out)

    def test_own_output(self):
        for names in (['x\x7fy'], ['#x', 'y'], ['# x'], ['worker 3'], ['a;b', ' c'], ['x\0y', 'z'], ['']):
            path = self.file('x.pb', encode([(names, (1, 10), {}), ([], (1, 3), {})]))
            out = self.run_sonde('fold', path).stdout
            self.assertEqual(len(out.splitlines()), 2, out)
            self.assertIn('[no stack] 3\n', out)
            self.check_again(out)
        empty = self.run_sonde('fold', self.file('e.pb', encode([(['a'], (0, 0), {})]))).stdout
        self.assertEqual(empty, '# no samples\n')
        self.check_again(empty)

    def test_lines_that_are_no_stack(self):
        out, err = self.fold('starting profiler\nmain;a 5\nmain;b 3\nmain;c\n')
        self.assertEqual((out, err), ('main;a 5\nmain;b 3\n', 'left out 2 lines that are no stacks, the first at line 1\n'))
        p = self.run_sonde('fold', self.file('log', 'a 1\nb\nc\n'), status=1)
        self.assertIn('line 2: expected folded stacks: FRAME;FRAME;FRAME NUMBER (2 of 3 lines are none)', p.stderr)
        p = self.run_sonde('fold', self.file('bin', b'\x01\x02\x03\x04' * 100), status=1)
        self.assertIn('neither a whole pprof profile nor text', p.stderr)

    def test_drop_frames(self):
        rows = [(['malloc', 'operator new(unsigned long)', 'parse(char const*)', 'main'], (1, 1000), {}), (['tcmalloc::Allocate', 'malloc', 'lex', 'parse(char const*)', 'main'], (1, 500), {}),
                (['malloc'], (1, 7), {}), (['keep', 'malloc_keep', 'main'], (1, 3), {})]
        profile = encode(rows)
        strings = ('malloc.*|operator new|tcmalloc::.*', 'malloc_keep')
        count = 1 + len({x for r in rows for x in r[0]}) + len({'samples', 'count', 'cpu', 'nanoseconds', '/usr/bin/app', 'b1d', 'app.c'})
        path = self.file('heap.pb', profile + b''.join(blob(6, s.encode()) for s in strings) + num(7, count) + num(8, count + 1))
        self.assertEqual(sorted(self.run_sonde('fold', path).stdout.splitlines()), ['main;malloc_keep;keep 3', 'main;parse(char const*) 1000', 'main;parse(char const*);lex 500', 'malloc 7'])
        self.assertIn('main;parse(char const*);lex;malloc;tcmalloc::Allocate 500\n', self.run_sonde('fold', '--all-frames', path).stdout)
        self.assertRegex(self.run_sonde('top', path).stdout, r'(?m)^ +1.00us .*parse')
        self.run_sonde('merge', '-o', f'{self.top}/sum.pb', path, path)
        self.assertIn('main;parse(char const*) 2000\n', self.run_sonde('fold', f'{self.top}/sum.pb').stdout)
        bad = self.file('bad.pb', profile + blob(6, b'(') + num(7, count))
        p = self.run_sonde('fold', bad)
        self.assertIn(f'sonde: {bad}: drop_frames: position', p.stderr)
        self.assertIn('operator new', p.stdout)

    def test_older_formats(self):
        cpu = b''.join(x.to_bytes(8, 'little') for x in (0, 3, 0, 10000, 0, 5, 1, 0x1234, 0, 1, 0)) + b'00400000-00500000 r-xp 00000000 08:01 123 /usr/bin/prog\n'
        heap = b'heap profile:      1:     1024 [     2:     2048] @ heapprofile\n     1:     1024 [     2:     2048] @ 0x401234 0x401300\n\nMAPPED_LIBRARIES:\n'
        for data, what in ((cpu, 'a CPU profile of gperftools'), (heap, 'a heap profile of gperftools'), (b'heap_v2/524288\n  t*: 1: 2 [0: 0]\n', 'a heap profile of jemalloc')):
            path = self.file('old', data)
            for command in (('top',), ('fold',), ('flamegraph', '-o', '/dev/null'), ('merge', '-o', '/dev/null'), ('push', '--server', 'http://127.0.0.1:1')):
                self.assertIn(f'sonde: {path}: {what}: convert it with ', self.run_sonde(*command, path, status=1).stderr)

    def test_counts_below_one(self):
        out, err = self.fold('main;a 0.25\nmain;b 0.25\nmain;c 0.25\nmain;d 0.25\nmain;e 0.4\n')
        self.assertEqual(out, 'main;a 250\nmain;b 250\nmain;c 250\nmain;d 250\nmain;e 400\n')
        self.assertEqual(err, 'values have decimals and were multiplied by 1000\n')
        self.assertIn('Total = 1.40\n', self.run_sonde('top', f'{self.top}/in').stdout)

    def test_marks_of_frames(self):
        path = self.file('java.folded', 'java;java/lang/Thread.run_[j];App.work_[j];App.inner_[i];write;do_syscall_64_[k];vfs_write_[k] 50\n'
                         'java;java/lang/Thread.run_[0];App.work_[1] 30\n')
        rows = {r.split()[5]: r.split() for r in self.run_sonde('top', path).stdout.splitlines()[4:]}
        self.assertEqual((rows['vfs_write'][0], rows['vfs_write'][6]), ('50', '[kernel.kallsyms]'))
        self.assertEqual((rows['App.work'][0], rows['App.work'][3], rows['App.work'][6]), ('30', '80', '[jit]'))
        self.assertEqual(rows['java/lang/Thread.run'][3], '80')
        out = self.run_sonde('fold', path).stdout
        self.assertIn('java;java/lang/Thread.run;App.work;App.inner;write;do_syscall_64;vfs_write 50\n', out)
        self.check_again(out)
        self.run_sonde('flamegraph', '-o', f'{self.top}/x.svg', path)
        self.assertIn('kernel', self.text(f'{self.top}/x.svg'))

    def test_heads_of_perf_script(self):
        switch = 'app 4711 [001]  100.000100: sched:sched_switch: prev_comm=app prev_pid=4711 ==> next_comm=idle\n\tffffffff82265ec8 __schedule+0x628 ([kernel.kallsyms])\n\n'
        for text in (switch + 'app' + HEAD + CHAIN, 'app' + HEAD + CHAIN + switch):
            out, err = self.fold(text, '--sample-index', 'samples')
            self.assertEqual((sorted(out.splitlines()), err), (['__schedule 1', 'main;work 1'], ''))
            self.assertEqual(self.fold(text, '--sample-index', 'cpu')[0], 'main;work 1000000\n')
        for name, shown in (('worker 3/16', 'worker 3/16'), ('#worker', ';#worker'), ('two\nlines', 'two�lines'), ('\x1b[0m', '�[0m'), ('7', '7'), ('a [001] 5', 'a [001] 5')):
            for cpu in ('', ' [001]'):
                text = ('plain' + HEAD + CHAIN + name + HEAD + CHAIN).replace('4711', '4711' + cpu)
                out, _ = self.fold(text, '--root-label', 'comm', '--root-label', 'pid')
                self.assertEqual(sorted(out.splitlines()), sorted(['plain;4711;main;work 1000000', f'{shown};4711;main;work 1000000']), name)

    def test_a_sample_that_cannot_be_read(self):
        out, err = self.fold('app' + HEAD + CHAIN + 'app' + HEAD + '\tzz work\n\t11a4 main\n\n')
        self.assertEqual((out, err), ('main;work 1000000\n', 'left out 1 sample that cannot be read, the first at line 6\n'))


if __name__ == '__main__':
    unittest.main()
