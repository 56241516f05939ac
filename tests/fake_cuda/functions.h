#pragma once
// The driver's functions as they are implemented here, declared from the table that opens them: one whose signature differs is not found.
// What the table has and nobody implements yet answers CUDA_ERROR_NOT_SUPPORTED.
#include "state.h"

namespace fake {

#define RTX_FAKE_DECLARE(field, symbol, since, parameters) __attribute__((weak)) CuResult field parameters;
RTX_CUDA_FUNCTIONS(RTX_FAKE_DECLARE)
#undef RTX_FAKE_DECLARE

}  // namespace fake
