"""Graphs whose right answers are known without a reference: run through generated kernels on a target, compared number by number."""
import math
import shutil
import struct

from onnx_writer import graph_input, graph_output, model, text
from rtx_testing import check, succeeds, work

NUMPY = {"f32": ("<f4", "f"), "i64": ("<i8", "q"), "bool": ("|b1", "?")}


def write_npy(path, shape, values, dtype="f32"):
    descriptor, kind = NUMPY[dtype]
    header = f"{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))
    return path


def read_npy(path):
    data = path.read_bytes()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    header = data[10:start].decode()
    kind = next(kind for descriptor, kind in NUMPY.values() if descriptor in header)
    return list(struct.unpack(f"<{(len(data) - start) // struct.calcsize(kind)}{kind}", data[start:]))


def same(found, wanted, relative):
    if math.isnan(wanted) or math.isinf(wanted):
        return math.isnan(found) if math.isnan(wanted) else found == wanted
    return abs(found - wanted) <= relative * abs(wanted)


class Answers:
    """A target as `rtx run` takes it."""

    def __init__(self, target):
        self.target = target

    def expect(self, name, nodes, inputs, output, wanted, opset=23, relative=0.0):
        """`inputs`: {name: (shape, values, dtype)}; `output`: its shape; `wanted`: its values, or one for all of them."""
        graph = b"".join(nodes) + text(2, name)
        for key, (shape, _, dtype) in inputs.items():
            graph += graph_input(key, shape, dtype)
        path, out = work / f"{name}.onnx", work / f"{name}.out"
        model(path, graph + graph_output("y", output), opset)
        arguments = []
        for key, (shape, values, dtype) in inputs.items():
            arguments += ["--input", f"{key}={write_npy(work / f'{name}.{key}.npy', shape, values, dtype)}"]
        process = succeeds("run", path, "--no-tune", "--target", self.target, *arguments, "--output-dir", out)
        if process.returncode != 0:
            return
        found = read_npy(out / "y.npy")
        count = math.prod(output)
        wanted = wanted if isinstance(wanted, list) else [wanted] * count
        check(len(found) == count == len(wanted), f"{name}: {len(found)} numbers, wanted {count}")
        wrong = [i for i in range(min(len(found), len(wanted))) if not same(found[i], wanted[i], relative)]
        if wrong:
            check(False, f"{name} on {self.target}: {len(wrong)} of {count} are wrong, the first at {wrong[0]}: {found[wrong[0]]!r}, wanted {wanted[wrong[0]]!r}")
        shutil.rmtree(out)
