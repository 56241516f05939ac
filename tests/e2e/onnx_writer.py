"""The least that writes an ONNX file with nothing but Python: protobuf fields by hand."""
import struct

DTYPES = {"f32": 1, "i32": 6, "i64": 7, "f16": 10, "f64": 11, "bf16": 16, "bool": 9}
FORMATS = {"f32": "f", "i32": "i", "i64": "q", "f64": "d", "bool": "?"}


def varint(value):
    value &= (1 << 64) - 1
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


def attribute(name, value):
    if isinstance(value, float):
        body = text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    elif isinstance(value, str):
        body = text(1, name) + text(4, value) + number(20, 3)
    elif isinstance(value, list):
        body = text(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)
    else:
        body = text(1, name) + number(3, value) + number(20, 2)
    return text(5, body)


def node(op, inputs, outputs, **attributes):
    outputs = [outputs] if isinstance(outputs, str) else outputs
    return text(1, b"".join(text(1, name) for name in inputs) + b"".join(text(2, name) for name in outputs) + text(3, f"{op.lower()}_{outputs[0]}")
                + text(4, op) + b"".join(attribute(name, value) for name, value in attributes.items()))


def tensor(name, dims, values, dtype="f32"):
    return raw_tensor(name, dims, struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values), dtype)


def raw_tensor(name, dims, raw, dtype="f32"):
    return text(5, b"".join(number(1, d) for d in dims) + number(2, DTYPES[dtype]) + text(8, name) + text(9, raw))


def external_tensor(name, dims, location, offset, length, dtype="f32"):
    entries = (("location", location), ("offset", str(offset)), ("length", str(length)))
    return text(5, b"".join(number(1, d) for d in dims) + number(2, DTYPES[dtype]) + text(8, name)
                + b"".join(text(13, text(1, key) + text(2, value)) for key, value in entries) + number(14, 1))


def _value(field, name, dims, dtype):
    shape = b"".join(text(1, number(1, d) if isinstance(d, int) else text(2, d)) for d in dims)
    return text(field, text(1, name) + text(2, text(1, number(1, DTYPES[dtype]) + text(2, shape))))


def graph_input(name, dims, dtype="f32"):
    return _value(11, name, dims, dtype)


def graph_output(name, dims, dtype="f32"):
    return _value(12, name, dims, dtype)


def model(path, graph, opset=17):
    with open(path, "wb") as file:
        file.write(number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, opset)))
