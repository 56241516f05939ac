"""What may be said on the command line, from outside: help that teaches, options that contradict each other or would do nothing,
empty and unreadable values, outputs that would overwrite inputs, logs, outputs that nobody can read.

usage: usage_test.py SOURCE_DIR BUILD_DIR
"""
import json
import re
import stat
import subprocess

from rtx_testing import call, check, environment, make_model, refused, rtx, run, succeeds, work

COMMANDS = ["compile", "run", "verify", "bench", "explain", "tune", "inspect", "check", "cache", "key", "targets"]


def help_teaches():
    general = succeeds("--help").stdout
    for name in COMMANDS + ["RTX_CACHE_DIR", "RTX_CACHE_MAX_MB", "RTX_CXX", "RTX_OPENBLAS", "XDG_CONFIG_HOME", "TMPDIR", "NO_COLOR", "Exit codes:"]:
        check(name in general, f"rtx --help does not mention {name}")
    for command in COMMANDS:
        text = succeeds(command, "--help").stdout
        examples = re.findall(r"^  rtx (\S+)", text, re.MULTILINE)
        check(2 <= len(examples) <= 5 and set(examples) == {command}, f"rtx {command} --help has the examples {examples}, wanted 2 to 5 of its own")
        check("Exit codes: " in text, f"rtx {command} --help names no exit codes")
        check(text.count("\nCommon to all commands:\n") == 1, f"rtx {command} --help does not group its options")
        # Every option that an example uses exists.
        for option in set(re.findall(r"^  rtx .*", text, re.MULTILINE) and re.findall(r"(?<= )--[a-z0-9-]+|(?<= )-o\b", "\n".join(re.findall(r"^  rtx .*", text, re.MULTILINE)))):
            check(re.search(rf"^  (-\w,)?{option}\b|^  {option},", text, re.MULTILINE), f"an example of rtx {command} uses {option}, which it does not have")


def lost_output_is_74(model, bundle):
    commands = [["--help"], ["--version"], ["compile", "--help"], ["targets"], ["targets", "--json"], ["key", "list"], ["cache", "stats"], ["cache", "list", "--json"], ["explain", model],
                ["inspect", bundle], ["check", bundle], ["check", bundle, "--json"], ["run", bundle, "--random", "1"], ["run", bundle, "--random", "1", "--json"],
                ["verify", model, "--random", "1"], ["compile", model, "--no-tune"], ["compile", model, "--no-tune", "--json"], ["tune", "softmax", "rows=4", "columns=8", "--budget", "0"],
                ["bench", bundle, "--iterations", "2", "--warmup", "0"]]
    for arguments in commands:
        for name, shell in {"a full disk": '"$0" "$@" > /dev/full', "no stdout at all": '"$0" "$@" >&-'}.items():
            process = subprocess.run(["sh", "-c", shell, rtx, *map(str, arguments)], env=environment(), stderr=subprocess.PIPE, text=True, timeout=240)
            check(process.returncode == 74 and "cannot write to standard output" in process.stderr, f"{name} under rtx {' '.join(map(str, arguments))}: exit {process.returncode}, wanted 74", process)
    # A closed stdout must not make the bundle the place where results are printed.
    target = work / "closed.rtxgc"
    subprocess.run(["sh", "-c", '"$0" "$@" >&- 2>&- <&-', rtx, "compile", str(model), "--no-tune", "-o", str(target)], env=environment(), timeout=240)
    succeeds("check", target)
    # Of an error, its own code: it was said on stderr.
    process = subprocess.run(["sh", "-c", f'"{rtx}" run nope.onnx > /dev/full'], env=environment(), stderr=subprocess.PIPE, text=True)
    check(process.returncode == 2, f"an error with stdout lost exits {process.returncode}, wanted its own 2", process)


