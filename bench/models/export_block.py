#!/usr/bin/env python3
"""Writes one transformer block as ONNX, with random weights from a seed, as a framework would export it.

    export_block.py CONFIG -o FOLDER [--batch B] [--sequence S] [--dtype bf16|f16|f32] [--spelling parts|operators]
                                     [--projections joined|separate] [--hidden N --heads N --key-heads N --inner N]

Two kinds, both pre-norm: gpt (LayerNorm, biases, causal attention, GELU by tanh) and llama (RMSNorm, rotary halves, grouped key heads,
SwiGLU). `parts` writes norms, GELU, SiLU, rotary and attention out in elementary operators, which is what exporters without composite
operators do; `operators` uses ONNX's own (opset 24). `joined` has one product for q, k and v and one for gate and up; `separate` one each.

Weights have deviation 1/sqrt(fan-in), so that numbers keep their size; they stand in FOLDER/model.data. Needs onnx and numpy.
"""
import argparse
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

# kind, hidden, query heads, key heads, inner width, batch, sequence
CONFIGS = {
    "gpt-4k": ("gpt", 4096, 32, 32, 16384, 4, 2048),
    "gpt-4k-1k": ("gpt", 4096, 32, 32, 16384, 1, 1024),
    "gpt-16k": ("gpt", 16384, 64, 64, 65536, 1, 1024),
    "bert-768": ("gpt", 768, 12, 12, 3072, 8, 512),
    "llama-4k": ("llama", 4096, 32, 8, 14336, 2, 4096),
    "llama-8k": ("llama", 8192, 64, 8, 28672, 1, 8192),
    "gpt-small": ("gpt", 64, 2, 2, 128, 2, 24),
    "llama-small": ("llama", 128, 4, 2, 192, 1, 40),
}
TYPES = {"bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16, "f32": TensorProto.FLOAT}


def stored(values, dtype):
    """f32 numbers as bytes of `dtype`, rounded to nearest even."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "f16":
        return values.astype(np.float16).tobytes()
    if dtype == "bf16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return values.tobytes()


class Block:
    def __init__(self, arguments):
        kind, hidden, heads, key_heads, inner, batch, sequence = CONFIGS[arguments.config]
        self.kind = kind
        self.hidden, self.heads, self.key_heads = arguments.hidden or hidden, arguments.heads or heads, arguments.key_heads or key_heads
        self.inner, self.batch, self.sequence = arguments.inner or inner, arguments.batch or batch, arguments.sequence or sequence
        self.size = self.hidden // self.heads
        if self.hidden % self.heads or self.heads % self.key_heads or self.size % 2:
            raise SystemExit(f"error: {self.heads} query heads and {self.key_heads} key heads do not divide a hidden size of {self.hidden}")
        self.dtype, self.parts, self.joined = arguments.dtype, arguments.spelling == "parts", arguments.projections == "joined"
        self.random = np.random.default_rng(arguments.seed)
        self.nodes, self.initializers, self.data, self.offset = [], [], open(arguments.output / "model.data", "wb"), 0
        self.counts = {}

    # --- the file ---
    def tensor(self, name, shape, values=None, scale=1.0):
        """A weight, drawn in slices so that 2 GiB of them need no 8."""
        tensor = TensorProto(name=name, data_type=TYPES[self.dtype], dims=shape, data_location=TensorProto.EXTERNAL)
        start = self.offset
        rows = 1 if values is not None or len(shape) < 2 else max(1, (1 << 24) // shape[1])
        if values is not None or len(shape) < 2:
            chunk = self.random.standard_normal(shape, np.float32) * scale if values is None else np.asarray(values, np.float32)
            self.offset += self.data.write(stored(chunk, self.dtype))
        else:
            for first in range(0, shape[0], rows):
                count = min(rows, shape[0] - first)
                self.offset += self.data.write(stored(self.random.standard_normal((count, shape[1]), np.float32) * scale, self.dtype))
        for key, value in (("location", "model.data"), ("offset", start), ("length", self.offset - start)):
            tensor.external_data.add(key=key, value=str(value))
        padding = -self.offset % 64
        self.offset += self.data.write(bytes(padding))
        self.initializers.append(tensor)
        return name

    def ints(self, name, values):
        self.initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def number(self, name, value):
        tensor = TensorProto(name=name, data_type=TYPES[self.dtype], dims=[], raw_data=stored([value], self.dtype))
        self.initializers.append(tensor)
        return name

    def add(self, op, inputs, outputs=1, name=None, **attributes):
        count = self.counts[op] = self.counts.get(op, -1) + 1
        name = name or f"{op.lower()}_{count}"
        results = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, name=f"/{name}/{op}", **attributes))
        return results[0] if outputs == 1 else results

    # --- pieces ---
    def norm(self, x, name):
        weight = self.tensor(f"{name}.weight", [self.hidden], 1 + 0.1 * self.random.standard_normal(self.hidden))
        if self.kind == "gpt":
            bias = self.tensor(f"{name}.bias", [self.hidden], scale=0.1)
            if not self.parts:
                return self.add("LayerNormalization", [x, weight, bias], name=name, axis=-1, epsilon=1e-5)
            mean = self.add("ReduceMean", [x, "last_axis"], keepdims=1)
            centred = self.add("Sub", [x, mean])
            variance = self.add("ReduceMean", [self.add("Pow", [centred, "two"]), "last_axis"], keepdims=1)
            deviation = self.add("Sqrt", [self.add("Add", [variance, "epsilon"])])
            return self.add("Add", [self.add("Mul", [self.add("Div", [centred, deviation]), weight]), bias], name=name)
        if not self.parts:
            return self.add("RMSNormalization", [x, weight], name=name, axis=-1, epsilon=1e-6)
        square = self.add("ReduceMean", [self.add("Pow", [x, "two"]), "last_axis"], keepdims=1)
        inverse = self.add("Reciprocal", [self.add("Sqrt", [self.add("Add", [square, "epsilon"])])])
        return self.add("Mul", [self.add("Mul", [x, inverse]), weight], name=name)

    def linear(self, x, rows, columns, name):
        y = self.add("MatMul", [x, self.tensor(f"{name}.weight", [rows, columns], scale=1 / math.sqrt(rows))], name=name)
        if self.kind != "gpt":
            return y
        return self.add("Add", [y, self.tensor(f"{name}.bias", [columns], scale=0.1)], name=f"{name}.sum")

    def split(self, x, sizes):
        return self.add("Split", [x, self.ints(f"sizes_{len(self.initializers)}", sizes)], len(sizes), axis=-1)

    def rotated(self, x, name):
        if not self.parts:
            return self.add("RotaryEmbedding", [x, "cos", "sin"], name=name)
        half = self.size // 2
        a, b = self.split(x, [half, half])
        return self.add("Concat", [self.add("Sub", [self.add("Mul", [a, "cos"]), self.add("Mul", [b, "sin"])]),
                                   self.add("Add", [self.add("Mul", [b, "cos"]), self.add("Mul", [a, "sin"])])], name=name, axis=-1)

    def heads_of(self, x, heads):
        shape = self.ints(f"shape_{len(self.initializers)}", [self.batch, self.sequence, heads, self.size])
        return self.add("Transpose", [self.add("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def attention(self, q, k, v):
        if not self.parts:
            return self.add("Attention", [q, k, v], name="attention", is_causal=1)
        if self.heads != self.key_heads:
            k, v = (self.add("Reshape", [self.add("Expand", [self.add("Unsqueeze", [t, "axis_2"]), "grouped_shape"]), "query_shape"]) for t in (k, v))
        scores = self.add("Div", [self.add("MatMul", [q, self.add("Transpose", [k], perm=[0, 1, 3, 2])]), self.number("root_of_size", math.sqrt(self.size))])
        return self.add("MatMul", [self.add("Softmax", [self.add("Add", [scores, "causal_mask"])], axis=-1), v], name="attention")

    def constants(self):
        self.number("two", 2.0)
        self.number("epsilon", 1e-5 if self.kind == "gpt" else 1e-6)
        self.ints("last_axis", [-1])
        if self.kind == "llama":
            angle = np.arange(self.sequence)[:, None] / 10000 ** (np.arange(self.size // 2) / (self.size // 2))[None]
            for name, values in (("cos", np.cos(angle)), ("sin", np.sin(angle))):  # ONNX's operator wants them by batch
                self.tensor(name, [1 if self.parts else self.batch, *angle.shape], np.broadcast_to(values, (1 if self.parts else self.batch, *angle.shape)))
        if self.parts:
            s = self.sequence
            self.tensor("causal_mask", [s, s], np.where(np.tri(s, dtype=bool), 0, -np.inf).astype(np.float32))
            self.ints("axis_2", [2])
            self.ints("grouped_shape", [self.batch, self.key_heads, self.heads // self.key_heads, s, self.size])
            self.ints("query_shape", [self.batch, self.heads, s, self.size])

    def build(self):
        self.constants()
        d, kv = self.hidden, self.key_heads * self.size
        y = self.norm("x", "norm_1")
        if self.joined:
            q, k, v = self.split(self.linear(y, d, d + 2 * kv, "qkv"), [d, kv, kv])
        else:
            q, k, v = self.linear(y, d, d, "q"), self.linear(y, d, kv, "k"), self.linear(y, d, kv, "v")
        q, k, v = self.heads_of(q, self.heads), self.heads_of(k, self.key_heads), self.heads_of(v, self.key_heads)
        if self.kind == "llama":
            q, k = self.rotated(q, "q_rotated"), self.rotated(k, "k_rotated")
        o = self.add("Transpose", [self.attention(q, k, v)], perm=[0, 2, 1, 3])
        o = self.add("Reshape", [o, self.ints("hidden_shape", [self.batch, self.sequence, d])])
        x = self.add("Add", ["x", self.linear(o, d, d, "projection")], name="after_attention")
        y = self.norm(x, "norm_2")
        if self.kind == "gpt":
            y = self.gelu(self.linear(y, d, self.inner, "up"))
        else:
            if self.joined:
                gate, up = self.split(self.linear(y, d, 2 * self.inner, "gate_up"), [self.inner, self.inner])
            else:
                gate, up = self.linear(y, d, self.inner, "gate"), self.linear(y, d, self.inner, "up")
            silu = self.add("Mul", [gate, self.add("Sigmoid", [gate])]) if self.parts else self.add("Swish", [gate])
            y = self.add("Mul", [silu, up])
        self.add("Add", [x, self.linear(y, self.inner, d, "down")], name="y")

    def gelu(self, x):
        if not self.parts:
            return self.add("Gelu", [x], approximate="tanh")
        cube = self.add("Mul", [self.add("Pow", [x, self.number("three", 3.0)]), self.number("gelu_cube", 0.044715)])
        inner = self.add("Tanh", [self.add("Mul", [self.add("Add", [x, cube]), self.number("gelu_scale", math.sqrt(2 / math.pi))])])
        return self.add("Mul", [self.add("Mul", [x, self.number("half", 0.5)]), self.add("Add", [inner, self.number("one", 1.0)])])


def main():
    parser = argparse.ArgumentParser(prog="export_block", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", choices=CONFIGS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    parser.add_argument("--spelling", choices=["parts", "operators"], default="operators")
    parser.add_argument("--projections", choices=["joined", "separate"], default="joined")
    parser.add_argument("--seed", type=int, default=1)
    for name in ("batch", "sequence", "hidden", "heads", "key-heads", "inner"):
        parser.add_argument(f"--{name}", type=int, metavar="N", help="instead of the configuration's")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    block = Block(arguments)
    block.build()
    block.data.close()
    shape = [block.batch, block.sequence, block.hidden]
    graph = helper.make_graph(block.nodes, f"{arguments.config}_block", [helper.make_tensor_value_info("x", TYPES[block.dtype], shape)],
                              [helper.make_tensor_value_info("y", TYPES[block.dtype], shape)], block.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    onnx.save(model, arguments.output / "model.onnx")
    print(f"{arguments.output / 'model.onnx'}: {len(block.nodes)} nodes, {block.offset / 2**20:.1f} MiB of weights")


if __name__ == "__main__":
    main()
