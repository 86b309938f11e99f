// The environment, as far as it is the user's own: a setuid or setgid program must not run what its caller names.
#pragma once

#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

namespace delayqueue {

// As getenv(); null in a program that runs with other rights than its caller's.
inline const char* trusted_environment(const char* name) {
#ifdef __linux__
  return ::secure_getenv(name);
#else
  return ::issetugid() != 0 ? nullptr : ::getenv(name);
#endif
}

// Whether it is trusted at all.
inline bool trusts_environment() {
#ifdef __linux__
  return ::getauxval(AT_SECURE) == 0;
#else
  return ::issetugid() == 0;
#endif
}

}  // namespace delayqueue
