set(binary_check "${CMAKE_CURRENT_LIST_DIR}/check_binary.py")
if(TARGET rtx AND NOT RTX_SANITIZE)
  add_test(NAME binary.rtx_needs_libc_only COMMAND Python3::Interpreter "${binary_check}" rtx "$<TARGET_FILE:rtx>")
  set_tests_properties(binary.rtx_needs_libc_only PROPERTIES LABELS build)
endif()
add_test(NAME binary.runtime_has_no_compiler
  COMMAND Python3::Interpreter "${binary_check}" runtime "${CMAKE_BINARY_DIR}/package/librtx_runtime.a")
set_tests_properties(binary.runtime_has_no_compiler PROPERTIES LABELS build)
