"""Lines and inlined calls of real compilers' output, beside llvm-symbolizer, over every kind of DWARF."""
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

import sonde_e2e as e2e
import sonde_ocaml

BESIDE_OTHERS = True

LINES = os.path.join(e2e.build_dir(), 'tests/tools/lines')
SYMBOLIZER = shutil.which('llvm-symbolizer') or shutil.which('llvm-symbolizer-14')
EXAMPLES = 3000

HEADER = r'''
#pragma once
static inline int clamp(int v, int low, int high)
{
	if (v < low)
		return low;
	return v > high ? high : v;
}
#define SUM_OF_SQUARES(n) ({ int sum_ = 0; for (int i_ = 0; i_ < (n); i_++) sum_ += i_ * clamp(i_, 3, 90); sum_; })
'''
MAIN_C = r'''
#include "shapes.h"
#include <stdio.h>
#include <stdlib.h>
int area(int w, int h);
__attribute__((always_inline)) static inline int deep0(int x) { return clamp(x, 0, x / 3) + x; }
#define DEEP(a, b) __attribute__((always_inline)) static inline int a(int x) { return b(x + 1) * 3 + clamp(x, 2, 70); }
DEEP(deep1, deep0) DEEP(deep2, deep1) DEEP(deep3, deep2) DEEP(deep4, deep3) DEEP(deep5, deep4) DEEP(deep6, deep5)
__attribute__((cold, noinline)) static void fail(const char *why) { fprintf(stderr, "%s\n", why); exit(2); }
__attribute__((used)) int never_called(int x) { return deep3(x); }
static int compare(const void *a, const void *b) { return clamp(*(const int *)a - *(const int *)b, -1, 1); }
int main(int argc, char **argv)
{
	int values[64], total = 0;

	for (int i = 0; i < 64; i++)
		values[i] = deep6(i * argc) ^ area(i, argc);
	qsort(values, 64, sizeof(values[0]), compare);
	if (values[0] == 77)
		fail("unlucky");
	switch (argc) {
	case 1: total = SUM_OF_SQUARES(values[3] & 15); break;
	case 2: total = area(values[9], values[4]); break;
	default: total = atoi(argv[1]);
	}
	printf("%d\n", total);
	return clamp(total, 0, 1);
}
'''
AREA_C = r'''
#include "shapes.h"
__attribute__((noinline)) static int slow_path(int w) { return w * 17 % 11; }
static int perimeter(int w, int h) { return 2 * (clamp(w, 1, 50) + clamp(h, 1, 50)); }
int unused_here(int x) { return perimeter(x, x) * 3; }
int area(int w, int h)
{
	int a = clamp(w * h, 0, 1 << 20);

	if (a > 1000)
		a += slow_path(w);
	return a + perimeter(w, h);
}
'''
SHOP_CC = r'''
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <cstdio>
namespace shop {
namespace { int discount(int price) { return price - price / 7; } }
struct item { std::string name; int price; virtual ~item() = default; virtual int cost() const { return discount(price); } };
struct tea final : item { int cost() const override { return item::cost() + 3; } };
template <typename T, int N> struct basket {
	std::vector<std::unique_ptr<T>> items;
	template <typename F> int sum(F f) const { int s = N; for (auto &i : items) s += f(*i); return s; }
	basket &operator+=(std::unique_ptr<T> t) { items.push_back(std::move(t)); return *this; }
};
}
int main(int argc, char **argv)
{
	shop::basket<shop::item, 5> b;
	std::map<std::string, int> counts;
	for (int i = 0; i < argc + 40; i++) {
		std::unique_ptr<shop::item> t(i % 3 ? static_cast<shop::item *>(new shop::item) : new shop::tea);
		t->name = std::string(argv[0]) + std::to_string(i);
		t->price = i * 3;
		counts[t->name.substr(0, 3)]++;
		b += std::move(t);
	}
	std::sort(b.items.begin(), b.items.end(), [](const auto &x, const auto &y) { return x->cost() < y->cost() || x->name < y->name; });
	auto cheap = [&](const shop::item &i) { struct local { static int twice(int v) { return v * 2; } }; return local::twice(i.cost()); };
	printf("%d %zu\n", b.sum(cheap), counts.size());
	try { if (b.items.at(static_cast<size_t>(argc) * 7)->price > 1000) throw std::string("dear"); } catch (const std::string &s) { puts(s.c_str()); }
}
'''
# Shares types with the other one.
STALL_CC = r'''
#include <string>
#include <vector>
struct crate { std::vector<std::string> names; int count(char c) const { int n = 0; for (auto &s : names) n += s.find(c) != std::string::npos; return n; } };
int stall(int n) { crate c; for (int i = 0; i < n; i++) c.names.push_back(std::to_string(i)); return c.count('7'); }
'''
TILL_RS = r'''
use std::collections::HashMap;
mod shop {
    #[inline(always)] fn clamp(v: u64) -> u64 { if v > 90 { 90 } else { v } }
    pub trait Ring { fn ring(&mut self, n: u64) -> u64; }
    #[derive(Default)] pub struct Till { pub sum: u64 }
    impl Ring for Till { fn ring(&mut self, n: u64) -> u64 { for i in 0..n { self.sum = self.sum.wrapping_mul(31) + clamp(i); } self.sum } }
}
use shop::Ring;
fn main() {
    let mut m: HashMap<String, shop::Till> = HashMap::new();
    for a in std::env::args().chain((0..50).map(|i| format!("x{}", i % 7))) { let k = a.chars().rev().collect::<String>(); m.entry(k).or_default().ring(a.len() as u64); }
    let mut v: Vec<_> = m.iter().map(|(k, t)| (t.sum, k.clone())).collect();
    v.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    println!("{:?}", v.first());
}
'''
TILL_GO = r'''
package main

import (
	"fmt"
	"sort"
	"strings"
)

type till struct{ sum uint64 }

func clamp(v uint64) uint64 {
	if v > 90 {
		return 90
	}
	return v
}

func (t *till) ring(n uint64) { t.sum = t.sum*31 + clamp(n) }

func main() {
	tills := map[string]*till{}
	for i := uint64(0); i < 100; i++ {
		k := strings.Repeat("x", int(i%9))
		if tills[k] == nil {
			tills[k] = &till{}
		}
		tills[k].ring(i)
	}
	keys := []string{}
	for k := range tills {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(a, b int) bool { return tills[keys[a]].sum < tills[keys[b]].sum })
	fmt.Println(keys)
}
'''


