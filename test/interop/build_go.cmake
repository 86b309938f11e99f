# Builds the Go program, or says why not. cmake -DGO=<go> -DPROGRAM=<to> -DOUTCOME=<file> -P build_go.cmake
#
# Never fails the build. OUTCOME gets one word, and what there is to say behind it:
#   built                      the tests can run
#   no go, no module           nothing to test against: the tests are skipped
#   broken                     a mistake of ours, or modules other than those pinned in go.sum: the tests fail

function(say kind)
  string(STRIP "${ARGN}" reason)
  file(WRITE "${OUTCOME}" "${kind}\n${reason}\n")
  if(NOT kind STREQUAL "built")
    file(REMOVE "${PROGRAM}")
    message("The interop tests have no Go program: ${kind}\n${reason}")
  endif()
endfunction()

if(NOT GO)
  say("no go" "the go tool is not installed")
  return()
endif()

execute_process(COMMAND "${GO}" mod download
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/go" TIMEOUT 120
  RESULT_VARIABLE result ERROR_VARIABLE answer)
if(NOT result EQUAL 0)
  if(answer MATCHES "missing go\\.sum entry|updates to go\\.|errors parsing go\\.mod|SECURITY ERROR|checksum mismatch")
    say("broken" "${answer}")
  else()
    say("no module" "the pinned modules cannot be downloaded (${result}): ${answer}")
  endif()
  return()
endif()

# What depends on nothing but the pinned modules needs no cgo and no version stamp.
set(ENV{CGO_ENABLED} 0)
execute_process(COMMAND "${GO}" build -buildvcs=false -trimpath -o "${PROGRAM}" .
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/go"
  RESULT_VARIABLE result ERROR_VARIABLE answer)
if(result EQUAL 0)
  say("built")
else()
  say("broken" "${answer}")
endif()
