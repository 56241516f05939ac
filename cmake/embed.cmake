# Device text and synth_sha travel inside the program: src/codegen/embedded.h.
# Both are generated from file contents, so a change of any listed file rebuilds them.

find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(src "${CMAKE_SOURCE_DIR}/src")
set(embedded_out "${CMAKE_BINARY_DIR}/generated/embedded")

# Text that emitted kernels are made of.
file(GLOB_RECURSE device_headers CONFIGURE_DEPENDS "${src}/kernels/device*.h")
file(GLOB preludes CONFIGURE_DEPENDS "${src}/backend/*/prelude*.h")
file(GLOB included_text CONFIGURE_DEPENDS "${src}/codegen/*.inc.h")
set(embedded_files ${device_headers} ${preludes} ${included_text})

# Code that can change a kernel.
file(GLOB_RECURSE synth_files CONFIGURE_DEPENDS "${src}/kernels/*.h" "${src}/kernels/*.cpp"
  "${src}/codegen/*.h" "${src}/codegen/*.cpp" "${src}/fuse/*.h" "${src}/fuse/*.cpp")
file(GLOB dialects CONFIGURE_DEPENDS "${src}/backend/*/dialect*" "${src}/backend/*/prelude*")
list(APPEND synth_files ${dialects})
list(FILTER synth_files EXCLUDE REGEX "_(test|testing|bench|fuzz)\\.(cpp|h)$")

file(MAKE_DIRECTORY "${embedded_out}")
string(REPLACE ";" "\n" text "${embedded_files}")
file(CONFIGURE OUTPUT "${embedded_out}/text.list" CONTENT "${text}\n" @ONLY)
string(REPLACE ";" "\n" text "${synth_files}")
file(CONFIGURE OUTPUT "${embedded_out}/synth.list" CONTENT "${text}\n" @ONLY)

set(embed_script "${CMAKE_SOURCE_DIR}/cmake/embed.py")
add_custom_command(
  OUTPUT "${embedded_out}/embedded_text.cpp"
  COMMAND Python3::Interpreter "${embed_script}" text "${src}" "${embedded_out}/text.list" "${embedded_out}/embedded_text.cpp"
  DEPENDS "${embed_script}" "${embedded_out}/text.list" ${embedded_files}
  COMMENT "Embedding device headers and preludes"
  VERBATIM)
add_custom_command(
  OUTPUT "${embedded_out}/synth_sha.cpp"
  COMMAND Python3::Interpreter "${embed_script}" synth "${src}" "${embedded_out}/synth.list" "${embedded_out}/synth_sha.cpp"
  DEPENDS "${embed_script}" "${embedded_out}/synth.list" ${synth_files}
  COMMENT "Hashing what can change a kernel"
  VERBATIM)

add_library(rtx_embedded STATIC "${embedded_out}/embedded_text.cpp" "${embedded_out}/synth_sha.cpp")
set_target_properties(rtx_embedded PROPERTIES UNITY_BUILD OFF)
target_link_libraries(rtx_embedded PRIVATE rtx_settings)