WORK_ML = r'''
module Inner = struct
  let build n =
    let rec go i acc =
      if i = 0 then acc
      else go (i - 1) (string_of_int i :: acc) in (* call in go *)
    go n []
  let[@inline always] twice f x =
    let y = f x in (* call in twice *)
    f (y + 1)
end
let[@inline never] slow x = if x > 1000000 then failwith "big" else String.length (string_of_int x)
let[@inline never] hot n =
  let a = Inner.twice slow n in (* call of twice *)
  let b = List.fold_left (fun acc s -> acc + String.length s) 0 (Inner.build 50) in (* call of build *)
  a + b
let () =
  let n = try int_of_string Sys.argv.(1) with _ -> 10 in
  let t = ref 0 in
  for i = 1 to n do t := !t + hot i done;
  Printf.printf "%d\\n" !t
'''


def code_ranges(path):
    out = subprocess.run(['readelf', '-SW', path], capture_output=True, text=True, check=True).stdout
    return [(int(m[1], 16), int(m[2], 16)) for m in re.finditer(r'\] \.text\S*\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)', out)]


def addresses_of(path, n=EXAMPLES):
    every = [(a, s) for a, s in code_ranges(path)]
    total = sum(s for _, s in every)
    chosen = []
    # The same ones each time; all of them where there are few.
    for k in sorted(random.Random(7).sample(range(total), min(n, total))):
        for a, s in every:
            if k < s:
                chosen.append(a + k)
                break
            k -= s
    return chosen


def places(program, addresses):
    """For each address: [(function, file, line, column)], innermost first."""
    out = subprocess.run(program, input=''.join(f'0x{a:x}\n' for a in addresses), capture_output=True, text=True, errors='replace', check=True)
    answers = []
    for block in out.stdout.split('\n\n')[:len(addresses)]:
        rows = block.split('\n')
        chain = []
        for function, where in zip(rows[::2], rows[1::2]):
            file, line, column = where.rsplit(':', 2)
            # A file without a line is a mark of the symbol table, not debug information.
            chain.append((function, '??' if line == '0' and '/' not in file else file, int(line), int(column)))
        answers.append(chain)
    return answers


def ours(path, addresses, debug=None):
    return places([LINES, path] + ([debug] if debug else []), addresses)


