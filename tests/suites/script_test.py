"""tools/onnx_suite against stand-ins for `rtx suite`: what it counts, and what it does when that process crashes or hangs."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = sys.argv.pop(1)

# Answers by the name of the case's folder, as a program that verifies would.
RTX = """#!/usr/bin/env python3
import json, os, signal, sys, time
for line in sys.stdin:
    model, data, noise = line.rstrip("\\n").split("\\t")
    name = os.path.basename(os.path.dirname(model))
    if "crash" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in name:
        time.sleep(60)
    status = "failed" if "wrong" in name else "unsupported" if "foreign" in name else "passed"
    print(json.dumps({"status": status, "why": f"noise {noise} data {bool(data)}", "kernels": 1}), flush=True)
"""


class OnnxSuite(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = Path(self.folder.name)
        self.rtx = self.top / "rtx"
        self.rtx.write_text(RTX)
        self.rtx.chmod(0o755)

    def make(self, *names, data=True):
        for name in names:
            case = self.top / "cases" / "group" / name
            case.mkdir(parents=True)
            (case / "model.onnx").touch()
            if data:
                (case / "test_data_set_0").mkdir()

    def run_suite(self, *options):
        command = [sys.executable, SCRIPT, str(self.top / "cases"), "--rtx", str(self.rtx), "--json", str(self.top / "result"), *options]
        return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "RTX_SUITE_CACHE": str(self.top / "cache")}, check=False)

    def test_closes_with_the_three_counts_alone_on_a_line(self):
        self.make("right_1", "right_2", "wrong", "foreign")
        result = self.run_suite()
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 1 failed, 1 unsupported")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed group/wrong", result.stdout)
        self.assertNotIn("right_1", result.stdout)

    def test_exits_0_when_nothing_failed(self):
        self.make("right", "foreign")
        self.assertEqual(self.run_suite().returncode, 0)

    def test_a_crash_fails_that_case_and_the_rest_goes_on(self):
        self.make("a_right", "b_crash", "c_right")
        result = self.run_suite("--jobs", "1")
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 1 failed, 0 unsupported")
        self.assertIn("SIGSEGV", result.stdout)

    def test_a_case_that_hangs_fails_at_its_limit(self):
        self.make("hang", "right")
        result = self.run_suite("--time-limit", "1")
        self.assertEqual(result.stdout.splitlines()[-1], "1 passed, 1 failed, 0 unsupported")

    def test_the_recorded_noise_reaches_the_comparison(self):
        self.make("wrong")
        (self.top / "cases" / "index.tsv").write_text("group\tmodel\tort_noise\ngroup\twrong\t3.5e-4\n")
        self.assertIn("noise 0.00035 data True", self.run_suite().stdout)

    def test_a_case_without_data_is_compared_with_the_reference(self):
        self.make("wrong", data=False)
        self.assertIn("data False", self.run_suite().stdout)

    def test_a_sample_is_the_same_every_time_and_about_as_large_as_asked(self):
        self.make(*(f"right_{i}" for i in range(200)))
        chosen = []
        for _ in range(2):
            self.run_suite("--sample", "15")
            chosen.append(sorted(json.loads((self.top / "result").read_text())["cases"]))
        self.assertEqual(chosen[0], chosen[1])
        self.assertTrue(15 <= len(chosen[0]) <= 50, len(chosen[0]))

    def test_no_case_at_all_is_an_error_not_a_pass(self):
        self.make("right")
        result = self.run_suite("--filter", "nothing_*")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no case", result.stderr)


if __name__ == "__main__":
    unittest.main()
