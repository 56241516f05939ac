# What a user does, from outside: one script a story, each with a home of its own.
if(TARGET rtx)
  add_test(NAME e2e.embed
    COMMAND "${CMAKE_CURRENT_LIST_DIR}/embed_test.sh" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  set_tests_properties(e2e.embed PROPERTIES LABELS e2e TIMEOUT 300)
  if(RTX_SANITIZE)
    set_tests_properties(e2e.embed PROPERTIES DISABLED TRUE)
  endif()
endif()
