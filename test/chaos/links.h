// What can happen to connections only: a proxy that some of the processes go through.
#pragma once

#include <string>
#include <vector>

#include "chaos/journal.h"
#include "chaos/schedule.h"
#include "support/proxy.h"

namespace chaos {

class Links {
 public:
  Links(const std::string& address, const Journal& journal) : journal_(journal), proxy_(address) {}

  std::string url() const { return proxy_.url(); }

  static std::vector<FaultKind> faults(milliseconds lease);
  void apply(const Step& step);  // returns when it is over
  void calm_down();

 private:
  const Journal& journal_;
  test::FaultProxy proxy_;
};

}  // namespace chaos
