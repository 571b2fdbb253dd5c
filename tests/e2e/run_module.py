"""Runs one unittest module of this folder and writes {passed, failed, skipped, cpu_seconds} as JSON: run_module.py MODULE RESULT_FILE [SECONDS].

A module that has not ended after so many seconds says where each of its threads is, and ends.
"""
import faulthandler
import json
import os
import resource
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    name, out = sys.argv[1:3]
    if len(sys.argv) > 3:
        faulthandler.dump_traceback_later(float(sys.argv[3]), exit=True)
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    r = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    bad = [str(t) for t, _ in r.failures + r.errors] + [str(t) for t in r.unexpectedSuccesses]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with open(out, 'w') as f:
        json.dump({'passed': r.passed, 'failed': bad, 'skipped': [(str(t), why) for t, why in r.skipped],
                   'cpu_seconds': sum(u.ru_utime + u.ru_stime for u in used)}, f)
    return 0 if r.wasSuccessful() else 1


sys.exit(main())
