"""One pre-norm transformer block as a user of torch writes it: "gpt" (LayerNorm, biases, GELU) or "llama" (RMSNorm, rotary halves,
grouped heads, SwiGLU). Weights are made once; activations and caches are the tensors that the timing goes round."""
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

MODELS = {"gpt-4k": ("gpt", 4096, 32, 32, 16384), "llama-4k": ("llama", 4096, 32, 8, 14336), "llama-8k": ("llama", 8192, 64, 8, 28672),
          "gpt-16k": ("gpt", 16384, 64, 64, 65536), "bert-768": ("gpt", 768, 12, 12, 3072)}


class Block(torch.nn.Module):
    def __init__(self, kind, width, heads, kv_heads, inner, dtype, unfused=False):
        super().__init__()
        self.llama, self.width, self.heads, self.kv_heads, self.unfused = kind == "llama", width, heads, kv_heads, unfused
        self.dim = width // heads
        weight = lambda n, k: torch.nn.Parameter((torch.randn(n, k, device="cuda") * k**-0.5).to(dtype))
        line = lambda n: torch.nn.Parameter(torch.randn(n, device="cuda").to(dtype)) if not self.llama else None
        self.qkv, self.qkv_bias = weight((heads + 2 * kv_heads) * self.dim, width), line((heads + 2 * kv_heads) * self.dim)
        self.out, self.out_bias = weight(width, width), line(width)
        self.up, self.up_bias = weight(inner * (2 if self.llama else 1), width), line(inner)
        self.down, self.down_bias = weight(width, inner), line(width)
        self.scale1, self.scale2 = (torch.nn.Parameter(torch.ones(width, device="cuda", dtype=dtype)) for _ in range(2))
        self.shift1, self.shift2 = line(width), line(width)

    def norm(self, x, scale, shift):
        return F.rms_norm(x, (self.width,), scale, 1e-6) if self.llama else F.layer_norm(x, (self.width,), scale, shift, 1e-5)

    @staticmethod
    def rotate(x, cos, sin):
        left, right = x.chunk(2, -1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)

    def attend(self, q, k, v, causal):
        if not self.unfused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=self.heads != self.kv_heads)
        if self.heads != self.kv_heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim)
        if causal:
            later = torch.ones(scores.shape[-2:], device=q.device, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return torch.softmax(scores, -1) @ v

    def forward(self, x, cos, sin, keys=None, values=None):
        batch, tokens, _ = x.shape
        split = [self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim]
        q, k, v = (t.view(batch, tokens, -1, self.dim).transpose(1, 2) for t in F.linear(self.norm(x, self.scale1, self.shift1), self.qkv, self.qkv_bias).split(split, -1))
        if self.llama:
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if keys is not None:
            keys[:, :, -tokens:], values[:, :, -tokens:] = k, v
            k, v = keys, values
        y = self.attend(q, k, v, keys is None).transpose(1, 2).reshape(batch, tokens, self.width)
        x = x + F.linear(y, self.out, self.out_bias)
        y = F.linear(self.norm(x, self.scale2, self.shift2), self.up, self.up_bias)
        if self.llama:
            gate, up = y.chunk(2, -1)
            y = F.silu(gate) * up
        else:
            y = F.gelu(y, approximate="tanh")
        return x + F.linear(y, self.down, self.down_bias)


def subjects(row, with_compile, compiled):
    """How to make one set of tensors; (name, function, whether it is recorded whatever it takes) of each way."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[row["dtype"]]
    kind, width, heads, kv_heads, inner = MODELS[row["model"]]
    dim, tokens, context = width // heads, row["tokens"], row["context"]
    block = Block(kind, width, heads, kv_heads, inner, dtype).eval()
    angles = torch.arange(tokens, device="cuda")[:, None] / 10000 ** (torch.arange(dim // 2, device="cuda") / (dim // 2))
    row["flops"] = sum(2 * p.numel() for p in block.parameters() if p.dim() == 2) * row["batch"] * tokens + 4 * row["batch"] * heads * tokens * (tokens * 0.5 if not context else context) * dim
    row["bytes"] = 2 * (sum(p.numel() for p in block.parameters()) + 2 * row["batch"] * kv_heads * context * dim)

    def make():
        x = torch.randn(row["batch"], tokens, width, device="cuda").to(dtype)
        tables = angles.cos().to(dtype), angles.sin().to(dtype)
        return (x, *tables, *(torch.randn(row["batch"], kv_heads, context, dim, device="cuda").to(dtype) for _ in range(2 if context else 0)))

    def by_cudnn(module):
        def run(*tensors):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return module(*tensors)
        return run

    def unfused(*tensors):
        block.unfused = True
        try:
            return block(*tensors)
        finally:
            block.unfused = False
    if context:
        ways = [("torch eager + CUDA graph", block, True)]
        if with_compile:
            ways.append(("torch.compile max-autotune + CUDA graph", compiled(block), True))
        return make, ways
    ways = [("torch eager, unfused attention", unfused, False), ("torch eager, SDPA", block, False), ("torch eager, cuDNN SDPA", by_cudnn(block), False)]
    if with_compile:
        ways.append(("torch.compile max-autotune, cuDNN SDPA + CUDA graph", by_cudnn(compiled(block)), True))
    return make, ways
