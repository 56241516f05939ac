"""Pains of others that a whole command must not have. P17: what a tuner feeds its candidates is valid, and the user's data stays his.

usage: pains_test.py SOURCE_DIR BUILD_DIR [OPTION...]     options for rtx verify; without any: --target cuda --emulate
"""
import struct
import sys

from onnx_writer import graph_input, graph_output, model, node, text
from rtx_testing import check, run, succeeds, work

target = sys.argv[3:] or ["--target", "cuda", "--emulate"]
NUMPY = {"f": "<f4", "q": "<i8"}


def npy(name, shape, values, kind):
    header = f"{{'descr': '{NUMPY[kind]}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path = work / name
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))
    return path


def p17_a_tuned_gather_stays_within_its_table():
    graph = node("Gather", ["table", "rows"], "picked", axis=0) + text(2, "p17")
    graph += graph_input("table", [1000, 64]) + graph_input("rows", [3], "i64") + graph_output("picked", [3, 64])
    path = work / "p17.onnx"
    model(path, graph)
    table = npy("table.npy", [1000, 64], [row + column / 64 for row in range(1000) for column in range(64)], "f")
    rows = npy("rows.npy", [3], [0, 999, -1], "q")
    before = table.read_bytes(), rows.read_bytes()
    for inputs in (["--input", f"table={table}", "--input", f"rows={rows}"], ["--random", "7"]):
        process = succeeds("verify", path, "--tune", *inputs, *target)
        check("outside" not in process.stderr and "fault" not in process.stderr, "p17: a candidate left its table", process)
    check((table.read_bytes(), rows.read_bytes()) == before, "p17: the user's data was changed")


run(lambda: p17_a_tuned_gather_stays_within_its_table())
