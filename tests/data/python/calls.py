"""Runs for ever through calls of each kind, in two threads, for tests/unit/test_unwind_python.c, which knows who calls whom. Python 3.6 and later."""
import sys
import threading
import zlib

DATA = bytes(range(256)) * 100


def leaf(n):
    x = 0
    for i in range(40):
        x += i * n
    return x


def key(v):
    return leaf(v)


def by_sort():
    return sorted([3, 1, 2], key=key)


def mapped(v):
    return leaf(v)


def by_map():
    return list(map(mapped, (1, 2, 3)))


def gen(n):
    for i in range(n):
        yield leaf(i)


def by_sum():
    return sum(gen(3))


def by_for():
    x = 0
    for v in gen(3):
        x += v
    return x


class Thing:
    def __init__(self, n):
        self.n = init_work(n)


def init_work(n):
    return leaf(n)


def by_new():
    return Thing(3).n


def deep(n):
    return deep(n - 1) if n else leaf(n)


def by_deep():
    return deep(300)


def nested(n):
    return sorted([n], key=lower) if n > -5 else leaf(n)


def lower(v):
    return max([v - 1], key=nested)


def by_nested():
    return lower(0)


def by_zlib():
    return zlib.crc32(zlib.compress(DATA, 1))


def loop():
    while True:
        for f in by_sort, by_map, by_sum, by_for, by_new, by_deep, by_nested, by_zlib:
            f()


def work():
    loop()


threading.Thread(target=work, daemon=True).start()
sys.stdout.write('ready\n')
sys.stdout.flush()
loop()
