"""Programs with debug information in files that they, or their debug files, name."""
import os
import subprocess

FLAGS = ('-O1', '-g', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer')
# Inlined alone, so that only debug information has its name; what two programs have of it dwz moves to a file of its own.
SHARED_H = r'''
static volatile unsigned long sink;
struct shared { int first, second, third, fourth; };
__attribute__((always_inline)) static inline void burn_shared(struct shared *s, int n) { for (int i = 0; i < n; i++) sink += i * sink + s->first; }
__attribute__((always_inline)) static inline void burn_often(struct shared *s) { s->second++; burn_shared(s, 10000); }
'''
SHARED_C = r'''
#include "shared.h"
static __attribute__((noinline)) void burn_hidden(struct shared *s) { burn_often(s); }
int main(int argc, char **argv) { struct shared s = {argc}; for (;;) burn_hidden(&s); }
'''


def run(*cmd):
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL)


def build_id(path):
    out = subprocess.run(['readelf', '-n', path], capture_output=True, text=True, check=True).stdout
    return out.split('Build ID: ')[1].split()[0]


def split(prog, debug):
    """Moves the debug information of prog into a file of its own and strips it."""
    os.makedirs(os.path.dirname(debug), exist_ok=True)
    run('objcopy', '--only-keep-debug', prog, debug)
    run('strip', '--strip-all', prog)


def build(top, name, salt, *flags):
    """A program in `top`; `salt` keeps its content apart from those of other tests."""
    with open(f'{top}/shared.h', 'w') as f:
        f.write(SHARED_H)
    with open(f'{top}/{name}.c', 'w') as f:
        f.write(f'const char salt[] = "{salt}{name}";\n' + SHARED_C)
    subprocess.run(['gcc', *FLAGS, *flags, '-o', name, f'{name}.c'], cwd=top, check=True)
    return f'{top}/{name}'


def deduplicated(top, link, salt):
    """A stripped program, its debug file, and what that names by `link`."""
    progs = [build(top, name, salt, '-static') for name in ('one', 'two')]
    for prog in progs:
        split(prog, prog + '.debug')
    run('dwz', '-m', f'{top}/common', '-M', link, *(prog + '.debug' for prog in progs))
    return progs[0], progs[0] + '.debug', f'{top}/common'
