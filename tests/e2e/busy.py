"""Shells that keep a machine busy, and that nothing leaves behind: they end with the block, with the process that started them, and after
`limit_s` at the latest.

usage: busy.py N LIMIT_S OWN_SESSIONS SCRIPT
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def end_with(parent):
    """The kernel kills this process when its parent ends, and now when that has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def shells(n, script, limit_s, own_sessions=False):
    """So many shells that run this script. They are of one session of their own, so that the kernel weighs them as one group (sched(7),
    autogroup), or each is of its own, so that it weighs each as much as any other program's session."""
    p = subprocess.Popen([sys.executable, __file__, str(n), str(limit_s), str(int(own_sessions)), script], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, start_new_session=True, preexec_fn=lambda parent=os.getpid(): end_with(parent))
    pids = []
    try:
        pids = [int(pid) for pid in p.stdout.readline().split()]
        p.stdin.close()  # now all start
        p.stdout.close()
        yield p
    finally:
        for group in (p.pid, *(pids if own_sessions else ())):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        p.wait()


def main():
    n, limit_s, own_sessions, script = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == '1', sys.argv[4]
    me, pids = os.getpid(), []
    for _ in range(n):
        pids.append(os.fork())
        if not pids[-1]:
            end_with(me)
            if own_sessions:
                os.setsid()
            signal.alarm(limit_s)  # outlives the exec
            os.read(0, 1)
            os.execvp('sh', ['sh', '-c', script])
    print(*pids, flush=True)
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == '__main__':
    main()
