#pragma once
// What a tensor map can describe (sm_90), for whoever makes a view and whoever is given one.
#include <optional>
#include <string>
#include <string_view>

#include "backend/kernel.h"

namespace rtx::backend {

constexpr int kTensorMapBytes = 128;

int64_t bytes_of(ViewElement element);
std::string_view name(ViewElement element);
std::optional<ViewElement> view_element_from_name(std::string_view name);

int64_t box_bytes(const TensorView& view);  // of one load or store, and what a barrier is credited with
// Bytes from the tensor's first to behind its last element; -1 when that overflows.
int64_t span_bytes(const TensorView& view);

// Empty, or why no tensor map describes it: "its stride of 120 bytes is no multiple of 16". `pointer` is the argument's; null: any
// that is aligned to 16 bytes.
std::string problem_of(const TensorView& view, const void* pointer = nullptr);

}  // namespace rtx::backend
