# Language, flags, launcher and linker for everything in the repository.
# Our own code additionally links rtx_settings, which carries the warnings.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or Sanitize" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(RTX_USE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(RTX_CCACHE ccache)
  if(RTX_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${RTX_CCACHE}")
    set(CMAKE_C_COMPILER_LAUNCHER "${RTX_CCACHE}")
  endif()
endif()

if(RTX_USE_MOLD)
  find_program(RTX_MOLD mold)
  if(RTX_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

if(RTX_SANITIZE)
  add_compile_options("-fsanitize=${RTX_SANITIZE}" -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${RTX_SANITIZE}")
else()
  # The one rtx binary runs where no C++ runtime is installed. Sanitizers need the shared one.
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

if(RTX_BUILD_FUZZERS)
  # Coverage feedback from everything the fuzzers reach; *_fuzz.cpp brings the driver at its link.
  add_compile_options(-fsanitize=fuzzer-no-link)
  # Hashes and signatures would stop a fuzzer at the door: the readers do not insist on them in this build.
  add_compile_definitions(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
endif()

add_library(rtx_settings INTERFACE)
target_include_directories(rtx_settings INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_compile_options(rtx_settings INTERFACE -Wall -Wextra)
if(RTX_WARNINGS_AS_ERRORS)
  target_compile_options(rtx_settings INTERFACE -Werror)
endif()
