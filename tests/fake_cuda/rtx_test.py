"""rtx and tools/device_check on the fake driver: what each unusable driver says, which device is meant, what a check skips.

usage: rtx_test.py SOURCE_DIR BUILD_DIR
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
fake = build / "fake_cuda"
stub = Path("/usr/local/cuda/lib64/stubs/libcuda.so")
work = tempfile.TemporaryDirectory(prefix="rtx_fake_cuda_")
home = Path(work.name)
failures = []


def call(command, settings="", libraries=fake):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "RTX_CACHE_DIR": str(home / "cache"), "NO_COLOR": "1", "LD_LIBRARY_PATH": str(libraries), "RTX_FAKE_CUDA": settings}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=250, stdin=subprocess.DEVNULL, check=False)


def check(condition, what, process):
    if not condition:
        failures.append(what)
        print(f"what: {what}\nexit {process.returncode}\n{process.stdout[-2000:]}{process.stderr[-2000:]}")


def rtx(*arguments, **options):
    return call([build / "bin/rtx", *arguments], **options)


TUNE = ["tune", "softmax", "rows=4", "columns=8", "--budget", "1", "--target", "cuda"]


def unusable_drivers():
    nothing = home / "nothing"
    nothing.mkdir()
    cases = [("a missing driver", "", nothing, "there is no NVIDIA driver"), ("an old one", "version=11080", fake, "supports CUDA 11.8, needed is 12.0"),
             ("one that is a stub", "init=34", fake, "for linking, not a driver"), ("one without a device", "init=100", fake, "no device"),
             ("one without a function", "missing=cuGraphLaunch", fake, "no cuGraphLaunch"), ("a GPU that is too old", "name=Tesla T4,major=7,minor=5", fake, "7.5")]
    if stub.exists():
        folder = home / "stub"
        folder.mkdir()
        (folder / "libcuda.so.1").symlink_to(stub)
        cases.append(("the toolkit's stub", "", folder, "for linking, not a driver"))
    for what, settings, libraries, words in cases:
        process = rtx(*TUNE, settings=settings, libraries=libraries)
        check(process.returncode == 4, f"{what}: exit {process.returncode}, wanted 4", process)
        check(words in process.stderr, f"{what}: does not say '{words}'", process)
        check(len(process.stderr.splitlines()) <= 3, f"{what}: more than what, why and fix", process)
        process = rtx("targets", settings=settings, libraries=libraries)
        line = next((row for row in process.stdout.splitlines() if row.startswith("cuda:")), "")
        check(process.returncode == 0 and "not available" in line and words in line, f"{what}: rtx targets does not say why on one line", process)


def devices():
    process = rtx("targets", "--json", settings="devices=2,version=14000,release=999.20")
    cuda = next(row for row in json.loads(process.stdout) if row["target"] == "cuda")
    check(cuda["available"] and [row["ordinal"] for row in cuda["devices"]] == [0, 1], "rtx targets --json does not list two devices", process)
    check(cuda["driver"] == "CUDA 14.0 (driver 999.20)", f"the driver is called {cuda['driver']}", process)
    for arguments in (TUNE, ["check", build / "nothing.rtxgc"]):
        process = rtx(*arguments, "--device", "1", settings="devices=2")
        check("no device" not in process.stderr, "device 1 of two is not there", process)
    process = rtx(*TUNE, "--device", "2", settings="devices=2")
    check(process.returncode == 4 and "there is no device 2 of target cuda" in process.stderr and "devices 0 to 1" in process.stderr, "a device that is not there is not named", process)
    process = rtx("tune", "softmax", "rows=4", "columns=8", "--budget", "0", "--device", "1")
    check(process.returncode == 4 and "there is no device 1 of target cpu" in process.stderr, "the cpu has a second device", process)


def kernels_that_fail():
    """Nothing is ever taken for a result, and the reason is the device's."""
    process = rtx(*TUNE)  # real kernels compute nothing here
    check(process.returncode == 70 and "unwritten" in process.stderr, "a device that computes nothing is believed", process)
    process = rtx(*TUNE, settings="launch=701")
    check(process.returncode == 70 and "cannot launch softmax" in process.stderr and "OUT_OF_RESOURCES" in process.stderr, "a refused launch is not named", process)
    process = rtx("tune", "softmax", "rows=1024", "columns=4096", "--budget", "1", "--target", "cuda", settings="memory_mib=8")
    check(process.returncode == 4 and "memory does not do for softmax" in process.stderr, "exhausted memory is not the device's error", process)


def device_check():
    script = [sys.executable, source / "tools/device_check", "--bin", build / "bin", "--out", home / "out", "--node", home, "--models", home / "missing"]
    process = call(script, settings="init=100")
    check(process.returncode == 4 and "no device" in process.stderr, "device_check without a device", process)
    process = call([*script, "--only", "suite_models|memcheck|bench_softmax|runtime", "--time-limit", "100"])
    steps = {step["step"]: step for step in json.loads((home / "out/device_check.json").read_text())["steps"]}
    check(set(steps) == {"suite_models", "memcheck", "bench_softmax", "runtime"}, f"device_check ran {sorted(steps)}", process)
    check(steps["suite_models"]["status"] == "skipped" and "no test data" in steps["suite_models"]["detail"], "missing data is not a reason to skip", process)
    check(steps["memcheck"]["status"] == "skipped", "memcheck without a GPU is not skipped", process)
    check(steps["bench_softmax"]["status"] == "failed" and process.returncode == 1, "a bench that fails is not counted", process)
    process = call([*script, "--time-limit", "1"])
    steps = json.loads((home / "out/device_check.json").read_text())["steps"]
    check(process.returncode == 0 and len(steps) > 8 and all(step["detail"] == "no time is left" for step in steps), "a time limit is not kept", process)


with work:
    unusable_drivers()
    devices()
    if (build / "bin/rtx_cuda_device_test").exists() and any(Path("/usr/local").glob("cuda*")):
        kernels_that_fail()
        device_check()
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
