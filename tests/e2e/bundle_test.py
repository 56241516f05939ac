"""A bundle's life, from outside: made, checked, carried elsewhere, run without compiler and cache, and damaged in every way.

usage: bundle_test.py SOURCE_DIR BUILD_DIR
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

source, build = Path(sys.argv[1]), Path(sys.argv[2])
rtx = str(build / "bin/rtx")
work = Path(tempfile.mkdtemp(prefix="rtx_bundle_test_"))
failures = []


def environment(home, path=None):
    return {"PATH": path if path is not None else os.environ["PATH"], "HOME": str(work / home), "XDG_CONFIG_HOME": str(work / home / "config"),
            "RTX_CACHE_DIR": str(work / home / "cache"), "NO_COLOR": "1"}


def call(*arguments, home="author", path=None):
    return subprocess.run([rtx, *map(str, arguments)], env=environment(home, path), capture_output=True, text=True, timeout=240)


def check(condition, what, process=None):
    if not condition:
        failures.append(what)
        print("what:", what)
        if process:
            print(f"exit {process.returncode}\n{process.stdout}{process.stderr}")


def refused(path, what, words, command="check"):
    arguments = ["run", path, "--random", "1"] if command == "run" else [command, path]
    process = call(*arguments)
    check(process.returncode == 3, f"{what}: {command} exits {process.returncode}, wanted 3", process)
    check("error:" in process.stderr and words in process.stderr, f"{what}: {command} does not say '{words}'", process)


def variant(name, data):
    path = work / f"{name}.rtxgc"
    path.write_bytes(data)
    return path


def life():
    model = work / "tiny.onnx"
    subprocess.run([sys.executable, source / "tests/e2e/tiny_model.py", model], check=True)
    bundle = work / "tiny.rtxgc"
    process = call("compile", model, "--target", "cpu", "--no-tune", "-o", bundle)
    check(process.returncode == 0, "compile fails", process)
    if failures:
        return None
    process = call("check", bundle)
    check(process.returncode == 0 and "exact" in process.stdout, "a fresh bundle is not exact", process)
    first = call("run", bundle, "--random", "1", "--json")
    check(first.returncode == 0, "run fails", first)
    if failures:
        return None
    wanted = json.loads(first.stdout)

    # Elsewhere: another folder, no cache, no compiler on PATH; keys stay, they are the user's.
    elsewhere = work / "elsewhere" / "copy.rtxgc"
    elsewhere.parent.mkdir()
    shutil.copy(bundle, elsewhere)
    shutil.rmtree(work / "author" / "cache", ignore_errors=True)
    outside = []
    for _ in range(5):
        start = time.monotonic()
        process = call("run", elsewhere, "--random", "1", "--json", path="/nonexistent")
        outside.append(1000 * (time.monotonic() - start))
        check(process.returncode == 0, "a copied bundle does not run without compiler and cache", process)
        if failures:
            return None
    found = json.loads(process.stdout)
    check(found["outputs"] == wanted["outputs"], "a copied bundle gives other bytes")
    check(found["verdict"] == "exact" and found["compiles"] == 0, "a copied bundle is not used as it is", process)
    check(found["aot_load_ms"] < 100, f"loading takes {found['aot_load_ms']} ms, wanted less than 100")
    check(min(outside) < 100, f"a whole process takes {min(outside):.0f} ms, wanted less than 100")
    print(f"loaded in {found['aot_load_ms']:.2f} ms; the whole process {min(outside):.1f} ms")
    return bundle


def damage(bundle):
    data = bundle.read_bytes()
    sections = json.loads(call("inspect", bundle, "--json").stdout)["sections"]
    places = {section["name"]: tuple(map(int, section["facts"].split()[:2])) for section in sections}
    check({"constants", "chunk hashes", "binaries", "sources", "sbom"} <= set(places), f"sections are missing: {sorted(places)}")
    manifest = struct.unpack_from("<QQ", data, 24)
    places["header"], places["manifest"] = (0, 224), manifest
    for name, (offset, size) in places.items():
        flipped = bytearray(data)
        flipped[offset + size // 2] ^= 1
        path = variant("flipped", flipped)
        refused(path, f"a bit of {name} flipped", "", "run")
        if name != "constants":  # a check looks at all but the bytes of constants
            refused(path, f"a bit of {name} flipped", "")
    refused(variant("cut", data[:-1]), "cut by a byte", "cut off")
    refused(variant("half", data[: len(data) // 2]), "cut in half", "cut off", "run")
    refused(variant("empty", b""), "empty", "not a bundle")
    refused(variant("longer", data + b"\0"), "a byte longer", "1 bytes longer")

    unsigned = bytearray(data)
    unsigned[56:60] = bytes(4)
    unsigned[64:160] = bytes(96)
    path = variant("unsigned", unsigned)
    refused(path, "signature removed", "not signed")
    refused(path, "signature removed", "not signed", "run")
    allowed = call("run", path, "--random", "1", "--allow-unsigned")
    check(allowed.returncode == 0, "--allow-unsigned does not accept an unsigned bundle", allowed)

    stranger = call("check", bundle, home="somebody_else")
    check(stranger.returncode == 3 and "not trusted here" in stranger.stderr, "another user trusts the author's key", stranger)
    wrong = bytearray(data)
    wrong[96] ^= 1
    process = call("run", variant("wrong", wrong), "--random", "1", "--allow-unsigned")
    check(process.returncode == 3 and "signature" in process.stderr, "a wrong signature passes with --allow-unsigned", process)
    process = call("check", work / "nothing.rtxgc")
    check(process.returncode == 2, "a file that is not there is the user's mistake", process)


try:
    good = life()
    if good:
        damage(good)
finally:
    shutil.rmtree(work, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
