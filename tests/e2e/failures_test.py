"""What goes wrong around rtx while it works, from outside: compilers that are missing, broken, or never end, processes that are
killed, Ctrl-C, files that cannot be written at the end.

usage: failures_test.py SOURCE_DIR BUILD_DIR
"""
import json
import os
import resource
import shutil
import signal
import subprocess

import onnx_writer as onnx
from rtx_testing import check, environment, interrupt, make_model, program, refused, rtx, run, start, succeeds, temporary, wait_for, work

real_compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


def fresh():
    """A cache with nothing in it."""
    place = work / "fresh"
    shutil.rmtree(place, ignore_errors=True)
    return place


def left_behind():
    return sorted(path.name for path in temporary.iterdir())


def broken_compilers(model):
    plain = work / "plain-c++"
    plain.write_text("#!/bin/sh\nexit 0\n")
    plain.chmod(0o644)
    cases = {
        "is not there": "/nonexistent/c++",
        "is a folder": work,
        "may not be executed": plain,
        "is no program": program("garbage-c++", "\x7fELF nonsense"),
        "fails at once": program("failing-c++", "#!/bin/sh\nexit 1\n"),
        "knows its version only": program("version-c++", '#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\necho "no more memory" >&2\nexit 1\n'),
        "says it is done and writes nothing": program("lazy-c++", '#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12"\nexit 0\n'),
        "dies by a signal": program("dying-c++", '#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\nkill -SEGV $$\n'),
    }
    for what, compiler in cases.items():
        for arguments in (["compile", model, "--no-tune"], ["compile", model, "--budget", "2"], ["verify", model, "--random", "1"], ["tune", "softmax", "rows=4", "columns=8", "--budget", "1"]):
            process = refused(4, "compiler", *arguments, RTX_CXX=compiler, RTX_CACHE_DIR=fresh())
            check("RTX_CXX" in process.stderr, f"a compiler that {what}: RTX_CXX is not named", process)
        process = succeeds("targets", RTX_CXX=compiler, RTX_CACHE_DIR=fresh())
        check("cpu" in process.stdout, f"a compiler that {what}: rtx targets does not show cpu", process)
    # One that makes wrong files: what it wrote cannot be loaded, and nothing of it is kept.
    wrong = program("wrong-c++", '#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && echo nonsense > "$2"; shift; done\n')
    process = start("compile", model, "--no-tune", RTX_CXX=wrong, RTX_CACHE_DIR=fresh())
    _, errors = process.communicate(timeout=200)
    check(process.returncode not in (0, -6, -11) and "error:" in errors, f"a compiler that writes nonsense: exit {process.returncode}\n{errors}")
    check(not list(fresh().glob("entries/*")), "a kernel that cannot be loaded is kept")
    check(not left_behind(), f"broken compilers leave {left_behind()}")


def ctrl_c_ends_a_hung_compiler(model):
    hung = program("hung-c++", f'#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\necho $$ >> "{work}/hung.pids"\nexec sleep 600\n')
    asked = program("hung-version-c++", f'#!/bin/sh\necho $$ >> "{work}/hung.pids"\nexec sleep 600\n')
    for compiler in (hung, asked):
        pids = work / "hung.pids"
        pids.unlink(missing_ok=True)
        process = start("compile", model, "--budget", "100", "--jobs", "2", RTX_CXX=compiler, RTX_CACHE_DIR=fresh())
        check(wait_for(lambda: pids.exists() and pids.read_text().endswith("\n")), f"{compiler.name} is not started")
        took = interrupt(process, 20)
        check(process.returncode == 130, f"Ctrl-C under {compiler.name} exits {process.returncode}, wanted 130")
        check(took < 3, f"Ctrl-C under {compiler.name} took {took:.1f} s")
        for pid in pids.read_text().split():
            check(wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2], 3), f"{compiler.name} still runs")
        check(not left_behind(), f"Ctrl-C under {compiler.name} leaves {left_behind()}")


