"""The program needs libc only, and the runtime archive knows neither compiler nor model formats.

usage: check_binary.py rtx PROGRAM, or check_binary.py runtime ARCHIVE
"""
import re
import subprocess
import sys

ALLOWED = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so\.\d+$")
FOREIGN = re.compile(r"google::protobuf|\bonnx::|rtx::(import|kernels|tune|compiler|fuse|codegen)::")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fail(what, why, fix):
    print(f"what: {what}\nwhere: {sys.argv[2]}\nwhy: {why}\nfix: {fix}")
    sys.exit(1)


if sys.argv[1] == "rtx":
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", sys.argv[2]))
    extra = [name for name in needed if not ALLOWED.match(name)]
    if extra:
        fail(f"rtx needs {', '.join(extra)}", "it must start on a machine where nothing is installed",
             "link the library statically in cmake/third_party.cmake")
    print("needs only", ", ".join(needed))
else:
    foreign = sorted(set(line.split(maxsplit=2)[-1] for line in run("nm", "-C", sys.argv[2]).splitlines()
                         if FOREIGN.search(line)))
    if foreign:
        fail(f"librtx_runtime.a mentions {len(foreign)} symbols of the compile side, first: {foreign[0]}",
             "an application that only runs bundles links no compiler, no ONNX and no protobuf",
             "cut the edge in cmake/layers.cmake that brings it in")
    print("no symbol of the compile side")
