set(layering_dir "${CMAKE_CURRENT_LIST_DIR}")
add_test(NAME layering
  COMMAND Python3::Interpreter "${layering_dir}/check_layering.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/layers.json")
add_test(NAME layering.selftest COMMAND Python3::Interpreter "${layering_dir}/layering_selftest.py")
set_tests_properties(layering layering.selftest PROPERTIES LABELS layering)
