add_test(NAME layering
  COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/check_layering.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/layers.json")
set_tests_properties(layering PROPERTIES LABELS layering)
