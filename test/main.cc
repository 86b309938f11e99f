#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "queue/event_sink.h"

namespace {

// Outages that a test makes are no news.
[[maybe_unused]] const bool quiet = [] {
  delayqueue::default_log() = delayqueue::no_log();
  return true;
}();

}  // namespace

#ifdef __SANITIZE_THREAD__
// libstdc++ counts the references to an exception with atomics that are not instrumented.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
#endif
