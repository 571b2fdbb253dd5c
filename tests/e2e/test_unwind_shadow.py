"""--unwind.shadow: stacks of real programs walked a second time by elfutils come out the same; one that does not is shown."""
import html
import re
import subprocess
import unittest

import sonde_e2e as e2e
from test_unwind_runtimes import C_SOURCE, GO, OCAML, PERL, PYTHON, RUST, SQL

CXX = '''
#include <algorithm>
#include <map>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual int area(int n) const = 0; };
struct Square : Shape { int area(int n) const override { std::map<int, std::string> m; for (int i = 0; i < n; i++) m[i * 7919 % 1009] += "x"; return m.size(); } };
struct Heap : Shape { int area(int n) const override { std::vector<int> v; for (int i = 0; i < n; i++) v.push_back(i * 7919 % 1009);
	std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; }); if (v[0] == 7) throw 1; return v[n / 2]; } };
volatile int sink;
int main() { Square s; Heap h; const Shape *all[] = {&s, &h}; for (int i = 0;; i++) try { sink = sink + all[i % 2]->area(500); } catch (int) {} }
'''
JS = '''
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
for (;;) { fib(24); const o = []; for (let i = 0; i < 20000; i++) o.push({k: i * 7919 % 10007}); o.sort((a, b) => a.k - b.k); JSON.parse(JSON.stringify(o)); }
'''
# A library whose CFI is made to lie once its table is there: the offset of the frame address, 0x1238, is three bytes in its .eh_frame.
LIAR = '''
.text
.globl liar_spin
.type liar_spin, @function
liar_spin:
	.cfi_startproc
	sub $0x1230, %rsp
	.cfi_def_cfa_offset 0x1238
1:	incq (%rsp)
	jmp 1b
	.cfi_endproc
.size liar_spin, . - liar_spin
.globl liar_run
.type liar_run, @function
liar_run:
	.cfi_startproc
	lea liar_decoy(%rip), %rax
	push %rax
	.cfi_def_cfa_offset 16
	call liar_spin
	pop %rax
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
.size liar_run, . - liar_run
.type liar_decoy, @function
	nop
liar_decoy:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
.size liar_decoy, . - liar_decoy
.section .note.GNU-stack, "", @progbits
'''
TRUTH, LIE = b'\x0e\xb8\x24', b'\x0e\xc0\x24'
RESULTS = ('match', 'mismatch', 'unknown', 'cut')


