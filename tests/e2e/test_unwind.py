"""Stacks without frame pointers, whole and in order: programs whose callers are known, built in the ways that programs are."""
import collections
import html
import os
import re
import subprocess
import time
import unittest

import sonde_e2e as e2e

SOURCE = f'{e2e.TOP}/tests/e2e/unwind_programs.c'
LIBRARY = '''
extern unsigned long spin_here(unsigned long);
__attribute__((noinline, noipa)) unsigned long spin_here(unsigned long n) {
	for (unsigned i = 0; i < 1000000; i++) n = n * 6364136223846793005UL + 1442695040888963407UL;
	return n;
}
volatile unsigned long library_sink;
__attribute__((noinline, noipa)) void NAME_inner(int n) {
	for (int i = 0; n < 0 || i < n; i++) library_sink += spin_here(library_sink);
}
'''
FIRST = LIBRARY.replace('NAME', 'first') + 'void first_run(int n) { first_inner(n); library_sink++; }\n'
SECOND = LIBRARY.replace('NAME', 'second') + 'char space[8192] = {1}; void second_run(void) { second_inner(-1); library_sink++; }\n'
CXX = '''
struct Base { virtual ~Base() {} virtual void work(unsigned n) = 0; };
volatile unsigned long sink;
struct Derived : Base {
	void work(unsigned n) override { for (;;) { for (unsigned i = 0; i < 100000; i++) sink += i * n; } }
};
__attribute__((noinline)) void call(Base *b, unsigned n) { try { b->work(n); } catch (int e) { sink += e; } sink++; }
int main(int argc, char **) { Derived d; call(&d, argc); return 0; }
'''
GO = '''package main
var sink int
//go:noinline
func goLeaf(n int) int { var a [64]int; for i := 0; i < n; i++ { a[i % 64] += i * i % 7 }; return a[n % 64] }
//go:noinline
func goMiddle(n int) int { return goLeaf(n) + 1 }
func main() { for { sink += goMiddle(100000) } }
'''
RAW = '''
volatile unsigned long sink;
__attribute__((noinline)) void burn_plain(void) { for (int i = 0; i < 20000000; i++) sink++; }
void burn_raw(void);
__asm__(".text\\n.type burn_raw, @function\\nburn_raw: push %rbp\\nmov $1, %ebp\\nmov $40000000, %ecx\\n1: dec %ecx\\njnz 1b\\npop %rbp\\npop %rdx\\njmp *%rdx\\n"
        ".size burn_raw, . - burn_raw");
int main(void) { for (;;) { burn_plain(); burn_raw(); } }
'''
OUTER = ['inner', 'middle', 'outer']
STORM_C = '''
#include <signal.h>
#include <unistd.h>
volatile int n;
__attribute__((noinline)) void decoy(void) { volatile char b[4096]; for (;;) b[n & 4095]++; }
__attribute__((noinline)) void handler(int s) { n += s; }
__attribute__((noinline)) void storm(void) { for (;;) kill(getpid(), SIGUSR1); }
int main(int argc, char **argv) { (void)argv; if (argc > 5) decoy(); signal(SIGUSR1, handler); storm(); return 0; }
'''
LEAST_SAMPLES = 60


