"""--deterministic: one hash over fresh processes and empty, warm and deleted caches, on a model that needs every family, and on
the sum of 4096 x 4096 random numbers beside a product of 48 x 256 x 64.

usage: determinism_test.py SOURCE_DIR BUILD_DIR [PROCESSES [OPTION...]]     options for rtx compile: --target cuda, say
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

source, build = Path(sys.argv[1]), Path(sys.argv[2])
processes = int(sys.argv[3]) if len(sys.argv) > 3 else 5
options = sys.argv[4:]
rtx = str(build / "bin/rtx")
work = Path(tempfile.mkdtemp(prefix="rtx_determinism_test_"))
sys.path.insert(0, str(source / "tests/e2e"))
import onnx_writer as onnx  # noqa: E402

families, sums = work / "families.onnx", work / "sums.onnx"
subprocess.run([sys.executable, source / "tests/e2e/families_model.py", families], check=True)
onnx.model(sums, onnx.node("ReduceSum", ["x", "axes"], "total", keepdims=0) + onnx.node("MatMul", ["a", "b"], "product") + onnx.text(2, "sums")
           + onnx.tensor("axes", [2], [0, 1], "i64") + onnx.graph_input("x", [4096, 4096]) + onnx.graph_input("a", [48, 64]) + onnx.graph_input("b", [64, 256])
           + onnx.graph_output("total", []) + onnx.graph_output("product", [48, 256]))


def run(model, cache, budget, threads):
    bundle = work / f"{cache}.rtxgc"
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "RTX_CACHE_DIR": str(work / cache), "NO_COLOR": "1"}
    for arguments in (["compile", model, "--deterministic", "--budget", budget, "-o", bundle, *options], ["run", bundle, "--random", "11", "--threads", threads, "--json"]):
        process = subprocess.run([rtx, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=280)
        if process.returncode != 0:
            print(process.stdout[-2000:], process.stderr[-2000:])
            sys.exit(f"what: rtx {arguments[0]} exits {process.returncode}")
    return tuple(output["blake2b"] for output in json.loads(process.stdout)["outputs"])


environment = {"PATH": os.environ["PATH"], "HOME": str(work), "RTX_CACHE_DIR": str(work / "explain"), "NO_COLOR": "1"}
regions = json.loads(subprocess.run([rtx, "explain", families, "--json", *options], env=environment, capture_output=True, text=True, check=True).stdout)["regions"]
targets = json.loads(subprocess.run([rtx, "targets", "--json"], env=environment, capture_output=True, text=True, check=True).stdout)
wanted = options[options.index("--target") + 1] if "--target" in options else "cpu"
missing = set(next(target["families"] for target in targets if target["target"] == wanted)) - {region["family"] for region in regions}
if missing:
    sys.exit(f"what: no determinism is tested of {', '.join(sorted(missing))}")

for model in (families, sums):
    hashes = {}
    for i in range(processes):
        # Empty caches tune anew every time, and with another budget choose other parameters of the same class; one and two threads.
        hashes[f"empty {i}"] = run(model, f"{model.stem}{i}", 2 + 2 * i, 1 + i % 2)
        hashes[f"warm {i}"] = run(model, f"{model.stem}0", 4, 1 + i % 2)
        shutil.rmtree(work / "deleted", ignore_errors=True)
        hashes[f"deleted {i}"] = run(model, "deleted", 3, 2)
    distinct = set(hashes.values())
    print(f"{model.stem}: {len(hashes)} runs, {len(distinct)} hash" + ("es" if len(distinct) != 1 else ""))
    if len(distinct) != 1:
        for name, value in hashes.items():
            print(name, *value)
        sys.exit("what: the bytes differ between runs")
shutil.rmtree(work)
