"""What a user does with a model, from outside: compile twice, run without a compiler, lock, interrupt, and every kind of mistake.

usage: compile_test.py SOURCE_DIR BUILD_DIR
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

source, build = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(source / "tests/e2e"))
rtx = str(build / "bin/rtx")
work = Path(tempfile.mkdtemp(prefix="rtx_compile_test_"))
failures = []
# A compiler that counts how often it is started, even for its version.
real_compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
starts = work / "starts"
compiler = work / "counting-c++"
compiler.write_text(f'#!/bin/sh\necho x >> "{starts}"\nexec "{real_compiler}" "$@"\n')
compiler.chmod(0o755)


def environment(**changes):
    out = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "RTX_CACHE_DIR": str(work / "cache"), "RTX_CXX": str(compiler), "NO_COLOR": "1", "TMPDIR": str(work)}
    out.update(changes)
    return {name: value for name, value in out.items() if value is not None}


def call(*arguments, **changes):
    return subprocess.run([rtx, *map(str, arguments)], env=environment(**changes), capture_output=True, text=True, timeout=280)


def check(condition, what, process=None):
    if condition:
        return
    failures.append(what)
    print("what:", what)
    if process is not None:
        print(f"exit {process.returncode}\n{process.stdout[-2000:]}{process.stderr[-2000:]}")


def refused(code, words, *arguments, **changes):
    process = call(*arguments, **changes)
    check(process.returncode == code, f"rtx {' '.join(map(str, arguments))}: exit {process.returncode}, wanted {code}", process)
    check("error:" in process.stderr and words in process.stderr, f"rtx {' '.join(map(str, arguments))}: does not say '{words}'", process)
    check("terminate called" not in process.stderr and "internal error" not in process.stderr, "an internal error", process)


def count_starts():
    return len(starts.read_text().splitlines()) if starts.exists() else 0


def second_compile_starts_no_compiler(model):
    bundle = work / "model.rtxgc"
    first = call("compile", model, "-o", bundle, "--budget", "8", "--json")
    check(first.returncode == 0, "the first compile fails", first)
    if failures:
        return
    facts = json.loads(first.stdout)
    check(facts["cache_hit_pct"] == 0 and facts["compiles"] > 0, f"the first compile: {facts['cache_hit_pct']} % hits, {facts['compiles']} compiles")
    for name in ("cache_hit_pct", "compiles", "kernels", "baseline_ms", "synth_ms", "win_pct", "aot_load_ms", "verdict"):
        check(name in facts, f"the JSON of compile has no {name}")
    check(facts["baseline_ms"] is None and facts["win_pct"] is None, "a baseline that was not measured has a figure")
    before = count_starts()
    second = call("compile", model, "-o", work / "again.rtxgc", "--budget", "8", "--json")
    check(second.returncode == 0, "the second compile fails", second)
    facts = json.loads(second.stdout)
    check(facts["cache_hit_pct"] == 100 and facts["compiles"] == 0, f"the second compile: {facts['cache_hit_pct']} % hits, {facts['compiles']} compiles", second)
    check(count_starts() == before, f"the second compile started the compiler {count_starts() - before} times")
    check(facts["aot_load_ms"] < 100, f"the bundle takes {facts['aot_load_ms']} ms to load")
    # The same bytes from both bundles, with no cache and no compiler.
    shutil.copytree(work / "cache", work / "cache_kept")
    shutil.rmtree(work / "cache")
    results = [call("run", path, "--random", "3", "--json", PATH="/nonexistent", RTX_CXX="/nonexistent/c++") for path in (bundle, work / "again.rtxgc")]
    check(all(r.returncode == 0 for r in results), "a bundle does not run without cache and compiler", results[0])
    hashes = [[o["blake2b"] for o in json.loads(r.stdout)["outputs"]] for r in results if r.returncode == 0]
    check(len(hashes) == 2 and hashes[0] == hashes[1], "two bundles of one cache give different bytes")
    shutil.move(work / "cache_kept", work / "cache")


def damaged_entry_is_made_again(model):
    entries = sorted((work / "cache/entries").iterdir())
    (entries[0] / "kernel.bin").write_bytes(b"")
    process = call("compile", model, "--budget", "2", "--json")
    facts = json.loads(process.stdout)
    check(process.returncode == 0 and facts["cache_misses"] == 1, f"one damaged entry: {facts['cache_misses']} misses", process)
    check("damaged" in process.stderr, "nothing is said about a damaged entry", process)
    check(call("cache", "verify").returncode == 0, "the cache is not sound after a repair")


def lock_is_written_and_obeyed(model, other):
    lock = work / "kernels.lock"
    process = call("compile", model, "--budget", "2", "--lock", lock)
    check(process.returncode == 0 and lock.exists(), "the lock is not written", process)
    written = lock.read_text()
    process = call("compile", model, "--budget", "2", "--lock", lock, "--json")
    check(process.returncode == 0 and lock.read_text() == written, "the lock is not obeyed", process)
    refused(1, "no entry", "compile", other, "--budget", "2", "--lock", lock)
    lock.write_text("nonsense\n")
    refused(2, "lock file", "compile", model, "--lock", lock)


def cache_places(model):
    file = work / "a-file"
    file.write_text("in the way")
    for name, changes in {"a file in its place": {"RTX_CACHE_DIR": str(file)}, "no home": {"RTX_CACHE_DIR": None, "HOME": None, "XDG_CONFIG_HOME": str(work / "config")}}.items():
        process = call("compile", model, "--no-tune", **changes)
        notes = [line for line in process.stderr.splitlines() if "kernel cache" in line]
        check(process.returncode == 0, f"{name}: compile fails", process)
        check(len(notes) == 1, f"{name}: {len(notes)} warnings about the cache, wanted 1", process)


def interrupt_keeps_what_was_tuned(model):
    cache = work / "interrupted"
    process = subprocess.Popen([rtx, "compile", str(model), "--budget", "200", "--budget-per-op", "100"], env=environment(RTX_CACHE_DIR=str(cache)),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while time.time() < deadline and not list(cache.glob("entries/*")):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    start = time.time()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
    took = time.time() - start
    check(process.returncode == 130, f"Ctrl-C ends with {process.returncode}, wanted 130")
    check(took < 5, f"Ctrl-C took {took:.1f} s")
    check(list(cache.glob("entries/*")), "Ctrl-C lost what was tuned")


def mistakes(model):
    garbage = work / "garbage.onnx"
    garbage.write_bytes(b"\x08\x99garbage" * 50)
    empty = work / "empty.onnx"
    empty.write_bytes(b"")
    refused(2, "nope.onnx", "compile", work / "nope.onnx")
    refused(2, "garbage.onnx", "compile", garbage)
    refused(2, "empty.onnx", "compile", empty)
    refused(2, "folder", "compile", work)
    refused(2, "command line", "compile")
    refused(2, "command line", "compile", model, "--no-such-flag")
    refused(2, "command line", "frobnicate")
    refused(2, "integer", "compile", model, "--shape", "x=1xq")
    refused(2, "unknown target", "compile", model, "--target", "abacus")
    refused(4, "cuda", "compile", work / "nope.onnx", "--target", "cuda")
    refused(2, "x.npy", "run", model, "--input", f"nope={work / 'x.npy'}")
    refused(2, "has no value", "run", model, "--no-tune")
    refused(2, "there is no such file", "run", work / "nope.rtxgc")
    refused(2, "family", "tune", "abacus", "m=1")
    refused(2, "cannot understand", "tune", "gemm", "m=x")
    refused(4, "compiler", "compile", model, "--no-tune", RTX_CXX="/nonexistent/c++", RTX_CACHE_DIR=str(work / "fresh"))
    refused(74, "cannot write", "compile", model, "--no-tune", "-o", "/nonexistent/out.rtxgc")
    refused(2, "signing key", "compile", model, "--no-tune", "-o", work / "k.rtxgc", HOME=None, XDG_CONFIG_HOME=None)
    process = subprocess.run(f'"{rtx}" targets --json > /dev/full', shell=True, env=environment(), capture_output=True, text=True)
    check(process.returncode == 74, f"a full disk under stdout exits {process.returncode}, wanted 74", process)


def narrow_types_keep_masks_finite():
    """(1 - mask) * lowest: the lowest f32 is no f16, and as an infinity it would make NaN of every kept position."""
    import onnx_writer as onnx
    path = work / "masked.onnx"
    onnx.model(path, onnx.node("Sub", ["one", "mask"], "gone") + onnx.node("Mul", ["gone", "lowest"], "penalty") + onnx.node("Add", ["x", "penalty"], "sum")
               + onnx.node("Softmax", ["sum"], "y", axis=-1) + onnx.text(2, "masked") + onnx.tensor("one", [], [1.0]) + onnx.tensor("lowest", [], [-3.4028234663852886e38])
               + onnx.graph_input("x", [5, 300]) + onnx.graph_input("mask", [5, 300]) + onnx.graph_output("y", [5, 300]))
    for dtype in ("f16", "bf16"):
        process = call("verify", path, "--random", "1", "--dtype", dtype, "--json")
        check(process.returncode == 0, f"a masked softmax in {dtype} is not verified", process)
        output = json.loads(process.stdout)["outputs"][0]
        check(output["first_nan"] == -1 and output["judged_by"] == "node by node" and output["node_by_node_error"] > 0 and output["region_tolerance"] > 0,
              f"a masked softmax in {dtype}: {output}")


def main():
    scripts = source / "tests/e2e"
    tiny, families = work / "tiny.onnx", work / "families.onnx"
    subprocess.run([sys.executable, scripts / "tiny_model.py", tiny], check=True)
    subprocess.run([sys.executable, scripts / "families_model.py", families], check=True)
    second_compile_starts_no_compiler(tiny)
    if not failures:
        damaged_entry_is_made_again(tiny)
        lock_is_written_and_obeyed(tiny, families)
        cache_places(tiny)
        interrupt_keeps_what_was_tuned(families)
        mistakes(tiny)
        narrow_types_keep_masks_finite()
    process = call("verify", families, "--random", "1")
    check(process.returncode == 0, "a model that needs every family is not verified", process)
    found = {region["family"] for region in json.loads(call("explain", families, "--json").stdout)["regions"]}
    wanted = next(set(target["families"]) for target in json.loads(call("targets", "--json").stdout) if target["target"] == "cpu")
    check(found == wanted, f"the families model needs {sorted(found)}, the program has {sorted(wanted)}")
    for family in wanted:
        check(call("tune", family).returncode == 0, f"rtx tune does not know the family {family}")
    print("failed" if failures else "passed")
    if not failures:
        shutil.rmtree(work)
    sys.exit(1 if failures else 0)


main()