@e2e.needs_kernel
class Shadow(e2e.SampledPrograms):
    hz, flags, top = 499, ('--unwind.table-bytes=64MB', '--unwind.shadow=1'), '/var/tmp'

    @classmethod
    def build(cls):
        d = cls.dir
        cls.write('c.c', C_SOURCE)
        for cmd in (['g++', '-O2', '-o', f'{d}/cxx', cls.write('cxx.cc', CXX)],
                    ['go', 'build', '-o', f'{d}/gobin', cls.write('go.go', GO)],
                    ['go', 'build', '-ldflags=-s -w', '-o', f'{d}/gostripped', f'{d}/go.go'],
                    ['ocamlopt', '-o', f'{d}/ocaml', cls.write('ocaml.ml', OCAML)],
                    ['rustc', '-O', '-o', f'{d}/rust', cls.write('rust.rs', RUST)],
                    ['gcc', '-shared', '-o', f'{d}/libliar.so', cls.write('liar.s', LIAR)],
                    ['gcc', '-O2', '-o', f'{d}/liar', cls.write('liar.c', 'void liar_run(void); int main(void) { liar_run(); return 1; }'),
                     f'{d}/libliar.so', f'-Wl,-rpath,{d}']):
            subprocess.run(cmd, check=True, cwd=d, stdout=subprocess.DEVNULL,
                           env=e2e.go_env())

    def results(self):
        metrics = self.exporter.metrics()
        return {r: metrics[f'sonde_shadow_total{{result="{r}"}}'] for r in RESULTS}

    def unknown(self):
        return {m: n for m, n in self.exporter.metrics().items() if m.startswith('sonde_shadow_unknown_total') and n}

    def wait_tables(self, timeout=120):
        """Until all that runs has symbol files, twice in a row."""
        for _ in range(2):
            e2e.wait_for('symbol files', lambda: not self.exporter.metrics()['sonde_symbol_queue_length'], timeout=timeout)
            before = self.exporter.metrics()['sonde_samples_total{event="cpu"}']
            e2e.wait_for('samples', lambda: self.exporter.metrics()['sonde_samples_total{event="cpu"}'] > before + 200, timeout=timeout)

    def wait_compared(self, n, timeout=120):
        """Until n more were; 256 at most wait, so after as many there are none from before."""
        before = self.results()

        def compared():
            now = self.results()
            return now if sum(now[r] - before[r] for r in RESULTS) >= n else None

        return e2e.wait_for(f'{n} stacks compared', compared, timeout=timeout)

    def wrong_names(self):
        """Names of the programs of the last stacks that differed."""
        return re.findall(r'</td><td>([^<]*)</td><td>frame \d', self.exporter.get('/unwind').text)

    def mismatches(self):
        page = self.exporter.get('/unwind').text
        at = page.find('The last that came out different')
        return html.unescape(re.sub(r'<[^>]+>', ' ', page[at:page.find('By process')])) if at >= 0 else ''

    @unittest.skipIf(e2e.is_sanitized(), 'symbol files take minutes to make under the sanitizers')
    def test_1_real_programs_come_out_the_same(self):
        d = self.dir
        before_them = self.wrong_names()
        for cmd in ([f'{d}/cxx'], [f'{d}/gobin'], [f'{d}/gostripped'], ['node', '-e', JS], [f'{d}/ocaml'], [f'{d}/rust'], ['/usr/bin/python3.11', '-c', PYTHON], ['perl', '-e', PERL],
                    ['sqlite3', ':memory:', SQL], ['openssl', 'speed', '-seconds', '60', 'rsa2048', 'sha256'],
                    ['sh', '-c', f'while :; do gcc -O2 -c -o /dev/null {d}/c.c; done']):
            self.loads[tuple(cmd)] = e2e.Workload(*cmd)
        self.wait_tables()
        self.wait_compared(256)
        before = self.results()
        frames = self.exporter.metrics()['sonde_shadow_frames_total']
        now = self.wait_compared(10700, timeout=400)
        self.stop_all()
        delta = {r: now[r] - before[r] for r in RESULTS}
        judged = delta['match'] + delta['mismatch']
        # All processes of the machine are compared, those that start just now too.
        self.assertFalse(before_them)
        self.assertGreaterEqual(judged, 10000, delta)
        self.assertLessEqual(delta['mismatch'], 0.001 * judged, f'{delta}\n{self.mismatches()}')
        self.assertLessEqual(delta['unknown'], 0.05 * sum(delta.values()), f'{delta} {self.unknown()}')
        # a little later than those
        self.assertGreaterEqual(sum(self.unknown().values()), now['unknown'])
        self.assertLessEqual(delta['cut'], 0.01 * sum(delta.values()), delta)
        self.assertGreater(self.exporter.metrics()['sonde_shadow_frames_total'] - frames, 2 * judged)

    def test_2_a_stack_that_differs_is_seen(self):
        library = f'{self.dir}/libliar.so'
        self.loads['liar'] = e2e.Workload(f'{self.dir}/liar')
        self.wait_tables()
        before = self.results()
        e2e.wait_for('matches', lambda: self.results()['match'] > before['match'] + 20)
        self.assertNotIn('liar', self.mismatches())
        with open(library, 'r+b') as f:
            data = f.read()
            self.assertEqual(data.count(TRUTH), 1)
            f.seek(data.index(TRUTH))
            f.write(LIE)
        text = e2e.wait_for('a mismatch', lambda: self.mismatches() if 'liar' in self.mismatches() else None)
        self.assertGreater(self.results()['mismatch'], before['mismatch'])
        self.assertRegex(text, rf'liar\s+frame 1, {library}\+0x[0-9a-f]+')
        offsets = re.findall(r'1 libliar\.so\+0x([0-9a-f]+)', text)
        symbols = dict((line.split()[2], int(line.split()[0], 16)) for line in
                       subprocess.run(['nm', library], capture_output=True, text=True, check=True).stdout.splitlines() if len(line.split()) == 3)
        ours, theirs = (int(x, 16) for x in offsets[:2])
        self.assertTrue(symbols['liar_run'] < ours < symbols['liar_decoy'], text)
        self.assertEqual(theirs, symbols['liar_decoy'], text)
        self.assertIn('came out different', self.exporter.output())


class Off(unittest.TestCase):
    @e2e.needs_kernel
    def test_nothing_is_copied_for_it(self):
        with e2e.exporter('--symbols.cache-path=') as x:
            e2e.wait_for('samples', lambda: x.metrics()['sonde_samples_total{event="cpu"}'] > 20)
            metrics = x.metrics()
            self.assertEqual(metrics['sonde_shadow_copies_total'], 0)
            self.assertFalse([m for m in metrics if m.startswith('sonde_shadow_total')])
            self.assertNotIn('elfutils', x.get('/unwind').text)


if __name__ == '__main__':
    unittest.main()
