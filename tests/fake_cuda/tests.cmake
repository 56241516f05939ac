# libcuda.so.1 and libnvidia-ml.so.1 that need no GPU, in a folder of their own: LD_LIBRARY_PATH chooses them.
set(fake_cuda "${CMAKE_CURRENT_LIST_DIR}")
foreach(library IN ITEMS cuda nvidia-ml)
  if(library STREQUAL "cuda")
    set(files state.cpp driver.cpp kernels.cpp memory.cpp streams.cpp)
  else()
    set(files state.cpp nvml.cpp)
  endif()
  list(TRANSFORM files PREPEND "${fake_cuda}/")
  add_library(rtx_fake_${library} SHARED ${files})
  target_include_directories(rtx_fake_${library} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${fake_cuda}")
  target_compile_features(rtx_fake_${library} PRIVATE cxx_std_20)
  # Its own symbols stay its own, as a driver's do.
  target_link_options(rtx_fake_${library} PRIVATE -Wl,-Bsymbolic)
  set_target_properties(rtx_fake_${library} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fake_cuda" OUTPUT_NAME "${library}" SUFFIX ".so.1"
    NO_SONAME ON)  # or a process that has opened the fake would find it again where it looks for the real one
endforeach()
if(TARGET rtx_cuda_device_test)
  add_dependencies(rtx_cuda_device_test rtx_fake_cuda rtx_fake_nvidia-ml)
  target_include_directories(rtx_cuda_device_test PRIVATE "${CMAKE_SOURCE_DIR}/tests")
endif()
if(TARGET rtx)
  add_test(NAME fake_cuda.rtx
    COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/rtx_test.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  set_tests_properties(fake_cuda.rtx PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "${RTX_TEST_ENVIRONMENT}")
  if(RTX_SANITIZE)  # start-up and compilations are under a time limit
    set_tests_properties(fake_cuda.rtx PROPERTIES DISABLED TRUE)
  endif()
endif()
