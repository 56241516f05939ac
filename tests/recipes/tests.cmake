foreach(mode apply build)
  add_test(NAME recipes.${mode}
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/recipes_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" ${mode})
endforeach()
set_tests_properties(recipes.apply PROPERTIES LABELS recipes TIMEOUT 300)
# A build of the copied tree: as long as the machine's compiler cache lets it take.
set_tests_properties(recipes.build PROPERTIES LABELS "recipes;whole" TIMEOUT 1800 RUN_SERIAL TRUE)
