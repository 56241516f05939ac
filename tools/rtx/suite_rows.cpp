// The table of the suite. Shapes are those of common language models' layers, and some that fit no tile.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "rtx/suite.h"

namespace rtx::tools {

namespace {

using Row = SuiteRow;
using Settings = std::vector<std::string>;

std::string set(const char* name, int64_t value) { return std::string(name) + "=" + std::to_string(value); }
int64_t bytes_of(const std::string& dtype) { return dtype == "f32" ? 4 : 2; }

struct Product {
  int64_t m, n, k;
};

// x[M, K] times w[N, K] transposed, both given at run time.
Row product(const char* group, Product p, const std::string& dtype, const std::string& op = "gemm_nt",
            const std::string& epilogue = {}, Settings peers = {"cublaslt"}) {
  Row row{
      group,           op,     std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k),
      dtype,           "gemm", {},
      std::move(peers)};
  row.settings = {set("m", p.m), set("n", p.n), set("k", p.k), "trans_b=1", "weight=0", "dtype=" + dtype};
  if (!epilogue.empty()) row.settings.push_back(epilogue);
  const bool pair = epilogue == "gate=1";
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  row.flops = 2 * m * n * k * (pair ? 2 : 1);
  row.bytes = static_cast<double>(bytes_of(dtype)) *
              (m * k + n * k * (pair ? 2 : 1) + m * n * (ends_with(epilogue, "residual") ? 2 : 1));
  return row;
}

void add_products(std::vector<Row>& rows) {
  constexpr std::pair<int64_t, int64_t> layers[] = {
      {4096, 4096}, {12288, 4096}, {4096, 16384}, {28672, 8192}};
  for (const int64_t m : {1024, 4096, 8192})
    for (const auto& [n, k] : layers) rows.push_back(product("gemm large", {m, n, k}, "bf16"));
  for (const auto& [n, k] : layers) rows.push_back(product("gemm large", {4096, n, k}, "f16"));
  for (const Product p : {Product{3000, 5000, 4096}, {4095, 4097, 4096}, {777, 1111, 2056}})
    rows.push_back(product("gemm ragged", p, "bf16"));
  for (const char* dtype : {"bf16", "f32"})
    for (const int64_t n : {512, 1024, 2048, 4096, 8192})
      rows.push_back(product("gemm squares", {n, n, n}, dtype));
  for (const int64_t m : {1, 16, 64, 128})
    for (const auto& [n, k] : layers) rows.push_back(product("gemm skinny", {m, n, k}, "bf16"));
}

void add_epilogues(std::vector<Row>& rows) {
  constexpr Product linear[] = {{4096, 16384, 4096}, {8192, 16384, 4096}, {2048, 16384, 4096},
                                {4096, 4096, 16384}, {8192, 12288, 4096}, {64, 16384, 4096}};
  for (const auto& p : linear) {
    rows.push_back(product("epilogues fused", p, "bf16", "linear+bias+gelu_tanh", "epilogue=bias,gelu_tanh"));
    rows.push_back(product("epilogues fused", p, "bf16", "linear+bias+residual", "epilogue=bias,residual"));
  }
  const Settings apart = {"cublaslt + pointwise"};
  for (const auto& p : linear) {
    rows.push_back(product("epilogues beyond", p, "bf16", "linear+bias+silu", "epilogue=bias,silu", apart));
    rows.push_back(product("epilogues beyond", p, "bf16", "linear+bias+gelu_tanh+residual",
                           "epilogue=bias,gelu_tanh,residual", apart));
  }
  for (const Product p : {Product{8192, 14336, 4096}, {4096, 28672, 8192}})
    rows.push_back(product("swiglu", p, "bf16", "swiglu up", "gate=1", apart));
}

struct Heads {
  int64_t batch, heads, kv_heads, queries, keys, dim;
};

Row attention(const std::string& group, const Heads& h, bool causal, const std::string& dtype,
              const std::string& op, const std::string& shape) {
  Row row{group, op, shape, dtype, "attention", {}, {"cudnn"}};
  row.settings = {set("batch", h.batch),     set("heads", h.heads), set("kv_heads", h.kv_heads),
                  set("queries", h.queries), set("keys", h.keys),   set("dim", h.dim),
                  set("causal", causal),     "dtype=" + dtype};
  const auto tokens = static_cast<double>(h.batch * h.heads * h.queries), keys = static_cast<double>(h.keys),
             dim = static_cast<double>(h.dim);
  row.flops = 4 * tokens * keys * dim * (causal && h.queries == h.keys ? 0.5 : 1);
  row.bytes = static_cast<double>(bytes_of(dtype)) *
              (2 * tokens * dim + 2 * static_cast<double>(h.batch * h.kv_heads) * keys * dim);
  return row;
}

void add_attention(std::vector<Row>& rows) {
  constexpr Heads forward[] = {
      {8, 32, 32, 1024, 1024, 128}, {4, 32, 32, 2048, 2048, 128}, {2, 32, 32, 4096, 4096, 128},
      {1, 32, 32, 8192, 8192, 128}, {1, 64, 64, 8192, 8192, 128}, {2, 32, 8, 4096, 4096, 128},
      {4, 64, 64, 2048, 2048, 64},  {1, 64, 64, 8192, 8192, 64},  {2, 16, 16, 4096, 4096, 256},
      {8, 12, 12, 512, 512, 64},    {2, 32, 32, 3001, 3001, 128}};
  const auto name = [](const Heads& h) {
    return "b" + std::to_string(h.batch) + " h" + std::to_string(h.heads) + "/" + std::to_string(h.kv_heads) +
           " s" + std::to_string(h.queries) + " d" + std::to_string(h.dim);
  };
  for (const bool causal : {false, true}) {
    const std::string group = causal ? "attention causal" : "attention full",
                      op = causal ? "fwd causal" : "fwd";
    for (const auto& h : forward) rows.push_back(attention(group, h, causal, "bf16", op, name(h)));
    for (const size_t i : {size_t{1}, size_t{5}})
      rows.push_back(attention(group, forward[i], causal, "f16", op, name(forward[i])));
  }
  const auto cached = [](const Heads& h) {
    return "b" + std::to_string(h.batch) + " h" + std::to_string(h.heads) + "/" + std::to_string(h.kv_heads) +
           " kv" + std::to_string(h.keys) + " d" + std::to_string(h.dim);
  };
  for (const Heads h : {Heads{1, 32, 8, 1, 8192, 128},
                        {16, 32, 8, 1, 2048, 128},
                        {64, 32, 8, 1, 2048, 128},
                        {16, 32, 8, 1, 8192, 128},
                        {64, 32, 32, 1, 1024, 128},
                        {8, 64, 8, 1, 32768, 128}})
    rows.push_back(attention("decode", h, false, "bf16", "q=1", cached(h)));
  for (const Heads h : {Heads{16, 64, 8, 8, 8192, 128}, {16, 64, 8, 16, 8192, 128}})
    rows.push_back(
        attention("decode", h, true, "bf16", "q=" + std::to_string(h.queries) + " causal", cached(h)));
}

void add_norms(std::vector<Row>& rows) {
  struct Kind {
    const char *op, *family, *setting, *more;
    double tensors;  // read and written
  };
  constexpr Kind kinds[] = {{"layer_norm", "norm", "kind=layer", "", 2},
                            {"rms_norm", "norm", "kind=rms", "", 2},
                            {"residual+rms_norm", "norm", "kind=rms", "residual=2", 4},
                            {"softmax", "softmax", "scale=1", "", 2},
                            {"bias+gelu+residual", "pointwise", "chain=bias,gelu_tanh,residual", "", 3}};
  constexpr std::pair<int64_t, int64_t> sizes[] = {
      {8192, 4096}, {8192, 8192}, {4096, 16384}, {8192, 768}, {65536, 1024}};
  for (const auto& [m, n] : sizes)
    for (const auto& kind : kinds) {
      Row row{"norms",     kind.op,     std::to_string(m) + "x" + std::to_string(n),
              "bf16",      kind.family, {set("rows", m), set("columns", n), kind.setting, "dtype=bf16"},
              {"baseline"}};
      if (*kind.more) row.settings.emplace_back(kind.more);
      row.bytes = kind.tensors * 2 * static_cast<double>(m) * static_cast<double>(n);
      rows.push_back(std::move(row));
    }
}

// One small problem of each kind: shows in seconds whether everything the suite uses works on a machine.
void add_samples(std::vector<Row>& rows) {
  const auto add = [&](Row row) {
    row.group = "sample";
    rows.push_back(std::move(row));
  };
  constexpr Product p = {128, 192, 256};
  for (const char* dtype : {"bf16", "f16", "f32"}) add(product("", p, dtype));
  add(product("", p, "bf16", "linear+bias+gelu_tanh", "epilogue=bias,gelu_tanh"));
  add(product("", p, "bf16", "linear+bias+residual", "epilogue=bias,residual"));
  add(product("", p, "bf16", "linear+bias+gelu_tanh+residual", "epilogue=bias,gelu_tanh,residual",
              {"cublaslt + pointwise"}));
  add(product("", p, "bf16", "swiglu up", "gate=1", {"cublaslt + pointwise"}));
  add(attention("", {1, 4, 2, 128, 128, 64}, false, "bf16", "fwd", "b1 h4/2 s128 d64"));
  add(attention("", {1, 4, 2, 128, 128, 64}, true, "bf16", "fwd causal", "b1 h4/2 s128 d64"));
  add(attention("", {2, 4, 2, 1, 256, 64}, false, "bf16", "q=1", "b2 h4/2 kv256 d64"));
  add({"",
       "rms_norm",
       "128x256",
       "bf16",
       "norm",
       {"rows=128", "columns=256", "kind=rms", "dtype=bf16"},
       {"baseline"}});
}

void add_cpu(std::vector<Row>& rows) {
  const auto add = [&](const char* family, Settings settings) {
    rows.push_back({"cpu", family, join(settings, " "), "f32", family, std::move(settings), {"baseline"}});
  };
  add("gemm", {"m=1024", "n=1024", "k=1024", "weight=0"});
  add("gemm", {"m=512", "n=512", "k=512", "weight=0"});
  add("gemm", {"m=128", "n=384", "k=384"});
  add("gemm", {"m=128", "n=1536", "k=384", "epilogue=bias,gelu"});
  add("gemm", {"m=128", "n=384", "k=1536", "epilogue=bias,residual"});
  add("gemm", {"m=1", "n=4096", "k=4096"});
  add("attention", {"heads=12", "queries=128", "dim=32", "mask=1"});
  add("attention", {"heads=12", "queries=512", "dim=64", "causal=1"});
  add("norm", {"rows=4096", "columns=1024", "kind=layer", "epilogue=gelu"});
  add("norm", {"rows=4096", "columns=1024", "kind=rms", "residual=1"});
  add("softmax", {"rows=4096", "columns=1024", "scale=0.125"});
  add("reduce", {"rows=4096", "columns=1024", "kind=sum"});
  add("reduce", {"rows=4096", "columns=1024", "kind=max", "axis=0"});
  add("pointwise", {"rows=4096", "columns=1024", "chain=add,gelu,mul"});
  add("movement", {"rows=2048", "columns=2048", "kind=transpose"});
}

bool in_group(const std::string& group, const std::string& wanted) {
  return group == wanted || starts_with(group, wanted + " ");
}

}  // namespace

