"""Applies the recipes of CONTRIBUTING.md and of src/backend/null/README.md to a copy of the tree and holds them to their word.

usage: recipes_test.py SOURCE_DIR BUILD_DIR apply|build

apply   extracts and applies them, counts changed lines outside the new files, and parses what is new
build   the same, then builds the copy and runs the tests that the recipes brought

A fenced block whose info string has a path is part of a recipe: `cpp PATH` is a new file; `diff PATH` is a change, where a line with
`+` is inserted below the line with a space above it.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>\w+)(?: (?P<path>\S+))?\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
# What a recipe may change outside of its own files.
MOST_LINES = {"family": 2, "pattern": 2, "backend": 2}
RECIPES = {
    "family": {"target": "rtx_kernels_test", "filter": "Cumsum.*"},
    "pattern": {"target": "rtx_fuse_test", "filter": "Abs.*"},
    "backend": {"target": "rtx_toast_device_test", "filter": "ToastConformance.*"},
}


def fail(what, why, fix):
    sys.exit(f"what: {what}\nwhy:  {why}\nfix:  {fix}")


def blocks(path):
    for block in BLOCK.finditer(path.read_text()):
        text = re.sub("^" + block["indent"], "", block["text"], flags=re.M)
        yield block["kind"], block["path"], text


def copy_tree(source, target):
    """Tracked files and new ones that git does not ignore; without git, everything but build folders."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name and (source / name).is_file()]
    else:
        names = [str(p.relative_to(source)) for p in source.rglob("*")
                 if p.is_file() and not p.relative_to(source).parts[0].startswith(("build", ".git"))]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)


def insert(path, text, where):
    lines = path.read_text().splitlines()
    anchor = None
    for line in text.splitlines():
        if line.startswith("+"):
            anchor += 1
            lines.insert(anchor, line[1:])
            continue
        found = [i for i, old in enumerate(lines) if old == line[1:]]
        if len(found) != 1:
            fail(f"{where}: the line to insert below is in {path.name} {len(found)} times", f"looked for: {line[1:]!r}",
                 "make the recipe quote a line that is there once")
        anchor = found[0]
    path.write_text("\n".join(lines) + "\n")


def apply_contributing(tree):
    """The family's and the pattern's recipe: new files by recipe."""
    fresh = {"family": [], "pattern": []}
    for kind, path, text in blocks(tree / "CONTRIBUTING.md"):
        if path is None:
            continue
        recipe = "family" if "kernels" in path else "pattern"
        target = tree / path
        if kind == "diff":
            insert(target, text, "CONTRIBUTING.md")
        else:
            if target.exists():
                fail(f"CONTRIBUTING.md: {path} exists already", "a recipe's file is new", "choose another toy")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            fresh[recipe].append(path)
    return fresh


def apply_backend(tree):
    readme = tree / "src/backend/null/README.md"
    shell, layers = None, None
    for kind, _, text in blocks(readme):
        shell = shell or (text if kind == "sh" else None)
        layers = layers or (text if kind == "cmake" else None)
    subprocess.run(["sh", "-ec", shell], cwd=tree, check=True)
    path = tree / "cmake/layers.cmake"
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("add_layer(backend "))
    path.write_text("\n".join(lines[:at] + layers.splitlines() + lines[at:]) + "\n")
    return [str(p.relative_to(tree)) for p in (tree / "src/backend/toast").iterdir()]


def changed_lines(source, tree, recipe_files):
    """Lines that differ in files both trees have, by recipe."""
    count = {recipe: 0 for recipe in RECIPES}
    for new in tree.rglob("*"):
        old = source / new.relative_to(tree)
        if not new.is_file() or not old.is_file() or old.read_bytes() == new.read_bytes():
            continue
        name = str(new.relative_to(tree))
        recipe = "backend" if name.startswith("cmake") else "family" if "kernels" in name else "pattern"
        for line in difflib.ndiff(old.read_text().splitlines(), new.read_text().splitlines()):
            if line[0] in "+-":
                count[recipe] += 1
                print(f"  {recipe}: {name}: {line}")
    for recipe, lines in count.items():
        print(f"{recipe}: {len(recipe_files[recipe])} new files, {lines} changed lines outside them")
        if lines > MOST_LINES[recipe] or lines == 0:
            fail(f"the recipe for a {recipe} changes {lines} lines outside its own files",
                 f"the promise is at most {MOST_LINES[recipe]}, and without one nothing would be used",
                 "find out which list has become two")


def cached(build, name, otherwise=""):
    text = (build / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:\w+=(.*)$", text, re.M)
    return found[1] if found else otherwise


def parse_new_files(tree, build, files):
    compiler = cached(build, "CMAKE_CXX_COMPILER", "c++")
    sources = [tree / f for f in files if f.endswith(".cpp")]
    text = "".join(f'#include "{s}"\n' for s in sources)
    run = subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", tree / "src", "-x", "c++", "-"],
                         input=text.encode(), check=False)
    if run.returncode != 0:
        fail("a recipe's files do not compile", "see above", "recipes follow the interfaces they use")


def build_and_run(source, tree, build):
    fresh = tree / "build"
    environment = dict(os.environ, CCACHE_BASEDIR=str(tree), CCACHE_NOHASHDIR="1", RTX_BUILD_DIR=str(fresh),
                       RTX_CACHE_DIR=str(tree / "cache"))
    options = [f"-D{name}={cached(build, name)}" for name in
               ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_C_COMPILER", "CMAKE_UNITY_BUILD", "RTX_SANITIZE") if cached(build, name)]
    jobs = str(os.cpu_count() or 1)
    for command in (["cmake", "-G", "Ninja", "-S", tree, "-B", fresh, *options],
                    ["cmake", "--build", fresh, "-j", jobs, "--target", *[r["target"] for r in RECIPES.values()]]):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.stdout.buffer.write(done.stdout[-8000:])
            fail("the tree does not build with the recipes applied", "see above", "recipes follow the interfaces they use")
    for recipe, what in RECIPES.items():
        done = subprocess.run([fresh / "bin" / what["target"], f"--gtest_filter={what['filter']}"], cwd=tree, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = done.stdout.decode(errors="replace")
        passed = re.search(r"^\[  PASSED  \] (\d+) tests?\.$", text, re.M)
        if done.returncode != 0 or not passed or passed[1] == "0":
            print(text[-8000:])
            fail(f"the test of the recipe for a {recipe} fails", "see above", "recipes keep what they promise")
        print(f"{recipe}: {passed[1]} tests pass")


def main():
    source, build, mode = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="rtx-recipes-") as folder:
        tree = Path(folder).resolve()
        copy_tree(source, tree)
        files = apply_contributing(tree)
        files["backend"] = apply_backend(tree)
        changed_lines(source, tree, files)
        # The copy of a backend is known to compile; what is written in CONTRIBUTING.md is not.
        parse_new_files(tree, build, files["family"] + files["pattern"])
        if mode == "build":
            build_and_run(source, tree, build)


if __name__ == "__main__":
    main()
