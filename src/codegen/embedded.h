#pragma once
// What the build put inside the program (cmake/embed.py): the text of every device header and
// prelude, so that emitted kernels need no files at run time, and the hashes that tell two
// builds' kernels apart.
#include <string_view>
#include <vector>

namespace rtx::codegen {

// The text of a file by its path below src/, for example "kernels/softmax/device.h"; empty if the
// build did not embed it. Embedded: src/kernels/**/device*.h, src/backend/*/prelude*.h,
// src/codegen/*.inc.h.
std::string_view embedded_file(std::string_view path);

// The paths embedded_file knows, sorted.
std::vector<std::string_view> embedded_paths();

// Sixteen hex digits over everything that can change a kernel of this family (the folder's name
// below src/kernels): its folder, the shared files of src/kernels, src/codegen, src/fuse, and each
// backend's dialect and prelude; tests and benches are left out. Empty for an unknown family.
std::string_view synth_sha(std::string_view family);

// The same over all families; `rtx --version` prints it.
std::string_view synth_sha_all();

}  // namespace rtx::codegen
