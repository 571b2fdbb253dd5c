"""Names that lie outside a stripped program: inside it compressed, beside it, in the build-id directory, of its own root too."""
import http.server
import os
import shutil
import socket
import tempfile
import threading
import time
import unittest

import linked_files
import sonde_e2e as e2e
from linked_files import FLAGS, build_id, run, split

BESIDE_OTHERS = True

# A static function, whose name no dynamic symbol table has.
BURN_C = r'''
static volatile unsigned long sink;
static __attribute__((noinline)) void burn_hidden(void) { for (int i = 0; i < 10000; i++) sink += i * sink + 1; }
int main(void) { for (;;) burn_hidden(); }
'''


@e2e.needs_kernel
class DebugFiles(e2e.WithExporter):
    def program(self, name, *flags):
        # Its own salt, so that no two tests share a content.
        prog = e2e.compile_c(f'const char salt_{name.replace("-", "_")}[] = "{name}";\n' + BURN_C, *FLAGS, *flags, name=name)
        os.chmod(os.path.dirname(prog), 0o755)
        self.addCleanup(shutil.rmtree, os.path.dirname(prog), ignore_errors=True)
        return prog

    def share(self, *cmd):
        """Of the samples of that command: those in burn_hidden."""
        with e2e.Workload(*cmd) as w:
            return self.share_of(w.pid)

    def share_of(self, pid):
        def window():
            p = e2e.Pprof(self.daemon.get(f'/debug/pprof/profile?seconds=2&hz=99&pid={pid}').body)
            return p if p.samples else None
        p = e2e.wait_for('samples', window, interval=0)
        return sum(v[-1] for stack, v, _ in p.samples if 'burn_hidden' in stack) / p.total()

    def assert_named(self, *cmd):
        """An answer waits two seconds for names; a busy machine may take longer to make them."""
        with e2e.Workload(*cmd) as w:
            e2e.wait_for('its name', lambda: self.share_of(w.pid) > 0.9, interval=0)

    def counted(self, result):
        return self.daemon.metrics()[f'sonde_debug_files_total{{result="{result}"}}']

    def test_stripped_has_no_name(self):
        prog = self.program('bare')
        run('strip', '--strip-all', prog)
        self.assertEqual(self.share(prog), 0)

    def test_mini_debug_info(self):
        prog = self.program('mini')
        d = os.path.dirname(prog)
        # As Fedora's find-debuginfo.sh makes it.
        run('objcopy', '-S', '--remove-section', '.gdb_index', '--remove-section', '.comment', '--keep-symbol', 'burn_hidden', prog, f'{d}/m')
        run('xz', '-9', f'{d}/m')
        run('strip', '--strip-all', prog)
        run('objcopy', '--add-section', f'.gnu_debugdata={d}/m.xz', prog)
        self.assert_named(prog)

    def test_damaged_mini_debug_info(self):
        prog = self.program('damaged')
        d = os.path.dirname(prog)
        with open(f'{d}/m', 'wb') as f:
            f.write(b'\xfd7zXZ\0' + bytes(range(256)) * 8)
        run('strip', '--strip-all', prog)
        run('objcopy', '--add-section', f'.gnu_debugdata={d}/m', prog)
        self.assertEqual(self.share(prog), 0)

    def test_debug_link_beside(self):
        for where in ('{d}/{n}.debug', '{d}/.debug/{n}.debug'):
            with self.subTest(where):
                prog = self.program('beside' if '.debug/' not in where else 'below')
                debug = where.format(d=os.path.dirname(prog), n=os.path.basename(prog))
                split(prog, debug)
                run('objcopy', f'--add-gnu-debuglink={debug}', prog)
                used = self.counted('used')
                self.assert_named(prog)
                self.assertGreater(self.counted('used'), used)

    def test_crc_decides_without_build_id(self):
        prog = self.program('crc', '-Wl,--build-id=none')
        debug = prog + '.debug'
        split(prog, debug)
        run('objcopy', f'--add-gnu-debuglink={debug}', prog)
        self.assert_named(prog)

    def test_wrong_crc_is_left_aside(self):
        prog = self.program('wrong-crc', '-Wl,--build-id=none')
        debug = prog + '.debug'
        split(prog, debug)
        run('objcopy', f'--add-gnu-debuglink={debug}', prog)
        with open(debug, 'ab') as f:
            f.write(b'another')
        mismatched = self.counted('mismatch')
        self.assertEqual(self.share(prog), 0)
        e2e.wait_for('the mismatch', lambda: self.counted('mismatch') > mismatched)

    def test_build_id_directory_of_its_own_root(self):
        prog = self.program('jail', '-static')
        root = os.path.dirname(prog)
        bid = build_id(prog)
        split(prog, f'{root}/usr/lib/debug/.build-id/{bid[:2]}/{bid[2:]}.debug')
        self.assert_named('chroot', root, '/jail')

    def test_another_build_id_is_left_aside(self):
        prog, other = self.program('own'), self.program('other')
        bid = build_id(prog)
        path = f'/usr/lib/debug/.build-id/{bid[:2]}/{bid[2:]}.debug'
        had = [p for p in ('/usr/lib/debug', '/usr/lib/debug/.build-id', os.path.dirname(path)) if not os.path.isdir(p)]
        split(other, path)
        self.addCleanup(lambda: [os.unlink(path)] + [os.rmdir(p) for p in reversed(had)])
        run('strip', '--strip-all', prog)
        mismatched = self.counted('mismatch')
        self.assertEqual(self.share(prog), 0)
        e2e.wait_for('the mismatch', lambda: self.counted('mismatch') > mismatched)

    def test_debug_file_that_comes_later(self):
        # A symbol file in the cache without one is made anew.
        prog = self.program('later')
        debug = os.path.dirname(prog) + '/aside'
        split(prog, debug)
        run('objcopy', f'--add-gnu-debuglink={debug}', prog)
        os.rename(debug, debug + '.hidden')
        with e2e.exporter(f'--symbols.cache-path={self.top}/later') as first, e2e.Workload(prog) as w:
            r = first.get(f'/debug/pprof/profile?seconds=1&hz=99&pid={w.pid}')
            self.assertNotIn('burn_hidden', e2e.Pprof(r.body).functions())
        os.rename(debug + '.hidden', debug)
        with e2e.exporter(f'--symbols.cache-path={self.top}/later') as second, e2e.Workload(prog) as w:
            e2e.wait_for('its name', lambda: 'burn_hidden' in e2e.Pprof(second.get(f'/debug/pprof/profile?seconds=1&hz=99&pid={w.pid}').body).functions())


