# make install: rtx, librtx_runtime.a, librtx_compiler.a, their headers, the CMake package and rtx.pc.
#
# An installed archive holds a layer, all it uses, and the third-party archives beneath, so that an
# application links one file. librtx_compiler.a leaves out what librtx_runtime.a already has.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Everything below the given rtx_ targets that has an archive, in link order.
function(rtx_archives_below out)
  set(queue ${ARGN})
  set(seen)
  set(archives)
  while(queue)
    list(POP_FRONT queue target)
    if(NOT TARGET ${target} OR target IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${target})
    get_target_property(type ${target} TYPE)
    get_target_property(uses ${target} INTERFACE_LINK_LIBRARIES)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND archives ${target})
    endif()
    if(uses)
      list(APPEND queue ${uses})
    endif()
  endwhile()
  set(${out} ${archives} PARENT_SCOPE)
endfunction()

function(rtx_merged_archive name)
  set(merged "${CMAKE_BINARY_DIR}/package/lib${name}.a")
  set(script "CREATE ${merged}\n")
  foreach(target IN LISTS ARGN)
    string(APPEND script "ADDLIB $<TARGET_FILE:${target}>\n")
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/package/${name}.mri" CONTENT "${script}SAVE\nEND\n")
  add_custom_command(
    OUTPUT "${merged}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${merged}"
    COMMAND "${CMAKE_AR}" -M < "${CMAKE_BINARY_DIR}/package/${name}.mri"
    DEPENDS ${ARGN} "${CMAKE_BINARY_DIR}/package/${name}.mri"
    COMMENT "Merging lib${name}.a"
    VERBATIM)
  add_custom_target(${name}_package ALL DEPENDS "${merged}")
  install(FILES "${merged}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

rtx_archives_below(runtime_archives rtx_runtime rtx_cpu_device)
rtx_merged_archive(rtx_runtime ${runtime_archives})

rtx_archives_below(compiler_archives rtx_compiler rtx_cpu_compile)
list(REMOVE_ITEM compiler_archives ${runtime_archives})
rtx_merged_archive(rtx_compiler ${compiler_archives})

if(TARGET rtx)
  install(TARGETS rtx RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The headers a program needs: those of runtime and compiler, the CPU device's, and what they include.
install(CODE "
  execute_process(
    COMMAND \"${Python3_EXECUTABLE}\" \"${CMAKE_SOURCE_DIR}/cmake/public_headers.py\" \"${CMAKE_SOURCE_DIR}/src\"
    OUTPUT_VARIABLE headers OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE \"\\n\" \";\" headers \"\${headers}\")
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    file(INSTALL \"${CMAKE_SOURCE_DIR}/src/\${header}\"
      DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/rtx/\${folder}\")
  endforeach()")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rtx")
configure_package_config_file(cmake/rtxConfig.cmake.in "${CMAKE_BINARY_DIR}/package/rtxConfig.cmake"
  INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/rtxConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/package/rtxConfig.cmake" "${CMAKE_BINARY_DIR}/package/rtxConfigVersion.cmake"
  DESTINATION "${package_dir}")

# From the folder of rtx.pc back to the prefix, so that an installed tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
  "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE to_prefix)
configure_file(cmake/rtx.pc.in "${CMAKE_BINARY_DIR}/package/rtx.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/rtx.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