std::string SuiteRow::name() const {
  return group == "cpu" ? family + " " + shape : op + " " + shape + " " + dtype;
}

const std::vector<SuiteRow>& suite_rows() {
  static const std::vector<SuiteRow> rows = [] {
    std::vector<SuiteRow> out;
    add_cpu(out), add_products(out), add_epilogues(out), add_attention(out), add_norms(out), add_samples(out);
    return out;
  }();
  return rows;
}

Result<std::vector<SuiteRow>> select_rows(const std::string& target, const SuiteFilter& filter) {
  // The emulator would take days for a device's sizes.
  const std::string usual = target == "cpu" ? "cpu" : target == kEmulatedTarget ? "sample" : "gpu";
  std::vector<SuiteRow> out;
  std::vector<std::string> groups, families;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& row : suite_rows()) {
    note(groups, row.group);
    const bool meant = filter.group.empty() ? usual == "gpu" ? row.group != "cpu" && row.group != "sample" : row.group == usual
                                            : in_group(row.group, filter.group);
    if (!meant) continue;
    note(families, row.family);
    const bool family = filter.family.empty() || row.family == filter.family;
    const bool shape = filter.shapes.empty() ||
                       std::any_of(filter.shapes.begin(), filter.shapes.end(), [&](const auto& part) {
                         return row.name().find(part) != std::string::npos;
                       });
    if (family && shape) out.push_back(row);
  }
  if (!out.empty()) return out;
  if (families.empty())
    return user_error("the suite has no group '" + filter.group + "'", "its groups are " + join(groups, ", "),
                      "see `rtx bench suite --list`");
  if (!filter.family.empty() && std::find(families.begin(), families.end(), filter.family) == families.end())
    return user_error("the suite has no family '" + filter.family + "'", "it has " + join(families, ", "),
                      "see `rtx bench suite --list`");
  return user_error("no row of the suite is called '" + join(filter.shapes, "' or '") + "'",
                    "a row is chosen by a part of its name, such as 4096x4096x4096 or causal",
                    "see `rtx bench suite --list`");
}

void list_suite(const std::vector<SuiteRow>& rows, Console& console) {
  std::vector<std::vector<std::string>> table;
  for (const auto& row : rows)
    table.push_back({row.group, row.op, row.shape, row.dtype, row.family, join(row.peers, ", ")});
  console.table({"group", "op", "shape", "type", "family", "measured against"}, table);
}

std::string suite_list_json(const std::vector<SuiteRow>& rows) {
  nlohmann::json out = {{"rows", nlohmann::json::array()}};
  for (const auto& row : rows)
    out["rows"].push_back({{"group", row.group}, {"name", row.name()}, {"family", row.family}, {"settings", row.settings}, {"peers", row.peers}, {"flops", row.flops}, {"bytes", row.bytes}});
  return out.dump(1);
}

}  // namespace rtx::tools
