# cmake -DOUTPUT=<folder> -P expand_lua.cmake -- a.lua b.lua ...
#
# Expands each script: its manifest becomes the indices of KEYS and ARGV (scripts/lua/README.md has the rules). Writes
#   <folder>/lua/<name>.lua  the script as Redis runs it
#   <folder>/scripts.cc      all of them as constants, each with its SHA1: the name that Redis itself gives the script
#   <folder>/store/script_calls.h   a class for each that adds a call to a pipeline, and a type for each argument
cmake_minimum_required(VERSION 3.16)

# Replaces the names of one manifest line in `code`: array is KEYS or ARGV, spec the text behind "--! keys" or
# "--! args". Adds the lines that document the indices to `docs`, and those of keys to `names` and `values`.
macro(resolve array spec)
  string(REPLACE "|" ";" blocks "${spec}")
  list(GET blocks 0 fixed)
  list(REMOVE_AT blocks 0)
  string(REGEX MATCHALL "[a-z_0-9]+" fixed "${fixed}")
  list(LENGTH fixed count)
  set(${array}_fixed "${fixed}")
  set(${array}_blocks "")
  list(LENGTH blocks repeated)
  set(at 0)
  foreach(name IN LISTS fixed)
    math(EXPR at "${at} + 1")
    string(APPEND docs "-- ${array}[${at}] ${name}\n")
    if(array STREQUAL "KEYS")
      list(APPEND names "${name}")
      list(APPEND values "KEYS[${at}]")
    else()
      string(REGEX REPLACE "ARGV\\.${name}([^a-z_0-9])" "ARGV[${at}]\\1" code "${code}")
    endif()
  endforeach()
  math(EXPR first "${count} + 1")
  if(count EQUAL 0)
    set(rest "#${array}")
  else()
    set(rest "(#${array} - ${count})")
  endif()
  string(REGEX REPLACE "#${array}\\.rest([^a-z_0-9])" "${rest}\\1" code "${code}")
  set(block_number 0)
  foreach(block IN LISTS blocks)
    string(REGEX MATCHALL "[a-z_0-9]+" group "${block}")
    list(LENGTH group size)
    string(REPLACE ";" ", " text "${group}")
    list(APPEND ${array}_blocks "${text}")
    if(block_number EQUAL 0)
      string(APPEND docs "-- ${array}[${first}...] for each: ${text}\n")
      set(before "${count}")
      set(start "${first}")
    else()
      if(size GREATER 1 OR block_number GREATER 1)
        message(FATAL_ERROR "${file}: ${array}: a second block has one name, and there is no third")
      endif()
      string(APPEND docs "-- behind them, for each: ${text}\n")
      set(before "${count} + messages")
      set(start "${first} + messages")
    endif()
    set(place 0)
    foreach(name IN LISTS group)
      math(EXPR place "${place} + 1")
      if(size EQUAL 1)
        if(before STREQUAL "0")
          set(index "\\1")
        else()
          set(index "${before} + \\1")
        endif()
        set(number "${rest}")
        string(REGEX REPLACE "${array}\\.${name}\\[1, ([^]]+)\\]" "${array}, ${start}, ${before} + \\1" code "${code}")
      else()
        math(EXPR offset "${count} - ${size} + ${place}")
        if(offset EQUAL 0)
          set(index "${size} * \\1")
        elseif(offset LESS 0)
          math(EXPR offset "0 - ${offset}")
          set(index "${size} * \\1 - ${offset}")
        else()
          set(index "${size} * \\1 + ${offset}")
        endif()
        set(number "(${rest} / ${size})")
      endif()
      if(repeated EQUAL 1)
        string(REGEX REPLACE "#${array}\\.${name}([^a-z_0-9])" "${number}\\1" code "${code}")
      endif()
      string(REGEX REPLACE "${array}\\.${name}\\[([a-z_0-9]+)\\]" "${array}[${index}]" code "${code}")
      string(REPLACE "\\1" "(\\1)" index "${index}")
      string(REGEX REPLACE "${array}\\.${name}\\[([^]]+)\\]" "${array}[${index}]" code "${code}")
      string(REGEX REPLACE "${array}\\.${name}([^a-z_0-9])" "${array}, ${start}\\1" code "${code}")
    endforeach()
    math(EXPR block_number "${block_number} + 1")
  endforeach()
endmacro()

