"""configs/container: the images' recipes, read by rules everywhere and built where there is a builder."""
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

from sonde_e2e import TOP, program

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
        pull = subprocess.run([builder, 'pull', 'docker.io/library/debian:bookworm-slim'], capture_output=True, text=True, timeout=120)
        if pull.returncode:
            self.skipTest(f'the base image cannot be pulled: {pull.stderr.strip()[-200:]}')
        for path in RECIPES:
            p = subprocess.run([builder, 'build', '-f', path, '-t', f"sonde-{path.rsplit('.', 1)[1]}:test", TOP], capture_output=True, text=True,
                               timeout=550, env=dict(os.environ, BUILDAH_FORMAT='docker'))
            self.assertEqual(p.returncode, 0, (p.stdout + p.stderr)[-3000:])


if __name__ == '__main__':
    unittest.main()
