"""--deterministic: one hash over fresh processes and empty, warm and deleted caches, on a model that needs every family.

usage: determinism_test.py SOURCE_DIR BUILD_DIR [PROCESSES]
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
rtx = str(build / "bin/rtx")
work = Path(tempfile.mkdtemp(prefix="rtx_determinism_test_"))
model = work / "families.onnx"
subprocess.run([sys.executable, source / "tests/e2e/families_model.py", model], check=True)


def run(cache, budget, threads):
    bundle = work / f"{cache}.rtxgc"
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "RTX_CACHE_DIR": str(work / cache), "NO_COLOR": "1"}
    for arguments in (["compile", model, "--deterministic", "--budget", budget, "-o", bundle], ["run", bundle, "--random", "11", "--threads", threads, "--json"]):
        process = subprocess.run([rtx, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=280)
        if process.returncode != 0:
            print(process.stdout[-2000:], process.stderr[-2000:])
            sys.exit(f"what: rtx {arguments[0]} exits {process.returncode}")
    return tuple(output["blake2b"] for output in json.loads(process.stdout)["outputs"])


hashes = {}
for i in range(processes):
    # Empty caches tune anew every time, and with another budget choose other parameters of the same class; one and two threads.
    hashes[f"empty {i}"] = run(f"empty{i}", 2 + 2 * i, 1 + i % 2)
    hashes[f"warm {i}"] = run("empty0", 4, 1 + i % 2)
    shutil.rmtree(work / "deleted", ignore_errors=True)
    hashes[f"deleted {i}"] = run("deleted", 3, 2)
distinct = set(hashes.values())
print(f"{len(hashes)} runs, {len(distinct)} hash" + ("es" if len(distinct) != 1 else ""))
if len(distinct) != 1:
    for name, value in hashes.items():
        print(name, *value)
    sys.exit("what: the bytes differ between runs")
shutil.rmtree(work)
