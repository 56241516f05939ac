"""What the scripts of this folder share: a home of its own for each, rtx called in it, failures collected and printed."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
rtx = str(build / "bin/rtx")
work = Path(tempfile.mkdtemp(prefix="rtx_e2e_test_"))
temporary = work / "tmp"
temporary.mkdir()
failures = []


def environment(**changes):
    out = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "RTX_CACHE_DIR": str(work / "cache"), "NO_COLOR": "1", "TMPDIR": str(temporary),
           "ASAN_OPTIONS": "allocator_may_return_null=1"}  # a refused allocation is an error to report, under asan too
    out.update({name: value if value is None else str(value) for name, value in changes.items()})
    return {name: value for name, value in out.items() if value is not None}


def call(*arguments, stdout=subprocess.PIPE, **changes):
    return subprocess.run([rtx, *map(str, arguments)], env=environment(**changes), stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=280, cwd=work)


def start(*arguments, **changes):
    return subprocess.Popen([rtx, *map(str, arguments)], env=environment(**changes), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=work)


def check(condition, what, process=None):
    if condition:
        return
    failures.append(what)
    print("what:", what)
    if process is not None:
        print(f"exit {process.returncode}\n{(process.stdout or '')[-2000:]}{(process.stderr or '')[-2000:]}")


def succeeds(*arguments, **changes):
    process = call(*arguments, **changes)
    check(process.returncode == 0, f"rtx {' '.join(map(str, arguments))}: exit {process.returncode}, wanted 0", process)
    return process


def refused(code, words, *arguments, **changes):
    process = call(*arguments, **changes)
    line = f"rtx {' '.join(map(str, arguments))}"
    check(process.returncode == code, f"{line}: exit {process.returncode}, wanted {code}", process)
    check("error:" in process.stderr and words in process.stderr, f"{line}: does not say '{words}'", process)
    check("terminate called" not in process.stderr and "internal error" not in process.stderr, f"{line}: an internal error", process)
    return process


def wait_for(condition, seconds=60):
    deadline = time.time() + seconds
    while time.time() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def interrupt(process, seconds):
    """Sends Ctrl-C, and gives the seconds it took to end; kills what does not."""
    began = time.time()
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return time.time() - began


def program(name, text):
    path = work / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_model(script, name):
    path = work / name
    subprocess.run([sys.executable, source / "tests/e2e" / script, path], check=True)
    return path


def run(main):
    """Runs the script's stories; an exception in one is a failure like any other."""
    try:
        main()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)
