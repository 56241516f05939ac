"""Files that are not what their names say, bundles of other machines, archives and models made to break a reader, and what each
command says of them, in words and as JSON.

usage: hostile_test.py SOURCE_DIR BUILD_DIR
"""
import hashlib
import json
import os
import resource
import shutil
import struct
import subprocess

import onnx_writer as onnx
from rtx_testing import call, check, environment, interrupt, make_model, refused, rtx, run, start, succeeds, wait_for, work


def resealed(bundle, name, old, new):
    """The bundle with words of its manifest replaced by others of one length, hashed again and unsigned."""
    data = bytearray(bundle.read_bytes())
    offset, size = struct.unpack_from("<QQ", data, 24)
    manifest = bytes(data[offset:offset + size])
    check(old in manifest and len(old) == len(new), f"{name}: the manifest has no {old}")
    data[offset:offset + size] = manifest.replace(old, new)
    data[56:60], data[64:160] = bytes(4), bytes(96)
    data[160:192] = hashlib.blake2b(bytes(data[offset:offset + size]), digest_size=32).digest()
    path = work / f"{name}.rtxgc"
    path.write_bytes(data)
    return path


def names_that_lie(bundle):
    damaged = work / "damaged.rtxgc"
    for content in (b"", b"R", b"QTXGC" + bundle.read_bytes()[5:]):
        damaged.write_bytes(content)
        for arguments in (["check"], ["inspect"], ["run", "--random", "1"], ["bench", "--iterations", "2"]):
            refused(3, "not a bundle", arguments[0], damaged, *arguments[1:])
    for name in ("pipe", "pipe.rtxgc", "pipe.onnx"):
        os.mkfifo(work / name)
        for command in ("run", "bench", "check", "inspect", "compile", "verify", "explain"):
            refused(2, "not a regular file", command, work / name)
    for command in ("run", "bench", "verify", "compile"):
        check("no such file" not in refused(2, "", command, work).stderr, f"rtx {command} says that a folder is not there")
    refused(2, "is a folder", "run", bundle, "--input", f"x={work}")


def bundles_of_other_machines(bundle):
    target = resealed(bundle, "target", b"\x03\0\0\0cpu\0", b"\x03\0\0\0hip\0")
    unknown = resealed(bundle, "unknown", b"\x03\0\0\0cpu\0", b"\x03\0\0\0abc\0")
    for path in (target, unknown):
        for command in ("run", "bench"):
            refused(3, "another kind of device", command, path, "--allow-unsigned")
    # No words of a file reach the terminal as orders.
    orders = resealed(bundle, "orders", b"\x03\0\0\0cpu\0", b"\x03\0\0\0\x1b[m\0")
    for command in ("check", "inspect", "run"):
        process = call(command, orders, "--allow-unsigned")
        check("\x1b" not in process.stdout + process.stderr, f"rtx {command} hands an escape sequence on", process)
    arch = next(field["found"] for field in json.loads(succeeds("check", bundle, "--json").stdout)["fields"] if field["field"] == "arch").encode()
    old = resealed(bundle, "arch", arch + b"\0", b"?" * len(arch) + b"\0")
    process = succeeds("run", old, "--random", "1", "--allow-unsigned")
    check(len([line for line in process.stderr.splitlines() if line.startswith("note: ")]) == 1, "a rebuild is not one line", process)
    process = refused(3, "compiler", "run", old, "--random", "1", "--allow-unsigned", RTX_CXX="/nonexistent/c++", RTX_CACHE_DIR=work / "nothing")
    check("another instruction set" in process.stderr, "a rebuild that fails does not say why it was needed", process)


def strangers_are_named_with_the_way_to_trust_them(bundle):
    elsewhere = {"XDG_CONFIG_HOME": work / "stranger"}
    process = refused(3, "not trusted here", "check", bundle, **elsewhere)
    words = process.stderr.split("`")[1].split()
    check(words[:2] == ["rtx", "key"], f"the fix is not a command: {words}", process)
    succeeds(*words[1:], **elsewhere)
    succeeds("check", bundle, **elsewhere)
    refused(2, "rtx key trust NAME HEX_OR_FILE", "key", "trust", **elsewhere)


def check_looks_for_the_side_file(model):
    bundle, side = work / "side.rtxgc", work / "side.bin"
    succeeds("compile", model, "--no-tune", "-o", bundle, "--constants-file", side.name)
    succeeds("check", bundle)
    whole = side.read_bytes()
    side.write_bytes(whole[:-1])
    refused(3, "side.bin has", "check", bundle)
    side.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(3, "side.rtxgc", "run", bundle, "--random", "1")
    side.unlink()
    refused(3, "keep side.bin beside the bundle", "check", bundle)
    succeeds("inspect", bundle)
    side.write_bytes(whole)


