# What a user does, from outside: one script a story, each with a home of its own.
if(TARGET rtx)
  add_test(NAME e2e.embed
    COMMAND "${CMAKE_CURRENT_LIST_DIR}/embed_test.sh" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  add_test(NAME e2e.bundle
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/bundle_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  set_tests_properties(e2e.embed e2e.bundle PROPERTIES LABELS e2e TIMEOUT 300)
  if(RTX_SANITIZE)  # the installed archives would need the sanitizers' libraries, and start-up is timed
    set_tests_properties(e2e.embed e2e.bundle PROPERTIES DISABLED TRUE)
  endif()
endif()
