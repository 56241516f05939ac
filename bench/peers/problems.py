"""The rows of `rtx bench suite` by their names there, as what torch needs to make them; a test compares the two lists."""


def product(group, op, m, n, k, dtype="bf16"):
    pair, width = op == "swiglu up", 4 if dtype == "f32" else 2
    residual = op.endswith("residual")
    return {"kind": "gemm", "group": group, "op": op, "shape": f"{m}x{n}x{k}", "dtype": dtype, "mnk": (m, n, k), "flops": 2 * m * n * k * (2 if pair else 1),
            "bytes": width * (m * k + n * k * (2 if pair else 1) + m * n * (2 if residual else 1)), "result_bytes": width * m * n}


def attention(group, op, b, h, kv, q, s, d, causal, dtype="bf16"):
    shape = f"b{b} h{h}/{kv} s{s} d{d}" if q == s else f"b{b} h{h}/{kv} kv{s} d{d}"
    return {"kind": "attention", "group": group, "op": op, "shape": shape, "dtype": dtype, "heads": (b, h, kv, q, s, d), "causal": causal,
            "flops": 4 * b * h * q * s * d * (0.5 if causal and q == s else 1), "bytes": 2 * (2 * b * h * q * d + 2 * b * kv * s * d), "result_bytes": 2 * b * h * q * d}


def norm(op, tensors, m, n):
    return {"kind": "norm", "group": "norms", "op": op, "shape": f"{m}x{n}", "dtype": "bf16", "rows_columns": (m, n), "flops": 0, "bytes": tensors * 2 * m * n, "result_bytes": 2 * m * n}


def block(op, shape, model, batch, tokens, context=0, dtype="bf16"):
    return {"kind": "block", "group": "block" if op == "fwd" else "block decode", "op": op, "shape": shape, "dtype": dtype, "model": model, "batch": batch, "tokens": tokens, "context": context,
            "flops": 0, "bytes": 0}


LAYERS = [(4096, 4096), (12288, 4096), (4096, 16384), (28672, 8192)]
LINEAR = [(4096, 16384, 4096), (8192, 16384, 4096), (2048, 16384, 4096), (4096, 4096, 16384), (8192, 12288, 4096), (64, 16384, 4096)]
FORWARD = [(8, 32, 32, 1024, 128), (4, 32, 32, 2048, 128), (2, 32, 32, 4096, 128), (1, 32, 32, 8192, 128), (1, 64, 64, 8192, 128), (2, 32, 8, 4096, 128), (4, 64, 64, 2048, 64),
           (1, 64, 64, 8192, 64), (2, 16, 16, 4096, 256), (8, 12, 12, 512, 64), (2, 32, 32, 3001, 128)]
DECODE = [(1, 32, 8, 8192, 128), (16, 32, 8, 2048, 128), (64, 32, 8, 2048, 128), (16, 32, 8, 8192, 128), (64, 32, 32, 1024, 128), (8, 64, 8, 32768, 128)]
NORMS = [("layer_norm", 2), ("rms_norm", 2), ("residual+rms_norm", 4), ("softmax", 2), ("bias+gelu+residual", 3)]


def rows():
    out = [product("gemm large", "gemm_nt", m, n, k) for m in (1024, 4096, 8192) for n, k in LAYERS]
    out += [product("gemm large", "gemm_nt", 4096, n, k, "f16") for n, k in LAYERS]
    out += [product("gemm ragged", "gemm_nt", *mnk) for mnk in ((3000, 5000, 4096), (4095, 4097, 4096), (777, 1111, 2056))]
    out += [product("gemm squares", "gemm_nt", n, n, n, dtype) for dtype in ("bf16", "f32") for n in (512, 1024, 2048, 4096, 8192)]
    out += [product("gemm skinny", "gemm_nt", m, n, k) for m in (1, 16, 64, 128) for n, k in LAYERS]
    out += [product("epilogues fused", op, *mnk) for mnk in LINEAR for op in ("linear+bias+gelu_tanh", "linear+bias+residual")]
    out += [product("epilogues beyond", op, *mnk) for mnk in LINEAR for op in ("linear+bias+silu", "linear+bias+gelu_tanh+residual")]
    out += [product("swiglu", "swiglu up", *mnk) for mnk in ((8192, 14336, 4096), (4096, 28672, 8192))]
    for causal in (False, True):
        group, op = ("attention causal", "fwd causal") if causal else ("attention full", "fwd")
        out += [attention(group, op, b, h, kv, s, s, d, causal) for b, h, kv, s, d in FORWARD]
        out += [attention(group, op, b, h, kv, s, s, d, causal, "f16") for b, h, kv, s, d in (FORWARD[1], FORWARD[5])]
    out += [attention("decode", "q=1", b, h, kv, 1, s, d, False) for b, h, kv, s, d in DECODE]
    out += [attention("decode", f"q={q} causal", 16, 64, 8, q, 8192, 128, True) for q in (8, 16)]
    out += [norm(op, tensors, m, n) for m, n in ((8192, 4096), (8192, 8192), (4096, 16384), (8192, 768), (65536, 1024)) for op, tensors in NORMS]
    for model, batch, tokens in (("gpt-4k", 4, 2048), ("llama-4k", 2, 4096), ("llama-8k", 1, 8192), ("gpt-4k", 1, 1024), ("gpt-16k", 1, 1024), ("bert-768", 8, 512)):
        out.append(block("fwd", f"{model} b{batch} s{tokens}", model, batch, tokens))
    for model, batch, context in (("llama-4k", 1, 2048), ("llama-4k", 16, 2048), ("llama-4k", 64, 2048), ("llama-8k", 16, 4096)):
        out.append(block("decode", f"{model} b{batch} ctx{context}", model, batch, 1, context))
    for row in out:
        row["name"] = f"{row['op']} {row['shape']} {row['dtype']}"
    return out


def groups():
    return list(dict.fromkeys(row["group"] for row in rows()))


def select(wanted, shapes=()):
    in_group = lambda row: any(row["group"] == group or row["group"].startswith(group + " ") for group in wanted)
    return [row for row in rows() if in_group(row) and (not shapes or any(part in row["name"] for part in shapes))]
