"""A pprof endpoint whose answers are known to the last nanosecond: what was served can be compared with what is stored."""
import gzip
import http.server
import threading
import time
import urllib.parse


def _varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def _int(field, v):
    return _varint(field << 3) + _varint(v) if v else b''


def _bytes(field, b):
    return _varint(field << 3 | 2) + _varint(len(b)) + b


def encode(types, period_type, samples, time_ns, duration_ns, period=1, path='/usr/bin/app', build_id='', source='/src/app.c', start=0, first_line=0):
    """types, period_type: (type, unit) pairs. samples: (stack leaf first, values, labels); in a stack a text is a function, a number the
    offset in the file of code without a name. `path` of the binary, with this build id, loaded at `start`. Functions begin at `first_line` of `source`, where it is known; all code is of line 10. A label is a text, or a number and its unit."""
    strings, functions = {'': 0}, {}

    def s(text):
        return strings.setdefault(text, len(strings))

    def label(k, v):
        return _int(1, s(k)) + (_int(3, v[0]) + _int(4, s(v[1])) if isinstance(v, tuple) else _int(2, s(v)))

    out = b''.join(_bytes(1, _int(1, s(t)) + _int(2, s(u))) for t, u in types)
    for stack, values, labels in samples:
        ids = b''.join(_varint(functions.setdefault(f, len(functions) + 1)) for f in stack)
        out += _bytes(2, _bytes(1, ids) + _bytes(2, b''.join(map(_varint, values)))
                      + b''.join(_bytes(3, label(k, v)) for k, v in labels.items()))
    out += _bytes(3, _int(1, 1) + (_int(2, start) + _int(3, start + (1 << 20)) if start else b'') + _int(5, s(path)) + _int(6, s(build_id)) + _int(7, 1))
    for name, i in functions.items():
        if isinstance(name, int):
            out += _bytes(4, _int(1, i) + _int(2, 1) + _int(3, start + name))
            continue
        out += _bytes(4, _int(1, i) + _int(2, 1) + _bytes(4, _int(1, i) + _int(2, 10)))
        out += _bytes(5, _int(1, i) + _int(2, s(name)) + _int(4, s(source)) + _int(5, first_line))
    out += _int(9, time_ns) + _int(10, duration_ns)
    out += _bytes(11, _int(1, s(period_type[0])) + _int(2, s(period_type[1]))) + _int(12, period)
    out += b''.join(_bytes(6, t.encode()) for t in strings)
    return gzip.compress(out, 1)


EVIL = '<img src=x onerror="document.title=\'pwned\'">'
CPU_SAMPLES = [
    (['leaf', 'work', 'main'], [3, 30000000], {'thread_name': 'main'}),
    (['idle', 'main'], [1, 10000000], {'thread_name': 'gc'}),
    ([EVIL, 'main'], [1, 5000000], {'thread_name': 'main'}),
]
CPU_TOTAL = 45000000
GOROUTINES = [(['park', 'run'], [7], {}), (['serve', 'run'], [2], {})]


# A scrape configuration that asks one at `address` each second.
GO_JOB = """
scrape_configs:
  - job_name: app
    scrape_interval: 1s
    scrape_timeout: 60s
    static_configs:
      - targets: ['{address}']
    profiling_config:
      preset: go
"""


class PprofTarget:
    """`served` counts the CPU profiles sent; each is one second long and holds CPU_SAMPLES. 404 for unknown types, 503 for all while `fails`."""

    def __init__(self):
        target = self
        self.served = 0
        self.fails = False
        self.stopped = False
        self.last_end_ns = 0
        self.lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                now = time.time_ns()
                if target.stopped:  # on a connection that was kept
                    self.close_connection = True
                    return
                if target.fails:
                    self.send_error(503)
                    return
                if path == '/debug/pprof/profile':
                    with target.lock:
                        target.served += 1
                    body = encode([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds'),
                                  CPU_SAMPLES, now - 10**9, 10**9, 10000000)
                elif path == '/debug/pprof/goroutine':
                    body = encode([('goroutine', 'count')], ('goroutine', 'count'), GOROUTINES, now, 0)
                else:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header('Content-Type', 'application/octet-stream')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.address = f'127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stopped = True
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
