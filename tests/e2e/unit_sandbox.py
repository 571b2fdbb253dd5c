"""Runs a program as a systemd unit of configs/systemd would: user, capabilities, system calls, files. For tests, without a systemd.

usage: unit_sandbox.py UNIT UID:GID WRITABLE_DIR PROGRAM [FLAG…]     (as root, in a mount namespace of its own)
Not done: what guards against the program rather than limits it where it can be seen (see NOT_DONE).
"""
import ctypes
import ctypes.util
import os
import subprocess
import sys

NOT_DONE = {
    'Type', 'EnvironmentFile', 'ExecStart', 'ExecReload', 'User', 'Restart', 'RestartSec', 'UMask', 'OOMScoreAdjust', 'TimeoutStopSec',
    'CacheDirectory', 'CacheDirectoryMode', 'StateDirectory', 'StateDirectoryMode', 'LimitNOFILE', 'PrivateMounts', 'RemoveIPC',
    'KeyringMode', 'SystemCallArchitectures', 'SystemCallErrorNumber', 'PrivateUsers', 'ProtectHostname', 'ProcSubset',
    # their system calls are outside SystemCallFilter or their capability outside the bounding set, their devices outside PrivateDevices
    'ProtectClock', 'ProtectKernelModules', 'ProtectKernelLogs', 'RestrictRealtime', 'RestrictSUIDSGID', 'LockPersonality', 'DevicePolicy',
}
DONE = {
    'AmbientCapabilities', 'CapabilityBoundingSet', 'NoNewPrivileges', 'ProtectSystem', 'ProtectHome', 'PrivateTmp', 'PrivateDevices',
    'Nice', 'ProtectControlGroups', 'ProtectKernelTunables', 'ReadOnlyPaths', 'MemoryDenyWriteExecute', 'RestrictAddressFamilies',
    'RestrictNamespaces', 'SystemCallFilter', 'ProtectProc',
}
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
FAMILIES = {'AF_UNIX': 1, 'AF_INET': 2, 'AF_INET6': 10, 'AF_NETLINK': 16}
CLONE_NEW = 0x7e020000
ALLOW, EPERM = 0x7fff0000, 0x00050000 | 1
MASKED_EQUAL, EQUAL = 7, 4


def read_unit(path):
    """{setting: [value…]} of the section Service; an empty assignment clears what stood before, as in systemd."""
    settings, section = {}, ''
    with open(path) as f:
        for line in f:
            line = line.strip()
            if line.startswith('['):
                section = line
            elif section == '[Service]' and line and not line.startswith('#'):
                name, _, value = line.partition('=')
                settings.setdefault(name, []).append(value)
                if not value:
                    settings[name] = ['']
    unknown = set(settings) - NOT_DONE - DONE
    if unknown:
        raise ValueError(f'{path}: this test does not know {sorted(unknown)}')
    return settings


def words(settings, name):
    return [w for value in settings.get(name, []) for w in value.split()]


def mount(*args):
    subprocess.run(['mount', *args], check=True)


def read_only(path):
    mount('--bind', path, path)
    mount('-o', 'remount,bind,ro', path)


def hide(path):
    if os.path.isdir(path):
        mount('-t', 'tmpfs', '-o', 'mode=755', 'none', path)
    elif os.path.exists(path):
        mount('--bind', '/dev/null', path)


def files(s, writable, keep):
    """`keep` stays readable below directories that are hidden."""
    if s.get('ProtectSystem') != ['strict']:
        raise ValueError('ProtectSystem= is not strict')
    mount('--bind', writable, writable)
    for path in ['/usr', '/etc', '/var', '/opt', '/boot', '/srv', '/mnt', *words(s, 'ReadOnlyPaths')]:
        if os.path.isdir(path) and not os.path.islink(path):
            mount('--rbind', path, path)
            mount('-o', 'remount,bind,ro', path)
    if s.get('ProtectControlGroups') == ['yes']:
        read_only('/sys/fs/cgroup')
    if s.get('ProtectKernelTunables') == ['yes']:
        read_only('/proc/sys')
        hide('/proc/kallsyms')
        hide('/proc/kcore')
    if s.get('ProtectProc') == ['invisible']:
        mount('-t', 'proc', '-o', 'hidepid=invisible', 'proc', '/proc')
    if s.get('PrivateDevices') == ['yes']:
        private_devices()
    hidden = ['/home', '/root', '/run/user'] if s.get('ProtectHome') == ['yes'] else []
    hidden += ['/tmp', '/var/tmp'] if s.get('PrivateTmp') == ['yes'] else []
    for path in hidden:
        if not keep.startswith(path + '/') and os.path.isdir(path):
            hide(path)


