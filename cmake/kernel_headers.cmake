# Every device header and prelude is compiled alone, so that a broken one fails this build and not
# a user's first run. -nostdinc because emitted text has no system headers to lean on.
# What GPU kernels share is compiled over the emulator's primitives; capabilities that the emulator does not
# play yet and the vendors' own preludes are left to those backends.

set(not_here "(cuda|hip|metal|mfma|wmma|simdgroup)")
set(checked ${device_headers} ${preludes} "${src}/codegen/gpu.inc.h")
list(FILTER checked EXCLUDE REGEX "(device_${not_here}[^/]*\\.h|backend/${not_here}/[^/]*)$")

set(check_sources)
foreach(header IN LISTS checked)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${src}" OUTPUT_VARIABLE relative)
  string(MAKE_C_IDENTIFIER "${relative}" name)
  set(content "")
  if(relative MATCHES "device_(wgmma|tma)[^/]*\\.h$")
    string(APPEND content "#include \"backend/emulator/prelude.h\"\n#include \"backend/emulator/prelude_hopper.h\"\n#include \"codegen/gpu.inc.h\"\n")
  elseif(relative MATCHES "emulator/prelude_hopper\\.h$")
    string(APPEND content "#include \"backend/emulator/prelude.h\"\n")
  elseif(relative MATCHES "(device_(gpu|mma)[^/]*|gpu\\.inc)\\.h$")
    string(APPEND content "#include \"backend/emulator/prelude.h\"\n#include \"codegen/gpu.inc.h\"\n")
  elseif(NOT relative MATCHES "^backend/")
    string(APPEND content "#include \"backend/cpu/prelude.h\"\n")
  endif()
  string(APPEND content "#include \"${relative}\"\n")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/kernel_headers/${name}.cpp" CONTENT "${content}" @ONLY)
  list(APPEND check_sources "${CMAKE_BINARY_DIR}/generated/kernel_headers/${name}.cpp")
endforeach()

if(check_sources)
  add_library(kernel_headers_check OBJECT ${check_sources})
  set_target_properties(kernel_headers_check PROPERTIES UNITY_BUILD OFF)
  target_include_directories(kernel_headers_check PRIVATE "${src}")
  target_compile_options(kernel_headers_check PRIVATE -O0 -nostdinc -fwrapv -ffp-contract=off -Wall -Wextra
    -Wno-unused-function -Wno-psabi)
  if(RTX_WARNINGS_AS_ERRORS)
    target_compile_options(kernel_headers_check PRIVATE -Werror)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(kernel_headers_check PRIVATE -march=x86-64-v3)
  endif()
endif()

# Its test judges the prelude with the flags that emitted kernels get.
set(prelude_test "${src}/backend/cpu/prelude_test.cpp")
set(prelude_test_options -O3 -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-psabi)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND prelude_test_options -march=x86-64-v3)
endif()
set_source_files_properties("${prelude_test}" PROPERTIES
  COMPILE_OPTIONS "${prelude_test_options}" SKIP_UNITY_BUILD_INCLUSION ON)
