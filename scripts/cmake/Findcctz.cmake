# cctz::cctz, from CCTZ's own package (upstream, vcpkg, Debian 13); Debian 12 has only its header and its library.
if(NOT TARGET cctz::cctz)
  find_package(cctz CONFIG QUIET)
endif()
if(TARGET cctz::cctz)
  set(cctz_FOUND TRUE)
  return()
endif()

find_path(CCTZ_INCLUDE_DIR cctz/time_zone.h)
find_library(CCTZ_LIBRARY cctz)
mark_as_advanced(CCTZ_INCLUDE_DIR CCTZ_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cctz REQUIRED_VARS CCTZ_LIBRARY CCTZ_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "scripts/setup.sh installs it. With -DDELAYQUEUE_WITH_ZONES=OFF schedules are in UTC only")
if(cctz_FOUND)
  add_library(cctz::cctz UNKNOWN IMPORTED)
  set_target_properties(cctz::cctz PROPERTIES
    IMPORTED_LOCATION "${CCTZ_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${CCTZ_INCLUDE_DIR}")
endif()
