# cmake -DOUTPUT=scripts.cc -P embed_lua.cmake -- a.lua b.lua ...
#
# Writes each file, its bytes unchanged, as a constant with its SHA1: the name Redis itself gives the script.
set(out "// Made by scripts/cmake/embed_lua.cmake.\n#include \"store/scripts.h\"\n\nnamespace delayqueue::store::scripts {\n")
set(list "")
set(is_file OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  set(file "${CMAKE_ARGV${i}}")
  if(is_file)
    get_filename_component(name "${file}" NAME_WE)
    file(READ "${file}" body)
    file(SHA1 "${file}" sha1)
    file(SIZE "${file}" size)
    string(FIND "${body}" ")lua\"" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file}: )lua\" would end the C++ string")
    endif()
    string(APPEND out "\nconst redis::Script ${name}{\"${name}\", \"${sha1}\", std::string_view{R\"lua(${body})lua\", ${size}}};\n")
    string(APPEND list " &${name},")
  elseif(file STREQUAL "--")
    set(is_file ON)
  endif()
endforeach()
file(WRITE "${OUTPUT}" "${out}\nconst std::vector<const redis::Script*>& all() {
  static const std::vector<const redis::Script*> scripts{${list} };
  return scripts;
}\n\n}  // namespace delayqueue::store::scripts\n")
