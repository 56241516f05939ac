#!/usr/bin/env python3
"""rtx bench suite from outside: rows and fields of its result file, filters, running a file again, and files joined into one page."""
import json
import sys

from rtx_testing import call, check, make_model, refused, run, source, succeeds, work


def main():
    listed = succeeds("bench", "suite", "--list", "--target", "cuda")
    for words in ("gemm large", "8192x28672x8192", "b16 h64/8 kv8192 d128", "cublaslt + pointwise"):
        check(words in listed.stdout, f"--list does not show '{words}'", listed)
    refused(2, "no group 'gemms'", "bench", "suite", "--group", "gemms")
    refused(2, "is called '7x7'", "bench", "suite", "--group", "sample", "--shape", "7x7")
    refused(2, "--group would do nothing", "bench", "model.onnx", "--group", "gemm")

    quick = ["--first-pick", "--iterations", "5", "--warmup", "1"]
    succeeds("bench", "suite", "--group", "sample", "--shape", "128x192x256 f32", "--shape", "rms_norm", "--baseline", *quick, "--output", "a.json", "--report", "a.html")
    document = json.loads((work / "a.json").read_text())
    check(document["format"] == "rtx-bench 1" and document["command"][:2] == ["bench", "suite"] and "--group" in document["command"], f"the head of the file: {document['command']}")
    names = [(row["name"], row["subject"]) for row in document["rows"]]
    check(("gemm_nt 128x192x256 f32", "rtx") in names and ("rms_norm 128x256 bf16", "rtx") in names and len(names) >= 3, f"rows {names}")
    first = document["rows"][0]
    for field, value in (("group", "sample"), ("op", "gemm_nt"), ("shape", "128x192x256"), ("dtype", "f32"), ("launches", 1), ("recorded", False)):
        check(first.get(field) == value, f"{field} is {first.get(field)}, wanted {value}")
    check(len(first["seconds"]) == 5 and first["chosen"], "raw samples and what was chosen")
    check(first["low_ms"] <= first["median_ms"] <= first["high_ms"], "an interval holds its median")

    again = call("bench", "--recheck", "a.json", *quick, "--output", "b.json")  # on a busy machine it may be slower, which is exit 1
    check(again.returncode == (1 if "slower" in again.stdout else 0), "--recheck fails exactly where something is slower", again)
    check("within the spread" in again.stdout or "slower" in again.stdout, "--recheck gives a verdict", again)
    check([row["name"] for row in json.loads((work / "b.json").read_text())["rows"]] == [row["name"] for row in document["rows"]], "--recheck runs the same rows")

    # The peers' script has the same rows, so that the two join by name.
    sys.path.insert(0, str(source / "bench/peers"))
    import problems
    theirs = {(row["group"], row["name"]) for row in problems.rows() if row["kind"] != "block"}
    every = json.loads(succeeds("bench", "suite", "--list", "--target", "cuda", "--json").stdout)["rows"]
    ours = {(row["group"], row["name"]) for row in every}
    check(theirs == ours, f"bench/peers and the suite have other rows: {sorted(theirs ^ ours)[:6]}")
    counted = {(row["group"], row["name"]): (row["flops"], row["bytes"]) for row in problems.rows()}
    for row in every:
        want = counted.get((row["group"], row["name"]))
        check(want and abs(want[0] - row["flops"]) <= 1e-9 * want[0] and abs(want[1] - row["bytes"]) <= 1e-9 * want[1], f"{row['name']}: the two count other work: {want} {row}")

    model = make_model("tiny_model.py", "tiny.onnx")
    succeeds("bench", model, "--no-tune", "--baseline", "--iterations", "5", "--name", "fwd tiny b1 s4 f32", "--output", "model.json")
    named = json.loads((work / "model.json").read_text())["rows"]
    check([(row["name"], row["subject"]) for row in named] == [("fwd tiny b1 s4 f32", "rtx"), ("fwd tiny b1 s4 f32", "unfused baseline")], f"--name gives a model's rows another name: {named}")
    refused(2, "--name would do nothing", "bench", "suite", "--name", "x")

    torch = {"format": "rtx-bench 1", "device": "a GPU", "command": ["bench/peers/torch_peers"], "rows": [
        {"name": "gemm_nt 128x192x256 f32", "subject": "torch eager", "median_ms": 1e3, "low_ms": 9e2, "high_ms": 11e2},
        {"name": "only theirs", "subject": "torch eager", "median_ms": 1, "low_ms": 1, "high_ms": 1}]}
    (work / "torch.json").write_text(json.dumps(torch))
    joined = json.loads(succeeds("bench", "--compare", "a.json", "torch.json", "--report", "both.html", "--json").stdout)
    rows = {row["name"]: row for row in joined["rows"]}
    against = {rival["subject"]: rival for rival in rows["gemm_nt 128x192x256 f32"]["against"]}
    check(against["torch eager"]["verdict"] == "faster" and against["torch eager"]["ratio"] > 1, f"joined: {against}")
    check(rows["only theirs"]["median_ms"] is None, "a row that is only theirs has no time of ours")
    page = (work / "both.html").read_text()
    check("torch eager" in page and "torch.json" in page and "http" not in page, "the page holds both files and links to nothing")
    refused(2, "cannot read", "bench", "--compare", "a.json", "both.html")
    refused(2, "one result file", "bench", "suite", "--compare", "a.json", "torch.json")



run(main)