def options_without_effect(model, bundle):
    for words, arguments in [
        ("--sign requires --output", ["compile", model, "--sign", "k.key"]),
        ("--unsigned requires --output", ["compile", model, "--unsigned"]),
        ("--no-sources requires --output", ["compile", model, "--no-sources"]),
        ("--constants-file requires --output", ["compile", model, "--constants-file", "c.bin"]),
        ("excludes", ["compile", model, "-o", "x.rtxgc", "--sign", "k.key", "--unsigned"]),
        ("excludes", ["compile", model, "--no-tune", "--budget", "3"]),
        ("excludes", ["compile", model, "--no-tune", "--budget-per-op", "3"]),
        ("--budget 0", ["compile", model, "--budget", "0", "--budget-per-op", "3"]),
        ("--keep-f32 requires --dtype", ["compile", model, "--keep-f32", "n"]),
        ("--keep-f32 would do nothing", ["compile", model, "--keep-f32", "n", "--dtype", "f32"]),
        ("--keep-f32 would do nothing", ["verify", model, "--keep-f32", "n", "--dtype", "keep"]),
        ("--emulate", ["compile", model, "--emulate"]),
        ("excludes", ["verify", model, "--data", "d", "--random", "1"]),
        ("excludes", ["verify", model, "--data", "d", "--input", "x=x.npy"]),
        ("--noise requires --data", ["verify", model, "--noise", "1"]),
        ("--allow-unsigned would do nothing", ["run", model, "--random", "1", "--allow-unsigned"]),
        ("--allow-unsigned would do nothing", ["bench", model, "--allow-unsigned"]),
        ("--family would do nothing", ["bench", model, "--family", "gemm"]),
        ("--peers would do nothing", ["bench", bundle, "--peers"]),
        ("--layers would do nothing", ["bench", "suite", "--layers"]),
        ("--streams would do nothing", ["bench", "suite", "--streams", "2"]),
        ("--dim would do nothing", ["bench", "suite", "--dim", "n=2"]),
        ("excludes", ["bench", model, "--compare", "a", "--recheck", "b"]),
        ("--source requires --kernel", ["inspect", bundle, "--source"]),
        ("takes no file", ["cache", "stats", "file"]),
        ("--max-mb would do nothing", ["cache", "stats", "--max-mb", "3"]),
        ("takes no such argument", ["key", "list", "name"]),
        ("takes no such argument", ["key", "new", "name", "hex"]),
        ("needs a name", ["key", "untrust"]),
        ("excludes", ["targets", "-v", "-q"]),
        ("names 'x' twice", ["compile", model, "--shape", "x=8x32", "--shape", "x=8x32"]),
        ("names 'x' twice", ["run", bundle, "--input", f"x={work / 'drawn/y.npy'}", "--input", f"x={work / 'drawn/y.npy'}"]),
        ("is set twice", ["tune", "softmax", "rows=2", "rows=4"]),
    ]:
        refused(2, words, *arguments)
    for option in (["--shape", "x=8x32"], ["--dim", "n=1"], ["--dtype", "f16"], ["--state", "a=b:1"], ["--target", "cpu"]):
        for command in ("run", "bench"):
            refused(2, option[0] + " would do nothing", command, bundle, *option)
    refused(2, "--no-tune would do nothing", "run", bundle, "--no-tune")
    refused(2, "--budget would do nothing", "bench", bundle, "--budget", "3")


def values(model):
    for option in ("--arch", "--target", "--shape", "--dim", "--dtype", "--lock", "--log-file", "--save-temps", "-o"):
        refused(2, "--output" if option == "-o" else option, "compile", model, option, "")
    refused(2, "empty", "run", "")
    refused(2, "FILE.npz", "run", model, "--input", "x=")
    for option, value in (("--budget", "nan"), ("--budget", "inf"), ("--budget", "-1"), ("--budget", "1e"), ("--budget", "5s"), ("--budget-per-op", "-0.5"), ("--threads", "-1"),
                          ("--threads", "2x"), ("--threads", "99999999999999999999"), ("--jobs", "1.5"), ("--device", "-1")):
        refused(2, option, "compile", model, f"{option}={value}")
    for seed in ("-1", "1.5", "0x10", "18446744073709551616", "nan", " 1"):
        refused(2, "whole number", "run", model, f"--random={seed}")
    nothing = json.loads(succeeds("tune", "gemm", "m=0", "n=8", "k=8", "--budget", "9", "--json").stdout)
    check(len(nothing[0]["candidates"]) == 1, "a product of no rows is searched")
    for command in ("compile", "verify", "bench"):  # before the model is read, like everything about the target
        refused(2, "arch sm_80 cannot run here", command, "nothing.onnx", "--arch", "sm_80")
    refused(2, "arch sm_70 cannot run here", "verify", "nothing.onnx", "--target", "cuda", "--emulate", "--arch", "sm_70")
    # What a baseline needs is missed before a kernel is compiled.
    for arguments in (["compile", model, "--baseline"], ["bench", model, "--baseline"], ["bench", "suite", "--family", "gemm", "--baseline"]):
        for target in ([], ["--target", "cuda-emulated"]):
            process = refused(4, "no vendor library", *arguments, *target, RTX_OPENBLAS="/nonexistent.so", RTX_CACHE_DIR=work / "baseline-cache")
            check("0/" not in process.stderr, "kernels are made before a missing library is named", process)
    for arch in ("sm_80", "sm_90a"):
        succeeds("verify", model, "--random", "1", "--target", "cuda", "--emulate", "--arch", arch)
    refused(4, "no device 1", "run", model, "--random", "1", "--device", "1")
    refused(2, "--iterations", "bench", model, "--iterations", "0")
    refused(2, "--max-mb", "cache", "gc", "--max-mb", "-1")


