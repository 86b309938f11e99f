# cmake -DROOT=<tree> -P check_layers.cmake
#
# Dependencies point down only: every #include under lib, examples and tools must be one its folder may have.
file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/lib/*.h" "${ROOT}/lib/*.cc" "${ROOT}/examples/*.h"
  "${ROOT}/examples/*.cc" "${ROOT}/tools/*.h" "${ROOT}/tools/*.cc")

set(std "<[a-z_0-9]+>")
set(system "${std}|<([a-z]+/)?[a-z_0-9]+[.]h>")  # POSIX and Linux; names of third parties' folders are taken out below
set(third_party "<(cctz|delayqueue|hiredis|openssl|uuid|nlohmann|opentelemetry)/.*>")
set(public "<delayqueue/[a-z_]+[.]h>")
set(detail "<delayqueue/detail/[a-z_]+[.]h>")  # what public headers need, and their users do not
set(breaches "")

foreach(file IN LISTS files)
  set(system_too ON)
  if(file STREQUAL "lib/include/delayqueue/asio.h")  # for programs that use Asio
    set(allowed "${std}|${public}|${detail}|<(boost/)?asio[.]hpp>")
    set(system_too OFF)
  elseif(file STREQUAL "lib/include/delayqueue/version.h")
    set(allowed "<delayqueue/needs_cpp17>")  # does not exist: it ends a compilation as C++14
    set(system_too OFF)
  elseif(file MATCHES "^lib/include/delayqueue/")
    set(allowed "${std}|${public}|${detail}")
    set(system_too OFF)
  elseif(file MATCHES "^lib/os/")
    set(allowed "\"os/.*\"|<delayqueue/(error|detail/owned)[.]h>")
  elseif(file MATCHES "^lib/run/")
    set(allowed "\"(os|run)/.*\"")
  elseif(file MATCHES "^lib/redis/")
    set(allowed "\"(os|redis)/.*\"|<delayqueue/(client|error|version)[.]h>|<(hiredis|openssl)/.*>")
  elseif(file MATCHES "^lib/embedded/")
    set(allowed "\"(os|redis|embedded)/.*\"|<delayqueue/(error|server|detail/owned)[.]h>")
  elseif(file MATCHES "^lib/store/")
    set(allowed "\"(redis|store)/.*\"|<delayqueue/(error|message)[.]h>|<uuid/uuid[.]h>")
  elseif(file MATCHES "^lib/queue/")
    set(allowed "\"(os|run|redis|embedded|store|queue)/.*\"|${public}|${detail}")
  elseif(file STREQUAL "lib/schedules/zone.cc")  # the only file that knows where time zones come from
    set(allowed "\"schedules/.*\"|${public}|${detail}|\"(os|redis)/.*\"|<cctz/.*>")
  elseif(file MATCHES "^lib/schedules/")
    set(allowed "\"(os|redis|store|queue|schedules)/.*\"|${public}|${detail}")
  elseif(file MATCHES "^lib/(consumer|inspector)/")
    set(allowed "\"(os|run|redis|store|queue|schedules|${CMAKE_MATCH_1})/.*\"|${public}|${detail}")
  elseif(file MATCHES "^lib/producer/")
    set(allowed "\"(os|run|redis|store|queue|producer)/.*\"|${public}|${detail}")
  elseif(file MATCHES "^lib/testing/")  # also for programs with the shared library: of the library only what is public
    set(allowed "\"(testing/.*|os/descriptor[.]h)\"|${public}")
  elseif(file MATCHES "^tools/dqctl/serve/")
    set(allowed "\"((output|serve)/)?[a-z_]+[.]h\"|${public}|<(nlohmann|openssl)/.*>")
  elseif(file MATCHES "^(examples|tools)/")
    set(allowed "\"((commands|output|serve|top|work)/)?[a-z_]+[.]h\"|${public}|<(CLI|nlohmann|opentelemetry)/.*>")
  else()
    set(allowed "nothing: the folder is in no layer")
    set(system_too OFF)
  endif()

  file(STRINGS "${ROOT}/${file}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*(<[^>]*>|\"[^\"]*\"|.*).*$" "\\1" header "${line}")
    if(header MATCHES "^(${allowed})$")
      continue()
    endif()
    if(system_too AND header MATCHES "^(${system})$" AND NOT header MATCHES "^(${third_party})$")
      continue()
    endif()
    list(APPEND breaches "${file}: ${header}")
  endforeach()

  # Loops and keys meet in the consumer only.
  if(lines MATCHES "\"run/(loop|worker_pool)" AND lines MATCHES "\"store/" AND NOT file MATCHES "^lib/consumer/")
    list(APPEND breaches "${file}: a loop together with store/")
  endif()
endforeach()

if(NOT files)
  message(FATAL_ERROR "${ROOT}: no source files")
endif()
foreach(breach IN LISTS breaches)
  message("${breach}")
endforeach()
if(breaches)
  message(FATAL_ERROR "These includes cross the layers")
endif()
