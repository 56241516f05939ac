// rtx_kernels_bench FAMILY [arguments]: one family against the vendor library, interleaved in one run.
#include <cstdio>
#include <cstring>

namespace rtx::kernels::attention {
int bench(int argc, char** argv);
}
namespace rtx::kernels::gemm {
int bench(int argc, char** argv);
namespace gpu {
int bench(int argc, char** argv);
}
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "gemm") == 0) return rtx::kernels::gemm::bench(argc - 2, argv + 2);
  if (argc > 1 && std::strcmp(argv[1], "gemm-gpu") == 0) return rtx::kernels::gemm::gpu::bench(argc - 2, argv + 2);
  if (argc > 1 && std::strcmp(argv[1], "attention") == 0) return rtx::kernels::attention::bench(argc - 2, argv + 2);
  std::fprintf(stderr,
               "usage: rtx_kernels_bench gemm [--threads N] [--arch A] [--top N] [--weight] [M N K]...\n"
               "       rtx_kernels_bench gemm-gpu [--nvrtc PATH] [--cublas PATH] [--rounds N] [--transposes] [--epilogue NAME] [--first] [M N K]...\n"
               "       rtx_kernels_bench attention [--target T] [--top N] [--parameters TEXT]... [--rounds N] [--check-only] SHAPE...\n");
  return 2;
}
