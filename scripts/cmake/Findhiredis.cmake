# hiredis::hiredis, from hiredis' own package (upstream, Conan, vcpkg), else with pkg-config's help (Debian, Homebrew).
# Not pkg-config's own target: its -I.../include/hiredis would put hiredis' net.h and read.h in everybody's way.
find_package(hiredis CONFIG QUIET)
if(TARGET hiredis::hiredis)
  set(hiredis_FOUND TRUE)
  return()
endif()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_HIREDIS QUIET hiredis)
endif()
find_path(HIREDIS_INCLUDE_DIR hiredis/hiredis.h HINTS ${PC_HIREDIS_INCLUDEDIR} ${PC_HIREDIS_PREFIX}/include)
find_library(HIREDIS_LIBRARY hiredis HINTS ${PC_HIREDIS_LIBDIR})
mark_as_advanced(HIREDIS_INCLUDE_DIR HIREDIS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(hiredis REQUIRED_VARS HIREDIS_LIBRARY HIREDIS_INCLUDE_DIR)
if(hiredis_FOUND)
  add_library(hiredis::hiredis UNKNOWN IMPORTED)
  set_target_properties(hiredis::hiredis PROPERTIES
    IMPORTED_LOCATION "${HIREDIS_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${HIREDIS_INCLUDE_DIR}")
endif()
