"""Prints the headers to install, one a line, relative to src/: the roots below and what they include.

usage: public_headers.py SRC
"""
import re
import sys
from pathlib import Path

ROOTS = ["runtime/program.h", "compiler/*.h", "backend/cpu/*device*.h", "backend/cpu/compile*.h"]
NOT_PUBLIC = re.compile(r"_(internal|test|testing)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def main():
    root = Path(sys.argv[1])
    queue = [p.relative_to(root).as_posix() for pattern in ROOTS for p in root.glob(pattern)
             if not NOT_PUBLIC.search(p.name)]
    public = set()
    while queue:
        header = queue.pop()
        if header not in public and (root / header).is_file():
            public.add(header)
            queue += INCLUDE.findall((root / header).read_text())
    print("\n".join(sorted(public)))


main()
