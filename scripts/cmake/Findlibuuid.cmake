# libuuid::libuuid, the library of util-linux, with pkg-config's help.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_UUID QUIET uuid)
endif()
find_path(LIBUUID_INCLUDE_DIR uuid/uuid.h HINTS ${PC_UUID_INCLUDEDIR} ${PC_UUID_PREFIX}/include)
find_library(LIBUUID_LIBRARY uuid HINTS ${PC_UUID_LIBDIR})
mark_as_advanced(LIBUUID_INCLUDE_DIR LIBUUID_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libuuid REQUIRED_VARS LIBUUID_LIBRARY LIBUUID_INCLUDE_DIR)
if(libuuid_FOUND)
  add_library(libuuid::libuuid UNKNOWN IMPORTED)
  set_target_properties(libuuid::libuuid PROPERTIES
    IMPORTED_LOCATION "${LIBUUID_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${LIBUUID_INCLUDE_DIR}")
endif()
