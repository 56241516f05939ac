"""Writes a BERT-like sentence encoder as ONNX from its safetensors file: the quickstart's fallback model.

usage: export_minilm.py MODEL.safetensors OUT.onnx
"""
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/e2e"))
import onnx_writer as onnx  # noqa: E402

HEADS = 12


def read_safetensors(path):
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    return {name: (facts["shape"], raw[8 + size + facts["data_offsets"][0]:8 + size + facts["data_offsets"][1]])
            for name, facts in header.items() if name != "__metadata__" and facts["dtype"] == "F32"}


def export(weights_path, out_path):
    weights = read_safetensors(weights_path)
    prefix = "bert." if any(name.startswith("bert.") for name in weights) else ""
    layers = 1 + max(int(name.split(".layer.")[1].split(".")[0]) for name in weights if ".layer." in name)
    width = weights[prefix + "embeddings.word_embeddings.weight"][0][1]
    nodes, tensors = [], []

    def weight(name):
        shape, raw = weights[prefix + name]
        tensors.append(onnx.raw_tensor(name, shape, raw))
        return name

    def add(op, inputs, output, **attributes):
        nodes.append(onnx.node(op, inputs, output, **attributes))
        return output

    def linear(x, name, output):
        turned = add("Transpose", [weight(name + ".weight")], output + "/weight", perm=[1, 0])
        product = add("MatMul", [x, turned], output + "/product")
        return add("Add", [product, weight(name + ".bias")], output)

    def norm(x, name, output):
        return add("LayerNormalization", [x, weight(name + ".weight"), weight(name + ".bias")], output, axis=-1, epsilon=1e-12)

    for name, dims, values, dtype in (("heads", [4], [0, 0, HEADS, width // HEADS], "i64"), ("flat", [3], [0, 0, width], "i64"), ("zero", [1], [0], "i64"),
                                      ("one", [1], [1], "i64"), ("two", [1], [2], "i64"), ("axes12", [2], [1, 2], "i64"), ("scale", [], [(width // HEADS) ** -0.5], "f32"),
                                      ("unit", [], [1.0], "f32"), ("half", [], [0.5], "f32"), ("root2", [], [2 ** 0.5], "f32"), ("lowest", [], [-10000.0], "f32")):
        tensors.append(onnx.tensor(name, dims, values, dtype))
    words = add("Gather", [weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    types = add("Gather", [weight("embeddings.token_type_embeddings.weight"), "token_type_ids"], "types")
    length = add("Slice", [add("Shape", ["input_ids"], "shape"), "one", "two"], "length")
    places = add("Slice", [weight("embeddings.position_embeddings.weight"), "zero", length], "places")
    x = norm(add("Add", [add("Add", [words, types], "words_types"), places], "embedded"), "embeddings.LayerNorm", "x")
    wide = add("Cast", [add("Unsqueeze", ["attention_mask", "axes12"], "mask4")], "mask4f", to=1)
    mask = add("Mul", [add("Sub", ["unit", wide], "hidden"), "lowest"], "mask")
    for layer in range(layers):
        p, n = f"encoder.layer.{layer}.", f"layer{layer}/"
        heads = {}
        for role, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            split = add("Reshape", [linear(x, p + f"attention.self.{role}", n + role), "heads"], n + role + "/heads")
            heads[role] = add("Transpose", [split], n + role + "/turned", perm=perm)
        scores = add("Add", [add("Mul", [add("MatMul", [heads["query"], heads["key"]], n + "qk"), "scale"], n + "scaled"), mask], n + "masked")
        mixed = add("MatMul", [add("Softmax", [scores], n + "softmax", axis=-1), heads["value"]], n + "mixed")
        joined = add("Reshape", [add("Transpose", [mixed], n + "mixed/turned", perm=[0, 2, 1, 3]), "flat"], n + "joined")
        x = norm(add("Add", [linear(joined, p + "attention.output.dense", n + "projected"), x], n + "sum1"), p + "attention.output.LayerNorm", n + "norm1")
        up = linear(x, p + "intermediate.dense", n + "up")
        bell = add("Add", [add("Erf", [add("Div", [up, "root2"], n + "scaled_up")], n + "erf"), "unit"], n + "bell")
        gelu = add("Mul", [add("Mul", [up, bell], n + "up_bell"), "half"], n + "gelu")
        x = norm(add("Add", [linear(gelu, p + "output.dense", n + "down"), x], n + "sum2"), p + "output.LayerNorm", n + "norm2")
    nodes.append(onnx.node("Identity", [x], "last_hidden_state"))
    symbols = ["batch", "sequence"]
    graph = b"".join(nodes) + onnx.text(2, "minilm") + b"".join(tensors)
    graph += b"".join(onnx.graph_input(name, symbols, "i64") for name in ("input_ids", "attention_mask", "token_type_ids"))
    graph += onnx.graph_output("last_hidden_state", symbols + [width])
    part = Path(str(out_path) + ".part")
    onnx.model(part, graph)
    part.replace(out_path)


if __name__ == "__main__":
    export(sys.argv[1], sys.argv[2])
