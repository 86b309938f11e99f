# Builds a parent project with the library in it, runs its program, and installs it: that alone.
set(work "${BUILD_DIR}/subproject test")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${work}")
# Without optimization: this is about warnings; and about missing includes, which precompiled headers would hide. And
# without time zones, which no other test builds.
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}/build" -G "${GENERATOR}" -DCMAKE_CXX_FLAGS=-O0
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDELAYQUEUE_WITH_ZONES=OFF "-DCMAKE_CXX_COMPILER=${CXX}" "-DDELAYQUEUE=${SOURCE_DIR}")
run("${CMAKE_COMMAND}" --build "${work}/build" --parallel 2)
set(expected_parent "sent .*built without time zones")
set(expected_parent_tests "sent ")
foreach(program parent parent_tests)
  run("${work}/build/${program}")
  if(NOT output MATCHES "${expected_${program}}")
    message(FATAL_ERROR "${program}: ${output}")
  endif()
endforeach()
run("${CMAKE_COMMAND}" --install "${work}/build" --prefix "${work}/prefix")
file(GLOB_RECURSE installed RELATIVE "${work}/prefix" "${work}/prefix/*")
if(NOT installed STREQUAL "bin/parent")
  message(FATAL_ERROR "the parent installs what is not its own: ${installed}")
endif()
file(REMOVE_RECURSE "${work}")
