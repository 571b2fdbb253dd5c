"""configs/container: the images' recipes, read by rules everywhere and built where there is a builder, else by buildah in a clean Debian 12."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from debian_root import CACHE, DebianRoot, make_packages
from sonde_e2e import TOP, build_dir, free_port, http_get, is_sanitized, program, wait_for

BESIDE_OTHERS = True

RECIPES = sorted(glob.glob(f'{TOP}/configs/container/Containerfile.*'))
WORDS = {'FROM', 'RUN', 'COPY', 'WORKDIR', 'EXPOSE', 'USER', 'VOLUME', 'ENTRYPOINT', 'CMD'}


def instructions(path):
    """[(word, rest)] with continued lines joined and comments left out."""
    with open(path) as f:
        text = ''.join(line for line in f if not line.startswith('#'))
    return [tuple(line.split(None, 1)) for line in text.replace('\\\n', ' ').split('\n') if line.strip()]


class RecipeTest(unittest.TestCase):
    def test_rules(self):
        self.assertEqual(len(RECIPES), 2)
        for path in RECIPES:
            steps = instructions(path)
            name = f"sonde-{path.rsplit('.', 1)[1]}"
            self.assertLessEqual({w for w, _ in steps}, WORDS, path)
            self.assertEqual(steps[0][0], 'FROM')
            stages = [rest for w, rest in steps if w == 'FROM']
            self.assertEqual(len(stages), 2, 'a stage to build in, a stage to run')
            for stage in stages:
                self.assertRegex(stage, r'^docker\.io/library/debian:bookworm(-slim)?( AS \w+)?$')
            for word, rest in steps:
                if word == 'RUN' and 'apt-get' in rest:
                    self.assertIn('--no-install-recommends', rest)
                    self.assertRegex(rest, r'apt-get update\s+&& apt-get install -y')
                    self.assertIn('rm -rf /var/lib/apt/lists/*', rest)
                if word in ('ENTRYPOINT', 'CMD'):
                    json.loads(rest)  # the form that starts no shell, so that signals reach the program
            last = dict(steps)
            self.assertEqual(json.loads(last['ENTRYPOINT']), [f'/usr/bin/{name}'])
            flags = re.findall(r'^ +--(?:\[no-\])?([a-z.-]+)', subprocess.run([program(name), '--help'], capture_output=True, text=True).stdout, re.M)
            for arg in json.loads(last['CMD']):
                self.assertIn(arg.split('=')[0].removeprefix('--'), flags)
            self.assertIn(f":{last['EXPOSE'].strip()}", last['CMD'])
            self.assertIn('USER', last)

    def test_builds(self):
        builder = next((b for b in ('podman', 'buildah', 'docker') if shutil.which(b)), None)
        if not builder:
            self.skipTest('no builder of images (podman, buildah or docker)')
        if subprocess.run([builder, 'info'], capture_output=True, timeout=60).returncode:
            self.skipTest(f'{builder} is installed but does not run here')
        for base in sorted({rest.split()[0] for path in RECIPES for w, rest in instructions(path) if w == 'FROM'}):
            pull = subprocess.run([builder, 'pull', base], capture_output=True, text=True, timeout=120)
            if pull.returncode and subprocess.run([builder, 'inspect', '--type=image', base], capture_output=True, timeout=60).returncode:
                self.skipTest(f'the base image cannot be pulled: {pull.stderr.strip()[-200:]}')
        end = time.monotonic() + 1500  # the first stage compiles everything, once for both
        for path in RECIPES:
            image = f"sonde-{path.rsplit('.', 1)[1]}:test-{os.getpid()}"
            try:
                p = subprocess.run([builder, 'build', '-f', path, '-t', image, TOP], capture_output=True, text=True, timeout=end - time.monotonic(),
                                   env=dict(os.environ, BUILDAH_FORMAT='docker'))
            except subprocess.TimeoutExpired:
                self.skipTest(f'{builder} needs more than 25 minutes for the images on this machine')
            self.addCleanup(subprocess.run, [builder, 'rmi', '-f', image], capture_output=True, timeout=120)
            self.assertEqual(p.returncode, 0, (p.stdout + p.stderr)[-3000:])
            if builder != 'buildah':
                self.runs(builder, image)

    def runs(self, builder, image):
        """Started as the image says, the scraper answers; the exporter, which needs more of the machine, tells its version."""
        if 'exporter' in image:
            p = subprocess.run([builder, 'run', '--rm', image, '--version'], capture_output=True, text=True, timeout=120)
            self.assertRegex(p.stdout, '^sonde-exporter, version', p.stderr)
            return
        p = subprocess.run([builder, 'run', '-d', image], capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)
        container = p.stdout.strip()
        self.addCleanup(subprocess.run, [builder, 'rm', '-f', '-v', container], capture_output=True, timeout=120)
        ask = r"exec 3<>/dev/tcp/127.0.0.1/7272 && printf 'GET /-/ready HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 && head -n 1 <&3"

        def ready():
            return ' 200 ' in subprocess.run([builder, 'exec', container, 'bash', '-c', ask], capture_output=True, text=True, timeout=60).stdout
        wait_for(f'{image} to answer', ready)


@unittest.skipIf(is_sanitized(), 'packages are made of a release build')
class ImageTest(unittest.TestCase):
    """Without a registry: the base image is a Debian 12 made by debootstrap. The first stage, which compiles everything, is replaced by the
    packages of this build; with SONDE_IMAGE_SOURCE=1 it runs too (10 to 20 minutes)."""

    @classmethod
    def setUpClass(cls):
        packages = make_packages(TOP, os.path.basename(build_dir()), cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.root = DebianRoot()
        cls.addClassCleanup(cls.root.remove)
        cls.context = f'{cls.root.path}/src'
        os.makedirs(f'{cls.context}/build/deb')
        for path in packages.values():
            shutil.copy(path, f'{cls.context}/build/deb')
        # what the base image is made of: the root as it is now, with the authorities that this machine trusts
        shutil.copytree('/usr/local/share/ca-certificates', f'{cls.root.path}/usr/local/share/ca-certificates', dirs_exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=CACHE, suffix='.tar') as base:
            subprocess.run(['tar', '--one-file-system', '--exclude=./src', '-C', cls.root.path, '-cf', base.name, '.'], check=True)
            shutil.copy(base.name, f'{cls.root.path}/base.tar')
        update = cls.root.run('apt-get', 'update', '-q')
        p = cls.root.run('apt-get', 'install', '-y', '-q', '--no-install-recommends', 'buildah')
        if update.returncode or p.returncode:
            raise unittest.SkipTest(f'buildah cannot be installed: {(update.stderr + p.stderr).strip()[-200:]}')
        made = cls.buildah('from', 'scratch')
        cls.buildah('add', '-q', made, '/base.tar', '/')
        for name in ('bookworm', 'bookworm-slim'):
            cls.buildah('commit', '-q', made, f'docker.io/library/debian:{name}')

    @classmethod
    def command(cls, *args):
        return cls.root.command('BUILDAH_ISOLATION=chroot', 'STORAGE_DRIVER=vfs', 'buildah', *args)

    @classmethod
    def buildah(cls, *args, timeout=300):
        p = subprocess.run(cls.command(*args), capture_output=True, text=True, timeout=timeout)
        if p.returncode:
            raise AssertionError(f'buildah {args}: {(p.stdout + p.stderr)[-3000:]}')
        return p.stdout.strip()

    def image(self, name):
        """A container of the image that the recipe makes, and its settings."""
        recipe = f'{TOP}/configs/container/Containerfile.{name}'
        if os.environ.get('SONDE_IMAGE_SOURCE'):
            files = subprocess.run(['git', 'ls-files', '-z'], cwd=TOP, capture_output=True, check=True).stdout
            subprocess.run(['cpio', '-0pdm', '--quiet', self.context], cwd=TOP, input=files, check=True)
            shutil.copy(recipe, f'{self.context}/Containerfile')
        else:
            with open(recipe) as f, open(f'{self.context}/Containerfile', 'w') as out:
                _, rest = f.read().split('\nFROM docker.io/library/debian:bookworm-slim\n')
                out.write(f'FROM scratch AS build\nCOPY build/deb /src/build/deb\nFROM docker.io/library/debian:bookworm-slim\n{rest}')
        self.buildah('bud', '--layers', '--pull-never', '-f', '/src/Containerfile', '-t', f'sonde-{name}:test', '/src', timeout=1800)
        c = self.buildah('from', '--pull-never', f'localhost/sonde-{name}:test')
        return c, json.loads(self.buildah('inspect', c))['OCIv1']['config']

    def check(self, c, script):
        """Its status decides: buildah 1.28 loses the output of a short command now and then."""
        self.buildah('run', c, '--', 'sh', '-c', script)

    def test_scraper(self):
        c, config = self.image('scraper')
        self.assertEqual((config['User'], list(config['ExposedPorts'])), ('sonde-scraper', ['7272/tcp']))
        self.check(c, 'test "$(id -un)" = sonde-scraper')
        # started as the image says, but for the address
        port = free_port()
        args = [a for a in config['Cmd'] if not a.startswith('--web.listen-address')] + [f'--web.listen-address=127.0.0.1:{port}']
        p = subprocess.Popen(self.command('run', c, '--', *config['Entrypoint'], *args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(os.killpg, p.pid, signal.SIGKILL)

        def ready():
            self.assertIsNone(p.poll(), p.poll() is not None and p.stderr.read())
            try:
                return http_get(f'http://127.0.0.1:{port}/-/ready').status == 200
            except OSError:
                return False
        wait_for('the scraper of the image', ready)

    def test_exporter(self):
        c, config = self.image('exporter')
        self.assertEqual((config['User'], list(config['ExposedPorts'])), ('root', ['7273/tcp']))
        self.assertIn('--user=sonde', config['Cmd'])
        self.check(c, f"{config['Entrypoint'][0]} --version | grep -q '^sonde-exporter, version'")
        self.check(c, 'test "$(stat -c %U /var/cache/sonde)" = sonde')


if __name__ == '__main__':
    unittest.main()