def theirs(path, addresses, *flags):
    return places([SYMBOLIZER, '--no-demangle', '--inlines', *flags, '-e', path], addresses)


def same(p, q, symbols):
    """Equal, or of functions whose code is one (aliases, merged templates) another name for the outermost."""
    if not p or not q or p[:-1] != q[:-1] or p[-1][1:] != q[-1][1:]:
        return False
    return p[-1][0] == q[-1][0] or bool(symbols.get(p[-1][0], set()) & symbols.get(q[-1][0], set()))


def symbols_of(path):
    out = {}
    for line in subprocess.run(['nm', path], capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if len(fields) == 3:
            out.setdefault(fields[2], set()).add(fields[0])
    return out


def run(*argv, cwd=None, env=None):
    r = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{argv}: {r.stderr[-1500:]}')
    return r


def figures(*argv):
    out = run(LINES, '-s', *argv).stdout
    return {key: int(value) for key, value in (line.split() for line in out.splitlines())}


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='sonde-lines.')
        for name, text in (('shapes.h', HEADER), ('main.c', MAIN_C), ('area.c', AREA_C), ('shop.cc', SHOP_CC), ('stall.cc', STALL_CC), ('till.rs', TILL_RS), ('till.go', TILL_GO), ('work.ml', WORK_ML)):
            with open(f'{cls.dir}/{name}', 'w') as f:
                f.write(text)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def compare(self, path, debug=None, oracle=None, at_least=0.999, inlined=True):
        addresses = addresses_of(path)
        a, b = ours(path, addresses, debug), theirs(oracle or path, addresses)
        self.assertEqual((len(a), len(b)), (len(addresses), len(addresses)))
        symbols = symbols_of(oracle or path)
        wrong = [(hex(x), p, q) for x, p, q in zip(addresses, a, b) if not same(p, q, symbols)]
        self.assertGreaterEqual(1 - len(wrong) / len(addresses), at_least, wrong[:4])
        # The comparison says something: there are lines, and inlined calls.
        self.assertGreater(sum(q[0][2] > 0 for q in b), len(b) * 0.3)
        if inlined:
            self.assertGreater(sum(len(p) > 1 for p in a), 20)

    def build(self, name, *flags, cc='gcc', sources=('main.c', 'area.c')):
        out = f'{self.dir}/{name}'
        run(cc, '-o', out, *flags, *sources, cwd=self.dir)
        return out

    def test_c(self):
        for name, cc, *flags in (
                ('gcc5', 'gcc', '-O2', '-gdwarf-5'), ('gcc4', 'gcc', '-O2', '-gdwarf-4'), ('gcc3', 'gcc', '-O2', '-gdwarf-3'), ('gcc2', 'gcc', '-O2', '-gdwarf-2'),
                ('gcc64', 'gcc', '-O2', '-g', '-gdwarf64'), ('gcc0', 'gcc', '-O0', '-g'), ('static', 'gcc', '-O2', '-g', '-no-pie'),
                ('clang5', 'clang', '-O2', '-gdwarf-5'), ('clang4', 'clang', '-O2', '-gdwarf-4'), ('clang1', 'clang', '-O1', '-g'),
                ('sections', 'gcc', '-O2', '-g', '-ffunction-sections', '-Wl,--gc-sections'), ('lto', 'gcc', '-O2', '-g', '-flto'),
                ('gz', 'gcc', '-O2', '-g', '-gz'), ('zdebug', 'gcc', '-O2', '-gdwarf-4', '-gz=zlib-gnu'), ('types', 'gcc', '-O2', '-g', '-fdebug-types-section')):
            with self.subTest(name):
                self.compare(self.build(name, *flags, cc=cc), inlined='0' not in name)

    def test_zstd(self):
        plain = self.build('plain', '-O2', '-g')
        run('objcopy', '--compress-debug-sections=zstd', plain, f'{self.dir}/zstd')
        self.assertIn('ZSTD', run('readelf', '-tW', f'{self.dir}/zstd').stdout)
        self.compare(f'{self.dir}/zstd', oracle=plain)

    def test_debug_file(self):
        whole = self.build('whole', '-O2', '-g')
        run('objcopy', '--only-keep-debug', whole, f'{self.dir}/whole.debug')
        run('strip', '-o', f'{self.dir}/bare', whole)
        self.compare(f'{self.dir}/bare', debug=f'{self.dir}/whole.debug', oracle=whole)

    def test_supplementary_file(self):
        # What dwz moves out of two programs' debug files is found by the name that they have of it.
        for name, flags in (('dwz4', ()), ('dwz5', ('--dwarf-5',))):
            with self.subTest(name):
                wholes = [self.build(f'{name}-{i}', '-O2', f'-gdwarf-{name[-1]}', sources=sources)
                          for i, sources in enumerate((('main.c', 'area.c'), ('area.c', 'main.c')))]
                for whole in wholes:
                    run('objcopy', '--only-keep-debug', whole, whole + '.debug')
                common = f'{self.dir}/{name}-common'
                run('dwz', *flags, '-m', common, '-M', common, *(whole + '.debug' for whole in wholes))
                for whole in wholes:
                    run('strip', '-o', whole + '-bare', whole)
                    self.compare(whole + '-bare', debug=whole + '.debug', oracle=whole)
                # Another one in its place is left aside; what the debug file has itself stays.
                shutil.copy(wholes[0] + '.debug', common)
                self.assertEqual(figures(wholes[0] + '-bare', wholes[0] + '.debug')['lacking'], 1)
                self.assertFalse(any('clamp' in p for p in self.functions(wholes[0] + '-bare', wholes[0] + '.debug')))

    def functions(self, path, debug=None):
        return [[f for f, *_ in p] for p in ours(path, addresses_of(path), debug)]

    def compare_split(self, name, cc, flags, sources):
        """The same program with its units split off says what it says when they are not, from objects and from a package."""
        oracle = self.build(f'{name}-whole', *flags, cc=cc, sources=sources)
        out = f'{self.dir}/{name}.d'
        os.mkdir(out)
        run(cc, '-gsplit-dwarf', '-o', f'{out}/prog', *flags, *(f'../{s}' for s in sources), cwd=out)
        objects = [f for f in os.listdir(out) if f.endswith('.dwo')]
        self.assertEqual(len(objects), len(sources))
        # In another directory the compiler names the sources by another way.
        addresses, symbols = addresses_of(oracle), symbols_of(oracle)
        expected = [[(f, os.path.normpath(file), line, column) for f, file, line, column in p] for p in theirs(oracle, addresses)]

        def check():
            got = [[(f, os.path.normpath(file), line, column) for f, file, line, column in p] for p in ours(f'{out}/prog', addresses)]
            wrong = [(hex(x), p, q) for x, p, q in zip(addresses, got, expected) if not same(p, q, symbols)]
            self.assertGreaterEqual(1 - len(wrong) / len(addresses), 0.999, wrong[:4])
            self.assertGreater(sum(len(p) > 1 for p in got), 20)

        check()
        self.assertEqual(figures(f'{out}/prog')['lacking'], 0)
        # What Debian 12 has: binutils' dwp crashes on version 5, LLVM's never ends on that of gcc for C.
        packers = [p for p in ('llvm-dwp', 'dwp') if '-gdwarf-4' in flags or (p == 'llvm-dwp' and cc != 'gcc')]
        for packer in packers:
            run(packer, '-e', f'{out}/prog', '-o', f'{out}/by-{packer}', cwd=out)
        for f in objects:
            os.rename(f'{out}/{f}', f'{out}/{f}.aside')
        for packer in packers:
            os.rename(f'{out}/by-{packer}', f'{out}/prog.dwp')
            check()
            self.assertEqual(figures(f'{out}/prog')['lacking'], 0)
            os.unlink(f'{out}/prog.dwp')
        # Without either there are the lines of the program's own table.
        self.assertEqual(figures(f'{out}/prog')['lacking'], len(objects))
        self.assertGreater(sum(p[0][2] > 0 for p in ours(f'{out}/prog', addresses)), len(addresses) * 0.3)

    def test_split(self):
        for cc, version in (('gcc', 4), ('gcc', 5), ('clang', 4), ('clang', 5), ('g++', 4), ('g++', 5), ('clang++', 5)):
            with self.subTest(cc, version=version):
                self.compare_split(f'split-{cc}{version}', cc, ('-O2', f'-gdwarf-{version}'), ('shop.cc',) if '+' in cc else ('main.c', 'area.c'))

    def test_split_type_units(self):
        # Of gcc each has a section of its own in the object, of the same name as that of the code's.
        for cc in ('g++', 'clang++'):
            for version in (4, 5):
                with self.subTest(cc, version=version):
                    self.compare_split(f'types-{cc}{version}', cc, ('-O2', f'-gdwarf-{version}', '-fdebug-types-section'), ('shop.cc', 'stall.cc'))

    def test_split_of_another_build(self):
        # An object that was compiled again is not the one that the program was linked from.
        out = f'{self.dir}/stale.d'
        os.mkdir(out)
        shutil.copy(f'{self.dir}/shapes.h', out)
        for more in ('', 'int later(int x) { return area(x, 1); }\n'):
            with open(f'{out}/area.c', 'w') as f:
                f.write(AREA_C + more)
            run('clang', '-gsplit-dwarf', '-O2', '-g', '-c', 'area.c', f'{self.dir}/main.c', cwd=out)
            if not more:
                run('clang', '-o', 'prog', 'area.o', 'main.o', cwd=out)
        self.assertEqual(figures(f'{out}/prog')['lacking'], 1)
        self.assertTrue(any(p[-2:] == ['deep6', 'main'] for p in self.functions(f'{out}/prog')))

    def test_cxx(self):
        for name, cc, *flags in (('gxx5', 'g++', '-O2', '-g'), ('gxx4', 'g++', '-O2', '-gdwarf-4'), ('gxxlto', 'g++', '-O2', '-g', '-flto'), ('gxxtypes', 'g++', '-O2', '-g', '-fdebug-types-section'),
                                 ('clangxx5', 'clang++', '-O2', '-gdwarf-5'), ('clangxx4', 'clang++', '-O1', '-gdwarf-4')):
            with self.subTest(name):
                self.compare(self.build(name, *flags, cc=cc, sources=('shop.cc',)))

    def test_rust(self):
        rustc = shutil.which('rustc')
        if not rustc:
            self.skipTest('no rustc')
        run(rustc, '-O', '-g', '-o', f'{self.dir}/till-rs', 'till.rs', cwd=self.dir)
        self.compare(f'{self.dir}/till-rs')

    def build_go(self, go, *flags):
        if not os.path.exists(go):
            self.skipTest(f'no {go}')
        run(go, 'build', *flags, '-o', 'till-go', 'till.go', cwd=self.dir, env=e2e.go_env())
        return f'{self.dir}/till-go'

    def test_go(self):
        self.compare(self.build_go(e2e.GO))

    def check_stripped_go(self, go, *flags):
        """What Go's own tables tell is what DWARF tells, but for columns, names that only the linker gives, and the directory of no file."""
        def plain(chain):
            return [(re.sub(r'\[.*\]', '[]', name.removesuffix('.abi0')), re.sub(r'^(\./)*<', '<', file), line) for name, file, line, _ in chain]

        whole, bare = self.build_go(go, *flags), f'{self.dir}/till-go-bare'
        run('strip', '-o', bare, whole)
        addresses = addresses_of(whole)
        told = [(x, plain(p), plain(q)) for x, p, q in zip(addresses, ours(bare, addresses), theirs(whole, addresses)) if q[0][2]]
        wrong = [(hex(x), p, q) for x, p, q in told if p != q]
        self.assertGreater(len(told), len(addresses) * 0.9)
        self.assertGreaterEqual(1 - len(wrong) / len(told), 0.999, wrong[:5])
        self.assertGreater(sum(len(p) > 1 for _, p, _ in told), 200)

    def test_stripped_go(self):
        self.check_stripped_go(e2e.GO)

    def test_stripped_newer_go(self):
        self.check_stripped_go('/usr/local/go/bin/go', '-buildmode=pie')

    def ocaml_calls(self, path):
        """Addresses in call instructions of OCaml's own functions that return through a frametable, with their functions."""
        calls, function, target = [], '', None
        for line in run('objdump', '-d', '--no-show-raw-insn', path).stdout.splitlines():
            head, insn = re.match(r'[0-9a-f]+ <(.*)>:', line), re.match(r'\s+([0-9a-f]+):\s+(\S+)(.*)', line)
            if head:
                function, target = head[1], None
            elif insn:
                # Calls of the collector and of bounds' errors come behind the code; the line program does not tell their places.
                # Those that neither allocate nor raise have no descriptor.
                if target is not None and not re.search('caml_call_gc|caml_alloc|bound_error|caml_initialize|caml_modify|realloc_stack', target) and re.match('caml[A-Z]', function):
                    calls.append((int(insn[1], 16) - 1, function))
                target = insn[3] if insn[2] == 'call' else None
        return calls

    def check_ocaml(self, ocamlopt):
        whole, bare = f'{self.dir}/work-ml', f'{self.dir}/work-ml-bare'
        run(ocamlopt, '-g', '-o', whole, 'work.ml', cwd=self.dir)
        run('strip', '-o', bare, whole)
        calls = self.ocaml_calls(whole)
        addresses = [a for a, _ in calls]
        a, b = ours(bare, addresses), theirs(whole, addresses)
        known = [(hex(x), p, q) for x, p, q in zip(addresses, a, b) if p[0][2]]
        self.assertGreater(len(known), len(calls) * 0.6)
        wrong = [(x, p, q) for x, p, q in known if p[0][2] != q[0][2] or os.path.basename(p[0][1]) != os.path.basename(q[0][1])]
        self.assertLess(len(wrong), len(known) * 0.01, wrong[:5])
        # Full module paths and inlined calls, in the stripped program and in the whole one.
        line = {mark: i for i, text in enumerate(WORK_ML.splitlines(), 1) for mark in re.findall(r'\(\* (.*) \*\)', text)}
        for path in bare, whole:
            chains = [[place[:3] for place in chain] for chain in ours(path, [x for x, f in calls if '__hot_' in f or '.hot_' in f])]
            self.assertIn([('Work.Inner.twice', 'work.ml', line['call in twice']), ('Work.hot', 'work.ml', line['call of twice'])], chains)
            self.assertIn([('Work.hot', 'work.ml', line['call of build'])], chains)
            inner = [chain[-1] for chain in ours(path, [x for x, f in calls if 'camlWork' in f])]
            self.assertIn('Work.Inner.build.go', {place[0] for place in inner})
            self.assertIn(line['call in go'], {place[2] for place in inner if place[0] == 'Work.Inner.build.go'})
            # Modules of libraries as users write them.
            library = {place[0] for chain in ours(path, [x for x, f in calls if 'camlStdlib' in f]) for place in chain}
            self.assertIn('Stdlib.List.iter', library)
            self.assertIn('Stdlib.Sys (init)', library)
            # What no frametable names keeps its symbol, which is made readable when it is shown.
            self.assertEqual([f for f in library if '__' in f and not f.startswith('caml')], [])
        # Where there is a line program leaves have their lines as well, not calls alone.
        starts = [int(m[1], 16) for m in re.finditer(r'([0-9a-f]+) [Tt] caml(?:Stdlib__List|Work)(?:__|\.)\w+_\d+$', run('nm', whole).stdout, re.M)]
        self.assertGreater(len(starts), 50)
        a, b = ours(whole, starts), theirs(whole, starts)
        self.assertEqual([(p[0][2], q[0][2]) for p, q in zip(a, b) if p[0][2] != q[0][2]], [])
        self.assertGreater(sum(p[0][2] > 0 for p in a), len(a) * 0.9)

    def test_ocaml_4(self):
        if not shutil.which('ocamlopt'):
            self.skipTest('no ocamlopt')
        self.check_ocaml('ocamlopt')

    def test_ocaml_5(self):
        ocamlopt = sonde_ocaml.built()
        if not ocamlopt:
            self.skipTest('no OCaml 5.3: python3 tests/e2e/sonde_ocaml.py builds it')
        self.check_ocaml(ocamlopt)


