#!/usr/bin/env python3
"""Writes one transformer block as ONNX, with random weights from a seed, as a framework would export it.

    export_block.py CONFIG -o FOLDER [--batch B] [--sequence S] [--dtype bf16|f16|f32] [--spelling parts|operators]
                                     [--projections joined|separate] [--hidden N --heads N --key-heads N --inner N] [--context N]

Three kinds: gpt (pre-norm: LayerNorm, biases, causal attention, GELU by tanh), llama (pre-norm: RMSNorm, rotary halves, grouped key heads,
SwiGLU) and bert (an encoder's: LayerNorm behind each sum, biases, every key seen, GELU by erf). `parts` writes norms, GELU, SiLU, rotary and attention out in elementary operators, which is what exporters without composite
operators do; `operators` uses ONNX's own (opset 24). `joined` has one product for q, k and v and one for gate and up; `separate` one each.

With --context a block decodes: one token of each sequence at `position`, keys and values of N positions in caches past_k and past_v that
present_k and present_v replace (compile with --state past_k=present_k:N --state past_v=present_v:N).

Weights have deviation 1/sqrt(fan-in), so that numbers keep their size; they stand in FOLDER/model.data. Each is a table of 65521 normal
numbers of its own, over and over: as good to a product as fresh ones, and gigabytes of them take seconds without any package.
"""
import argparse
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/e2e"))
import onnx_writer as onnx  # noqa: E402

# kind, hidden, query heads, key heads, inner width, batch, sequence
CONFIGS = {
    "gpt-4k": ("gpt", 4096, 32, 32, 16384, 4, 2048),
    "gpt-4k-1k": ("gpt", 4096, 32, 32, 16384, 1, 1024),
    "gpt-16k": ("gpt", 16384, 64, 64, 65536, 1, 1024),
    "bert-768": ("gpt", 768, 12, 12, 3072, 8, 512),
    "llama-4k": ("llama", 4096, 32, 8, 14336, 2, 4096),
    "llama-8k": ("llama", 8192, 64, 8, 28672, 1, 8192),
    "encoder-768": ("bert", 768, 12, 12, 3072, 8, 512),
    "gpt-small": ("gpt", 64, 2, 2, 128, 2, 24),
    "llama-small": ("llama", 128, 4, 2, 192, 1, 40),
    "encoder-small": ("bert", 64, 2, 2, 128, 2, 24),
}
BYTES = {"bf16": 2, "f16": 2, "f32": 4}
TABLE = 65521


