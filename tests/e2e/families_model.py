"""Writes an ONNX model whose regions need every kernel family, on extents that no vector width divides.

usage: families_model.py FILE.onnx
"""
import sys

from onnx_writer import graph_input, graph_output, model, node, tensor, text

S, D, H, F = 17, 40, 5, 51  # tokens, width, heads, hidden


def wave(count, step, scale):
    return [((i * step) % 97 - 48) / 48 * scale for i in range(count)]


graph = b"".join([
    # attention, with the transposes of its heads
    node("MatMul", ["x", "wq"], "q0"), node("MatMul", ["x", "wk"], "k0"), node("MatMul", ["x", "wv"], "v0"),
    node("Reshape", ["q0", "heads"], "q1"), node("Reshape", ["k0", "heads"], "k1"), node("Reshape", ["v0", "heads"], "v1"),
    node("Transpose", ["q1"], "q", perm=[0, 2, 1, 3]), node("Transpose", ["k1"], "kt", perm=[0, 2, 3, 1]), node("Transpose", ["v1"], "v", perm=[0, 2, 1, 3]),
    node("MatMul", ["q", "kt"], "s0"), node("Mul", ["s0", "scale"], "s"), node("Softmax", ["s"], "p", axis=-1), node("MatMul", ["p", "v"], "o0"),
    node("Transpose", ["o0"], "o1", perm=[0, 2, 1, 3]), node("Reshape", ["o1", "flat"], "o"),
    # gemm with bias, residual and gelu's erf; layer norm
    node("MatMul", ["o", "w1"], "h0"), node("Add", ["h0", "b1"], "h1"), node("Tanh", ["h1"], "h"),
    node("MatMul", ["h", "w2"], "r0"), node("Add", ["r0", "x"], "r"), node("LayerNormalization", ["r", "g", "b"], "y", axis=-1, epsilon=1e-5),
    # softmax along another axis, reductions along rows and columns, a transpose, a pointwise chain
    node("Softmax", ["x"], "soft", axis=1), node("ReduceSum", ["z", "axes1"], "row_sums", keepdims=0), node("ReduceSum", ["z", "axes0"], "column_sums", keepdims=0),
    node("Transpose", ["z"], "turned", perm=[1, 0]), node("Sigmoid", ["z"], "sz"), node("Exp", ["sz"], "chain"),
    # rotary: the halves of a head's columns turn by an angle a token
    node("RotaryEmbedding", ["turning", "cosines", "sines"], "rotated"),
    # f64 and integers
    node("Softmax", ["d"], "soft64", axis=0), node("MatMul", ["d", "d"], "product64"), node("MatMul", ["i", "i"], "integers"),
    node("LayerNormalization", ["d", "gd"], "norm64", axis=-1, epsilon=1e-5),
    text(2, "families"),
    tensor("wq", [D, D], wave(D * D, 37, 0.3)), tensor("wk", [D, D], wave(D * D, 41, 0.3)), tensor("wv", [D, D], wave(D * D, 43, 0.3)),
    tensor("w1", [D, F], wave(D * F, 53, 0.2)), tensor("b1", [F], wave(F, 5, 0.1)), tensor("w2", [F, D], wave(F * D, 59, 0.2)),
    tensor("g", [D], wave(D, 7, 1.0)), tensor("b", [D], wave(D, 11, 0.5)), tensor("scale", [], [0.35]), tensor("gd", [9], wave(9, 3, 1.0), "f64"),
    tensor("heads", [4], [1, S, H, D // H], "i64"), tensor("flat", [3], [1, S, D], "i64"), tensor("axes1", [1], [1], "i64"), tensor("axes0", [1], [0], "i64"),
    graph_input("turning", [1, H, S, D // H]), tensor("cosines", [1, S, D // H // 2], wave(S * (D // H // 2), 13, 1.0)), tensor("sines", [1, S, D // H // 2], wave(S * (D // H // 2), 17, 1.0)),
    graph_input("x", [1, S, D]), graph_input("z", [67, 131]), graph_input("d", [9, 9], "f64"), graph_input("i", [7, 7], "i32"),
    graph_output("y", [1, S, D]), graph_output("soft", [1, S, D]), graph_output("row_sums", [67]), graph_output("column_sums", [131]),
    graph_output("turned", [131, 67]), graph_output("chain", [67, 131]), graph_output("soft64", [9, 9], "f64"), graph_output("product64", [9, 9], "f64"),
    graph_output("integers", [7, 7], "i32"), graph_output("norm64", [9, 9], "f64"), graph_output("rotated", [1, H, S, D // H]),
])
model(sys.argv[1], graph, opset=23)
