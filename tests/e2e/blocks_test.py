"""Transformer blocks as frameworks export them, small: each spelling becomes at most eight kernels, and what they compute agrees.

usage: blocks_test.py SOURCE_DIR BUILD_DIR
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

source, build = Path(sys.argv[1]), Path(sys.argv[2])
work = Path(tempfile.mkdtemp(prefix="rtx_blocks_test_"))
environment = {"PATH": os.environ["PATH"], "HOME": str(work), "RTX_CACHE_DIR": str(work / "cache"), "NO_COLOR": "1"}
# (configuration, target options): the emulator runs GPU kernels, slowly, so that it has one of each kind.
EMULATED = {("gpt-small", "parts", "separate"), ("llama-small", "operators", "separate")}
emulates = "RTX_TEST_NO_EMULATION" not in os.environ
if not emulates:
    print("emulated: left out, RTX_TEST_NO_EMULATION is set")


def rtx(*words):
    process = subprocess.run([str(build / "bin/rtx"), *map(str, words), "--json"], env=environment, capture_output=True, text=True, timeout=280)
    if process.returncode != 0:
        sys.exit(f"what: rtx {' '.join(map(str, words))} exits {process.returncode}\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}")
    return json.loads(process.stdout)


for config, spelling, projections in itertools.product(("gpt-small", "llama-small", "encoder-small"), ("parts", "operators"), ("joined", "separate")):
    folder = work / f"{config}-{spelling}-{projections}"
    subprocess.run([sys.executable, source / "bench/models/export_block.py", config, "-o", folder, "--dtype", "f16", "--spelling", spelling, "--projections", projections],
                   check=True, stdout=subprocess.DEVNULL)
    regions = len(rtx("explain", folder / "model.onnx")["regions"])
    wanted = 8 if config == "llama-small" else 7
    if regions != wanted:
        sys.exit(f"what: {folder.name} becomes {regions} regions, wanted {wanted}")
    target = ["--target", "cuda", "--emulate"] if emulates and (config, spelling, projections) in EMULATED else []
    found = rtx("verify", folder / "model.onnx", "--random", "3", *target)
    if not found["agrees"]:
        sys.exit(f"what: {folder.name} departs {' '.join(target)}\n{json.dumps(found)[:2000]}")
    print(f"{folder.name} {' '.join(target)}: {regions} regions, agrees")

# One token of each sequence: its key and value are written into the caches where they stand.
for config, wanted in (("gpt-small", 9), ("llama-small", 10)):
    folder = work / f"{config}-decode"
    subprocess.run([sys.executable, source / "bench/models/export_block.py", config, "-o", folder, "--dtype", "f16", "--projections", "separate", "--context", "48", "--batch", "3"],
                   check=True, stdout=subprocess.DEVNULL)
    states = ["--state", "past_k=present_k:48", "--state", "past_v=present_v:48"]
    regions = len(rtx("explain", folder / "model.onnx", *states)["regions"])
    if regions != wanted:
        sys.exit(f"what: {folder.name} becomes {regions} regions, wanted {wanted}")
    for target in ([], ["--target", "cuda", "--emulate"])[:2 if emulates else 1]:
        found = rtx("verify", folder / "model.onnx", "--random", "3", *states, *target)
        if not found["agrees"] or len(found["outputs"]) != 3:
            sys.exit(f"what: {folder.name} departs {' '.join(target)}\n{json.dumps(found)[:2000]}")
        print(f"{folder.name} {' '.join(target)}: {regions} regions, agrees")