def result_files(model):
    file = work / "result.json"
    for rows in ([{"name": 3}], [{"name": "a", "subject": "rtx"}], [{"name": "a", "subject": "rtx", "median_ms": None}], [{"name": "a", "subject": "rtx", "median_ms": 1, "high_ms": "2"}], [7]):
        file.write_text(json.dumps({"format": "rtx-bench 1", "command": ["bench", str(model)], "rows": rows}))
        for option in ("--compare", "--recheck"):
            refused(2, "row 0 lacks", "bench", option, file)
    # A file that says nothing of what was timed is no success of a check.
    file.write_text(json.dumps({"format": "rtx-bench 1", "command": ["bench", str(model)], "rows": [{"name": "another", "subject": "rtx", "median_ms": 1.0, "high_ms": 1.0}]}))
    process = call("bench", "--recheck", file, "--iterations", "2", "--no-tune")
    check(process.returncode == 1 and "nothing is compared" in process.stdout, "a recheck of nothing passes", process)


def environment_values(model):
    for value in ("abc", "-5", "1e3", "12MB", "0", "99999999999999999999"):
        for arguments in (["compile", model, "--no-tune"], ["cache", "gc"], ["cache", "stats"]):
            process = succeeds(*arguments, RTX_CACHE_MAX_MB=value)
            notes = [line for line in process.stderr.splitlines() if "RTX_CACHE_MAX_MB" in line]
            check(len(notes) == 1 and f"'{value}'" in notes[0], f"RTX_CACHE_MAX_MB={value} under rtx {arguments[0]}: {len(notes)} warnings, wanted one that names the value", process)
    check("RTX_CACHE_MAX_MB" not in succeeds("cache", "stats", RTX_CACHE_MAX_MB="64").stderr, "a good RTX_CACHE_MAX_MB is warned about")
    succeeds("cache", "stats", RTX_CACHE_MAX_MB="")


def cache_says_what_it_is():
    nowhere = {"RTX_CACHE_DIR": None, "HOME": None, "XDG_CACHE_HOME": None}
    file = work / "cache-file"
    file.write_text("in the way")
    for action in ("stats", "list", "verify", "gc", "clear"):
        process = refused(2, "no place for the kernel cache", "cache", action, **nowhere)
        check("0 kernels" not in process.stdout and "sound" not in process.stdout, "a cache without a place is described", process)
        refused(1 if action == "verify" else 2, "cache-file", "cache", action, RTX_CACHE_DIR=file)
    refused(2, "no place for the kernel cache", "cache", "export", "f", **nowhere)
    cache = work / "cache"
    entries = sorted((cache / "entries").iterdir())
    check(len(entries) > 0, "the cache is empty")
    for path in (cache, cache / "entries"):
        path.chmod(0o777)
        for action in ("verify", "stats", "list"):
            refused(1 if action == "verify" else 2, "is not used", "cache", action)
        path.chmod(0o700)
    entries[0].chmod(0o777)
    process = call("cache", "verify")
    check(process.returncode == 1 and entries[0].name in process.stdout and entries[0].exists(), "verify calls an entry sound that others can write to", process)
    listed = json.loads(succeeds("cache", "list", "--json").stdout)["entries"]
    check(all(entry["digest"] != entries[0].name for entry in listed), "an entry that is not used is listed")
    entries[0].chmod(0o700)
    succeeds("cache", "verify")


