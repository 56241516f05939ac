#include "import/operators.h"

#include <unordered_map>

namespace rtx::import {

const OperatorRow* find_operator(const std::string& domain, const std::string& name) {
  static const auto* table = [] {
    auto* rows = new std::unordered_map<std::string, OperatorRow>;
    for (const auto& list : {pointwise_operators(), activation_operators(), shape_operators(),
                             index_operators(), constant_operators(), reduction_operators(), norm_operators(),
                             matrix_operators(), attention_operators(), microsoft_attention_operators()})
      for (const OperatorRow& row : list) rows->emplace(row.name, row);
    return rows;
  }();
  auto found = table->find(domain.empty() ? name : domain + "::" + name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace rtx::import
