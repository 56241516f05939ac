"""What cmake/embed.py promises: hashes of contents, one per family, and text that survives embedding."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "cmake" / "embed.py"
TREE = {
    "kernels/softmax/emit.cpp": "softmax",
    "kernels/softmax/device.h": "rows",
    "kernels/gemm/emit.cpp": "gemm",
    "kernels/family.h": "concept",
    "codegen/source.cpp": "printer",
}


def generate(mode, tree):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_text(text)
        listing, out = Path(folder, "files.list"), Path(folder, "out.cpp")
        listing.write_text("\n".join(str(Path(folder, path)) for path in reversed(tree)) + "\n")
        subprocess.run([sys.executable, SCRIPT, mode, folder, listing, out], check=True)
        return out.read_text()


def hashes(tree):
    text = generate("synth", tree)
    found = dict(re.findall(r'family == "(\w+)"\) return "(\w{16})"', text))
    found["all"] = re.search(r'synth_sha_all\(\) { return "(\w{16})"', text).group(1)
    return found


class SynthSha(unittest.TestCase):
    def changed(self, **edit):
        before, after = hashes(TREE), hashes({**TREE, **edit["edit"]})
        return {name for name in before if before[name] != after.get(name)}

    def test_two_checkouts_in_different_places_agree(self):
        self.assertEqual(hashes(TREE), hashes(dict(reversed(TREE.items()))))

    def test_every_folder_below_kernels_is_a_family(self):
        self.assertEqual(set(hashes(TREE)), {"softmax", "gemm", "all"})

    def test_a_familys_file_changes_that_family_only(self):
        self.assertEqual(self.changed(edit={"kernels/softmax/device.h": "rows2"}), {"softmax", "all"})

    def test_a_shared_file_changes_every_family(self):
        for path in ("kernels/family.h", "codegen/source.cpp"):
            self.assertEqual(self.changed(edit={path: "other"}), {"softmax", "gemm", "all"})

    def test_text_moving_from_one_file_to_the_next_changes_the_hash(self):
        self.assertIn("softmax", self.changed(edit={"kernels/softmax/device.h": "", "kernels/softmax/emit.cpp": "softmaxrows"}))

    def test_a_tree_without_families_still_compiles(self):
        self.assertIn("(void)family", generate("synth", {"codegen/source.cpp": "printer"}))


class Text(unittest.TestCase):
    def test_quotes_backslashes_and_long_files_survive(self):
        source = 'const char* s = "a\\n)\\"";\n' * 2000
        text = generate("text", {"kernels/gemm/device.h": source})
        pieces = re.findall(r'R"rtx\((.*?)\)rtx"', text, re.DOTALL)
        self.assertGreater(len(pieces), 1)
        self.assertEqual("".join(pieces), source)


unittest.main()
