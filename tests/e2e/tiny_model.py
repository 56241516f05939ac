"""Writes a small ONNX model with nothing but Python: y = Relu(x W + b) V, x f32[8,32], W f32[32,48], V f32[48,16].

usage: tiny_model.py FILE.onnx
"""
import struct
import sys


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def node(op, inputs, output):
    return text(1, b"".join(text(1, name) for name in inputs) + text(2, output) + text(3, op.lower()) + text(4, op))


def tensor(name, dims, values):
    return text(5, b"".join(number(1, d) for d in dims) + number(2, 1) + text(8, name) + text(9, struct.pack(f"<{len(values)}f", *values)))


def value(field, name, dims):
    shape = b"".join(text(1, number(1, d)) for d in dims)
    return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, shape))))


def main():
    weight = [((i * 37) % 101 - 50) / 100 for i in range(32 * 48)]
    bias = [(i % 7 - 3) / 10 for i in range(48)]
    second = [((i * 53) % 89 - 44) / 90 for i in range(48 * 16)]
    graph = node("MatMul", ["x", "W"], "xw") + node("Add", ["xw", "b"], "z") + node("Relu", ["z"], "r") + node("MatMul", ["r", "V"], "y")
    graph += text(2, "tiny")
    graph += tensor("W", [32, 48], weight) + tensor("b", [48], bias) + tensor("V", [48, 16], second)
    graph += value(11, "x", [8, 32]) + value(12, "y", [8, 16])
    model = number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, 17))
    with open(sys.argv[1], "wb") as file:
        file.write(model)


main()
