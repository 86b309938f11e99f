# The layer check must find every breach in the tree beside this file, and nothing else in it.
execute_process(COMMAND "${CMAKE_COMMAND}" "-DROOT=${CMAKE_CURRENT_LIST_DIR}/breach" -P "${CHECK}"
  RESULT_VARIABLE result ERROR_VARIABLE found)
string(REGEX REPLACE "CMake Error.*" "" found "${found}")
file(READ "${CMAKE_CURRENT_LIST_DIR}/breach.txt" expected)
if(result EQUAL 0 OR NOT found STREQUAL expected)
  message(FATAL_ERROR "expected:\n${expected}\nfound:\n${found}")
endif()
