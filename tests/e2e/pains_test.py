"""Pains of others (by number) as whole models, whose right answers are known without a reference. On the CPU and in the emulator, or on
one target: pains_test.py SOURCE_DIR BUILD_DIR --target cuda

P17: what a tuner feeds its candidates is valid, and the user's data stays his.
"""
import math
import sys

from answers import Answers, write_npy
from onnx_writer import graph_input, graph_output, model, node, tensor, text
from rtx_testing import check, refused, run, succeeds, work

NAN, INF = math.nan, math.inf


def p17_a_tuned_gather_stays_within_its_table(target):
    graph = node("Gather", ["table", "rows"], "picked", axis=0) + text(2, "p17")
    graph += graph_input("table", [1000, 64]) + graph_input("rows", [3], "i64") + graph_output("picked", [3, 64])
    path = work / "p17.onnx"
    model(path, graph)
    table = write_npy(work / "table.npy", [1000, 64], [row + column / 64 for row in range(1000) for column in range(64)])
    rows = write_npy(work / "rows.npy", [3], [0, 999, -1], "i64")
    before = table.read_bytes(), rows.read_bytes()
    for inputs in (["--input", f"table={table}", "--input", f"rows={rows}"], ["--random", "7"]):
        process = succeeds("verify", path, "--tune", *inputs, "--target", target)
        check("outside" not in process.stderr and "fault" not in process.stderr, "p17: a candidate left its table", process)
    check((table.read_bytes(), rows.read_bytes()) == before, "p17: the user's data was changed")


def p25_partial_sums_that_cancel_are_kept_in_f32(on):
    m = n = 16
    k = 8192
    b = [2.0 if i == 0 else 1.0 if i < k // 2 else -1.0 for i in range(k) for _ in range(n)]
    on.expect("p25", [node("Cast", ["a"], "a16", to=16), node("Cast", ["b"], "b16", to=16), node("MatMul", ["a16", "b16"], "y16"), node("Cast", ["y16"], "y", to=1)],
              {"a": ([m, k], [1.0] * (m * k), "f32"), "b": ([k, n], b, "f32")}, [m, n], 1.0)


def p26_beta_zero_does_not_read_c(on):
    for m in (128, 130):
        c = [NAN if i % 2 else INF for i in range(m * 32)]
        on.expect(f"p26_{m}", [node("Gemm", ["a", "b", "c"], "y", beta=0.0)],
                  {"a": ([m, 8], [1.0] * (m * 8), "f32"), "b": ([8, 32], [2.0] * 256, "f32"), "c": ([m, 32], c, "f32")}, [m, 32], 16.0)


def p27_gelu_is_the_one_that_was_asked_for(on):
    x = [-3.0, -2.699, -1.0, 1.0, 3.0]
    exact = [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    tanh = [v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3))) for v in x]
    on.expect("p27_none", [node("Gelu", ["x"], "y")], {"x": ([5], x, "f32")}, [5], exact, relative=2e-6)
    on.expect("p27_tanh", [node("Gelu", ["x"], "y", approximate="tanh")], {"x": ([5], x, "f32")}, [5], tanh, relative=2e-6)


def p28_nan_passes_relu_clip_and_max(on):
    x = {"x": ([4], [NAN, -0.0, INF, -INF], "f32")}
    on.expect("p28_relu", [node("Add", ["x", "bias"], "z"), tensor("bias", [4], [0.0] * 4), node("Relu", ["z"], "y")], x, [4], [NAN, 0.0, INF, 0.0])
    on.expect("p28_clip", [node("Clip", ["x", "low", "high"], "y"), tensor("low", [], [0.0]), tensor("high", [], [6.0])], x, [4], [NAN, 0.0, 6.0, 0.0])
    on.expect("p28_max", [node("ReduceMax", ["x", "axes"], "y", keepdims=0), tensor("axes", [1], [0], "i64")], {"x": ([3], [1.0, NAN, 3.0], "f32")}, [], NAN)


def p29_extents_of_zero_and_one(on):
    for m, n, k in ((0, 7, 7), (7, 0, 7), (7, 7, 0), (1, 1, 1), (1, 7, 0), (7, 1, 7)):
        on.expect(f"p29_{m}_{n}_{k}", [node("MatMul", ["a", "b"], "p"), node("Add", ["p", "bias"], "z"), tensor("bias", [n], [-1.0 if j % 2 else 3.0 for j in range(n)]),
                                       node("Relu", ["z"], "y")],
                  {"a": ([m, k], [1.0] * (m * k), "f32"), "b": ([k, n], [1.0] * (k * n), "f32")}, [m, n], [max(0.0, k + (-1.0 if j % 2 else 3.0)) for _ in range(m) for j in range(n)])
    on.expect("p29_softmax", [node("Softmax", ["x"], "y", axis=1)], {"x": ([4, 0], [], "f32")}, [4, 0], [])


