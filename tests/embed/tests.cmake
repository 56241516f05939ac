add_test(NAME embed COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/embed_test.py")
set_tests_properties(embed PROPERTIES LABELS build)
