#pragma once
// Frames between a tuner and its worker, and the plan and outcome inside them.
#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/kernel.h"
#include "tune/outcome.h"

namespace rtx::tune {

// A dead or silent peer, or nobody who wants its answer any longer: no frame.
enum class ReadState { frame, closed, timed_out, stopped };
bool write_frame(int file, const nlohmann::json& message);
ReadState read_frame(int file, double timeout_seconds, nlohmann::json* message, const std::atomic<bool>* stop = nullptr);

nlohmann::json to_json(const backend::KernelPlan& plan);
backend::KernelPlan plan_from_json(const nlohmann::json& in);
nlohmann::json to_json(const Outcome& outcome);
Outcome outcome_from_json(const nlohmann::json& in);

}  // namespace rtx::tune
