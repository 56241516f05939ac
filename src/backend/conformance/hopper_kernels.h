#pragma once
// Texts of the Hopper set's checks (docs/adr/0011), without preludes.
namespace rtx::backend::conformance {

// load_R(y, p): loads the box of view 0 at coordinates p[1], ... with p[0] bytes, and gives scratch as it stands.
// store_R(y, p): scratch byte i holds i % 251; stores it as the box of view 0, whose argument is 0.
extern const char* const kBoxKernels;

// product_TATB(a, b, y, p): 64 x 128 x 64 of bf16, operands loaded box by box and multiplied as p says:
//   p[0..2], p[3..5]  leading, stride, swizzle of A and B
//   p[6..9], p[10..13]  byte offsets of the four steps along K in A's and B's memory (A at scratch, B behind 32 KiB)
//   p[14], p[15]  numbers of boxes; then for each: place in scratch, c0, c1
// product_registers_TB: A from registers. product_f16, product_tf32, product_e4m3: K contiguous, 64 x 64 x 128 bytes of K.
extern const char* const kProductKernels;

// ring(a, b, c, {tiles along N, steps}): c = a b^T of bf16, tiles of 128 x 128 x 64, through scratch; 98368 bytes of it.
extern const char* const kRingKernel;
constexpr int kRingScratch = 2 * 32768 + 32768 + 64;

// share(x, y): a cluster of two; each loads half of x's 64 x 64 and sends it to both, and reads a number of the other's scratch.
extern const char* const kClusterKernel;

}  // namespace rtx::backend::conformance
