"""A C++ program is deployed in place, the same path and another build, while an exporter samples it: each function is compared with itself."""
import os
import re
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU
from sonde_e2e import Pprof, Workload, exporter, needs_kernel, program_dir, scraper, wait_drained, wait_for, wait_program, wait_symbol_files
from test_ui import drive, missing

# Orders are worked off at a fixed rate, so that what one costs is what a second costs. VERSION 2 hashes in half the time.
SHOP = r"""
#include <ctime>
#include <string>
#include <vector>
static volatile unsigned long sink;
#define WORK(n) do { for (unsigned long i_ = 0; i_ < (n); i_++) sink = sink * 31 + i_; } while (0)
namespace shop {
template <class T> struct Basket {
	std::vector<T> items;
	[[gnu::noinline]] void hash() { WORK(VERSION == 1 ? 800000 : 400000); sink = sink + items.size(); }
};
[[gnu::noinline]] static void parse(const std::string &order) { WORK(800000); sink = sink + order.size(); }
#if VERSION == 1
[[gnu::noinline]] static void audit() { WORK(400000); sink = sink + 1; }
#else
[[gnu::noinline]] static void trace() { WORK(400000); sink = sink + 1; }
#define audit trace
#endif
[[gnu::noinline]] static void serve(const std::string &order)
{
	Basket<std::string> basket{{order}};

	parse(order);
	basket.hash();
	audit();
	sink = sink + 1;
}
}
int main()
{
	timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		shop::serve("order");
		next.tv_nsec += 20000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
}
"""
SECONDS = 16  # of each build


def build_shop(version, path):
    """Compiled in a folder of its own, put where the program lies; returns its build id."""
    folder = program_dir()
    with open(f'{folder}/shop.cc', 'w') as f:
        f.write(SHOP)
    subprocess.run(['g++', '-O2', '-g', '-Wl,--build-id', f'-DVERSION={version}', '-o', f'{folder}/shop', f'{folder}/shop.cc'], check=True)
    os.rename(f'{folder}/shop', path)
    notes = subprocess.run(['readelf', '-n', path], capture_output=True, text=True, check=True).stdout
    return re.search('Build ID: ([0-9a-f]+)', notes).group(1)


@needs_kernel
class Deployment(unittest.TestCase):
    def run_build(self, e, path):
        """From when stacks of it are whole and named until it ends."""
        with Workload(path) as w:
            wait_program(w.pid, path)
            time.sleep(1)
            wait_symbol_files(e)
            start = time.time() + 2  # a scrape's window may have begun before
            time.sleep(2 + SECONDS)
            wait_drained(e)
            return start, time.time()

    def test_in_the_browser(self):
        why = missing()
        if why:
            self.skipTest(why)
        path = f'{program_dir()}/shop'
        with exporter('--symbols.max-cpu=1', '--profile.max-overhead=0', '--profile.frequency=199') as e, \
                scraper(f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: node, static_configs: [{{targets: ['127.0.0.1:{e.port}']}}]}}]\n") as s:
            builds, times = [], []
            for version in (1, 2):
                builds.append(build_shop(version, path))
                times.append(self.run_build(e, path))
            query = CPU + '{comm="shop"}'
            q = urllib.parse.urlencode({'query': query, 'start': times[1][1] - 2, 'end': times[1][1] + 60})
            wait_for('the last scrape', lambda: s.get(f'/api/v1/profiles?{q}').json['data'].get('n_profiles', 0) > 1)
            mappings = Pprof(s.get(f'/api/v1/profile?{q}').body).mappings
            self.assertEqual((mappings[1]['file'], mappings[1]['build_id']), (path, builds[1]), 'what go tool pprof takes for the program')
            (start_a, end_a), (start_b, end_b) = times
            own = {'show': '^main$|^shop::(Basket.*::hash|audit|parse|serve|trace)'}  # not the kernel's, libraries', nor the basket's destructor
            sides = {'query_a': query, 'query_b': query, 'start_a': start_a, 'end_a': end_a, 'start_b': start_b, 'end_b': end_b}
            story = {'url': s.url + '/', 'builds': builds, 'compare': urllib.parse.urlencode({**own, **sides, 'replicate': 'instance,4s'}),
                     'range': urllib.parse.urlencode({**own, 'query': query, 'start': start_a, 'end': end_b})}
            with tempfile.TemporaryDirectory(prefix='sonde-deployment.') as d:
                result = drive({'deploys_program': story}, os.environ.get('SONDE_SCREENSHOTS', d))['deploys_program']
        self.assertNotIn('error', result, result.get('error'))


if __name__ == '__main__':
    unittest.main()
