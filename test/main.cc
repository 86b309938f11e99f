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
