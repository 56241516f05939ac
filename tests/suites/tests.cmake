# The ONNX cases of ../shared through generated kernels: a fixed part every day, all of them in `make test-all`.
if(TARGET rtx)
  foreach(suite IN ITEMS onnx-node models)
    foreach(part IN ITEMS sample whole)
      set(percent 15)
      set(limit 1200)
      set(label suites)
      if(part STREQUAL "whole")
        set(percent 100)
        set(limit 3600)
        set(label whole)
      endif()
      add_test(NAME suites.${suite}.${part}
        COMMAND "${CMAKE_CURRENT_LIST_DIR}/suite_test.sh" "${CMAKE_SOURCE_DIR}" "$<TARGET_FILE:rtx>" "${suite}" "${percent}")
      set_tests_properties(suites.${suite}.${part} PROPERTIES
        LABELS "${label}" TIMEOUT ${limit} SKIP_RETURN_CODE 77 RUN_SERIAL TRUE
        ENVIRONMENT "${RTX_TEST_ENVIRONMENT}")
    endforeach()
  endforeach()
  # The same cases as CUDA kernels in the emulator: those for Hopper, and those that every other arch gets.
  foreach(suite IN ITEMS onnx-node models)
    foreach(arch IN ITEMS sm_80 sm_90a)
      add_test(NAME suites.${suite}.emulated_${arch}
        COMMAND "${CMAKE_CURRENT_LIST_DIR}/suite_test.sh" "${CMAKE_SOURCE_DIR}" "$<TARGET_FILE:rtx>" "${suite}" 15 --target cuda --emulate --arch ${arch})
      set_tests_properties(suites.${suite}.emulated_${arch} PROPERTIES
        LABELS suites TIMEOUT 1200 SKIP_RETURN_CODE 77 RUN_SERIAL TRUE
        ENVIRONMENT "${RTX_TEST_ENVIRONMENT}")
    endforeach()
  endforeach()
  add_test(NAME suites.script COMMAND python3 "${CMAKE_CURRENT_LIST_DIR}/script_test.py" "${CMAKE_SOURCE_DIR}/tools/onnx_suite")
  set_tests_properties(suites.script PROPERTIES LABELS suites TIMEOUT 120)
endif()
