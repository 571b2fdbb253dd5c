"""sonde's dispatch: help, version, unknown commands, and that every command has help."""
import re
import subprocess
import tempfile
import unittest

from sonde_e2e import TOP, program

BESIDE_OTHERS = True


def sonde(*args):
    p = subprocess.run([program('sonde'), *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return p.returncode, p.stdout, p.stderr


def commands():
    return re.findall(r'^  (\S+(?: \S+)?) {2,}\S', sonde('--help')[1], re.M)


class Dispatch(unittest.TestCase):
    def test_help(self):
        for flag in ('--help', '-h', 'help'):
            status, out, err = sonde(flag)
            self.assertEqual((status, err), (0, ''))
            self.assertIn('usage: sonde COMMAND', out)
        self.assertTrue({'merge', 'fold'} <= set(commands()))

    def test_version(self):
        with open(f'{TOP}/VERSION') as f:
            version = f.read().strip()
        status, out, err = sonde('--version')
        self.assertEqual((status, err), (0, ''))
        self.assertIn(f'sonde, version {version}', out)

    def test_wrong_commands(self):
        for args in ((), ('nonsense',), ('merg',), ('mergex',), ('',), ('--nonsense',), ('check', 'nonsense'), ('tsdb',)):
            with self.subTest(args):
                status, out, err = sonde(*args)
                self.assertEqual((status, out), (2, ''))
                self.assertTrue(err.startswith('sonde: '))
                self.assertIn('usage: ', err)

    def test_nearly_right_commands(self):
        for args, text in ((('flamgraph',), 'unknown command "flamgraph": did you mean flamegraph?'), (('recrod', 'x'), 'did you mean record?'), (('check', 'confg'), 'unknown command "check confg": did you mean check config?'),
                           (('tsdb', 'stat', 'x'), 'did you mean tsdb stats?'), (('tsdb',), 'sonde: tsdb what?'), (('help', 'nonsense'), 'unknown command "nonsense"\n'), (('x',), 'unknown command "x"\n')):
            with self.subTest(args):
                status, out, err = sonde(*args)
                self.assertEqual((status, out), (2, ''))
                self.assertIn(text, err)
                self.assertEqual('fold' in err, args[0] not in ('check', 'tsdb'))  # of a group only its commands

    def test_help_of_one(self):
        self.assertEqual(sonde('help', 'check', 'relabel'), sonde('check', 'relabel', '--help'))
        self.assertEqual(sonde('help', 'fold'), sonde('fold', '--help'))
        group = sonde('check', '--help')
        self.assertEqual(group, sonde('help', 'check'))
        self.assertEqual((group[0], group[2]), (0, ''))
        self.assertEqual(re.findall(r'^  (\S+)', group[1], re.M), ['check'] * 6)

    def test_every_command_explains_itself(self):
        self.assertTrue(commands())
        for command in commands():
            with self.subTest(command):
                status, out, err = sonde(*command.split(), '--help')
                self.assertEqual((status, err), (0, ''))
                self.assertIn(f'sonde {command} - ', out)
                self.assertIn('EXIT STATUS', out)
                status, out, err = sonde(*command.split(), '--no-such-flag')
                self.assertEqual((status, out), (2, ''))
                self.assertIn('no-such-flag', err)

    def test_output_that_cannot_be_written(self):
        """No command says 0 of what nobody can read."""
        with tempfile.NamedTemporaryFile('w', suffix='.yml') as config, open('/dev/full', 'w') as full:
            config.write('scrape_configs: []\n')
            config.flush()
            for args in (('--help',), ('--version',), ('fold', '--help'), ('check', 'config', config.name)):
                with self.subTest(args):
                    p = subprocess.run([program('sonde'), *args], stdout=full, stderr=subprocess.PIPE, text=True)
                    self.assertEqual((p.returncode, p.stderr), (1, 'sonde: standard output could not be written\n'))

    def test_formats_of_values_over_time(self):
        """Asked of nobody: the command line is wrong."""
        for args in (('--format', 'svg'), ('-o', 'x.pb.gz')):
            status, out, err = sonde('query', '--step', '10s', *args, 'cpu{}')
            self.assertEqual((status, out), (2, ''))
            self.assertIn('--step gives csv or json', err)

    def test_missing_arguments(self):
        for args in (('merge',), ('merge', '-o', '/dev/null'), ('merge', 'x.pb'), ('fold',)):
            with self.subTest(args):
                status, out, err = sonde(*args)
                self.assertEqual((status, out), (2, ''))
                self.assertIn(f'sonde {args[0]}: ', err)


if __name__ == '__main__':
    unittest.main()
