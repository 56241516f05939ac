// Forward Fourier transforms by cuFFT: complex to complex, or real to the half of the spectrum that is not redundant; dense, one plan.
#include <mutex>

#include "backend/cuda/library_call.h"
#include "backend/cuda/library_tables.h"

namespace rtx::backend::cuda {

namespace {

constexpr int kForward = -1;

Error fft_error(FftStatus code) { return error_of(ErrorKind::device, "cannot transform", "cuFFT: status " + std::to_string(code)); }

class FourierCall final : public LibraryCall {
 public:
  FourierCall(const FftTable& table, bool real) : call_(table), real_(real) {}
  ~FourierCall() override {
    if (made_) (void)call_.destroy(plan_);
  }
  Status plan(std::vector<int> extents, int batch) {
    const FftStatus code = call_.plan_many(&plan_, static_cast<int>(extents.size()), extents.data(), nullptr, 1, 0, nullptr, 1, 0, real_ ? fft_r2c : fft_c2c, batch);
    if (code != 0) return fft_error(code);
    made_ = true;
    return success();
  }
  Status run(void* const* arguments, int count, CuStream stream) override {
    if (count != 2) return error_of(ErrorKind::device, "cannot transform", std::to_string(count) + " arguments, it takes 2");
    const std::lock_guard lock(mutex_);
    FftStatus code = call_.set_stream(plan_, stream);
    if (code == 0) code = real_ ? call_.execute_r2c(plan_, arguments[0], arguments[1]) : call_.execute_c2c(plan_, arguments[0], arguments[1], kForward);
    return code == 0 ? success() : Status(fft_error(code));
  }

 private:
  FftTable call_;
  bool real_, made_ = false;
  FftPlan plan_ = 0;
  std::mutex mutex_;
};

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_fourier_call(CallText& text, Device& device) {
  const std::string kind = text.text("kind");
  if (kind != "c2c" && kind != "r2c") return error_of(ErrorKind::device, "cannot load a library call", "a transform of kind '" + kind + "'");
  const int64_t batch = text.integer("batch");
  const auto extents = text.rows("extents");
  RTX_CHECK(text.fault());
  bool possible = batch > 0 && batch <= INT32_MAX && extents.size() == 1 && !extents[0].empty() && extents[0].size() <= 3;
  for (size_t i = 0; possible && i < extents[0].size(); ++i) possible = extents[0][i] > 0 && extents[0][i] <= INT32_MAX;
  if (!possible) return error_of(ErrorKind::device, "cannot load a library call", "a transform of impossible sizes");
  RTX_CHECK([&]() -> Status {
    auto ready = device.make_ready();
    return ready.ok() ? success() : Status(std::move(ready).error());
  }());
  RTX_TRY(const FftTable table, open_cufft(text.text("library")));
  auto call = std::make_unique<FourierCall>(table, kind == "r2c");
  RTX_CHECK(call->plan({extents[0].begin(), extents[0].end()}, static_cast<int>(batch)));
  return std::unique_ptr<LibraryCall>(std::move(call));
}

}  // namespace rtx::backend::cuda