SERVED_C = r'''
static volatile unsigned long sink;
static inline __attribute__((always_inline)) void innermost(int n)
{
	for (int i = 0; i < n; i++)
		sink += i * sink + 1; /* hot */
}
static inline __attribute__((always_inline)) void middle(int n)
{
	innermost(n * 2); /* call of innermost */
}
__attribute__((noipa)) static void touch(void) {} /* a call makes gcc keep a frame */
__attribute__((noinline)) void outer(void)
{
	middle(5000); /* call of middle */
	touch();
}
int main(int argc, char **argv)
{
	while (argc)
		outer(); /* call of outer */
	return argv[0][0];
}
'''


@e2e.needs_kernel
class Served(unittest.TestCase):
    """The whole way: sampled, named, served, scraped, stored and given out again."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = e2e.exporter('--profile.max-overhead=0')
        cls.program = e2e.compile_c(SERVED_C, '-O1', '-g', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer', name='served')
        cls.source = cls.program + '.c'
        cls.work = e2e.Workload(cls.program)
        cls.line = {}
        for i, text in enumerate(SERVED_C.splitlines(), 1):
            for mark in ('hot', 'call of innermost', 'call of middle', 'call of outer', 'void outer'):
                if mark in text:
                    cls.line[mark] = i
        try:
            cls.wait_lines(cls.work.pid)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.work.__exit__()
        cls.daemon.__exit__(None, None, None)
        shutil.rmtree(os.path.dirname(cls.program), ignore_errors=True)

    @classmethod
    def wait_lines(cls, pid):
        """The places of a window in which the program has names: on a busy machine its file's turn may come late."""
        def window():
            p = e2e.Pprof(cls.daemon.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={pid}&symbolize=lines').body)
            return p.places if 'innermost' in p.functions() else None
        return e2e.wait_for('lines', window, interval=0)

    def query(self, more):
        r = self.daemon.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={self.work.pid}&{more}')
        self.assertEqual(r.status, 200, r.text[:200])
        return r.body

    def check(self, p):
        """The chain of the hot line, and the flags of its mapping."""
        chains = [[place[:3] for place in chain] for chain in p.places]
        want = [('innermost', self.source, self.line['hot']), ('middle', self.source, self.line['call of innermost']),
                ('outer', self.source, self.line['call of middle'])]
        self.assertIn(want, chains)
        self.assertIn([('main', self.source, self.line['call of outer'])], chains)
        self.assertIn(self.line['void outer'], [place[4] for chain in p.places for place in chain if place[0] == 'outer'])
        self.assertTrue(any(place[3] > 0 for chain in p.places for place in chain))
        self.assertEqual([m['has'] for m in p.mappings.values() if m['file'] == self.program], [[True] * 4])

    def test_modes(self):
        p = e2e.Pprof(self.query('symbolize=lines'))
        self.check(p)
        self.assertTrue(all(m['has'][0] for m in p.mappings.values()))
        p = e2e.Pprof(self.query('symbolize=functions'))
        self.assertEqual({len(chain) for chain in p.places}, {1})
        self.assertEqual({place[1:] for chain in p.places for place in chain}, {('', 0, 0, 0)})
        self.assertEqual([m['has'] for m in p.mappings.values() if m['file'] == self.program], [[True, False, False, False]])
        p = e2e.Pprof(self.query('symbolize=none'))
        self.assertFalse({'innermost', 'middle', 'outer', 'main'} & {place[0] for chain in p.places for place in chain})
        self.assertEqual({tuple(m['has']) for m in p.mappings.values()}, {(False,) * 4})

    def test_compressed(self):
        # What the parser says of a file before and after it read compressed sections must agree, or the file has no names.
        program = e2e.compile_c(SERVED_C, '-O1', '-g', '-gz', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer', name='packed')
        self.addCleanup(shutil.rmtree, os.path.dirname(program), ignore_errors=True)
        self.assertIn('ZLIB', run('readelf', '-tW', program).stdout)
        with e2e.Workload(program) as w:
            places = self.wait_lines(w.pid)
        self.assertIn(('innermost', f'{program}.c', self.line['hot']), [place[:3] for chain in places for place in chain])

    def test_texts(self):
        folded = self.query('symbolize=lines&format=folded').decode()
        self.assertIn('main;outer;middle;innermost ', folded)
        self.assertIn('innermost', self.query('symbolize=lines&debug=1').decode())
        if not os.path.exists(e2e.GO):
            self.skipTest('no go')
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f:
            f.write(self.query('symbolize=lines'))
            f.flush()
            self.assertIn(f'served.c:{self.line["hot"]}', e2e.go_pprof('-top', '-lines', f.name).stdout)
            shown = e2e.go_pprof('-list=outer', f.name).stdout
            self.assertIn('call of middle', shown)
            self.assertRegex(shown, rf'ms +{self.line["call of middle"]}:\tmiddle')

    def test_scraped(self):
        config = f'''
scrape_configs:
  - job_name: node
    scrape_interval: 1s
    static_configs: [{{targets: ["127.0.0.1:{self.daemon.port}"]}}]
    params: {{pid: ["{self.work.pid}"]}}
'''
        with e2e.scraper(config) as s:
            def stored():
                r = s.get('/api/v1/profile?seconds=3600&query=' + urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{job="node"}'))
                p = e2e.Pprof(r.body) if r.status == 200 else None
                return p if p and any(place[0] == 'innermost' for chain in p.places for place in chain) else None
            self.check(e2e.wait_for('a stored profile', stored))


if __name__ == '__main__':
    unittest.main()