def outputs_spare_inputs(model, bundle):
    before = {path: path.read_bytes() for path in (model, bundle)}
    link = work / "link.onnx"
    link.symlink_to(model)
    for arguments in (["compile", model, "-o", model], ["compile", model, "-o", link], ["compile", link, "-o", model], ["compile", model, "-o", "./" + model.name], ["compile", model, "--lock", model],
                      ["compile", model, "-o", "new", "--lock", "./new"], ["compile", model, "-o", "k.rtxgc", "--constants-file", model.name], ["compile", model, "-o", "k.rtxgc", "--constants-file", "k.rtxgc"],
                      ["compile", model, "--log-file", model], ["compile", model, "-o", "new", "--log-file", "new"], ["explain", model, "--dot", model], ["explain", model, "--dot", link],
                      ["explain", model, "--dot", "new", "--log-file", "new"], ["bench", bundle, "--output", bundle], ["bench", bundle, "--report", bundle], ["bench", bundle, "--output", "new", "--report", "new"],
                      ["run", bundle, "--random", "1", "--log-file", bundle], ["check", bundle, "--log-file", bundle]):
        refused(2, "", *arguments)
    # An output whose name would take an input's file.
    out = work / "out"
    out.mkdir()
    succeeds("run", bundle, "--random", "1", "--output-dir", out)
    kept = (out / "y.npy").read_bytes()
    (out / "y.npy").rename(work / "kept.npy")
    subprocess.run(["sh", "-c", f'"{rtx}" explain "{model}" --json'], env=environment(), stdout=subprocess.DEVNULL, check=True)
    (out / "y.npy").symlink_to(bundle)
    refused(2, "cannot write", "run", bundle, "--random", "1", "--output-dir", out)
    check(len(kept) > 0, "the output is empty")
    for path, data in before.items():
        check(path.read_bytes() == data, f"{path.name} was overwritten")
    check(not (work / "new").exists(), "a refused command left a file")
    for place, words in (("/dev/null", "not a regular file"), ("/dev/full", "not a regular file"), (str(work), "folder"), (str(work / "no/such/folder/x"), "No such file")):
        refused(74, words, "compile", model, "--no-tune", "-o", place)
    mode = (work / "/dev/null").stat().st_mode
    check(stat.S_ISCHR(mode), "/dev/null is no device any more")
    refused(74, "cannot write", "bench", bundle, "--output", "/nonexistent/r.json")
    refused(74, "cannot", "run", bundle, "--random", "1", "--output-dir", model / "folder")
    refused(74, "cannot write", "explain", model, "--dot", "/nonexistent/model.dot")
    check(not list(work.glob("*.tmp*")), "temporary files were left")


def logs(model):
    log = work / "run.log"
    succeeds("explain", model, "--log-file", log)
    process = succeeds("explain", model, "-q", "--json", "--log-file", log)
    call("run", "nope.onnx", "--log-file", log)
    lines = log.read_text().splitlines()
    check(all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (call|out|note|detail|error) .*", line) for line in lines), "a line of the log has no time and kind: " + repr(lines[:3]))
    said = [line.split(" ", 2)[2] for line in lines]
    check(sum("explain" in line and "--log-file" in line for line in said) == 2, "the log does not say what was called")
    check(any(line.startswith("graph: ") for line in said), "the log has no results")
    check(all(part in said for part in process.stdout.splitlines() if part), "the log has not the JSON document that was printed")
    check(any("there is no such file" in line for line in said), "the log has not the error's reason")
    refused(74, "log file", "explain", model, "--log-file", "/nonexistent/log")
    refused(74, "log file", "explain", model, "--log-file", work)
    process = call("explain", model, "--log-file", "/dev/full")
    check(process.returncode == 74 and "log file" in process.stderr and "graph:" in process.stdout, "a log that cannot be kept is not reported", process)


def main():
    model = make_model("tiny_model.py", "tiny.onnx")
    bundle = work / "tiny.rtxgc"
    succeeds("compile", model, "--no-tune", "-o", bundle)
    succeeds("run", bundle, "--random", "1", "--output-dir", work / "drawn")
    help_teaches()
    lost_output_is_74(model, bundle)
    options_without_effect(model, bundle)
    values(model)
    result_files(model)
    environment_values(model)
    cache_says_what_it_is()
    outputs_spare_inputs(model, bundle)
    logs(model)


run(main)
