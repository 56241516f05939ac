"""The layering check finds what it is for: run on small trees with known faults."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).with_name("check_layering.py")
LAYERS = [
    {"name": "base", "claim": "^base/", "uses": [], "test_uses": []},
    {"name": "ir", "claim": "^ir/", "uses": ["base"], "test_uses": []},
    {"name": "fuse", "claim": "^fuse/", "uses": ["ir"], "test_uses": ["reference"]},
    {"name": "reference", "claim": "^reference/", "uses": ["ir"], "test_uses": []},
    {"name": "kernels", "claim": "^kernels/", "uses": ["fuse"], "test_uses": []},
    {"name": "telemetry", "claim": "^telemetry/", "uses": ["base"], "test_uses": []},
]


def check(files):
    with tempfile.TemporaryDirectory() as folder:
        tree = {"base/result.h": "", "ir/graph.h": "", "fuse/match.h": "", "reference/run.h": "", **files}
        for path, text in tree.items():
            file = Path(folder, "src", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        data = Path(folder, "layers.json")
        data.write_text(json.dumps(LAYERS))
        done = subprocess.run([sys.executable, CHECK, folder, data], capture_output=True, text=True)
        return done.returncode, done.stdout


class Layering(unittest.TestCase):
    def assert_refused(self, files, what):
        code, text = check(files)
        self.assertEqual(code, 1, text)
        self.assertIn("what: " + what, text)
        for word in ("where: src/", "why: ", "fix: "):
            self.assertIn(word, text)

    def assert_allowed(self, files):
        code, text = check(files)
        self.assertEqual(code, 0, text)

    def test_an_upward_include_is_refused(self):
        self.assert_refused({"ir/a.cpp": '#include "fuse/match.h"'}, 'ir includes fuse ("fuse/match.h")')

    def test_a_sideways_include_is_refused(self):
        self.assert_refused({"fuse/a.cpp": '#include "reference/run.h"'}, "fuse includes reference")

    def test_base_includes_nothing_else(self):
        self.assert_refused({"base/a.cpp": '#include "ir/graph.h"'}, "base includes ir")

    def test_what_a_used_layer_uses_is_allowed(self):
        self.assert_allowed({"kernels/a.cpp": '#include "ir/graph.h"\n#include "base/result.h"'})

    def test_a_test_may_use_its_extra_layers_and_the_code_beside_it_may_not(self):
        self.assert_allowed({"fuse/a_test.cpp": '#include "reference/run.h"'})
        self.assert_refused({"fuse/a.h": '#include "reference/run.h"'}, "fuse includes reference")

    def test_a_file_of_no_layer_is_refused(self):
        self.assert_refused({"other/a.cpp": ""}, "other/a.cpp belongs to no layer")

    def test_a_path_not_rooted_at_src_is_refused(self):
        self.assert_refused({"ir/a.cpp": '#include "graph.h"'}, '"graph.h" is not below src/')

    def test_device_text_includes_only_device_text(self):
        self.assert_allowed({"kernels/gemm/device.h": "", "kernels/gemm/device_wide.h": '#include "kernels/gemm/device.h"'})
        self.assert_refused({"kernels/gemm/device.h": '#include "ir/graph.h"'}, 'device text includes "ir/graph.h"')


unittest.main()