def p34_subnormals_are_numbers(on):
    x = {"x": ([2], [1e-40, -1e-40], "f32")}
    small = math.ldexp(71362, -149)  # 1e-40 as f32 holds it
    on.expect("p34_scale", [node("Mul", ["x", "four"], "y"), tensor("four", [], [4.0])], x, [2], [4 * small, -4 * small])
    on.expect("p34_relu", [node("Add", ["x", "zero"], "z"), tensor("zero", [], [0.0]), node("Relu", ["z"], "y")], x, [2], [small, 0.0])


def p35_a_large_mean_leaves_the_variance_right(on):
    n = 1024
    one, zero = tensor("g", [n], [1.0] * n), tensor("b", [n], [0.0] * n)
    wanted = 0.5 / math.sqrt(0.25 + 1e-5)
    on.expect("p35", [node("LayerNormalization", ["x", "g", "b"], "y", axis=-1, epsilon=1e-5), one, zero],
              {"x": ([2, n], [65536.0 + i % 2 for i in range(2 * n)], "f32")}, [2, n], [wanted if i % 2 else -wanted for i in range(2 * n)], relative=1e-6)


def p37_squares_beyond_f16_do_not_overflow(on):
    n = 4096
    halves = [node("Cast", ["x"], "h", to=10), node("Cast", ["w"], "v", to=10)]
    for name, op, wanted in (("rms", "RMSNormalization", 1.0), ("layer", "LayerNormalization", 0.0)):
        on.expect(f"p37_{name}", [*halves, node(op, ["h", "v"], "z", axis=-1, epsilon=1e-6), node("Cast", ["z"], "y", to=1)],
                  {"x": ([3, n], [300.0] * (3 * n), "f32"), "w": ([n], [1.0] * n, "f32")}, [3, n], wanted)


def attention(on, name, heads, kv_heads, queries, keys, q, k, v, wanted, mask=None, **attributes):
    """Operands and result as functions of head, row and column."""
    def operand(count, rows, f):
        return ([1, count, rows, 8], [float(f(h, r, c)) for h in range(count) for r in range(rows) for c in range(8)], "f32")
    inputs = {"q": operand(heads, queries, q), "k": operand(kv_heads, keys, k), "v": operand(kv_heads, keys, v)}
    if mask:
        inputs["m"] = ([queries, keys], [mask(i, j) for i in range(queries) for j in range(keys)], "bool")
    on.expect(name, [node("Attention", list(inputs), "y", **attributes)], inputs, [1, heads, queries, 8],
              [float(wanted(h, r, c)) for h in range(heads) for r in range(queries) for c in range(8)], relative=2e-6)


def none(*_):
    return 0


def p38_rows_that_see_nothing(on):
    attention(on, "p38", 1, 1, 4, 6, none, none, lambda h, j, c: j, lambda h, i, c: 0 if i == 1 else 2.5, mask=lambda i, j: i != 1)
    on.expect("p38_softmax", [node("Softmax", ["x"], "y", axis=1)], {"x": ([2, 5], [-INF] * 5 + [0.0] * 5, "f32")}, [2, 5], [NAN] * 5 + [0.2] * 5, relative=1e-6)


def p39_very_low_scores_are_scores(on):
    attention(on, "p39", 1, 1, 2, 33, lambda h, i, c: -245 if c == 0 else 0, lambda h, j, c: 245 if c == 0 else 0, lambda h, j, c: j, lambda h, i, c: 16, scale=1.0)


def p41_keys_behind_the_last_one_never_count(on):
    for keys in (1, 2, 15, 17, 63, 65, 127, 129, 1000, 1025):
        attention(on, f"p41_{keys}", 1, 1, 3, keys, none, lambda h, j, c: j % 3, lambda h, j, c: j if c else 1, lambda h, i, c: (keys - 1) / 2 if c else 1)


def p43_the_causal_corner_is_top_left(on):
    attention(on, "p43", 1, 1, 3, 5, none, none, lambda h, j, c: j, lambda h, i, c: i / 2, is_causal=1)
    window = lambda i, j: i - 4 < j <= i
    attention(on, "p43_window", 1, 1, 7, 7, none, none, lambda h, j, c: j, lambda h, i, c: (max(0, i - 3) + i) / 2, mask=window)


def p44_query_heads_read_their_own_key_head(on):
    attention(on, "p44", 8, 2, 5, 7, none, none, lambda h, j, c: h + 1, lambda h, i, c: h // 4 + 1)
    graph = node("Attention", ["q", "k", "v"], "y") + text(2, "p44") + graph_output("y", [1, 7, 5, 8])
    for name, heads in (("q", 7), ("k", 2), ("v", 2)):
        graph += graph_input(name, [1, heads, 5, 8])
    model(work / "p44_odd.onnx", graph, 23)
    refused(2, "7", "run", work / "p44_odd.onnx", "--random", "1", "--target", on.target)


def main():
    stories = [story for name, story in globals().items() if name[0] == "p" and name[1:3].isdigit() and name[:3] != "p17"]
    for target in sys.argv[4:5] or ["cpu", "cuda-emulated"]:
        p17_a_tuned_gather_stays_within_its_table(target)
        for story in stories:
            story(Answers(target))


run(main)