class Debuginfod:
    """Debian's server on loopback, with the files of one directory."""

    def __init__(self, where):
        self.port = e2e.free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.work = e2e.Workload('debuginfod', '-p', str(self.port), '-d', ':memory:', '-t', '1', '-F', where)

    def __enter__(self):
        e2e.wait_for('debuginfod', self.answers)
        return self

    def answers(self):
        try:
            return e2e.http_get(self.url + '/metrics', timeout=5).status == 200
        except OSError:
            return False

    def has(self, bid):
        return e2e.http_get(f'{self.url}/buildid/{bid}/debuginfo', timeout=30).status == 200

    def __exit__(self, *exc):
        self.work.__exit__(*exc)


@e2e.needs_kernel
@unittest.skipUnless(shutil.which('debuginfod'), 'no debuginfod')
class FromServers(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='sonde-debuginfod.')
        os.chmod(self.top, 0o755)
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.n = 0

    def program(self):
        """A stripped program whose debug file only the server has."""
        prog = e2e.compile_c(f'const char salt[] = "{self.id()}{self.n}";\n' + BURN_C, *FLAGS, name='far')
        self.n += 1
        os.chmod(os.path.dirname(prog), 0o755)
        self.addCleanup(shutil.rmtree, os.path.dirname(prog), ignore_errors=True)
        bid = build_id(prog)
        split(prog, f'{self.top}/served/{bid}.debug')
        return prog, bid

    def functions(self, d, pid, more=''):
        return e2e.Pprof(d.get(f'/debug/pprof/profile?seconds=1&hz=99&pid={pid}{more}').body).functions()

    def result(self, d, result):
        return d.metrics()[f'sonde_debuginfod_requests_total{{result="{result}"}}']

    def test_found(self):
        prog, bid = self.program()
        with Debuginfod(f'{self.top}/served') as server:
            e2e.wait_for('the scan', lambda: server.has(bid))
            # The first server has nothing; for another path of its own it needs no slash.
            empty = f'{self.top}/empty'
            os.mkdir(empty)
            with Debuginfod(empty) as other, e2e.exporter(
                    f'--symbols.cache-path={self.top}/symbols', f'--symbols.debuginfod={other.url}/',
                    f'--symbols.debuginfod={server.url}') as d, e2e.Workload(prog) as w:
                e2e.wait_for('the name', lambda: 'burn_hidden' in self.functions(d, w.pid))
                self.assertEqual(self.result(d, 'found'), 1)
                # What is needed no more is gone: no descriptor of a file without a name is left.
                self.assertGreaterEqual(d.metrics()['sonde_debug_files_total{result="used"}'], 1)
        # The symbol file stays: no server is needed again.
        with e2e.exporter(f'--symbols.cache-path={self.top}/symbols', f'--symbols.debuginfod={server.url}') as d, e2e.Workload(prog) as w:
            e2e.wait_for('its name', lambda: 'burn_hidden' in self.functions(d, w.pid))
            self.assertEqual(self.result(d, 'found'), 0)

    def test_supplementary_file(self):
        # The debug file that names it stays at hand until it has come too.
        prog, debug, common = linked_files.deduplicated(self.top, '/gone/common', self.id())
        bid, other = build_id(prog), build_id(common)
        os.makedirs(f'{self.top}/served')
        os.rename(debug, f'{self.top}/served/{bid}.debug')
        os.rename(common, f'{self.top}/served/{other}.debug')
        with Debuginfod(f'{self.top}/served') as server:
            e2e.wait_for('the scan', lambda: server.has(bid) and server.has(other))
            with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod={server.url}') as d, e2e.Workload(prog) as w:
                e2e.wait_for('the name', lambda: 'burn_shared' in self.functions(d, w.pid, '&symbolize=lines'))
                self.assertEqual(self.result(d, 'found'), 2)

    def test_not_found_is_remembered(self):
        prog, bid = self.program()
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        # Another content with the same build id: a file of its own to the exporter.
        again = os.path.dirname(prog) + '/again'
        shutil.copy(prog, again)
        run('objcopy', '--add-symbol', 'extra=.text:0,global', again)
        with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod=http://127.0.0.1:{server.server_port}') as d:
            with e2e.Workload(prog) as w:
                e2e.wait_for('the question', lambda: self.functions(d, w.pid) and f'/buildid/{bid}/debuginfo' in asked)
            with e2e.Workload(again) as w:
                e2e.wait_for('no question', lambda: self.functions(d, w.pid) and self.result(d, 'asked_lately'))
        self.assertEqual(asked.count(f'/buildid/{bid}/debuginfo'), 1)

    def test_failures(self):
        prog, bid = self.program()
        with Debuginfod(f'{self.top}/served') as server:
            e2e.wait_for('the scan', lambda: server.has(bid))
            with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod={server.url}',
                              '--symbols.debuginfod-max-bytes=1KB') as d, e2e.Workload(prog) as w:
                e2e.wait_for('too large', lambda: self.functions(d, w.pid) and self.result(d, 'too_large'))
        with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod={server.url}') as d, e2e.Workload(prog) as w:
            e2e.wait_for('no server', lambda: self.functions(d, w.pid) and self.result(d, 'error'))
        with socket.socket() as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen()
            with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod=http://127.0.0.1:{silent.getsockname()[1]}',
                              '--symbols.debuginfod-timeout=300ms') as d, e2e.Workload(prog) as w:
                e2e.wait_for('silence', lambda: self.functions(d, w.pid) and self.result(d, 'timeout'))
            # The exporter's end does not wait for such a server.
            with e2e.exporter('--symbols.cache-path=', f'--symbols.debuginfod=http://127.0.0.1:{silent.getsockname()[1]}') as d, e2e.Workload(prog) as w:
                silent.settimeout(60)
                e2e.wait_for('a question', lambda: self.functions(d, w.pid) and f'/buildid/{bid}/' in silent.accept()[0].recv(4096).decode())
                begun = time.time()
                self.assertEqual(d.stop(), 0)
                self.assertLess(time.time() - begun, 10)


if __name__ == '__main__':
    unittest.main()
