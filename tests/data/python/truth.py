"""What an interpreter says of its code objects and of the stack that it stops in, for tests/unit/test_interp_python.c. Python 3.6 and later.

C object first-line =name =file      a code object (text in hexadecimal)
L from to line                       its instructions in that range, in units of 2 bytes, have that line; 0: none
G object                             a code object that is gone
.
F line =name                         a frame, leaf first
"""
import dis
import gc
import sys
import types

MAX_BYTES = 1024
MODULES = ('argparse asyncio collections dataclasses decimal email.message enum inspect json logging pickle tokenize typing unittest '
           'xml.dom.minidom').split()


def text(s):
    raw = s.encode('utf-8', 'surrogatepass')
    kept, whole = b'', True
    for c in s:
        c = '\ufffd' if c == '\0' or '\ud800' <= c <= '\udfff' else c
        if len(kept) + 4 + 3 > MAX_BYTES:
            whole = False
            break
        kept += c.encode()
    return '=' + (kept if whole else kept + '…'.encode()).hex()


def ranges(code):
    """(from, to, line), in bytes."""
    n = len(code.co_code)
    if hasattr(code, 'co_lines'):
        return [(start, end, line or 0) for start, end, line in code.co_lines() if end > start]
    starts = list(dis.findlinestarts(code))
    # Whatever lies before the first start has the line of the function.
    starts = starts if starts and starts[0][0] == 0 else [(0, code.co_firstlineno)] + starts
    return [(at, starts[i + 1][0] if i + 1 < len(starts) else n, line) for i, (at, line) in enumerate(starts)]


def describe(code, out):
    name = getattr(code, 'co_qualname', code.co_name)
    out.append('C %x %d %s %s' % (id(code), code.co_firstlineno, text(name), text(code.co_filename)))
    out.extend('L %d %d %d' % (a // 2, b // 2, max(line, 0)) for a, b, line in ranges(code))


def add(code, codes):
    if id(code) not in codes:
        codes[id(code)] = code
        for c in code.co_consts:
            if isinstance(c, types.CodeType):
                add(c, codes)


ODD = '''
def é(): return 1
def 漢字(a): return [x for x in a]
def 𐐀𐐁(a):
    class 𐐂:
        def method(self): return (lambda: self)()
    return 𐐂
def %s(): pass
def steps(a):
    b = (a +
         1)


    try:
        return {
            "x": b,
            "y": [c
                  for c in a
                  if c],
        }
    finally:
        with a:
            pass
''' % ('a' * 3000)


def odd():
    yield compile(ODD, 'odd \u00e9.py', 'exec')
    yield compile(ODD, '/漢字/𐐀.py', 'exec')
    yield compile('def far(a):\n' + '    a += 1\n' * 3000, 'long.py', 'exec')
    yield compile('def wide(a):\n    x = 1\n' + '\n' * 5000 + '    return (x,\n' + '\n' * 700 + '    a)\n', 'wide.py', 'exec')
    yield compile('x = [' + ','.join('a%d' % i for i in range(2000)) + ']', 'one_line.py', 'exec')


def leaf(out):
    frame = sys._getframe()
    while frame:
        # The leaf has gone on by the time it is read: it stops in the line below this loop.
        code = frame.f_code
        line = STOPS_AT if code is leaf.__code__ else frame.f_lineno
        out.append('F %d %s' % (line, text(getattr(code, 'co_qualname', code.co_name))))
        frame = frame.f_back
    sys.stdout.write('\n'.join(out) + '\n.\n')
    sys.stdout.flush()
    stop(); return 0  # STOPS HERE


def generator(out):
    yield leaf(out)


class Middle:
    def method(self, out):
        return sorted([3], key=lambda _: next(generator(out)))


def main():
    global STOPS_AT, stop
    stop = __import__('signal').pause
    for name in MODULES:
        try:
            __import__(name)
        except ImportError:  # of a later version, or of another package
            pass
    codes = {}
    for code in odd():
        add(code, codes)
    for f in gc.get_objects():
        if isinstance(f, types.FunctionType):
            add(f.__code__, codes)
    add(main.__code__, codes)
    out = ['ready']
    for code in codes.values():
        describe(code, out)
    gone = [compile('def gone%d(a): return %s' % (i, '+'.join(['a'] * (1 + i % 90))), 'gone.py', 'exec').co_consts[0] for i in range(400)]
    ids = [id(c) for c in gone]
    del gone
    out.extend('G %x' % i for i in ids)
    out.append('.')
    STOPS_AT = leaf.__code__.co_firstlineno + 10
    Middle().method(out)


main()
