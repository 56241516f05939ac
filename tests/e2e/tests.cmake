# What a user does, from outside: one script a story, each with a home of its own.
if(TARGET rtx)
  add_test(NAME e2e.embed
    COMMAND "${CMAKE_CURRENT_LIST_DIR}/embed_test.sh" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  add_test(NAME e2e.bundle
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/bundle_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.compile
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/compile_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.bench
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/bench_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.usage
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/usage_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.hostile
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/hostile_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.failures
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/failures_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.deterministic
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/determinism_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" 2)
  add_test(NAME e2e.deterministic_5_processes
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/determinism_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" 5)
  add_test(NAME e2e.blocks
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/blocks_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  add_test(NAME e2e.pains
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/pains_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  set_tests_properties(e2e.embed e2e.bundle e2e.compile e2e.bench e2e.usage e2e.hostile e2e.blocks e2e.pains e2e.failures e2e.deterministic PROPERTIES LABELS e2e TIMEOUT 600)
  set_tests_properties(e2e.deterministic_5_processes PROPERTIES LABELS whole TIMEOUT 900)
  if(RTX_SANITIZE)  # the installed archives would need the sanitizers' libraries, and start-up is timed
    set_tests_properties(e2e.embed e2e.bundle PROPERTIES DISABLED TRUE)
    set_tests_properties(e2e.blocks PROPERTIES ENVIRONMENT "RTX_TEST_NO_EMULATION=1")  # an emulated launch of a block outlasts its time limit there
  endif()
endif()
