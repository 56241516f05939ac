# add_layer(NAME [FOLDER folder] [FILES glob...] [USES layer...] [TEST_USES layer...] [LIBS target...])
#
# One call per layer; the calls are the data in layers.cmake. A layer owns the files under
# src/FOLDER (default: src/NAME), or those whose path inside FOLDER matches one of FILES; a file
# belongs to the first layer that claims it. The call makes
#   rtx_NAME        static library of its *.cpp (an INTERFACE library until the first one lands)
#   rtx_NAME_test   GoogleTest binary of its *_test.cpp and *_testing.cpp, each test a ctest with label NAME
#   rtx_NAME_bench  its *_bench.cpp, not part of `all`
#   NAME_fuzz       one libFuzzer binary per NAME_fuzz.cpp, with RTX_BUILD_FUZZERS
# and records the allowed includes for tests/layering: the layer itself, what it USES, and what
# those use; tests may also include what TEST_USES names.

set_property(GLOBAL PROPERTY RTX_LAYER_JSON "")
set_property(GLOBAL PROPERTY RTX_OWNED_FILES "")
set_property(GLOBAL PROPERTY RTX_LAYERS "")

if(RTX_BUILD_FUZZERS)
  add_custom_target(fuzzers)
endif()

# Unity groups of at most eight files that never mix folders: two kernel families may both have a
# helper called `rows` in their unnamed namespace.
function(rtx_unity_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE folder)
    string(MAKE_C_IDENTIFIER "${folder}" key)
    math(EXPR count "${count_${key}} + 1")
    set(count_${key} ${count})
    math(EXPR chunk "(${count} - 1) / 8")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${key}_${chunk}")
  endforeach()
endfunction()

function(rtx_json_strings out)
  list(TRANSFORM ARGN REPLACE "(.+)" "\"\\1\"")
  string(JOIN ", " text ${ARGN})
  set(${out} "[${text}]" PARENT_SCOPE)
endfunction()

function(rtx_add_unit_test target label)
  gtest_discover_tests(${target}
    TEST_PREFIX "${label}."
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    DISCOVERY_TIMEOUT 120
    TEST_LIST ${target}_names
    PROPERTIES LABELS "${label}" TIMEOUT 300)
  # Handed to gtest_discover_tests, a list of variables would arrive as its first one.
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_environment.cmake")
  file(WRITE "${file}" "foreach(name IN LISTS ${target}_names)\n  set_tests_properties(\"\${name}\" PROPERTIES ENVIRONMENT \"${RTX_TEST_ENVIRONMENT}\")\nendforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# Tests never touch the user's cache or keys. A refused allocation is an error of ours to report, under asan too.
set(RTX_TEST_ENVIRONMENT
  "ASAN_OPTIONS=allocator_may_return_null=1"
  "RTX_CACHE_DIR=${CMAKE_BINARY_DIR}/test-home/cache"
  "XDG_CONFIG_HOME=${CMAKE_BINARY_DIR}/test-home/config"
  "RTX_BUILD_DIR=${CMAKE_BINARY_DIR}")

function(add_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "FILES;USES;TEST_USES;LIBS")
  if(NOT arg_FOLDER)
    set(arg_FOLDER "${name}")
  endif()

  # The claim, as one regular expression over paths relative to src/.
  string(REPLACE "." "\\." claim "${arg_FOLDER}")
  if(arg_FILES)
    set(parts ${arg_FILES})
    list(TRANSFORM parts REPLACE "\\." "\\\\.")
    list(TRANSFORM parts REPLACE "\\*" ".*")
    string(JOIN "|" parts ${parts})
    set(claim "^${claim}/(${parts})$")
  else()
    set(claim "^${claim}/")
  endif()

  set(root "${CMAKE_SOURCE_DIR}/src")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${root}/${arg_FOLDER}/*.cpp")
  get_property(owned GLOBAL PROPERTY RTX_OWNED_FILES)
  set(mine)
  foreach(file IN LISTS files)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${root}" OUTPUT_VARIABLE relative)
    if(relative MATCHES "${claim}" AND NOT file IN_LIST owned)
      list(APPEND mine "${file}")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY RTX_OWNED_FILES ${mine})
  set_property(GLOBAL APPEND PROPERTY RTX_LAYERS ${name})

  rtx_json_strings(uses ${arg_USES})
  rtx_json_strings(test_uses ${arg_TEST_USES})
  string(REPLACE "\\" "\\\\" claim_json "${claim}")
  set_property(GLOBAL APPEND PROPERTY RTX_LAYER_JSON
    "{\"name\": \"${name}\", \"claim\": \"${claim_json}\", \"uses\": ${uses}, \"test_uses\": ${test_uses}}")

  set(sources ${mine})
  list(FILTER sources EXCLUDE REGEX "_(test|testing|bench|fuzz)\\.cpp$")
  set(tests ${mine})
  list(FILTER tests INCLUDE REGEX "_(test|testing)\\.cpp$")
  set(benches ${mine})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  set(fuzzers ${mine})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")

  set(used ${arg_USES})
  list(TRANSFORM used PREPEND rtx_)
  set(test_used ${arg_TEST_USES})
  list(TRANSFORM test_used PREPEND rtx_)

  if(sources)
    add_library(rtx_${name} STATIC ${sources})
    rtx_unity_groups(rtx_${name} ${sources})
    target_link_libraries(rtx_${name} PUBLIC ${used} ${arg_LIBS} PRIVATE rtx_settings)
    target_include_directories(rtx_${name} PUBLIC "${root}")
  else()
    add_library(rtx_${name} INTERFACE)
    target_link_libraries(rtx_${name} INTERFACE ${used} ${arg_LIBS})
    target_include_directories(rtx_${name} INTERFACE "${root}")
  endif()

  if(RTX_BUILD_TESTS AND tests)
    add_executable(rtx_${name}_test ${tests})
    rtx_unity_groups(rtx_${name}_test ${tests})
    target_link_libraries(rtx_${name}_test PRIVATE rtx_${name} ${test_used} rtx_settings GTest::gtest_main)
    rtx_add_unit_test(rtx_${name}_test ${name})
  endif()
  if(benches)
    add_executable(rtx_${name}_bench EXCLUDE_FROM_ALL ${benches})
    rtx_unity_groups(rtx_${name}_bench ${benches})
    target_link_libraries(rtx_${name}_bench PRIVATE rtx_${name} ${test_used} rtx_settings)
  endif()
  if(RTX_BUILD_FUZZERS)
    foreach(fuzzer IN LISTS fuzzers)
      cmake_path(GET fuzzer STEM stem)
      add_executable(${stem} EXCLUDE_FROM_ALL ${fuzzer})
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${stem} PRIVATE rtx_${name} ${test_used} rtx_settings)
      add_dependencies(fuzzers ${stem})
    endforeach()
  endif()
endfunction()

# What tests/layering reads.
function(rtx_write_layer_data)
  get_property(rows GLOBAL PROPERTY RTX_LAYER_JSON)
  string(JOIN ",\n  " text ${rows})
  file(WRITE "${CMAKE_BINARY_DIR}/layers.json" "[\n  ${text}\n]\n")
endfunction()
