"""Checks every #include below src/ against the edges declared in cmake/layers.cmake.

usage: check_layering.py SOURCE_DIR LAYERS_JSON
"""
import json
import re
import sys
from pathlib import Path

OPEN_TO_ALL = {"base", "telemetry"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
TEST_FILE = re.compile(r"_(test|testing|bench|fuzz)\.(cpp|h)$")
DEVICE_TEXT = re.compile(r"^(kernels/.*\bdevice[^/]*\.h|backend/[^/]+/prelude[^/]*\.h|codegen/[^/]*\.inc\.h)$")


def owner(path, layers):
    return next((name for name, layer in layers.items() if re.search(layer["claim"], path)), None)


def reach(start, layers):
    """The layers in `start` and everything they use."""
    seen, queue = set(OPEN_TO_ALL), list(start)
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue += layers[name]["uses"]
    return seen


def check_file(path, text, layers, root):
    mine = owner(path, layers)
    if mine is None:
        yield path, 1, f"{path} belongs to no layer", "every file below src/ has a layer", \
            "move it, or add a line to cmake/layers.cmake"
        return
    is_test = bool(TEST_FILE.search(path))
    allowed = reach([mine] + (layers[mine]["test_uses"] if is_test else []), layers)
    # base and telemetry are open to all except downwards: base knows nothing, telemetry only base.
    if not is_test and mine in OPEN_TO_ALL:
        allowed = {mine, *layers[mine]["uses"]}
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        target = found.group(1)
        if DEVICE_TEXT.match(path):
            if not DEVICE_TEXT.match(target):
                yield path, number, f'device text includes "{target}"', \
                    "emitted kernels carry only device headers and preludes", "include a device*.h or move the code there"
            continue
        if target.endswith(("_generated.h", ".pb.h")):
            continue
        if not (root / target).is_file():
            yield path, number, f'"{target}" is not below src/', "includes are rooted at src/", \
                'write the path from src/, or <...> for a library'
            continue
        theirs = owner(target, layers)
        if theirs not in allowed:
            yield path, number, f"{mine} includes {theirs} (\"{target}\")", \
                f"{mine} may know only {', '.join(sorted(allowed))}", \
                "move the code to where both may look, or argue a new edge in an ADR and add it to cmake/layers.cmake"


def main():
    root = Path(sys.argv[1]) / "src"
    layers = {layer["name"]: layer for layer in json.loads(Path(sys.argv[2]).read_text())}
    files = sorted(p for p in root.rglob("*") if p.suffix in (".h", ".cpp"))
    problems = [problem for file in files
                for problem in check_file(file.relative_to(root).as_posix(), file.read_text(), layers, root)]
    for path, number, what, why, fix in problems:
        print(f"what: {what}\nwhere: src/{path}:{number}\nwhy: {why}\nfix: {fix}\n")
    print(f"{len(files)} files, {len(layers)} layers, {len(problems)} forbidden includes")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
