"""Drives Firefox by its own remote protocol, Marionette: a length, a colon, JSON [type, id, command, parameters]."""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

FIREFOX = shutil.which('firefox-esr') or shutil.which('firefox')
PREFERENCES = {
    'app.normandy.enabled': False, 'app.update.enabled': False, 'browser.aboutwelcome.enabled': False, 'browser.shell.checkDefaultBrowser': False, 'browser.startup.homepage': 'about:blank',
    'datareporting.policy.dataSubmissionEnabled': False, 'network.captive-portal-service.enabled': False, 'network.connectivity-service.enabled': False, 'toolkit.telemetry.enabled': False,
    'browser.safebrowsing.malware.enabled': False, 'browser.safebrowsing.phishing.enabled': False, 'services.settings.server': 'http://127.0.0.1:1/', 'ui.prefersReducedMotion': 1,
}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Firefox:
    """One window with a profile of its own. `said()` is what went to its console."""

    def __init__(self, **preferences):
        self.dir = tempfile.mkdtemp(prefix='sonde-firefox.')
        port = free_port()
        with open(f'{self.dir}/user.js', 'w') as f:
            for name, value in {**PREFERENCES, 'marionette.port': port, **preferences}.items():
                f.write(f'user_pref({json.dumps(name)}, {json.dumps(value)});\n')
        self.log = open(f'{self.dir}/log', 'w+')
        env = {**os.environ, 'HOME': self.dir, 'MOZ_CRASHREPORTER_DISABLE': '1', 'XDG_RUNTIME_DIR': self.dir}
        self.process = subprocess.Popen([FIREFOX, '--headless', '--no-remote', '--marionette', '--profile', self.dir], stdout=self.log, stderr=subprocess.STDOUT, env=env)
        self.id = 0
        try:
            self.begin(port)
        except BaseException:
            self.close()
            raise

    def begin(self, port):
        self.stream = self.connect(port)
        self.read()  # who it is
        self.ask('WebDriver:NewSession')
        # The first tab may be a page of the browser's own, where nothing can be done.
        self.ask('WebDriver:SwitchToWindow', handle=self.ask('WebDriver:NewWindow', type='tab')['handle'])

    def connect(self, port):
        end = time.time() + 120
        while True:
            try:
                return socket.create_connection(('127.0.0.1', port), timeout=120).makefile('rwb')
            except OSError:
                if time.time() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def read(self):
        length = b''
        while not length.endswith(b':'):
            c = self.stream.read(1)
            if not c:
                raise AssertionError(f'Firefox is gone: {self.said()}')
            length += c
        return json.loads(self.stream.read(int(length[:-1])))

    def ask(self, command, **parameters):
        self.id += 1
        text = json.dumps([0, self.id, command, parameters]).encode()
        self.stream.write(b'%d:%s' % (len(text), text))
        self.stream.flush()
        _, _, error, result = self.read()
        if error:
            raise AssertionError(f'{command}: {error["error"]}: {error["message"]}')
        return result

    def go(self, url):
        self.ask('WebDriver:Navigate', url=url)

    def run(self, script, *args):
        return self.ask('WebDriver:ExecuteScript', script=script, args=args)['value']

    def wait(self, what, script, *args, timeout=120):
        end = time.time() + timeout
        while True:
            value = self.run(f'return {script}', *args)
            if value:
                return value
            if time.time() > end:
                raise AssertionError(f'{what}: not within {timeout} s, at {self.run("return location.href")}: {self.said()[-2000:]}')
            time.sleep(0.1)

    def size(self, width, height):
        """Of the page; the smallest window of Firefox is 450 wide."""
        self.ask('WebDriver:SetWindowRect', width=width, height=height)
        inner = self.run('return [innerWidth, innerHeight]')
        self.ask('WebDriver:SetWindowRect', width=2 * width - inner[0], height=2 * height - inner[1])

    def click(self, x, y, button=0):
        self.ask('WebDriver:PerformActions', actions=[{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': [
            {'type': 'pointerMove', 'x': int(x), 'y': int(y), 'duration': 0}, {'type': 'pointerDown', 'button': button}, {'type': 'pointerUp', 'button': button}]}])

    def drag(self, x0, y0, x1, y1):
        self.ask('WebDriver:PerformActions', actions=[{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': [
            {'type': 'pointerMove', 'x': int(x0), 'y': int(y0), 'duration': 0}, {'type': 'pointerDown', 'button': 0},
            *({'type': 'pointerMove', 'x': int(x0 + (x1 - x0) * k / 5), 'y': int(y0 + (y1 - y0) * k / 5), 'duration': 20} for k in range(1, 6)), {'type': 'pointerUp', 'button': 0}]}])

    def type(self, text):
        self.ask('WebDriver:PerformActions', actions=[{'type': 'key', 'id': 'keys', 'actions': [a for c in text for a in ({'type': 'keyDown', 'value': c}, {'type': 'keyUp', 'value': c})]}])

    def picture(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.ask('WebDriver:TakeScreenshot', full=False)['value']))

    def said(self):
        self.log.flush()
        with open(self.log.name, errors='replace') as f:
            return f.read()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
