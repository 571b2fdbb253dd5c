"""A program whose calls tests/e2e/test_unwind_python.py knows. All time is spent in spin(), and in C code that the line which ends in `# leaf` calls.

Runs on CPython 3.6 and newer."""
import asyncio
import collections
import functools
import operator
import pyexpat
import sys
import threading
import zlib

NUMBERS = list(range(8))
DOCUMENT = '<a>' + '<b/>' * 20 + '</a>'
BYTES = bytes(range(256)) * 400


def spin():
    x = 1
    for i in range(2000):
        x = (x * 31 + i) & 0xffff
    return x


def plain():
    spin()


def recursive(n):
    return spin() if n == 0 else recursive(n - 1)


def key(x):
    spin()
    return -x


def sort():
    sorted(NUMBERS, key=key)  # C between


def mapped():
    collections.deque(map(key, NUMBERS))


def reduced(a, b):
    spin()
    return a


def reduce():
    functools.reduce(reduced, NUMBERS)


def sort_of_sort():
    def nested_key(x):
        sort()
        return x
    sorted(NUMBERS[:2], key=nested_key)


def numbers():
    for n in NUMBERS:
        spin()
        yield n


def generator():
    for n in numbers():
        spin()


def outer_numbers():
    yield from numbers()


def delegated():
    list(outer_numbers())


class Thing:
    def __init__(self, n):
        self.n = n
        self.method()

    def method(self):
        spin()

    @property
    def value(self):
        spin()
        return self.n

    def __lt__(self, other):
        spin()
        return self.n < other.n

    @staticmethod
    def static():
        spin()

    def __call__(self):
        spin()


def things():
    a = Thing(1)
    b = Thing(2)
    sorted([a, b])
    a.value
    Thing.static()
    functools.partial(b)()
    operator.lt(a, b)


def lambdas():
    (lambda: spin())()


def wrapped():
    spin()


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)
    return wrapper


wrapped_twice = decorated(decorated(wrapped))


def decorators():
    wrapped_twice()


async def inner():
    spin()


async def middle():
    await inner()


def coroutine():
    try:
        middle().send(None)
    except StopIteration:
        pass


async def sleeper():
    spin()
    await asyncio.sleep(0)
    spin()


async def gathered():
    await asyncio.gather(sleeper(), sleeper())


def event_loop():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(gathered())
    loop.close()


def element(name, attributes):
    spin()


def parse():
    parser = pyexpat.ParserCreate()
    parser.StartElementHandler = element
    parser.Parse(DOCUMENT, True)


def compress():
    zlib.compress(BYTES, 9)  # leaf


def raises():
    spin()
    raise KeyError(spin())


def exceptions():
    try:
        raises()
    except KeyError:
        spin()
    finally:
        spin()


def evaluated():
    eval('spin()')


def churned(mark, number):
    """Code objects that live for a moment: each calls the mark of its number, so that a name of another one shows."""
    name = 'churn_%d_%d' % (mark, number)
    scope = {}
    exec(compile('def %s(f):\n%s    f()\n' % (name, '\n' * (number % 50)), '<churn %d %d>' % (mark, number), 'exec'), scope)
    scope[name](MARKS[mark])


def mark_0():
    spin()


def mark_1():
    spin()


def mark_2():
    spin()


def mark_3():
    spin()


MARKS = (mark_0, mark_1, mark_2, mark_3)
counter = [0]


def churn():
    for _ in range(4):
        counter[0] += 1
        churned(counter[0] % 4, counter[0])


STORIES = (plain, sort, mapped, reduce, sort_of_sort, generator, delegated, things, lambdas, decorators, coroutine, event_loop, parse, compress, exceptions,
           evaluated, churn)


def rounds():
    while True:
        for story in STORIES:
            story()
        recursive(60)


def worker():
    rounds()


def main():
    if 'threads' in sys.argv:
        threading.Thread(target=worker, daemon=True).start()
    rounds()


if __name__ == '__main__':
    main()
