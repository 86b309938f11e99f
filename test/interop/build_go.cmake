# Builds the Go program, or reports why it cannot. cmake -DGO=<go> -DPROGRAM=<to> -DOUTCOME=<file> -P build_go.cmake
#
# If the module proxy does not serve the library, name a clone of its repository: -DMODULE=<clone>, or
# DELAYQUEUE_GO_MODULE in the environment. The script takes the tag of the pinned version from the clone, and does not
# check it against go.sum.
#
# Never fails the build. Writes one of these results to OUTCOME, with the reason on the next lines:
#   built                      the tests can run
#   no go, no module           the tests are skipped
#   broken                     the program does not compile, or the modules differ from go.sum: the tests fail

function(report kind)
  string(STRIP "${ARGN}" reason)
  file(WRITE "${OUTCOME}" "${kind}\n${reason}\n")
  if(NOT kind STREQUAL "built")
    file(REMOVE "${PROGRAM}")
    message("The interop tests have no Go program: ${kind}\n${reason}")
  endif()
endfunction()

if(NOT GO)
  report("no go" "the go tool is not installed; scripts/setup.sh --check installs it")
  return()
endif()

set(modfile)
if(NOT MODULE)
  set(MODULE "$ENV{DELAYQUEUE_GO_MODULE}")
endif()
if(MODULE)
  set(name github.com/hdt3213/delayqueue)
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/go/go.mod" pinned REGEX "${name} v")
  string(REGEX REPLACE "^.*${name} (v[0-9.]+).*$" "\\1" version "${pinned}")
  set(folder "${PROGRAM}_module")
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}/delayqueue")
  execute_process(COMMAND git -C "${MODULE}" archive --format=tar -o "${folder}/delayqueue.tar" "${version}"
    RESULT_VARIABLE result ERROR_VARIABLE answer)
  if(NOT result EQUAL 0)
    report("no module" "DELAYQUEUE_GO_MODULE: ${MODULE} is no clone of ${name} with the tag ${version}: ${answer}")
    return()
  endif()
  execute_process(COMMAND "${CMAKE_COMMAND}" -E tar xf ../delayqueue.tar WORKING_DIRECTORY "${folder}/delayqueue")
  foreach(file go.mod go.sum)
    configure_file("${CMAKE_CURRENT_LIST_DIR}/go/${file}" "${folder}/${file}" COPYONLY)
  endforeach()
  execute_process(COMMAND "${GO}" mod edit "-replace=${name}=${folder}/delayqueue" "${folder}/go.mod")
  set(modfile "-modfile=${folder}/go.mod")
endif()

execute_process(COMMAND "${GO}" mod download ${modfile}
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/go" TIMEOUT 120
  RESULT_VARIABLE result ERROR_VARIABLE answer)
if(NOT result EQUAL 0)
  if(answer MATCHES "missing go\\.sum entry|updates to go\\.|errors parsing go\\.mod|SECURITY ERROR|checksum mismatch")
    report("broken" "${answer}")
  else()
    report("no module" "the module proxy does not serve the Go library; build its tests from a clone of its repository with "
      "DELAYQUEUE_GO_MODULE=/path/to/clone scripts/test.sh\n${answer}")
  endif()
  return()
endif()

# The program depends only on the pinned modules, so it needs no cgo and no version stamp.
set(ENV{CGO_ENABLED} 0)
execute_process(COMMAND "${GO}" build ${modfile} -buildvcs=false -trimpath -o "${PROGRAM}" .
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/go"
  RESULT_VARIABLE result ERROR_VARIABLE answer)
if(result EQUAL 0)
  report("built")
else()
  report("broken" "${answer}")
endif()
