"""Calls through code of extension modules, which tests/e2e/test_python_extensions.py knows. The arguments: the module, and a file to be made when it is there."""
import sys

NUMBERS = list(range(8))


def spin():
    x = 1
    for i in range(2000):
        x = (x * 31 + i) & 0xffff
    return x


def called_back(x=0):
    spin()
    return x


def with_numpy():
    import numpy
    each = numpy.frompyfunc(called_back, 1, 1)
    numbers = numpy.random.default_rng(1).random(20000)

    def vectorized():
        each(NUMBERS)

    def sorting():
        numbers.argsort(kind='heapsort')  # a method: functions of numpy are Python's
    return vectorized, sorting


def with_greenlet():
    import greenlet

    def switched():
        while True:
            spin()
            back.switch()

    back = greenlet.getcurrent()
    green = greenlet.greenlet(switched)

    def switching():
        for _ in range(10):
            green.switch()
            spin()

    def deep(n):
        if n:
            deep(n - 1)
        else:
            switching()
    return switching, lambda: deep(20)


def with_cython():
    import sonde_cython

    def compiled():
        sonde_cython.through(called_back)
    return (compiled,)


def main():
    stories = {'numpy': with_numpy, 'greenlet': with_greenlet, 'cython': with_cython}[sys.argv[1]]()
    open(sys.argv[2], 'w').close()  # the modules are imported
    while True:
        for story in stories:
            story()


if __name__ == '__main__':
    main()