def ctrl_c_ends_work_that_does_not_look():
    """A worker in the middle of a slow candidate, and the reference in the middle of a large product: neither looks at a flag."""
    large = work / "large.onnx"
    onnx.model(large, onnx.node("MatMul", ["x", "y"], "z") + onnx.text(2, "large") + onnx.graph_input("x", [2000, 2000]) + onnx.graph_input("y", [2000, 2000])
               + onnx.graph_output("z", [2000, 2000]))
    for arguments in (["tune", "gemm", "m=400", "n=400", "k=400", "--target", "cuda-emulated", "--budget", "60"], ["verify", large, "--random", "1"],
                      ["run", large, "--random", "1", "--target", "cuda-emulated", "--no-tune"]):
        for again in range(2):  # the second time its kernels are there, and other work is under way
            place = work / f"interrupted-{arguments[0]}"
            process = start(*arguments, RTX_CACHE_DIR=place)
            if again:
                try:
                    process.wait(timeout=1.5)
                    check(False, f"rtx {arguments[0]} ends before it can be interrupted", process)
                except subprocess.TimeoutExpired:
                    pass
            else:
                check(wait_for(lambda: any(temporary.iterdir()) or any(place.glob("entries/*"))), f"rtx {arguments[0]} compiles nothing")
            took = interrupt(process, 20)
            check(process.returncode == 130 and took < 3, f"Ctrl-C in rtx {arguments[0]}: exit {process.returncode} after {took:.1f} s, wanted 130 within one")
            check("interrupted" in process.stderr.read(), f"Ctrl-C in rtx {arguments[0]} is not named")


def killed_processes_leave_nothing_for_long(model):
    slow = program("slow-c++", f'#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\necho x > "$TMPDIR/cc1234.s"\necho $$ >> "{work}/slow.pids"\nexec sleep 600\n')
    pids = work / "slow.pids"
    killed = start("compile", model, "--no-tune", "--jobs", "1", RTX_CXX=slow, RTX_CACHE_DIR=fresh())
    check(wait_for(pids.exists), "the slow compiler is not started")
    alive = start("compile", model, "--no-tune", "--jobs", "1", RTX_CXX=slow, RTX_CACHE_DIR=work / "another")
    check(wait_for(lambda: len(pids.read_text().split()) >= 2), "the second slow compiler is not started")
    directories = left_behind()
    check(len(directories) >= 2 and all(name.startswith("rtx-compile-") for name in directories), f"two compiles use {directories}")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    check(left_behind() == directories, "a killed process cleaned up after itself")
    # The next one removes what the dead one left, and only that.
    succeeds("compile", model, "--no-tune")
    kept = left_behind()
    check(0 < len(kept) < len(directories) and set(kept) < set(directories), f"of {directories}, the next process kept {kept}")
    took = interrupt(alive, 20)
    check(alive.returncode == 130 and took < 3, f"the other compile ends with {alive.returncode} after {took:.1f} s, wanted 130: its directory was taken away")
    check(not left_behind(), f"{left_behind()} are left")
    for pid in pids.read_text().split():
        try:
            os.kill(int(pid), signal.SIGKILL)  # the one whose parent was killed
        except ProcessLookupError:
            pass


