"""Numbers keep what they mean on every way out: windows, states, negative values, numeric labels, sums beyond 63 bits."""
import os
import threading
import time
import unittest

from pprof_target import PprofTarget, encode
from sonde_e2e import Profile, ScraperCase, go_pprof, program, sonde, wait_for

BESIDE_OTHERS = True
