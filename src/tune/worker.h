#pragma once
// The worker side of tuning: reads requests from a pipe, validates and times candidates on its device, answers, and ends when the
// pipe closes or its parent dies. Frames: u32 little-endian size, then CBOR.
#include "backend/device.h"

namespace rtx::tune {

// Serves until the input ends; returns the process's exit code.
int serve_worker(backend::Device& device, int input, int output);

}  // namespace rtx::tune
