# Third-party code, linked statically. Packages: scripts/install-deps.sh.

# Finds LIBRARY.a or stops with the package that carries it.
function(rtx_static_library target archive package)
  find_library(RTX_ARCHIVE_${archive} NAMES "lib${archive}.a")
  if(NOT RTX_ARCHIVE_${archive})
    message(FATAL_ERROR "lib${archive}.a was not found.\nIt is linked into rtx so that the binary runs anywhere.\n"
                        "fix: install the package ${package} (scripts/install-deps.sh installs all of them)")
  endif()
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${RTX_ARCHIVE_${archive}}")
endfunction()

rtx_static_library(third_party_sodium sodium libsodium-dev)
rtx_static_library(third_party_zstd zstd libzstd-dev)
rtx_static_library(third_party_protobuf protobuf-lite libprotobuf-dev)
target_link_libraries(third_party_protobuf INTERFACE Threads::Threads)

# The distribution ships fmt as a shared object only, so its one source file is built here.
find_path(RTX_FMT_INCLUDE fmt/format-inl.h REQUIRED)
add_library(third_party_fmt STATIC cmake/third_party/fmt.cpp)
set_target_properties(third_party_fmt PROPERTIES UNITY_BUILD OFF)

# The ONNX schema is declared LITE_RUNTIME by its authors; no reflection, no text format.
# Our generated header comes before the one the package installs, whose namespace is another.
find_program(RTX_PROTOC protoc REQUIRED)
find_path(RTX_ONNX_SCHEMA onnx/onnx.proto REQUIRED)
set(onnx_out "${CMAKE_BINARY_DIR}/generated/onnx_proto")
add_custom_command(
  OUTPUT "${onnx_out}/onnx/onnx.pb.cc" "${onnx_out}/onnx/onnx.pb.h"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${onnx_out}"
  COMMAND "${RTX_PROTOC}" "--proto_path=${RTX_ONNX_SCHEMA}" "--cpp_out=${onnx_out}" onnx/onnx.proto
  DEPENDS "${RTX_ONNX_SCHEMA}/onnx/onnx.proto"
  COMMENT "Generating the ONNX schema's classes"
  VERBATIM)
add_library(rtx_onnx_proto STATIC "${onnx_out}/onnx/onnx.pb.cc")
set_target_properties(rtx_onnx_proto PROPERTIES UNITY_BUILD OFF)
target_include_directories(rtx_onnx_proto SYSTEM PUBLIC "${onnx_out}")
target_compile_options(rtx_onnx_proto PRIVATE -w)
target_link_libraries(rtx_onnx_proto PUBLIC third_party_protobuf)

# FlatBuffers is used through its headers; src/bundle/NAME.fbs becomes bundle/NAME_generated.h.
find_path(RTX_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
find_program(RTX_FLATC flatc REQUIRED)
file(GLOB schemas CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/bundle/*.fbs")
set(schema_out "${CMAKE_BINARY_DIR}/generated/bundle_schema")
set(schema_headers)
foreach(schema IN LISTS schemas)
  cmake_path(GET schema STEM name)
  add_custom_command(
    OUTPUT "${schema_out}/bundle/${name}_generated.h"
    COMMAND "${RTX_FLATC}" --cpp --cpp-std c++17 --scoped-enums --gen-object-api -o "${schema_out}/bundle" "${schema}"
    DEPENDS "${schema}"
    COMMENT "Generating bundle/${name}_generated.h"
    VERBATIM)
  list(APPEND schema_headers "${schema_out}/bundle/${name}_generated.h")
endforeach()
add_custom_target(rtx_bundle_schema_headers DEPENDS ${schema_headers})
add_library(rtx_bundle_schema INTERFACE)
add_dependencies(rtx_bundle_schema rtx_bundle_schema_headers)
target_include_directories(rtx_bundle_schema SYSTEM INTERFACE "${schema_out}")