def stored(values, dtype):
    """Numbers as bytes of `dtype`, rounded to nearest even."""
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    singles = struct.pack(f"<{len(values)}f", *values)
    if dtype == "f32":
        return singles
    bits = struct.unpack(f"<{len(values)}I", singles)
    return struct.pack(f"<{len(values)}H", *(b >> 16 if b & 0x7FFFFFFF == 0x7F800000 else (b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))


class Block:
    def __init__(self, arguments):
        kind, hidden, heads, key_heads, inner, batch, sequence = CONFIGS[arguments.config]
        self.kind, self.biased, self.context = kind, kind != "llama", arguments.context
        self.hidden, self.heads, self.key_heads = arguments.hidden or hidden, arguments.heads or heads, arguments.key_heads or key_heads
        self.inner, self.batch, self.sequence = arguments.inner or inner, arguments.batch or batch, 1 if self.context else arguments.sequence or sequence
        self.size = self.hidden // self.heads
        if self.hidden % self.heads or self.heads % self.key_heads or self.size % 2:
            raise SystemExit(f"error: {self.heads} query heads and {self.key_heads} key heads do not divide a hidden size of {self.hidden}")
        if self.context and (kind == "bert" or arguments.spelling == "parts"):
            raise SystemExit("error: a block that decodes is a gpt or a llama, spelled in operators")
        self.dtype, self.parts, self.joined = arguments.dtype, arguments.spelling == "parts", arguments.projections == "joined"
        self.random = random.Random(arguments.seed)
        self.graph, self.data, self.offset = b"", open(arguments.output / "model.data", "wb"), 0
        self.counts, self.nodes = {}, 0

    # --- the file ---
    def tensor(self, name, shape, values=None, mean=0.0, scale=1.0):
        """A weight: given values, or random ones."""
        count = math.prod(shape)
        if values is not None:
            raw = stored(values, self.dtype)
        else:
            table = stored([self.random.gauss(mean, scale) for _ in range(min(count, TABLE))], self.dtype)
            raw = (table * (count // TABLE + 1))[:count * BYTES[self.dtype]]
        self.graph += onnx.external_tensor(name, shape, "model.data", self.offset, self.data.write(raw), self.dtype)
        self.offset += len(raw)
        self.offset += self.data.write(bytes(-self.offset % 64))
        return name

    def ints(self, name, values):
        self.graph += onnx.tensor(name, [len(values)], values, "i64")
        return name

    def number(self, name, value):
        self.graph += onnx.raw_tensor(name, [], stored([value], self.dtype), self.dtype)
        return name

    def shape(self, values):
        return self.ints("shape_" + "x".join(map(str, values)) + f"_{self.nodes}", values)

    def add(self, op, inputs, outputs=1, name=None, **attributes):
        count = self.counts[op] = self.counts.get(op, -1) + 1
        name = name or f"{op.lower()}_{count}"
        results = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.graph += onnx.node(op, inputs, results, **attributes)
        self.nodes += 1
        return results[0] if outputs == 1 else results

    # --- pieces ---
    def norm(self, x, name, result=None):
        result = result or name
        weight = self.tensor(f"{name}.weight", [self.hidden], mean=1.0, scale=0.1)
        if self.biased:
            bias = self.tensor(f"{name}.bias", [self.hidden], scale=0.1)
            if not self.parts:
                return self.add("LayerNormalization", [x, weight, bias], name=result, axis=-1, epsilon=1e-5)
            mean = self.add("ReduceMean", [x, "last_axis"], keepdims=1)
            centred = self.add("Sub", [x, mean])
            variance = self.add("ReduceMean", [self.add("Pow", [centred, "two"]), "last_axis"], keepdims=1)
            deviation = self.add("Sqrt", [self.add("Add", [variance, "epsilon"])])
            return self.add("Add", [self.add("Mul", [self.add("Div", [centred, deviation]), weight]), bias], name=result)
        if not self.parts:
            return self.add("RMSNormalization", [x, weight], name=result, axis=-1, epsilon=1e-6)
        square = self.add("ReduceMean", [self.add("Pow", [x, "two"]), "last_axis"], keepdims=1)
        inverse = self.add("Reciprocal", [self.add("Sqrt", [self.add("Add", [square, "epsilon"])])])
        return self.add("Mul", [self.add("Mul", [x, inverse]), weight], name=result)

    def linear(self, x, rows, columns, name):
        y = self.add("MatMul", [x, self.tensor(f"{name}.weight", [rows, columns], scale=1 / math.sqrt(rows))], name=name)
        if not self.biased:
            return y
        return self.add("Add", [y, self.tensor(f"{name}.bias", [columns], scale=0.1)], name=f"{name}.sum")

    def split(self, x, sizes):
        return self.add("Split", [x, self.shape(sizes)], len(sizes), axis=-1)

    def rotated(self, x, name):
        if not self.parts:
            return self.add("RotaryEmbedding", [x, "cos", "sin"] + (["place"] if self.context else []), name=name)
        half = self.size // 2
        a, b = self.split(x, [half, half])
        return self.add("Concat", [self.add("Sub", [self.add("Mul", [a, "cos"]), self.add("Mul", [b, "sin"])]),
                                   self.add("Add", [self.add("Mul", [b, "cos"]), self.add("Mul", [a, "sin"])])], name=name, axis=-1)

    def heads_of(self, x, heads):
        return self.add("Transpose", [self.add("Reshape", [x, self.shape([self.batch, self.sequence, heads, self.size])])], perm=[0, 2, 1, 3])

    def attention(self, q, k, v):
        if self.context:
            k, v = (self.add("TensorScatter", [f"past_{name}", fresh, "position"], name=f"present_{name}", axis=2) for name, fresh in (("k", k), ("v", v)))
            return self.add("Attention", [q, k, v, "", "", "", "length"], name="attention", is_causal=0)
        if not self.parts:
            return self.add("Attention", [q, k, v], name="attention", is_causal=int(self.kind != "bert"))
        if self.heads != self.key_heads:
            k, v = (self.add("Reshape", [self.add("Expand", [self.add("Unsqueeze", [t, "axis_2"]), "grouped_shape"]), "query_shape"]) for t in (k, v))
        scores = self.add("Div", [self.add("MatMul", [q, self.add("Transpose", [k], perm=[0, 1, 3, 2])]), self.number("root_of_size", math.sqrt(self.size))])
        if self.kind != "bert":
            scores = self.add("Add", [scores, "causal_mask"])
        return self.add("MatMul", [self.add("Softmax", [scores], axis=-1), v], name="attention")

    def constants(self):
        self.number("two", 2.0)
        self.number("epsilon", 1e-5 if self.biased else 1e-6)
        self.ints("last_axis", [-1])
        if self.kind == "llama":
            # ONNX's operator wants tables by batch, or one of all positions and the place of each row.
            half, rows, copies = self.size // 2, self.context or self.sequence, 1 if self.parts or self.context else self.batch
            angles = [row / 10000 ** (column / half) for row in range(rows) for column in range(half)]
            for name, function in (("cos", math.cos), ("sin", math.sin)):
                self.tensor(name, [rows, half] if self.context else [copies, rows, half], [function(angle) for angle in angles] * copies)
        if self.context:
            self.ints("one_ahead", [1])
            self.ints("axis_1", [1])
            self.add("Add", ["position", "one_ahead"], name="length")
            if self.kind == "llama":
                self.add("Unsqueeze", ["position", "axis_1"], name="place")
        if self.parts:
            s = self.sequence
            rows = (stored([0.0], self.dtype) * (i + 1) + stored([-math.inf], self.dtype) * (s - 1 - i) for i in range(s))
            self.graph += onnx.external_tensor("causal_mask", [s, s], "model.data", self.offset, s * s * BYTES[self.dtype], self.dtype)
            self.offset += sum(self.data.write(row) for row in rows)
            self.offset += self.data.write(bytes(-self.offset % 64))
            self.ints("axis_2", [2])
            self.ints("grouped_shape", [self.batch, self.key_heads, self.heads // self.key_heads, s, self.size])
            self.ints("query_shape", [self.batch, self.heads, s, self.size])

    def build(self):
        self.constants()
        d, kv = self.hidden, self.key_heads * self.size
        y = "x" if self.kind == "bert" else self.norm("x", "norm_1")
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
        y = x = self.norm(x, "norm_1") if self.kind == "bert" else x
        if self.kind != "bert":
            y = self.norm(x, "norm_2")
        if self.biased:
            y = self.gelu(self.linear(y, d, self.inner, "up"))
        else:
            if self.joined:
                gate, up = self.split(self.linear(y, d, 2 * self.inner, "gate_up"), [self.inner, self.inner])
            else:
                gate, up = self.linear(y, d, self.inner, "gate"), self.linear(y, d, self.inner, "up")
            silu = self.add("Mul", [gate, self.add("Sigmoid", [gate])]) if self.parts else self.add("Swish", [gate])
            y = self.add("Mul", [silu, up])
        y = self.linear(y, self.inner, d, "down")
        if self.kind == "bert":
            self.norm(self.add("Add", [x, y], name="after_mlp"), "norm_2", "y")
        else:
            self.add("Add", [x, y], name="y")

    def gelu(self, x):
        if not self.parts:
            return self.add("Gelu", [x], approximate="none" if self.kind == "bert" else "tanh")
        if self.kind == "bert":
            bell = self.add("Erf", [self.add("Div", [x, self.number("root_of_two", math.sqrt(2))])])
            return self.add("Mul", [self.add("Mul", [x, self.number("half", 0.5)]), self.add("Add", [bell, self.number("one", 1.0)])])
        cube = self.add("Mul", [self.add("Pow", [x, self.number("three", 3.0)]), self.number("gelu_cube", 0.044715)])
        inner = self.add("Tanh", [self.add("Mul", [self.add("Add", [x, cube]), self.number("gelu_scale", math.sqrt(2 / math.pi))])])
        return self.add("Mul", [self.add("Mul", [x, self.number("half", 0.5)]), self.add("Add", [inner, self.number("one", 1.0)])])


def main():
    parser = argparse.ArgumentParser(prog="export_block", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", choices=CONFIGS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--dtype", choices=BYTES, default="bf16")
    parser.add_argument("--spelling", choices=["parts", "operators"], default="operators")
    parser.add_argument("--projections", choices=["joined", "separate"], default="joined")
    parser.add_argument("--seed", type=int, default=1)
    for name in ("batch", "sequence", "hidden", "heads", "key-heads", "inner", "context"):
        parser.add_argument(f"--{name}", type=int, metavar="N", help="instead of the configuration's")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    block = Block(arguments)
    block.build()
    block.data.close()
    shape = [block.batch, block.sequence, block.hidden]
    inputs, outputs = [("x", shape, block.dtype)], [("y", shape, block.dtype)]
    if block.context:
        cache = [block.batch, block.key_heads, block.context, block.size]
        inputs += [("position", [block.batch], "i64")] + [(f"past_{name}", cache, block.dtype) for name in "kv"]
        outputs += [(f"present_{name}", cache, block.dtype) for name in "kv"]
    graph = block.graph + onnx.text(2, f"{arguments.config}_block") + b"".join(onnx.graph_input(*one) for one in inputs) + b"".join(onnx.graph_output(*one) for one in outputs)
    onnx.model(arguments.output / "model.onnx", graph, 24)
    print(f"{arguments.output / 'model.onnx'}: {block.nodes} nodes, {block.offset / 2**20:.1f} MiB of weights")


if __name__ == "__main__":
    main()
