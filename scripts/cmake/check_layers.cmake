# cmake -DROOT=<tree> -P check_layers.cmake
#
# Dependencies point down only: every #include under lib, examples and tools must be one its folder may have.
file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/lib/*.h" "${ROOT}/lib/*.cc" "${ROOT}/examples/*.h"
  "${ROOT}/examples/*.cc" "${ROOT}/tools/*.h" "${ROOT}/tools/*.cc")

set(std "<[a-z_0-9]+>")
set(system "${std}|<([a-z]+/)?[a-z_0-9]+[.]h>")  # POSIX and Linux; names of third parties' folders are taken out below
set(third_party "<(delayqueue|hiredis|openssl|uuid|nlohmann)/.*>")
set(public "<delayqueue/[a-z_]+[.]h>")
set(breaches "")

foreach(file IN LISTS files)
  set(system_too ON)
  if(file MATCHES "^lib/include/delayqueue/")
    set(allowed "${std}|${public}")
    set(system_too OFF)
  elseif(file MATCHES "^lib/redis/")
    set(allowed "\"redis/.*\"|<delayqueue/(error|options)[.]h>|<(hiredis|openssl)/.*>")
  elseif(file MATCHES "^lib/store/")
    set(allowed "\"(redis|store)/.*\"|${public}|<(nlohmann|uuid)/.*>")
  elseif(file MATCHES "^lib/run/")
    set(allowed "\"run/.*\"")
  elseif(file MATCHES "^lib/[a-z_]+[.](h|cc)$")
    set(allowed "\"((redis|store|run)/)?[a-z_]+[.]h\"|${public}|<(nlohmann|uuid)/.*>")
  elseif(file MATCHES "^(examples|tools)/")
    set(allowed "\"[a-z_]+[.]h\"|${public}|<(CLI|nlohmann)/.*>")
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

  # Threads and keys meet in the consumer and nowhere else.
  if(lines MATCHES "\"run/" AND lines MATCHES "\"store/" AND NOT file MATCHES "^lib/consumer(_impl)?[.]")
    list(APPEND breaches "${file}: run/ together with store/")
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
