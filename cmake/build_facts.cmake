# <rtx_build_facts.h>: what `rtx --version` and a bundle's SBOM say about this build.
# Facts only: no time, no path, no commit, so that equal sources give equal programs.

set(rows "")
macro(rtx_component name licence package)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package}
    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR NOT found)
    set(found "unknown")
  endif()
  string(APPEND rows "    {\"${name}\", \"${found}\", \"${licence}\", \"${package}\"},\n")
endmacro()

rtx_component("fmt" "MIT" libfmt-dev)
rtx_component("libsodium" "ISC" libsodium-dev)
rtx_component("zstd" "BSD-3-Clause" libzstd-dev)
rtx_component("FlatBuffers" "Apache-2.0" libflatbuffers-dev)
rtx_component("protobuf" "BSD-3-Clause" libprotobuf-dev)
rtx_component("ONNX schema" "Apache-2.0" libonnx-dev)
rtx_component("CLI11" "BSD-3-Clause" libcli11-dev)
rtx_component("nlohmann-json" "MIT" nlohmann-json3-dev)

configure_file("${CMAKE_SOURCE_DIR}/cmake/rtx_build_facts.h.in"
  "${CMAKE_BINARY_DIR}/generated/facts/rtx_build_facts.h" @ONLY)
target_include_directories(rtx_settings INTERFACE "${CMAKE_BINARY_DIR}/generated/facts")
