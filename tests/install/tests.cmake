add_test(NAME install
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/check_install.sh" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
set_tests_properties(install PROPERTIES LABELS build TIMEOUT 300)
if(RTX_SANITIZE)
  set_tests_properties(install PROPERTIES DISABLED TRUE)
endif()