def private_devices():
    os.makedirs('/run/sonde-test-dev', exist_ok=True)
    mount('-t', 'tmpfs', '-o', 'mode=755', 'none', '/run/sonde-test-dev')
    for name in ('null', 'zero', 'full', 'random', 'urandom', 'tty'):
        open(f'/run/sonde-test-dev/{name}', 'w').close()
        mount('--bind', f'/dev/{name}', f'/run/sonde-test-dev/{name}')
    mount('--move', '/run/sonde-test-dev', '/dev')


def set_of_calls(name, seen=()):
    """The system calls of @name, as this systemd has them."""
    out = subprocess.run(['systemd-analyze', 'syscall-filter', name], capture_output=True, text=True, check=True).stdout
    calls = set()
    for w in (line.split('#')[0].strip() for line in out.split('\n')[1:]):
        if w.startswith('@'):
            calls |= set_of_calls(w)
        elif w:
            calls.add(w)
    return calls


def allowed_calls(s):
    """What SystemCallFilter= allows, its lines in turn; @default is always part of an allow list."""
    calls = set_of_calls('@default')
    for value in s['SystemCallFilter']:
        deny = value.startswith('~')
        for w in value.lstrip('~').split():
            these = set_of_calls(w) if w.startswith('@') else {w}
            calls = calls - these if deny else calls | these
    return calls


class Compare(ctypes.Structure):
    _fields_ = [('arg', ctypes.c_uint), ('op', ctypes.c_int), ('a', ctypes.c_uint64), ('b', ctypes.c_uint64)]


def load_filter(s):
    lib = ctypes.CDLL('libseccomp.so.2')
    lib.seccomp_init.restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(EPERM)))

    def allow(call, *compare):
        nr = lib.seccomp_syscall_resolve_name(call.encode())
        if nr >= 0 and lib.seccomp_rule_add_array(ctx, ctypes.c_uint32(ALLOW), nr, len(compare), (Compare * 1)(*compare)):
            raise OSError(f'no rule for {call}')

    families = [FAMILIES[f] for f in words(s, 'RestrictAddressFamilies')]
    for call in sorted(allowed_calls(s)):
        if call == 'socket' and families:
            for family in families:
                allow(call, Compare(0, EQUAL, family, 0))
        elif call in ('clone', 'unshare') and s.get('RestrictNamespaces') == ['yes']:
            allow(call, Compare(0, MASKED_EQUAL, CLONE_NEW, 0))
        elif call not in ('clone3', 'setns') or s.get('RestrictNamespaces') != ['yes']:
            allow(call)
    # systemd answers ENOSYS, so that the C library falls back to clone
    lib.seccomp_rule_add_array(ctx, ctypes.c_uint32(0x00050000 | 38), lib.seccomp_syscall_resolve_name(b'clone3'), 0, None)
    if lib.seccomp_load(ctx):
        raise OSError('seccomp_load')


def caps(s, name):
    return ''.join(f',+{c[4:].lower()}' for c in words(s, name))


def main():
    unit, user, writable, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    s = read_unit(unit)
    if user == '-':  # the second step: the user is changed, the filter comes last
        if s.get('MemoryDenyWriteExecute') == ['yes']:
            ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
        load_filter(s)
        os.execv(command[0], command)
    files(s, writable, os.path.dirname(os.path.abspath(__file__)))
    os.setpriority(os.PRIO_PROCESS, 0, int(s.get('Nice', ['0'])[-1]))
    uid, gid = user.split(':')
    ambient = caps(s, 'AmbientCapabilities')
    os.execvp('setpriv', [
        'setpriv', f'--reuid={uid}', f'--regid={gid}', '--clear-groups', '--no-new-privs',
        f"--bounding-set=-all{caps(s, 'CapabilityBoundingSet')}", f'--inh-caps=-all{ambient}', f'--ambient-caps=-all{ambient}',
        sys.executable, os.path.abspath(__file__), unit, '-', writable, *command])


if __name__ == '__main__':
    main()