def archives_of_the_cache():
    path = work / "hostile.rtxcache"
    for body in (b"\x81" * 5_000_000, b"\x9f" * 5_000_000, b"\x9b\x7f" + b"\xff" * 7):
        path.write_bytes(b"rtx-cache 1\n" + hashlib.blake2b(body, digest_size=32).hexdigest().encode() + b"\n" + body)
        refused(2, "not a list of entries", "cache", "import", path)


def models_no_memory_holds():
    path = work / "huge.onnx"
    onnx.model(path, onnx.node("Relu", ["x"], "y") + onnx.text(2, "huge") + onnx.graph_input("x", [1 << 40]) + onnx.graph_output("y", [1 << 40]))
    for arguments in (["compile", path, "--no-tune"], ["run", path, "--random", "1", "--no-tune"], ["tune", "softmax", "rows=100000000", "columns=100000", "--budget", "0"]):
        refused(4, "memory", *arguments)
    refused(2, "too large", "tune", "gemm", "m=999999999999", "n=999999999999", "k=3")
    onnx.model(path, onnx.node("Relu", ["x"], "y") + onnx.text(2, "twice") + onnx.graph_input("x", [3]) + onnx.graph_output("y", [3]) + onnx.graph_output("y", [3]))
    refused(2, "two graph outputs are called 'y'", "compile", path)


def errors_are_json_too(model, bundle):
    for code, arguments in ((2, ["compile", "nope.onnx"]), (2, ["compile"]), (2, ["frobnicate"]), (2, ["compile", model, "--arch", ""]), (2, ["compile", model, "-o", model]), (3, ["check", model]),
                            (2, ["run", bundle]), (2, ["verify", model, "--data", "nope"]), (74, ["compile", model, "--no-tune", "-o", "/nonexistent/x"]), (4, ["run", model, "--device", "7"])):
        process = refused(code, "", *arguments, "--json")
        found = json.loads(process.stdout)
        check(found["exit_code"] == code and found["error"]["what"] in process.stderr, f"{arguments}: {found}", process)
        check(set(found["error"]) == {"what", "where", "why", "fix"}, f"{arguments}: {found}")
        check(call(*arguments).stdout == "", f"{arguments} prints to stdout without --json")


def results_are_whole_or_not_there():
    model, bundle, folder = work / "wide.onnx", work / "wide.rtxgc", work / "results"
    onnx.model(model, onnx.node("Relu", ["x"], "y") + onnx.text(2, "wide") + onnx.graph_input("x", [100000]) + onnx.graph_output("y", [100000]))
    succeeds("compile", model, "--no-tune", "-o", bundle)
    succeeds("run", bundle, "--random", "1", "--output-dir", folder)
    before = (folder / "y.npy").read_bytes()
    limit = len(before) // 2  # more than a kernel
    process = subprocess.run([rtx, "run", bundle, "--random", "2", "--output-dir", folder], env=environment(), capture_output=True, text=True, timeout=60,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    check(process.returncode == 74 and "y.npy" in process.stderr and "large" in process.stderr, "an output that cannot be written does not say why", process)
    check([path.name for path in folder.iterdir()] == ["y.npy"] and (folder / "y.npy").read_bytes() == before, "an older output was lost, or part of one is left")


def ctrl_c_ends_a_measurement(bundle):
    process = start("bench", bundle, "--iterations", "1000000", "--streams", "4")
    check(not wait_for(lambda: process.poll() is not None, 0.7), "a bench of 4 million runs is over at once")
    took = interrupt(process, 20)
    check(process.returncode == 130 and took < 2, f"Ctrl-C under rtx bench: exit {process.returncode} after {took:.1f} s, wanted 130 within a second")


def main():
    model = make_model("tiny_model.py", "tiny.onnx")
    bundle = work / "tiny.rtxgc"
    succeeds("compile", model, "--no-tune", "-o", bundle)
    names_that_lie(bundle)
    bundles_of_other_machines(bundle)
    strangers_are_named_with_the_way_to_trust_them(bundle)
    check_looks_for_the_side_file(model)
    archives_of_the_cache()
    models_no_memory_holds()
    errors_are_json_too(model, bundle)
    results_are_whole_or_not_there()
    ctrl_c_ends_a_measurement(bundle)
    shutil.rmtree(work / "nothing", ignore_errors=True)


run(main)
