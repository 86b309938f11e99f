// Access to environment variables that is safe in setuid and setgid programs: they must not run programs that their
// caller chooses.
#pragma once

#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

namespace delayqueue {

// Like getenv(), but returns null in a program that runs with other privileges than its caller.
inline const char* trusted_environment(const char* name) {
#ifdef __linux__
  return ::secure_getenv(name);
#else
  return ::issetugid() != 0 ? nullptr : ::getenv(name);
#endif
}

// Whether the program runs with the privileges of its caller.
inline bool trusts_environment() {
#ifdef __linux__
  return ::getauxval(AT_SECURE) == 0;
#else
  return ::issetugid() == 0;
#endif
}

}  // namespace delayqueue
