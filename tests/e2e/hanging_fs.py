"""A file system that stops answering: FUSE by raw /dev/fuse, one directory with one program in it.

    hanging_fs.py MOUNT_POINT PROGRAM

serves PROGRAM as MOUNT_POINT/program until it is stopped (SIGSTOP: it does not answer) or killed. Attributes are valid for no time, so each look at the file asks.
"""
import ctypes
import os
import stat
import struct
import sys

ROOT, FILE = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = \
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 29, 34, 36, 42
ENOENT, ENOSYS = 2, 38
IN_HEADER = struct.Struct('<IIQQIIIHH')


def attr(ino, size):
    mode = stat.S_IFDIR | 0o755 if ino == ROOT else stat.S_IFREG | 0o755
    return struct.pack('<QQQQQQIIIIIIIIII', ino, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(op, node, body, data):
    """The reply's bytes, or a negative errno; None where no reply is expected."""
    if op == INIT:
        major, minor, readahead = struct.unpack_from('<III', body)
        return struct.pack('<IIIIHHIIHHI28x', 7, min(minor, 31), readahead, 0, 12, 10, 1 << 17, 1, 0, 0, 0)
    if op == LOOKUP:
        if body.rstrip(b'\0') != b'program':
            return -ENOENT
        return struct.pack('<QQQQII', FILE, 0, 3600, 0, 0, 0) + attr(FILE, len(data))
    if op == GETATTR:
        return struct.pack('<QII', 0, 0, 0) + attr(node, 0 if node == ROOT else len(data))
    if op in (OPEN, OPENDIR):
        return struct.pack('<QII', 0, 2 if op == OPEN else 0, 0)  # FOPEN_KEEP_CACHE
    if op == READ:
        _, offset, size = struct.unpack_from('<QQI', body)
        return data[offset:offset + size]
    if op == STATFS:
        return struct.pack('<QQQQQIIII24x', 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
    if op in (RELEASE, RELEASEDIR, ACCESS):
        return b''
    if op in (FORGET, BATCH_FORGET, INTERRUPT):
        return None
    return -ENOSYS


def main(point, program):
    with open(program, 'rb') as f:
        data = f.read()
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={fd},rootmode=40755,user_id=0,group_id=0,allow_other'
    if libc.mount(b'hanging', point.encode(), b'fuse.hanging', 0, options.encode()):
        raise OSError(ctypes.get_errno(), 'mount')
    print('serving', flush=True)
    while True:
        try:
            request = os.read(fd, 1 << 18)
        except OSError:  # unmounted
            return
        _, op, unique, node, _, _, _, _, _ = IN_HEADER.unpack_from(request)
        r = answer(op, node, request[IN_HEADER.size:], data)
        if r is None:
            continue
        error, out = (r, b'') if isinstance(r, int) else (0, r)
        try:
            os.write(fd, struct.pack('<IiQ', 16 + len(out), error, unique) + out)
        except OSError:
            pass  # the request was interrupted


if __name__ == '__main__':
    main(*sys.argv[1:3])
