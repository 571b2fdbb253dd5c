"""Real programs of a distribution at the same time: the share of whole stacks and of named frames of each is printed, and checked.

Whole means that the walk ended where the program or the thread began. What cannot be walked must be cut with reason no_table, never
shown with guessed callers: Haskell without debug information, Java without frame pointers.
"""
import collections
import glob
import http.client
import os
import subprocess
import sys
import threading
import time
import unittest

import sonde_e2e as e2e

C_SOURCE = '''
struct node { struct node *next; int value; char name[32]; };
#define F(n) static int f##n(struct node *p, int x) { int s = x; for (; p; p = p->next) { \\
	switch ((p->value + n) % 7) { case 0: s += p->name[n % 32]; break; case 1: s ^= s << 3; break; case 2: s -= n; break; \\
	case 3: s *= 3; break; case 4: s = s / (n + 1); break; default: s += p->value; } } return s; }
#define F10(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
#define F100(n) F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F100(1) F100(2) F100(3)
int main(int argc, char **argv) { struct node n = {0, argc, "x"}; return f100(&n, 1) + f200(&n, 2) + f399(&n, 3) + (argv == 0); }
'''
OCAML = '''
let rec build n = if n = 0 then [] else (n * 7 mod 13) :: build (n - 1)
let rec sum = function [] -> 0 | x :: r -> x + sum r
let step i = let l = build 300 in let m = List.map (fun x -> x + i) l in sum (List.sort compare m)
let () = let t = ref 0 in while true do t := !t + step (!t land 15) done
'''
HASKELL = '''
import qualified Data.Map as M
go :: Int -> M.Map Int Int -> Int
go n m = let m' = M.insertWith (+) (n * 7919 `mod` 1009) n m in if n < 0 then M.foldr (+) 0 m' else go (n + 1) m'
main :: IO ()
main = print (go 0 M.empty)
'''
GO = '''package main
import ("sort"; "strings")
type rec struct { k string; v int }
func work(n int) int {
	l := make([]rec, n)
	for i := range l { l[i] = rec{strings.Repeat("x", i*7%13), i * 7919 % 1009} }
	sort.Slice(l, func(i, j int) bool { return l[i].v < l[j].v })
	return l[n/2].v + len(l[0].k)
}
func main() { t := 0; for { t += work(500) } }
'''
RUST = '''
use std::collections::HashMap;
#[inline(never)] fn work(n: u64) -> u64 {
    let mut m: HashMap<u64, Vec<u64>> = HashMap::new();
    for i in 0..n { m.entry(i * 7919 % 101).or_insert_with(Vec::new).push(i); }
    m.values().map(|v| v.iter().sum::<u64>()).max().unwrap_or(0)
}
fn main() { let mut t = 0u64; loop { t = t.wrapping_add(work(2000 + t % 3)); if t == 1 { println!("{}", t); } } }
'''
JAVA = '''
import java.util.*;
public class Burn {
	static int work(int n) { List<Integer> l = new ArrayList<>(); for (int i = 0; i < n; i++) l.add(i * 7919 % 1009); Collections.sort(l); return l.get(n / 2); }
	public static void main(String[] a) { long t = 0; while (true) t += work(2000); }
}
'''
NODE = '''
function inner(n) { const l = []; for (let i = 0; i < n; i++) l.push(i * 7919 % 1009); l.sort((a, b) => a - b); return l[n >> 1]; }
function outer(n) { return inner(n) + 1; }
let t = 0; for (;;) t += outer(2000);
'''
ERLANG = '''
-module(burn). -export([start/0]).
start() -> loop(0).
loop(T) -> loop((T + work(lists:seq(1, 2000), T)) rem 1009).
work(L, T) -> lists:foldl(fun(X, A) -> (X * 7919 + A) rem 1009 end, T, lists:sort([X * 7919 rem 1009 || X <- L])).
'''
# What waits for messages is scheduled anew and again; exceptions and built-in functions leave return addresses that follow no call; id/1
# is over before it has a frame for long.
ERLANG_CHAT = '''
-module(chat). -export([start/0, echo/0, id/1]).
start() -> [spawn(fun() -> ask(spawn_link(fun echo/0), N) end) || N <- [1, 2]], timer:sleep(infinity).
echo() -> receive {From, X} -> From ! {self(), X}, echo() end.
ask(P, N) ->
    P ! {self(), N},
    X = receive {P, Y} -> Y end,
    #{1 := 2} = maps:map(fun(_, V) -> V + 1 end, #{1 => 1, X => 2}),
    {match, _} = re:run("abc 17 def", "[0-9]+"),
    _ = try list_to_integer("x") catch error:badarg -> 0 end,
    done = (catch throw(done)),
    ask(P, (calls(100) + X) rem 1000 + 2).
calls(0) -> 0;
calls(N) -> id(N) + calls(N - 1).
id(X) -> X.
'''
PYTHON = 'def f(n): return sorted(i * 7919 % 1009 for i in range(n))[n // 2]\nwhile True: f(2000)'
RUBY = 'def f(n) (0...n).map { |i| i * 7919 % 1009 }.sort[n / 2] end; loop { f(2000) }'
PERL = 'sub f { my $n = shift; my @l = sort { $a <=> $b } map { $_ * 7919 % 1009 } 1 .. $n; $l[$n / 2] } f(2000) while 1'
PHP = 'function f($n) { $l = []; for ($i = 0; $i < $n; $i++) $l[] = $i * 7919 % 1009; sort($l); return $l[$n >> 1]; } while (true) f(2000);'
SQL = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 1000000000) SELECT count(*) FROM c WHERE x%7=3 AND printf(\'%d\',x) LIKE \'%1%\''

# name → (least share of whole stacks, least share of named frames); None: all cut ones must say no_table
SHARES = {
    'openssl': (0.995, 0), 'sqlite3': (0.995, 0), 'xz': (0.995, 0), 'nginx': (0.995, 0), 'postgres': (0.995, 0), 'cc1': (0.995, 0),
    'clang': (0.995, 0), 'python3.11': (0.995, 0), 'ruby': (0.995, 0), 'perl': (0.995, 0), 'php': (0.995, 0), 'ocaml': (0.995, 0.9),
    'go': (0.995, 0.9), 'rustc': (0.995, 0), 'rust': (0.995, 0.9), 'node': (0.95, 0), 'java-fp': (0.99, 0.9), 'erlang': (0.95, 0), 'erlang-chat': (0.95, 0),
    'java': (None, 0.9), 'haskell': (None, 0), 'erlang-nofp': (None, 0), 'php-jit': (0, 0),
}
# Of a program that does nothing but enter a tiny block for each element, some samples lie between Ruby's step into it and the native one: the two
# chains disagree, which the stack says. What test_unwind_ruby.py runs has few of them.
MISMATCHES = {'ruby': 0.05}
LEAST_SAMPLES = 60
SHORT_LIVED = ('cc1', 'clang', 'rustc')
# Not su: it puts its command into a session of its own, which would outlive the test.
AS_POSTGRES = ('setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups', 'sh', '-c')


def most_cut(n, least_whole):
    """Of n stacks of a program whose share is the least: the mean and three standard deviations."""
    mean = n * (1 - least_whole)
    return mean + 3 * mean ** 0.5


@e2e.needs_kernel
class Runtimes(e2e.SampledPrograms):
    flags, top = ('--unwind.table-bytes=64MB',), '/var/tmp'

    @classmethod
    def setUpClass(cls):
        cls.stop = threading.Event()
        super().setUpClass()

    @classmethod
    def start(cls):
        start = e2e.Window(cls.exporter)
        cls.start_all()
        start.wait_for('samples of each', lambda samples: cls.have_samples(samples, 20))
        cls.wait_for_tables()
        late, cls.window = e2e.given_up(cls.exporter), e2e.Window(cls.exporter)
        cls.window.wait_for('samples of each', lambda samples: cls.have_samples(samples, LEAST_SAMPLES))
        cls.late = e2e.given_up(cls.exporter) - late
        cls.page = cls.exporter.get('/unwind').text
        cls.metrics = cls.exporter.metrics()

    @classmethod
    def tearDownClass(cls):
        cls.stop.set()
        super().tearDownClass()

    @classmethod
    def run_(cls, *cmd, **kw):
        subprocess.run(cmd, check=True, cwd=cls.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)

    @classmethod
    def build(cls):
        cls.write('c.c', C_SOURCE)
        cls.write('small.rs', RUST)
        cls.write('jit.php', f'<?php {PHP}')
        for name, text in (('ocaml.ml', OCAML), ('haskell.hs', HASKELL), ('go.go', GO), ('Burn.java', JAVA), ('burn.erl', ERLANG), ('chat.erl', ERLANG_CHAT),
                           ('node.js', NODE)):
            cls.write(name, text)
        cls.run_('ocamlopt', '-o', 'ocaml', 'ocaml.ml')
        cls.run_('ghc', '-O', '-o', 'haskell', 'haskell.hs')
        cls.run_('go', 'build', '-o', 'gobin', 'go.go', env=e2e.go_env())
        cls.run_('rustc', '-O', '-o', 'rust', 'small.rs')
        cls.run_('javac', 'Burn.java')
        cls.run_('erlc', 'burn.erl', 'chat.erl')
        os.chmod(cls.dir, 0o777)
        cls.run_(*AS_POSTGRES, f'$(ls -d /usr/lib/postgresql/*/bin | head -n 1)/initdb -D {cls.dir}/pg --no-sync')

    @classmethod
    def start_all(cls):
        d = cls.dir
        port = e2e.free_port()
        cls.write('nginx.conf', f'daemon off; worker_processes 1; pid {d}/nginx.pid; error_log stderr crit; events {{}} http {{ access_log off; '
                                f'keepalive_requests 1000000; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; '
                                f'uwsgi_temp_path {d}/u; scgi_temp_path {d}/s; gzip on; gzip_min_length 1; gzip_comp_level 9; gzip_types text/plain; '
                                f'server {{ listen 127.0.0.1:{port}; root {d}; default_type text/plain; }} }}')
        cls.write('query.sql', 'SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_proc c WHERE a.attname || b.attname > c.proname\n')
        pg = f'$(ls -d /usr/lib/postgresql/*/bin | head -n 1)/postgres --single -D {d}/pg postgres <{d}/query.sql'
        commands = {
            'openssl': ['openssl', 'speed', '-seconds', '60', 'rsa2048', 'sha256'],
            'sqlite3': ['sqlite3', ':memory:', SQL],
            'xz': ['sh', '-c', f'while :; do cat {d}/c.c /usr/bin/openssl; done | xz -6 -T1 -c'],
            'nginx': ['nginx', '-c', f'{d}/nginx.conf'],
            'postgres': [*AS_POSTGRES, f'exec {pg}'],
            'cc1': ['sh', '-c', f'while :; do gcc -O2 -c -o /dev/null {d}/c.c; done'],
            'clang': ['sh', '-c', f'while :; do clang-14 -O2 -c -o /dev/null {d}/c.c; done'],
            'python3.11': ['/usr/bin/python3.11', '-c', PYTHON],
            'ruby': ['ruby', '-e', RUBY],
            'perl': ['perl', '-e', PERL],
            'php': ['php', '-r', PHP],
            'php-jit': ['php', '-d', 'opcache.enable_cli=1', '-d', 'opcache.jit_buffer_size=16M', '-d', 'opcache.jit=function', f'{d}/jit.php'],
            'ocaml': [f'{d}/ocaml'],
            'haskell': [f'{d}/haskell'],
            'go': [f'{d}/gobin'],
            'rust': [f'{d}/rust'],
            'rustc': ['sh', '-c', f'while :; do rustc -O -o {d}/rust-again {d}/small.rs; done'],
            'node': ['node', f'{d}/node.js'],
            'java': ['java', '-Xmx64m', '-cp', d, 'Burn'],
            'java-fp': ['java', '-Xmx64m', '-XX:+PreserveFramePointer', '-cp', d, 'Burn'],
            'erlang': ['erl', '+JPperf', 'true', '-noshell', '-pa', d, '-s', 'burn', 'start'],
            'erlang-chat': ['erl', '+JPperf', 'true', '-noshell', '-pa', d, '-s', 'chat', 'start'],
            'erlang-nofp': ['erl', '-noshell', '-pa', d, '-s', 'burn', 'start'],
        }
        for name, cmd in commands.items():
            cls.loads[name] = e2e.Workload(*cmd, cwd=d)
        for _ in range(4):
            threading.Thread(target=cls.ask_nginx, args=(port,), daemon=True).start()

    @classmethod
    def ask_nginx(cls, port):
        while not cls.stop.is_set():
            try:
                c = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
                while not cls.stop.is_set():
                    c.request('GET', '/c.c', headers={'Accept-Encoding': 'gzip'})
                    c.getresponse().read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)  # then it asks again

    @classmethod
    def pids(cls, name):
        out, todo = set(), [cls.loads[name].pid]
        while todo:
            pid = todo.pop()
            out.add(str(pid))
            for path in glob.glob(f'/proc/{pid}/task/*/children'):
                try:
                    with open(path) as f:
                        todo += [int(x) for x in f.read().split()]
                except OSError:
                    pass
        return out

    @classmethod
    def samples_of(cls, name, samples):
        """The load's own; of compilers, which come and go, all of that name."""
        if name in SHORT_LIVED:
            return [s for s in samples if s[2].get('comm') in (name, f'{name}-14')]
        pids = cls.pids(name)
        shells = ('sh', 'cat')
        return [s for s in samples if s[2].get('pid') in pids and s[2].get('comm') not in shells]

    @classmethod
    def have_samples(cls, samples, n):
        return all(sum(values[0] for _, values, _ in cls.samples_of(name, samples)) >= n for name in SHARES)

    def shares(self, name):
        total = whole = frames = named = 0
        ends, examples = collections.Counter(), []
        for stack, values, labels in self.samples_of(name, self.window.samples):
            total += values[0]
            whole += values[0] * (labels['stack'] == 'complete')
            ends[labels['stack']] += values[0]
            # which of libc's have names depends on whether libc6-dbg is there
            own = [f for f in stack if not f.startswith('libc.so.6+0x')]
            frames += values[0] * len(own)
            named += values[0] * sum('+0x' not in f and not f.startswith('0x') for f in own)
            if labels['stack'] != 'complete':
                examples.append((labels['stack'], stack[-4:]))
        return total, whole / max(1, total), named / max(1, frames), ends, examples

    def test_shares(self):
        failures, lines = [], []
        for name, (least_whole, least_named) in SHARES.items():
            total, whole, named, ends, examples = self.shares(name)
            # a busy machine has a new process's tables too late now and then, and tells
            allowed = min(self.late, ends['truncated:no_table']) if name in SHORT_LIVED else 0
            cut = {k.partition(':')[2]: v for k, v in ends.items() if k != 'complete'}
            lines.append(f'{name:11} {total:5} stacks {100 * whole:6.2f} % whole {100 * named:6.2f} % of frames named {cut or ""}')
            if total < LEAST_SAMPLES:
                failures.append(f'{name}: only {total} samples')
            elif least_whole is None:
                guessed = {k: v for k, v in cut.items() if k != 'no_table'}
                if sum(guessed.values()) > 0.02 * total:
                    failures.append(f'{name}: cut for other reasons than no_table: {guessed} {examples[:2]}')
            elif total * (1 - whole) > most_cut(total, least_whole) + allowed + min(cut.get('interp_mismatch', 0), MISMATCHES.get(name, 0) * total):
                failures.append(f'{name}: {100 * whole:.2f} % whole of {total} {cut} {examples[:3]}')
            if named < least_named:
                failures.append(f'{name}: {100 * named:.2f} % named')
        print('\n' + '\n'.join(lines), file=sys.stderr)
        self.assertFalse(failures, '\n'.join(failures))

    def test_compiled_code_that_keeps_no_frame_pointers_is_no_root(self):
        """PHP's: what is in the register is any number, most often 0."""
        stacks = self.samples_of('php-jit', self.window.samples)
        self.assertTrue(any(labels.get('jit') for _, _, labels in stacks))
        wrong = [stack[-4:] for stack, _, labels in stacks if labels['stack'] == 'complete' and not stack[-1].startswith(('_start', 'clone'))]
        self.assertFalse(wrong, wrong[:3])

    def test_erlang_has_its_callers(self):
        stacks = [stack for stack, _, labels in self.samples_of('erlang-chat', self.window.samples) if labels['stack'] == 'complete']
        roots = {stack[-1] for stack in stacks if 'chat:ask/2' in stack}
        # the word below the first function is gone when its stack was given back
        self.assertTrue(roots <= {'erts_beamasm:normal_exit/0-CodeInfoPrologue', 'chat:ask/2'}, roots)
        self.assertTrue(any(stack[-1] == 'global::process_main' for stack in stacks))
        callers = collections.Counter(stack[i + 1] for stack in stacks for i, f in enumerate(stack[:-1]) if f.startswith('chat:id/1'))
        self.assertEqual(set(callers), {'chat:calls/1'}, callers)

    def test_tables_stay_under_their_cap(self):
        self.assertLessEqual(self.metrics['sonde_unwind_table_bytes'], 64 << 20)
        self.assertGreater(self.metrics['sonde_unwind_table_binaries'], 50)


if __name__ == '__main__':
    unittest.main()