# Sets `script` to the expanded text of the file.
macro(expand file)
  file(READ "${file}" script)
  string(REGEX MATCH "^(--[^\n]*\n)*" header "${script}")
  string(LENGTH "${header}" end)
  string(SUBSTRING "${script}" ${end} -1 code)
  set(docs "")
  set(names "")
  set(values "")
  set(ARGV_fixed "")
  set(ARGV_blocks "")
  foreach(line "keys;KEYS" "args;ARGV")
    list(GET line 0 word)
    list(GET line 1 array)
    if(header MATCHES "\n--! ${word} ([^\n]*)\n")
      resolve(${array} "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(code MATCHES "(KEYS|ARGV)\\.[a-z_0-9]*")
    message(FATAL_ERROR "${file}: ${CMAKE_MATCH_0}: not in the manifest")
  endif()
  string(REGEX REPLACE "\n--! keys [^\n]*" "\n--@" header "${header}")
  string(REGEX REPLACE "\n--! [^\n]*" "" header "${header}")
  string(REPLACE "--@\n" "--\n${docs}" header "${header}")
  if(names)
    string(REPLACE ";" ", " names "${names}")
    string(REPLACE ";" ", " values "${values}")
    string(APPEND header "local ${names} = ${values}\n")
  endif()
  set(script "${header}${code}")
endmacro()

# Keys of which the queue has none, or more than one: the caller names them.
set(own_keys body payload token state list deleted)

# Appends the class of a call to `calls`, and its arguments to `arguments`.
macro(add_call name)
  set(parameters "const Keys& keys")
  set(passed "keys")
  set(list "")
  foreach(key IN LISTS KEYS_fixed)
    if(key IN_LIST own_keys)
      string(APPEND parameters ", const KeyName& ${key}")
      string(APPEND passed ", ${key}")
      string(APPEND list " ${key},")
    else()
      string(APPEND list " keys.${key},")
    endif()
  endforeach()
  list(LENGTH KEYS_fixed count)
  string(APPEND calls "
struct ${name} : private ScriptCall {
  static const redis::Script& script() { return scripts::${name}; }
  static std::array<KeyName, ${count}> keys(${parameters}) { return {{${list} }}; }

  ${name}(Pipeline& pipeline, ${parameters}, Joins joins = Joins::alone)
      : ScriptCall(pipeline, scripts::${name}, ${name}::keys(${passed}), joins) {}
")
  foreach(key IN LISTS KEYS_blocks)
    string(APPEND calls "  void ${key}(const KeyName& key) { add(key); }\n")
  endforeach()
  set(methods "${ARGV_blocks}")
  if(ARGV_fixed)
    string(REPLACE ";" ", " text "${ARGV_fixed}")
    list(INSERT methods 0 "${text}")
    set(method args)
  else()
    set(method each)
  endif()
  foreach(text IN LISTS methods)
    string(REPLACE ", " ";" group "${text}")
    list(APPEND arguments ${group})
    string(REGEX REPLACE "([a-z_0-9]+)" "const arg::\\1& \\1" parameters "${text}")
    string(APPEND calls "  void ${method}(${parameters}) { add_all(${text}); }\n")
    set(method each)
  endforeach()
  string(APPEND calls "};\n")
endmacro()

set(calls "")
set(arguments "")
set(declared "")
set(out "// Made by scripts/cmake/expand_lua.cmake.\n#include \"store/script_calls.h\"\n\nnamespace delayqueue::store::scripts {\n")
set(all "")
set(is_file OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  set(argument "${CMAKE_ARGV${i}}")
  if(is_file)
    get_filename_component(name "${argument}" NAME_WE)
    expand("${argument}")
    set(expanded "${OUTPUT}/lua/${name}.lua")
    file(WRITE "${expanded}" "${script}")
    file(SHA1 "${expanded}" sha1)
    file(SIZE "${expanded}" size)
    string(FIND "${script}" ")lua\"" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${argument}: )lua\" would end the C++ string")
    endif()
    string(APPEND out "\nconst redis::Script ${name}{\"${name}\", \"${sha1}\", std::string_view{R\"lua(${script})lua\", ${size}}};\n")
    string(APPEND all " &${name},")
    list(APPEND declared "${name}")
    add_call("${name}")
  elseif(argument STREQUAL "--")
    set(is_file ON)
  endif()
endforeach()
file(WRITE "${OUTPUT}/scripts.cc" "${out}\nconst std::vector<const redis::Script*>& all() {
  static const std::vector<const redis::Script*> scripts{${all} };
  return scripts;
}\n\n}  // namespace delayqueue::store::scripts\n")

list(REMOVE_DUPLICATES arguments)
list(SORT arguments)
set(types "")
foreach(name IN LISTS arguments)
  set(base Arg)
  if(name STREQUAL "payload")
    set(base PayloadArg)
  endif()
  string(APPEND types "struct ${name} : ${base} {\n  using ${base}::${base};\n};\n")
endforeach()
string(REPLACE ";" ", " declared "${declared}")
file(WRITE "${OUTPUT}/store/script_calls.h" "// Made by scripts/cmake/expand_lua.cmake from the manifests in scripts/lua.
#pragma once

#include \"store/script_call.h\"
#include \"store/scripts.h\"

#include <array>

namespace delayqueue::store {

using redis::Pipeline;

namespace scripts {
extern const redis::Script ${declared};
}  // namespace scripts

namespace arg {
${types}}  // namespace arg

namespace calls {
${calls}
}  // namespace calls
}  // namespace delayqueue::store
")