def late_output_errors(model, tiny):
    """What can be seen only when writing: a file system that is full, here a limit on the size of files."""
    bundle = work / "late.rtxgc"
    succeeds("compile", model, "--no-tune")
    whole = work / "whole.rtxgc"
    succeeds("compile", model, "--no-tune", "-o", whole)
    limit = whole.stat().st_size // 2  # more than a kernel, less than the bundle

    def limited(*arguments, bytes_of_a_file=limit, **changes):
        return subprocess.run([rtx, *map(str, arguments)], env=environment(**changes), capture_output=True, text=True, timeout=200, cwd=work,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, bytes_of_a_file)))

    process = limited("compile", model, "--no-tune", "-o", bundle)
    check(process.returncode == 74 and "late.rtxgc" in process.stderr, f"a bundle that is too large for the disk: exit {process.returncode}, wanted 74", process)
    check(not list(work.glob("late.rtxgc*")), "part of a bundle is left")
    # An older bundle of that name stays whole.
    shutil.copy(whole, bundle)
    process = limited("compile", model, "--no-tune", "-o", bundle)
    check(process.returncode == 74 and bundle.read_bytes() == whole.read_bytes(), "a bundle that could not be replaced was lost", process)
    process = limited("bench", bundle, "--iterations", str(limit // 8), "--output", "late.json")
    check(process.returncode == 74 and not list(work.glob("late.json*")), f"a result file that is too large: exit {process.returncode}, wanted 74", process)
    process = limited("explain", model, "--dot", "late.dot", bytes_of_a_file=100)
    check(process.returncode == 74 and not list(work.glob("late.dot*")), f"a graph that is too large: exit {process.returncode}, wanted 74", process)
    process = limited("run", model, "--random", "1", "--no-tune", "--output-dir", "late", bytes_of_a_file=limit)
    check(process.returncode in (0, 74) and not list(work.glob("late/*.tmp*")), f"outputs under a limit: exit {process.returncode}", process)
    # A kernel that cannot be kept is no error: the work goes on with a warning that names the place.
    process = limited("compile", tiny, "--no-tune", "--json", bytes_of_a_file=1 << 20, RTX_CACHE_DIR="/dev/null/cache")
    notes = [line for line in process.stderr.splitlines() if "kernel cache" in line]
    check(process.returncode == 0 and len(notes) == 1 and "/dev/null/cache" in notes[0], f"a cache that cannot be: exit {process.returncode}, {len(notes)} warnings", process)


def cleans_up_after_a_second_ctrl_c(model):
    slow = program("slower-c++", f'#!/bin/sh\n[ "$1" = --version ] && echo "c++ 12" && exit 0\ntouch "{work}/slower"\nexec sleep 600\n')
    process = start("compile", model, "--no-tune", RTX_CXX=slow, RTX_CACHE_DIR=fresh())
    check(wait_for((work / "slower").exists), "the slow compiler is not started")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    check(process.returncode == 130, f"two Ctrl-C end with {process.returncode}, wanted 130")
    succeeds("compile", model, "--no-tune")
    check(not left_behind(), f"after two Ctrl-C and another run {left_behind()} are left")


def damaged_cache_entries(model):
    """Every way a real entry can be damaged: a miss, set aside and made again; all others stay hits."""
    place = work / "damage"
    facts = json.loads(succeeds("compile", model, "--no-tune", "--json", RTX_CACHE_DIR=place).stdout)
    entries = sorted((place / "entries").iterdir())
    check(len(entries) == facts["kernels"] and facts["kernels"] > 1, f"{len(entries)} entries for {facts['kernels']} kernels")
    entry = entries[0]
    flip = lambda data, at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
    damages = {"emptied": lambda d: b"", "cut to a byte": lambda d: d[:1], "halved": lambda d: d[: len(d) // 2], "a byte short": lambda d: d[:-1], "a byte longer": lambda d: d + b"\0",
               "a bit flipped at its start": lambda d: flip(d, 0), "a bit flipped in its middle": lambda d: flip(d, len(d) // 2), "a bit flipped at its end": lambda d: flip(d, len(d) - 1),
               "JSON of another type": lambda d: b"[]\n", "10 MB of zeros": lambda d: bytes(10_000_000)}
    for name in ("key.txt", "record.json", "kernel.cpp", "kernel.bin", "log.txt", "checksum.txt"):
        good = (entry / name).read_bytes()
        for what, damage in damages.items():
            if not good and damage(b"x") in (b"", b"x"):
                continue
            if good == b"" and "flipped" in what or good == b"" and what in ("emptied", "cut to a byte", "halved", "a byte short"):
                continue
            (entry / name).write_bytes(damage(good))
            made_again(model, place, f"{name} {what}")
    for name in ("key.txt", "kernel.bin", "checksum.txt"):
        (entry / name).unlink()
        made_again(model, place, f"{name} missing")
        (entry / name).unlink()
        (entry / name).mkdir()
        made_again(model, place, f"{name} is a folder")
        (entry / name).unlink()
        (entry / name).symlink_to("/dev/zero")
        made_again(model, place, f"{name} leads to /dev/zero")
        (entry / name).unlink()
        os.mkfifo(entry / name)
        made_again(model, place, f"{name} is a pipe")
    shutil.rmtree(entry)
    shutil.copytree(entries[1], entry)
    made_again(model, place, "another kernel's entry in its place")
    shutil.rmtree(entry)
    entry.write_text("a file")
    made_again(model, place, "a file in its place")
    (place / "toolchains.txt").write_bytes(bytes(10_000_000))
    succeeds("compile", model, "--no-tune", RTX_CACHE_DIR=place)
    for name in ("toolchains.txt", f"lock/{entry.name}"):
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)
        shutil.rmtree(entry)
        succeeds("compile", model, "--no-tune", RTX_CACHE_DIR=place)
    succeeds("cache", "verify", RTX_CACHE_DIR=place)


def made_again(model, place, what):
    process = succeeds("compile", model, "--no-tune", "--json", RTX_CACHE_DIR=place)
    if process.returncode != 0:
        check(False, what)
        return
    facts = json.loads(process.stdout)
    check(facts["cache_misses"] == 1 and facts["compiles"] > 0, f"{what}: {facts['cache_misses']} misses, wanted 1", process)
    check(process.stderr.count("is damaged") == 1, f"{what}: not one warning about it", process)
    again = json.loads(succeeds("compile", model, "--no-tune", "--json", RTX_CACHE_DIR=place).stdout)
    check(again["cache_hit_pct"] == 100, f"{what}: was not made again")


def main():
    model, families = make_model("tiny_model.py", "tiny.onnx"), make_model("families_model.py", "families.onnx")
    broken_compilers(model)
    ctrl_c_ends_a_hung_compiler(families)
    ctrl_c_ends_work_that_does_not_look()
    killed_processes_leave_nothing_for_long(model)
    cleans_up_after_a_second_ctrl_c(model)
    late_output_errors(families, model)
    damaged_cache_entries(model)


run(main)