@e2e.needs_kernel
class Unwind(e2e.SampledPrograms):
    @classmethod
    def start(cls):
        start = e2e.Window(cls.exporter)
        cls.start_all()
        start.wait_for(lambda: f'a whole stack of each, and not yet of {cls.lacking}', lambda samples: cls.have_samples(samples, 1, 'complete'))
        e2e.wait_for('the second library', lambda: 'second.so' in cls.maps('library'))
        cls.wait_for_tables()
        cls.window = e2e.Window(cls.exporter)
        cls.window.wait_for(lambda: f'samples of each, and not yet of {cls.lacking}', lambda samples: cls.have_samples(samples, LEAST_SAMPLES))
        cls.pids_then = {name: cls.pids(name) for name in cls.loads}
        cls.stop_all()  # what comes then has the machine to itself

    @classmethod
    def cc(cls, name, *flags, cc='gcc', source=SOURCE):
        out = f'{cls.dir}/{name}'
        subprocess.run([cc, '-O2', '-fomit-frame-pointer', '-o', out, source, *flags], check=True)
        return out

    @classmethod
    def build(cls):
        cls.plain = cls.cc('plain', '-ldl', '-pthread')
        cls.lower, cls.upper, cls.hidden = (cls.cc(name, '-ldl', '-pthread', f'-Wl,--defsym={name}=0') for name in ('lower', 'upper', 'hidden'))
        cls.static_pie = cls.cc('static-pie', '-static-pie', '-DNO_THREADS')
        cls.musl = cls.cc('musl', '-static', '-DNO_THREADS', cc='musl-gcc')
        cls.cxx = cls.cc('cxx', cc='g++', source=cls.write('cxx.cc', CXX))
        cls.deleted = cls.cc('deleted', '-ldl', '-pthread')
        for name, text in (('first', FIRST), ('second', SECOND)):
            cls.cc(f'{name}.so', '-shared', '-fPIC', source=cls.write(f'{name}.c', text))
        cls.write('go.go', GO)
        subprocess.run(['go', 'build', '-ldflags=-s -w', '-o', f'{cls.dir}/gostripped', f'{cls.dir}/go.go'], check=True,
                       env=e2e.go_env())

    @classmethod
    def start_all(cls):
        plain = cls.plain
        commands = {
            'plain': [plain, 'plain'],
            'asm': [plain, 'asm'],
            'signal': [plain, 'signal'],
            'thread': [plain, 'thread'],
            'context': [plain, 'context'],
            'vfork': [plain, 'vfork'],
            'recurse': [plain, 'recurse', '4096'],
            'library': [plain, 'library', f'{cls.dir}/first.so,{cls.dir}/second.so'],
            'static-pie': [cls.static_pie, 'plain'],
            'musl': [cls.musl, 'plain'],
            'musl-signal': [cls.musl, 'signal'],
            'cxx': [cls.cxx],
            'deleted': [cls.deleted, 'plain'],
            'namespaces': [*e2e.own_mounts('--pid', '--fork', '--mount-proc'), 'sh', '-c',
                           f'mount --bind {cls.dir} /mnt && exec /mnt/plain plain'],
            # In containers: of an image's layer, and written in the container. Each a content of its own.
            'overlay': [*e2e.own_mounts(), 'sh', '-c', f"""
                        mount -t tmpfs none /mnt && cd /mnt && mkdir lower upper work merged && cp {cls.lower} lower/lower &&
                        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && cp {cls.upper} merged/upper &&
                        cd / || exit 1
                        /mnt/merged/upper plain &
                        exec /mnt/merged/lower plain"""],
            # No path leads to it.
            'memfd': ['python3', '-c', f"""
import os
fd = os.memfd_create('hidden')
os.write(fd, open('{cls.hidden}', 'rb').read())
os.execve(fd, ['hidden', 'plain'], os.environ)"""],
            'go': [f'{cls.dir}/gostripped'],
        }
        for name, cmd in commands.items():
            cls.loads[name] = e2e.Workload(*cmd)
        e2e.wait_program(cls.loads['deleted'].pid, cls.deleted)
        os.unlink(cls.deleted)

    @classmethod
    def pids(cls, name):
        """The load's process and its descendants."""
        out, todo = set(), [cls.loads[name].pid]
        while todo:
            pid = todo.pop()
            out.add(str(pid))
            try:
                with open(f'/proc/{pid}/task/{pid}/children') as f:
                    todo += [int(x) for x in f.read().split()]
            except OSError:
                pass
        return out

    @classmethod
    def maps(cls, name):
        with open(f'/proc/{cls.loads[name].pid}/maps') as f:
            return f.read()

    @classmethod
    def have_samples(cls, samples, n, end=''):
        """Whether each load has so many, with stacks that end so."""
        counts = collections.Counter()
        for _, values, labels in samples:
            counts[labels.get('pid')] += values[0] * labels['stack'].startswith(end)
        cls.lacking = [name for name in cls.loads if sum(counts[pid] for pid in cls.pids(name)) < n]
        return not cls.lacking

    def stacks(self, name, least=LEAST_SAMPLES):
        """Distinct user stacks, root last, with their counts; all of them must be whole."""
        pids = self.pids_then[name]
        mine = [s for s in self.window.samples if s[2].get('pid') in pids]
        ends = collections.Counter()
        for _, values, labels in mine:
            ends[labels['stack']] += values[0]
        self.assertGreaterEqual(sum(ends.values()), least, f'{name}: too few samples: {ends}')
        self.assertEqual(set(ends), {'complete'}, f'{name}: {ends} {[s for s in mine if s[2]["stack"] != "complete"][:3]}')
        return [s[0] for s in mine], [s[2] for s in mine], [s[1][0] for s in mine]

    def assert_chain(self, name, chain, roots=('_start',), share=0.995):
        stacks, _, counts = self.stacks(name)
        good = 0
        for stack, count in zip(stacks, counts):
            at = [i for i in range(len(stack) - len(chain) + 1) if stack[i:i + len(chain)] == chain]
            good += count * (bool(at) and any(r in stack[-1] for r in roots))
        self.assertGreaterEqual(good, share * sum(counts), f'{name}: {[s for s in stacks if chain[-1] not in s][:3] or stacks[:2]}')

    def test_c(self):
        self.assert_chain('plain', OUTER + ['main'])

    def test_cxx(self):
        self.assert_chain('cxx', ['Derived::work(unsigned int)', 'call(Base*, unsigned int)', 'main'])

    def test_static_pie(self):
        self.assert_chain('static-pie', OUTER + ['main'])

    def test_musl(self):
        self.assert_chain('musl', OUTER + ['main'], roots=('_start',))

    def test_assembly_with_cfi(self):
        self.assert_chain('asm', OUTER + ['by_hand', 'main'])

    def test_thread(self):
        self.assert_chain('thread', OUTER + ['thread_main'], roots=('clone', 'libc.so.6+'))  # without libc6-dbg clone3 has no name

    def test_signal_handler_on_another_stack(self):
        self.assert_chain('signal', OUTER + ['on_signal'])
        for stack in self.stacks('signal')[0]:
            after = stack[stack.index('on_signal') + 1:]
            self.assertTrue(any(f in ('interrupted', 'spin') for f in after), stack)
            self.assertIn('main', after)

    def test_signal_handler_in_musl(self):
        for stack in self.stacks('musl-signal')[0]:
            after = stack[stack.index('on_signal') + 1:]
            self.assertTrue(any(f in ('interrupted', 'spin') for f in after), stack)
            self.assertIn('main', after)

    def test_tick_while_a_handler_is_being_called(self):
        """The kernel has set the registers to the handler's first instruction, on its way out of a system call: what lies before that one is
        another function, whose frame is a large one."""
        prog = e2e.compile_c(STORM_C, '-O1', '-fno-toplevel-reorder', '-falign-functions=1', name='storm')
        with e2e.Workload(prog) as w:
            get = lambda: e2e.Pprof(self.exporter.get(f'/debug/pprof/profile?seconds=6&pid={w.pid}').body).samples
            e2e.wait_for('whole stacks of it', lambda: any('storm' in s[0] for s in get()))
            samples = get()
        total = sum(values[0] for _, values, _ in samples)
        bad = [(values[0], labels['stack'], stack) for stack, values, labels in samples if 'storm' not in stack or 'decoy' in stack]
        self.assertGreater(total, LEAST_SAMPLES)
        # the kernel may be seen restoring them one by one, too
        self.assertLessEqual(sum(b[0] for b in bad), total * 0.02, bad[:4])

    def test_coroutine(self):
        self.assert_chain('context', OUTER, roots=("libc.so.6+", "__start_context"))

    def test_vfork(self):
        self.assert_chain('vfork', OUTER + ['mode_vfork', 'main'])

    def test_deep_recursion_reaches_its_root(self):
        for stack in self.stacks('recurse')[0]:
            self.assertGreaterEqual(stack.count("recurse"), 4000, len(stack))
            self.assertIn('main', stack[-6:])

    def test_library_after_another_was_unloaded(self):
        self.assert_chain('library', ['second_inner', 'second_run'])

    def test_deleted_file(self):
        self.assert_chain('deleted', OUTER + ['main'])

    def test_other_namespaces(self):
        self.assert_chain('namespaces', OUTER + ['main'])
        self.assertEqual({labels.get('ns_pid') for labels in self.stacks('namespaces')[1]}, {'1'})

    def test_overlay(self):
        self.assert_chain('overlay', OUTER + ['main'])
        self.assertEqual({labels['executable'] for labels in self.stacks('overlay')[1]}, {'/mnt/merged/lower', '/mnt/merged/upper'})

    def test_memfd(self):
        self.assert_chain('memfd', OUTER + ['main'])
        self.assertEqual({labels['executable'] for labels in self.stacks('memfd')[1]}, {'/memfd:hidden (deleted)'})

    def test_stripped_go(self):
        self.assert_chain('go', ['main.goLeaf', 'main.goMiddle', 'main.main', 'runtime.main'], roots=('runtime.goexit',), share=0.9)

    def burning(self, prog, n):
        """(stack, how it ends) of the work of so many processes."""
        window = e2e.Window(self.exporter)
        for _ in range(n):
            subprocess.run([prog], check=True)
        window.read_until_now(f'&comm={os.path.basename(prog)}')
        return [(s, labels['stack']) for s, _, labels in window.samples if 'burn' in s]

    def burning_in_time(self, prog, n):
        """The same of the first of such crowds for which no table came too late."""
        def crowd():
            before = e2e.given_up(self.exporter)
            stacks = self.burning(prog, n)
            late = e2e.given_up(self.exporter) > before and [end for _, end in stacks if end != 'complete']
            return None if late else stacks
        return e2e.wait_for('a crowd whose tables came in time', crowd)

    def test_short_processes_have_whole_stacks(self):
        """Forty processes that use 30 ms each."""
        prog = self.cc('short', source=self.write('short.c', '''
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline, noipa)) unsigned long burn(unsigned long n) { for (int i = 0; i < 10000; i++) n = n * 31 + 7; return n; }
__attribute__((noinline, noipa)) void until(double end) { while ((double)clock() / CLOCKS_PER_SEC < end) sink += burn(sink); sink++; }
__attribute__((noinline, noipa)) void begin(void) { until(0.03); sink++; }
int main(void) { begin(); return 0; }
'''))
        stacks = self.burning_in_time(prog, 40)
        self.assertGreater(len(stacks), 3)
        for stack, end in stacks:
            self.assertEqual(end, 'complete', stack)
            self.assertEqual(stack[stack.index('burn'):][:4], ['burn', 'until', 'begin', 'main'])

    def test_processes_of_known_files_are_whole_from_their_first_sample(self):
        """Half a megabyte of stack, more than a copy holds; each lives for 30 ms, less than it takes to be told of."""
        prog = self.cc('deep', '-pthread', source=self.write('deep.c', '''
#include <pthread.h>
#include <string.h>
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline, noipa)) unsigned long burn(unsigned long n) { for (int i = 0; i < 10000; i++) n = n * 31 + 7; return n; }
__attribute__((noinline, noipa)) void until(double end) { while ((double)clock() / CLOCKS_PER_SEC < end) sink += burn(sink); sink++; }
__attribute__((noinline, noipa)) void large(int n) { char room[100000]; memset(room, n, sizeof(room)); if (n) large(n - 1); else until(0.03); sink += room[n]; }
void *thread(void *arg) { large(5); return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, thread, 0); return pthread_join(t, 0); }
'''))
        e2e.wait_for('its table', lambda: 'complete' in [end for _, end in self.burning(prog, 10)])
        stacks = self.burning_in_time(prog, 40)
        self.assertGreater(len(stacks), 3)
        for stack, end in stacks:
            self.assertEqual(end, 'complete', stack)
            self.assertEqual(stack[stack.index('burn'):][:9], ['burn', 'until'] + 6 * ['large'] + ['thread'])

    def test_frame_pointers_without_rows(self):
        # As Chromium is built: so many functions that code is not followed. What calls the second of two calls looks like musl's last frame.
        prog = self.cc('rowless', '-fno-omit-frame-pointer', '-fno-asynchronous-unwind-tables', '-fno-unwind-tables', cc='clang', source=self.write('rowless.c', '''
volatile unsigned long sink;
__attribute__((noinline)) unsigned long burn(unsigned long n) { for (int i = 0; i < 100000; i++) n = n * 31 + 7; return n; }
__attribute__((noinline)) unsigned long first(void) { return burn(sink) + 1; }
__attribute__((noinline)) unsigned long second(unsigned long n) { return n + 1; }
__attribute__((noinline)) unsigned long both(void) { return second(first()) + 1; }
__attribute__((noinline)) int count(void) { return sink += both(); }
__attribute__((noinline)) int narrow(int n) { return n + 1; }
__attribute__((noinline)) int outer(void) { return narrow(count()) + 1; }
int main(void) { for (;;) sink += outer(); }
''' + ''.join(f'unsigned long more_{i}(void) {{ return burn({i}) + 1; }}\n' for i in range(200))))
        code = subprocess.run(['objdump', '-d', prog], capture_output=True, text=True, check=True).stdout
        self.assertRegex(code, r'\tmov +%rax,%rdi\n.*\tcall .*<second>')
        self.assertRegex(code, r'\tmov +%eax,%edi\n.*\tcall .*<narrow>')
        window = e2e.Window(self.exporter)
        with e2e.Workload(prog):
            burning = lambda: [(s, labels['stack'], values[0]) for s, values, labels in window.samples if 'burn' in s]
            e2e.wait_for('samples', lambda: window.read('&comm=rowless') or sum(n for *_, n in burning()) > 1000, interval=0.5)
        # The name between, of libc's own, is there only with libc6-dbg.
        whole = r'burn first both count outer main (__libc_start_call_main|libc\.so\.6\+0x[0-9a-f]+) __libc_start_main _start'
        other = [(s, end, n) for s, end, n in burning() if end != 'complete' or not re.fullmatch(whole, ' '.join(s[s.index('burn'):]))]
        self.assertLess(sum(n for *_, n in other), 0.05 * sum(n for *_, n in burning()), other[:3])

    def test_the_page_tells(self):
        page = self.exporter.get('/unwind').text
        self.assertIn(f'<tr><td>{self.dir}/plain</td>', page)
        self.assertIn('<th>cut here, by reason</th>', page)

    def test_the_page_counts_what_the_samples_say(self):
        # Nothing says how to leave burn_raw, which does not return as functions do, and no frame pointer leads out of it; main is walked.
        source = self.write('pagecut.c', RAW)
        self.cc('pagecut', source=source)
        window = e2e.Window(self.exporter)
        with e2e.Workload(f'{self.dir}/pagecut') as load:
            def both():
                window.read('&comm=pagecut')
                stacks = [(s, labels['stack'], values[0]) for s, values, labels in window.samples]
                return all(sum(n for s, end, n in stacks if f in s and end.startswith(cut)) > 100
                           for f, cut in (('burn_raw', 'truncated:'), ('burn_plain', 'complete')))
            e2e.wait_for('stacks of both kinds', both, interval=0.5)
        window.read_until_now('&comm=pagecut')
        ends = collections.Counter()
        for _, values, labels in window.samples:
            ends[labels['stack'].removeprefix('truncated:')] += values[0]
        total, whole = sum(ends.values()), ends.pop('complete')
        page = html.unescape(self.exporter.get('/unwind').text)
        row = re.search(r'<tr><td>pagecut</td><td class="n">(\d+)</td><td class="n">([\d.]+) %</td><td>([^<]*)</td>', page)
        self.assertEqual((int(row[1]), row[2]), (total, f'{100 * whole / total:.1f}'), ends)
        self.assertEqual(dict(r.rsplit(' ', 1) for r in row[3].split(', ')), {k: str(v) for k, v in ends.items()})
        process = re.search(rf'<tr><td class="n">{load.pid}</td><td>pagecut[^\n]*', page)[0]
        self.assertIn(f'{self.dir}/pagecut', process)
        self.assertIn(f'<td class="n">{total}</td><td class="n">{100 * whole / total:.1f} %</td>', process)


if __name__ == '__main__':
    unittest.main()
