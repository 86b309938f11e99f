# Installs the build into a prefix, moves that, and builds and runs a user of it: with find_package and with pkg-config,
# static and shared. The spaces are on purpose.
set(work "${BUILD_DIR}/package test")
set(prefix "${work}/moved prefix")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Runs the program, and makes sure that it is linked as it should be.
function(check program kind)
  run("${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${prefix}/${LIBDIR}" "${program}")
  if(NOT output MATCHES "sent ")
    message(FATAL_ERROR "${program}: ${output}")
  endif()
  file(STRINGS "${program}" shared REGEX "libdelayqueue[.]so")
  if(shared AND kind STREQUAL "static" OR NOT shared AND kind STREQUAL "shared")
    message(FATAL_ERROR "${program} is not linked ${kind}")
  endif()
  message(STATUS "${program}: ok")
endfunction()

file(REMOVE_RECURSE "${work}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${work}/prefix")
file(RENAME "${work}/prefix" "${prefix}")

# The completions and the man page lie where the shells and man look for them, and are those of this dqctl.
file(GLOB dqctl "${prefix}/*bin/dqctl")
if(dqctl)
  foreach(installed "bash;bash-completion/completions/dqctl" "zsh;zsh/site-functions/_dqctl"
      "fish;fish/vendor_completions.d/dqctl.fish")
    list(GET installed 0 shell)
    list(GET installed 1 file)
    run("${dqctl}" completion ${shell})
    file(READ "${prefix}/share/${file}" text)
    if(NOT text STREQUAL output)
      message(FATAL_ERROR "${prefix}/share/${file}: differs from dqctl completion ${shell}")
    endif()
  endforeach()
  file(READ "${prefix}/share/man/man1/dqctl.1" text)
  message(STATUS "completions and man page: ok")
endif()

set(BUILD_SHARED_static OFF)
set(BUILD_SHARED_shared ON)
foreach(kind static shared)
  set(build "${work}/cmake ${kind}")
  run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${build}" -G "${GENERATOR}"
    "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DBUILD_SHARED_LIBS=${BUILD_SHARED_${kind}}")
  run("${CMAKE_COMMAND}" --build "${build}")
  check("${build}/consumer" ${kind})
endforeach()

find_program(PKG_CONFIG NAMES pkg-config pkgconf)
foreach(kind static shared)
  set(flags --cflags --libs)
  if(kind STREQUAL "static")
    list(APPEND flags --static)
  endif()
  run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${prefix}/${LIBDIR}/pkgconfig" "${PKG_CONFIG}" ${flags} delayqueue)
  separate_arguments(flags UNIX_COMMAND "${output}")
  if(kind STREQUAL "static")
    # The linker would take the .so that lies beside it.
    list(TRANSFORM flags REPLACE "^-ldelayqueue$" "${prefix}/${LIBDIR}/libdelayqueue.a")
  endif()
  run("${CXX}" -std=c++17 "${CMAKE_CURRENT_LIST_DIR}/main.cc" -o "${work}/pkg-config-${kind}" ${flags})
  check("${work}/pkg-config-${kind}" ${kind})
endforeach()
