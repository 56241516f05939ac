"""Writes a small ONNX model: y = Relu(x W + b) V, x f32[8,32], W f32[32,48], V f32[48,16].

usage: tiny_model.py FILE.onnx
"""
import sys

from onnx_writer import graph_input, graph_output, model, node, tensor, text

weight = [((i * 37) % 101 - 50) / 100 for i in range(32 * 48)]
bias = [(i % 7 - 3) / 10 for i in range(48)]
second = [((i * 53) % 89 - 44) / 90 for i in range(48 * 16)]
graph = node("MatMul", ["x", "W"], "xw") + node("Add", ["xw", "b"], "z") + node("Relu", ["z"], "r") + node("MatMul", ["r", "V"], "y")
graph += text(2, "tiny")
graph += tensor("W", [32, 48], weight) + tensor("b", [48], bias) + tensor("V", [48, 16], second)
graph += graph_input("x", [8, 32]) + graph_output("y", [8, 16])
model(sys.argv[1], graph)
