"""What Grafana's Pyroscope datasource, Profiles Drilldown and other clients of a Pyroscope rely on, each row with the tests that show it.

Rows 1 to 21 were read from the clients' sources, rows 22 to 39 were seen on a running Pyroscope.
"""
import ast
import re
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True

Q, T, R, C, P = 'test_pyroscope.QuerierTest', 'test_pyroscope.TransportTest', 'test_pyroscope.RenderTest', 'test_connect.Calls', 'test_grafana.PanelsTest'
CHECKLIST = [
    (1, 'ProfileTypes of 1970 answers 200 and nothing: Save & test', f'{Q}.test_profile_types', f'{P}.test_save_and_test'),
    (2, 'ProfileTypes of 0 to 0 is the last hour', f'{Q}.test_profile_types'),
    (3, 'ProfileTypes honours the range; ids of five parts in a stable order, CPU first', f'{Q}.test_profile_types'),
    (4, 'LabelNames and LabelValues take __profile_type__ in a selector; public and private names', f'{Q}.test_label_names', f'{Q}.test_label_values'),
    (5, 'Series by service_name and __profile_type__ without matchers', f'{Q}.test_series'),
    (6, 'GetProfileStats: dataIngested is true, times are texts', f'{Q}.test_stats_and_settings'),
    (7, 'Settings: Get of nothing is {}; Set keeps one name', f'{Q}.test_stats_and_settings'),
    (8, 'SelectSeries: step in seconds, times in ms, sums, group_by alone as labels, limit', f'{Q}.test_select_series'),
    (9, 'SelectMergeStacktraces: max_nodes absent is the default; no data is one root of zeros', f'{Q}.test_stacktraces', f'{Q}.test_no_data'),
    (10, 'SelectMergeProfile in protobuf is a pprof that opens', f'{T}.test_profile_opens_in_pprof'),
    (11, 'SelectMergeProfile in JSON, with a call site', f'{Q}.test_profile', f'{Q}.test_go_pgo'),
    (12, 'render-diff', f'{R}.test_diff'),
    (13, 'render as JSON and as DOT', f'{R}.test_json', f'{R}.test_dot'),
    (14, 'AnalyzeQuery has a queryImpact', f'{Q}.test_errors'),
    (15, 'methods that are not there answer 501 unimplemented', f'{Q}.test_errors'),
    (16, 'points carry no annotations of our own', f'{Q}.test_select_series'),
    (17, 'exemplars: one a point, the largest; its id selects the profile', f'{Q}.test_exemplars', f'{Q}.test_single_profiles'),
    (18, 'heatmap: right edges, y_min and counts of equal length, spans', f'{Q}.test_heatmap', f'{C}.test_heatmap'),
    (19, 'many requests at once; a client that goes away ends its query', f'{T}.test_many_at_once', 'unit/test_http.c:test_client_leaves', 'test_ui.UiTest.test_cancels'),
    (20, 'errors are JSON with a message that says what is wrong', f'{Q}.test_errors', f'{C}.test_errors'),
    (21, 'a prefix and a trailing slash in the URL', f'{T}.test_prefix', f'{C}.test_calls'),
    (22, 'the answer has exactly the content type of the request', f'{T}.test_content_types'),
    (23, 'unknown encoding 501, unknown type 415, GET 405', f'{T}.test_content_types', f'{T}.test_bodies'),
    (24, 'no bytes of protobuf are an empty message, even as gzip; no bytes of JSON an error', f'{T}.test_bodies'),
    (25, 'chunked requests, gzip both ways, headers of Grafana', f'{T}.test_chunked', f'{T}.test_gzipped_answers', f'{T}.test_headers'),
    (26, 'no data: Diff and render too are one root of zeros; lists are {}', f'{Q}.test_no_data', f'{Q}.test_series', f'{Q}.test_label_values', f'{R}.test_json'),
    (27, 'SelectMergeProfile without data is a profile without samples that opens', f'{Q}.test_no_data'),
    (28, 'LabelValues: all matchers must hold', f'{Q}.test_label_values'),
    (29, 'sample labels select and group, but span_id is no label', f'{Q}.test_label_names', f'{Q}.test_select_series', f'{Q}.test_spans'),
    (30, 'dotted names select and group; listed for clients that say so', f'{Q}.test_label_names', f'{Q}.test_label_values', f'{Q}.test_stacktraces'),
    (31, 'an empty selector is an error, {} is not; a name and a trailing comma are fine', f'{Q}.test_errors', f'{Q}.test_stacktraces'),
    (32, 'a whole type id before the brace, as dashboard variables and render have it', f'{Q}.test_label_values', f'{R}.test_json'),
    (33, 'profiles without the grouping label are one series without labels', f'{Q}.test_select_series'),
    (34, 'max_nodes 0 is the default; totals stay; what is cut is "other"', f'{Q}.test_stacktraces'),
    (35, 'start = end = 0 is accepted', f'{Q}.test_stacktraces', f'{Q}.test_profile_types'),
    (36, '[t - 1, t] and [t, t + 1] both hold the profile at t', f'{Q}.test_stacktraces'),
    (37, 'both spellings of fields, numbers as texts, null, unknown fields', f'{Q}.test_diff', f'{T}.test_bodies'),
    (38, '/ready; /pyroscope/label-values for __name__', f'{R}.test_errors'),
    (39, 'wrong ranges and steps are invalid_argument', f'{Q}.test_errors', f'{Q}.test_select_series'),
]


def tests_of(module):
    """Class.test names of a module, without running it."""
    with open(f'{TOP}/tests/e2e/{module}.py') as f:
        tree = ast.parse(f.read())
    return {f'{c.name}.{m.name}' for c in tree.body if isinstance(c, ast.ClassDef) for m in c.body if isinstance(m, ast.FunctionDef)}


class ChecklistTest(unittest.TestCase):
    def test_every_row_has_a_test(self):
        self.assertEqual([row[0] for row in CHECKLIST], list(range(1, len(CHECKLIST) + 1)))
        for number, what, *tests in CHECKLIST:
            self.assertTrue(what and tests, number)
            for test in tests:
                if test.startswith('unit/'):
                    path, name = test.split(':')
                    with open(f'{TOP}/tests/{path}') as f:
                        self.assertTrue(re.search(rf'cmocka_unit_test\w*\({name}', f.read()), (number, test))
                else:
                    module, name = test.split('.', 1)
                    self.assertIn(name, tests_of(module), (number, what))


if __name__ == '__main__':
    unittest.main()
